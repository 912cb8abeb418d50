package wire

import (
	"slices"

	"github.com/xebec-proxy/xebec/xds"
)

// partial assembles a delta response, or a SotW one of a partial type.
func (a *assembly) partial() *Response {
	x := a.x
	if x.sweep != nil && !a.removals {
		a.sweep()
	}
	a.endTables()
	a.expect(x.due.len())
	x.due.each(func(o *owed) bool {
		if x.sweep != nil || a.size >= x.stream.cfg.MaxResponse {
			return false
		}
		return a.partialEntry(o)
	})
	if x.due.len() == 0 && x.sweep == nil {
		x.skip, x.passed = nil, nil
	}
	return a.finish()
}

// expect makes room for the many resources of a first state.
func (a *assembly) expect(n int) {
	if n > indexAbove && a.resp.Resources == nil {
		a.resp.Resources = make([]*xds.Resource, 0, n)
		a.sent.items = make([]sentItem, 0, n)
	}
}

// partialEntry deals with one due entry; false ends the response.
func (a *assembly) partialEntry(o *owed) bool {
	r, st := a.x.subject(o)
	switch a.decide(o, r, st) {
	case drop:
		a.x.due.drop(o)
	case sendNow:
		return a.take(o, r, st)
	case sendHeld:
		return a.takeHeld(o)
	case keep:
	}
	return true
}

// take moves a due entry into the response, unless it would grow too large.
func (a *assembly) take(o *owed, r *xds.Resource, st *Status) bool {
	if r != nil && !a.fits(r) {
		return false
	}
	entry := *o
	a.x.due.drop(o)
	if r == nil {
		a.takeGone(&entry, st)
		return true
	}
	a.put(&entry, r)
	return true
}

// takeHeld answers a client that asks during a rollout with what it was sent
// before; what follows stays due (XS-71).
func (a *assembly) takeHeld(o *owed) bool {
	if o.held.Name() != o.name && a.holds(o.held.Name()) {
		a.x.answered(o) // by its own name
		return true
	}
	if !a.fits(o.held) {
		return false
	}
	a.put(o.beforeAnswer(), o.held)
	a.x.answered(o)
	return true
}

// holds reports whether the response says something of a resource.
func (a *assembly) holds(name string) bool {
	return slices.ContainsFunc(a.sent.items, func(it sentItem) bool { return it.name == name })
}

// beforeAnswer is the entry with what the client holds before it is answered
// with held.
func (o *owed) beforeAnswer() *owed {
	before := *o
	if o.retained {
		before.held = nil
	}
	return &before
}

// answered leaves an entry to be carried out when its time comes.
func (x *sub) answered(o *owed) {
	o.asked, o.force, o.first, o.retained = false, false, false, false
	name := o.held.Name()
	if name == o.name {
		return
	}
	if x.due.find(name) != nil {
		x.due.drop(o)
		return
	}
	x.due.rename(o, name)
}

// fits reports whether a resource still fits into the response, and closes the
// response if not. The first one always does (XS-48).
func (a *assembly) fits(r *xds.Resource) bool {
	limit := a.x.stream.cfg.MaxResponse
	if a.size > 0 && a.size+len(r.DeltaField()) > limit {
		a.size = limit
		return false
	}
	return true
}

// put adds a resource to the response. That answers for its aliases too.
func (a *assembly) put(o *owed, r *xds.Resource) {
	a.note(o, r)
	a.resp.Resources = append(a.resp.Resources, r)
	a.size += len(r.DeltaField())
	a.nameHost(o, r)
	for _, alias := range r.Aliases() {
		if alias != o.name && a.x.current(alias) == nil {
			a.x.due.dropName(alias)
		}
	}
}

// takeGone moves the entry of a resource that the client cannot have into the
// response.
func (a *assembly) takeGone(o *owed, st *Status) {
	x := a.x
	if a.noHost(o) {
		return
	}
	if st != nil {
		a.fail(o.name, *st)
	}
	if x.stream.cfg.Variant == Sotw {
		a.missingSotw(o, st)
		return
	}
	if o.mayHold() == nil && !o.asked && !o.force {
		return // only the error
	}
	if o.asked && st == nil && x.stream.cfg.MissingErrors {
		a.fail(o.name, missing())
	}
	if o.asked && o.mayHold() == nil && x.stream.missingIsSilent(x.typ.URL) {
		return
	}
	a.size += len(o.name) + envelopeSize
	a.note(o, nil)
	a.resp.Removed = append(a.resp.Removed, o.name)
}

// missingSotw answers for a missing name: SotW partial types have no removal.
func (a *assembly) missingSotw(o *owed, st *Status) {
	x := a.x
	if !o.asked || st != nil {
		return
	}
	if x.stream.cfg.Substitute != nil {
		if r := x.stream.cfg.Substitute(x.typ.URL, o.name); r != nil {
			a.put(o, r)
			return
		}
	}
	if x.stream.cfg.MissingErrors && x.known {
		a.fail(o.name, missing())
	}
}

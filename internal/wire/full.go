package wire

import (
	"maps"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
)

// full assembles a SotW response that holds everything subscribed (XS-41).
func (a *assembly) full() *Response {
	x := a.x
	kept := map[string]*xds.Resource{}
	x.due.each(func(o *owed) bool {
		a.fullEntry(o, kept)
		return true
	})
	if !x.mustAnswer && !a.answer && len(a.sent.items)+len(a.resp.Errors) == 0 {
		return nil
	}
	a.resendRejected()
	a.state(kept)
	if x.sweep != nil {
		a.noteAll(kept)
		x.sweep = nil
	}
	a.answer = true
	return a.finish()
}

// fullEntry deals with one due entry; kept collects what the client is to go
// on holding instead of what the snapshot has.
func (a *assembly) fullEntry(o *owed, kept map[string]*xds.Resource) {
	r, st := a.x.subject(o)
	switch a.decide(o, r, st) {
	case drop:
		a.x.due.drop(o)
	case sendNow:
		a.takeFull(o, r, st)
	case sendHeld:
		a.answer = true
		a.note(o.beforeAnswer(), o.held)
		kept[o.held.Name()] = o.held
		a.x.answered(o)
	case keep:
		if o.undecided {
			return
		}
		if r == nil && o.held == nil {
			a.takeFull(o, nil, st) // there is nothing certain to go on with
			return
		}
		if o.held == nil && r != nil && r.Equal(o.mayHold()) {
			// It was sent in a response that was refused, and may be in force all the same,
			// since clients take what is good: left out, it would be removed.
			a.takeFull(o, r, st)
			return
		}
		kept[o.name] = o.held
	}
}

func (a *assembly) takeFull(o *owed, r *xds.Resource, st *Status) {
	entry := *o
	a.x.due.drop(o)
	a.answer = a.answer || entry.asked
	switch {
	case st != nil:
		a.fail(entry.name, *st)
	case r == nil && entry.mayHold() == nil && a.x.stream.cfg.MissingErrors:
		a.fail(entry.name, missing())
	}
	if r != nil || entry.mayHold() != nil {
		a.note(&entry, r)
	}
}

// resendRejected notes that the response holds, and leaves out, again what the
// client has refused, so that its answer settles that too.
func (a *assembly) resendRejected() {
	x := a.x
	for _, name := range slices.Sorted(maps.Keys(x.rejected)) {
		f := x.rejected[name]
		a.note(&owed{name: name, held: f.before, refusal: f, seq: x.stream.seq}, f.sent)
	}
	x.rejected = nil
}

// noteAll records a response to a subscription that begins anew: everything in
// it is sent, not only what was due.
func (a *assembly) noteAll(kept map[string]*xds.Resource) {
	x := a.x
	if !x.sweep.again && len(x.names)+len(x.sweep.prior) == 0 && len(kept) == 0 {
		a.sent.bulk, a.sent.items = a.resp.Resources, nil
		x.warm(x.stream.seq, a.resp.Resources...)
		return
	}
	prior := &sub{names: make(map[string]struct{}, len(x.sweep.prior))}
	for _, n := range x.sweep.prior {
		prior.names[n] = struct{}{}
	}
	noted := make(map[string]struct{}, len(a.sent.items))
	for _, item := range a.sent.items {
		noted[item.name] = struct{}{}
	}
	for _, r := range a.resp.Resources {
		if _, done := noted[r.Name()]; done {
			continue
		}
		o := owed{name: r.Name(), seq: x.stream.seq}
		if x.sweep.again || x.coversByName(r) || prior.coversByName(r) {
			o.held = r
		}
		a.note(&o, r)
	}
}

// state fills in everything the client is to hold after a full response: what
// the snapshot has, except that kept entries stay as the client has them.
func (a *assembly) state(kept map[string]*xds.Resource) {
	x := a.x
	set := x.set()
	if len(kept) > 0 {
		// The content is not the snapshot's, so it must not bear its version.
		a.resp.Version = set.Version() + "~" + x.stream.mark()
	}
	subscribed := x.named()
	if x.wildcard {
		subscribed = slices.DeleteFunc(subscribed, func(r *xds.Resource) bool { return !r.Indirect() })
		if len(kept)+len(subscribed) == 0 && x.deniesNone() {
			a.resp.Resources = set.Direct()
			return
		}
		subscribed = append(subscribed, set.Direct()...)
	}
	for _, r := range subscribed {
		if _, differs := kept[r.Name()]; differs {
			continue
		}
		if st := x.denied(r.Name()); st != nil {
			a.fail(r.Name(), *st)
			continue
		}
		a.resp.Resources = append(a.resp.Resources, r)
	}
	for _, r := range kept {
		if r != nil {
			a.resp.Resources = append(a.resp.Resources, r)
		}
	}
	slices.SortFunc(a.resp.Resources, func(p, q *xds.Resource) int { return strings.Compare(p.Name(), q.Name()) })
}

// named resolves the names and globs of the subscription, each resource once.
func (x *sub) named() []*xds.Resource {
	seen := make(map[*xds.Resource]struct{}, len(x.names))
	var list []*xds.Resource
	add := func(r *xds.Resource) {
		if _, dup := seen[r]; r != nil && !dup {
			seen[r] = struct{}{}
			list = append(list, r)
		}
	}
	for n := range x.names {
		add(x.resolve(n))
	}
	for _, g := range x.globs {
		for r := range g.members(x.set()) {
			add(r)
		}
	}
	return list
}

package wire

import (
	"slices"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// sweep is a wildcard's state on its way out: resources of set from index next
// on have not been sent.
type sweep struct {
	set  *snapshot.Set
	next int
	// again says that the client held the wildcard before, so that what is
	// still ahead is resent and not new to it.
	again bool
	// prior are names that the wildcard took the place of.
	prior []string
	// repeat asks for another sweep after this one.
	repeat bool
}

// sweep takes the next part of a wildcard's state into the response.
func (a *assembly) sweep() {
	x := a.x
	w := x.sweep
	all := w.set.Direct()
	from := w.next
	bulk := a.sweepsInBulk()
	for ; w.next < len(all); w.next++ {
		r := all[w.next]
		if !a.fits(r) {
			break
		}
		if bulk {
			a.size += len(r.DeltaField())
		} else {
			a.sweepOne(r)
		}
	}
	if bulk && w.next > from {
		a.resp.Resources = all[from:w.next:w.next]
		a.sent.bulk = a.resp.Resources
		x.warm(x.stream.seq, a.resp.Resources...)
	}
	if w.next < len(all) {
		return
	}
	x.sweep = nil
	if w.repeat {
		x.sweep, x.skip, x.passed = &sweep{again: true}, nil, nil
		x.mustAnswer = true
	}
}

// sweepsInBulk reports whether the set can be sent as it is: the client holds
// nothing yet, and nothing has changed since the sweep began.
func (a *assembly) sweepsInBulk() bool {
	x := a.x
	named := func(sent *Sent) bool { return len(sent.items) > 0 }
	return !x.sweep.again && !slices.ContainsFunc(x.out, named) && len(x.skip) == 0 && x.due.len() == 0 && len(x.names) == 0 &&
		x.deniesNone() && x.set() == x.sweep.set
}

// sweepOne takes one resource as it is now, if it still is and the client does
// not have it already.
func (a *assembly) sweepOne(r *xds.Resource) {
	x := a.x
	name := r.Name()
	if r = x.current(name); r == nil || !x.covers(r) {
		if _, held := x.skip[name]; held {
			x.oweRemoval(name)
		}
		return
	}
	version, said := x.skip[name]
	o := owed{name: name, held: x.heldNow(name), seq: x.stream.seq, former: version != ""}
	if due := x.due.find(name); due != nil {
		if x.sweep.again || due.held != nil || due.first && x.typ.ResendOnReconnect {
			due.asked = due.asked || due.held != nil || due.refusal != nil
			due.force = due.asked
			return // the entry itself sends it
		}
		said = said && (due.first || !due.asked)
		o = *due
		x.due.drop(due)
	}
	if said && version == r.Version() {
		return
	}
	if o.held == nil {
		o.held = x.passed[name]
	}
	if f, ok := x.rejected[name]; ok {
		o.held, o.refusal = f.before, f
		delete(x.rejected, name)
	}
	if st := x.denied(name); st != nil {
		a.fail(name, *st)
		return
	}
	a.put(&o, r)
}

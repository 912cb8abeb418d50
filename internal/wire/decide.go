package wire

import (
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// action is what becomes of a due entry in this round.
type action uint8

const (
	keep     action = iota // not now
	drop                   // nothing to send any more
	sendNow                // what the snapshot has
	sendHeld               // what the client already has, since it asks (XS-71)
)

// subject is the resource that a due entry is about, as far as the
// subscription includes it and the client may have it; else nil, with the
// status if the client may not (XS-84).
func (x *sub) subject(o *owed) (*xds.Resource, *Status) {
	r := x.resolveDue(o)
	if r != nil && !x.covers(r) {
		return nil, nil // it lost the alias it was subscribed to by
	}
	st := x.denied(o.name)
	if st == nil && r != nil && r.Name() != o.name {
		st = x.denied(r.Name())
	}
	if st == nil {
		return r, nil
	}
	if r == nil && !o.asked {
		return nil, nil
	}
	return nil, st
}

// resolveDue finds the resource that a due entry names. One asked for by an
// alias takes over the entry of the real name.
func (x *sub) resolveDue(o *owed) *xds.Resource {
	r := x.current(o.name)
	if r != nil || !o.asked {
		return r
	}
	r = x.resolve(o.name)
	if r == nil {
		return nil
	}
	if other := x.due.find(r.Name()); other != nil {
		o.held, o.refusal = other.held, other.refusal
		o.seq, o.ordered = min(o.seq, other.seq), o.ordered || other.ordered
		x.due.drop(other)
	}
	if f, ok := x.rejected[r.Name()]; ok {
		o.held, o.refusal = f.before, f
		delete(x.rejected, r.Name())
	}
	return r
}

// resolve finds the resource that a subscribed name means.
func (x *sub) resolve(name string) *xds.Resource {
	if v := x.stream.view; v != nil {
		return v.Resolve(x.typ.URL, name)
	}
	return nil
}

func (x *sub) denied(name string) *Status {
	if x.typ.DeltaOnly && x.stream.cfg.Variant == Sotw {
		return &Status{InvalidArgument, "the type exists in the delta variant only"} // XN-21
	}
	if st := x.withheldFrom(name); st != nil {
		return st
	}
	if x.otherForm() {
		return x.inexpressible(x.resolve(name))
	}
	return nil
}

// inexpressible says why a resource cannot be sent in the form asked for; nil if
// it can, or is nil.
func (x *sub) inexpressible(r *xds.Resource) *Status {
	if r == nil || !x.otherForm() || x.stream.cfg.Inexpressible == nil {
		return nil
	}
	return x.stream.cfg.Inexpressible(r)
}

// withheldFrom says why the client may not have a resource, whatever it holds.
func (x *sub) withheldFrom(name string) *Status {
	if deny := x.stream.cfg.Deny; deny != nil {
		return deny(x.typ.URL, name)
	}
	return nil
}

// deniesNone reports whether denied never says anything.
func (x *sub) deniesNone() bool {
	return x.stream.cfg.Deny == nil && (!x.otherForm() || x.stream.cfg.Inexpressible == nil)
}

// decide says what to do with a due entry, whose subject is r or st.
func (a *assembly) decide(o *owed, r *xds.Resource, st *Status) action {
	x := a.x
	if r == nil && st == nil && o.asked && o.held == nil {
		o.held = a.retained(o.name)
		o.retained = o.held != nil
	}
	o.undecided = r == nil && st == nil && o.asked && o.mayHold() == nil && !o.former && x.pending(o.name)
	if !x.stillOwed(o, r, st) {
		return drop
	}
	if o.undecided {
		return keep
	}
	if r == nil && a.outOfRound(o) {
		return keep
	}
	o.blocked = a.verdict(o, r)
	switch {
	case o.blocked == ready, o.asked && o.held == nil && !o.staysFormer(r), a.expired(o), r == nil && x.lostAlias(o):
		return sendNow
	case o.asked && o.held != nil:
		return sendHeld
	}
	return keep
}

// outOfRound reports whether a removal is left for the round of removals.
func (a *assembly) outOfRound(o *owed) bool {
	x := a.x
	if a.removals || !x.stream.aggregated() || x.stage > stageEndpoints {
		return false
	}
	if o.former && x.stream.resumed {
		// What follows waits for the client's answer, so there has to be one.
		a.answer = a.answer || x.typ.URL == xds.ClusterType && x.lastNonce == ""
		return true
	}
	return o.held != nil && !o.asked
}

// staysFormer reports whether the client goes on with what it has from a former
// stream, although it asks.
func (o *owed) staysFormer(r *xds.Resource) bool {
	return o.former && (r == nil || o.blocked == refused)
}

// lostAlias reports whether the entry is about an alias only: the resource that
// had it stays, and has an entry of its own.
func (x *sub) lostAlias(o *owed) bool {
	return o.held != nil && o.held.Name() != o.name && x.wanted(o.held.Name()) != nil && x.due.find(o.held.Name()) != nil
}

// stillOwed reports whether there is a reason left to send the entry.
func (x *sub) stillOwed(o *owed, r *xds.Resource, st *Status) bool {
	if r == nil {
		if o.refusal != nil && o.refusal.sent == nil && !o.asked && !o.force {
			x.park(o)
			return false
		}
		if st == nil && x.populated(o.name) {
			return false
		}
		moot := o.held == nil && !o.asked && x.wantsResolved(o.name)
		return o.mayHold() != nil || o.asked || o.force && !moot || st != nil && x.reported[o.name] != st.Code
	}
	if !o.force {
		if o.refusal == nil && r.Equal(o.held) {
			return false
		}
		if o.refusal != nil && !o.refusal.released && r.Equal(o.refusal.sent) {
			x.park(o)
			return false
		}
	}
	return !o.first || x.typ.ResendOnReconnect || x.skip[r.Name()] != r.Version()
}

// wantsResolved reports whether a name is an alias that means something by now which
// the client is to have.
func (x *sub) wantsResolved(name string) bool {
	r := x.resolve(name)
	return r != nil && x.covers(r)
}

// park notes that the client refused what it would be sent.
func (x *sub) park(o *owed) { x.reject(o.name, o.refusal) }

func (x *sub) reject(name string, f *refusal) {
	if x.rejected == nil {
		x.rejected = map[string]*refusal{}
	}
	x.rejected[name] = f
}

// expired applies the gate's timer to an entry that was just looked at (XS-69).
func (a *assembly) expired(o *owed) bool {
	if o.blocked != waits {
		o.since = time.Time{}
		return false
	}
	if o.since.IsZero() {
		o.since = a.now
	}
	late := !a.x.patience(a.now, o.since)
	a.late = a.late || late
	return late
}

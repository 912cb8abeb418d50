package wire

import "github.com/xebec-proxy/xebec/xds"

// usage says what the client may be using in versions that the snapshot no
// longer has: refused while these are held back here or were held to by the
// client, waits while only an answer is missing.
type usage map[xds.Key]verdict

// use looks up whether something the client may hold refers to a resource that
// goes away.
func (a *assembly) use(k xds.Key) verdict {
	if a.inUse == nil {
		a.inUse = usage{}
		for _, y := range a.x.stream.subs {
			a.addUsers(y)
		}
	}
	return a.inUse[k]
}

// addUsers notes what a sub-stream's exceptions refer to, if its resources can
// refer to those of the assembly's.
func (a *assembly) addUsers(y *sub) {
	switch {
	case y.idle():
	case a.x.stage == stageRoutes:
		if y.stage == stageListeners || y.stage == stageScopes {
			a.inUse.add(y, true)
		}
	case y.stage.refers():
		a.inUse.add(y, true)
	case y.stage == stageClusters && a.x.stage == stageClusters:
		a.inUse.addRejected(y)
	case y.stage == stageClusters:
		a.inUse.add(y, false)
	}
}

// add notes the references of everything that differs from the snapshot at the
// client. A removal on its way counts only if ofRemoved: the endpoints of a
// cluster may follow it at once.
func (u usage) add(y *sub, ofRemoved bool) {
	v := refused
	if y.windowFull() {
		v = waits // a client that does not answer holds nothing up for good
	}
	for i := range y.due.list {
		o := &y.due.list[i]
		if o.gone {
			continue
		}
		u.raise(o.held, v)
		u.raiseRefused(o.refusal, v)
	}
	for _, sent := range y.out {
		for _, item := range sent.items {
			if item.res != nil || ofRemoved {
				u.raise(item.before, waits)
				u.raise(item.res, waits)
				u.raiseRefused(item.refusal, waits)
			}
		}
	}
	u.addRejected(y)
}

func (u usage) addRejected(y *sub) {
	for _, f := range y.rejected {
		u.raise(f.before, refused)
		u.raiseRefused(f, refused)
	}
}

// raiseRefused notes the references of what a client may have taken of what it
// refused.
func (u usage) raiseRefused(f *refusal, v verdict) {
	if f != nil {
		u.raise(f.sent, v)
		u.raise(f.kept, v)
	}
}

func (u usage) raise(r *xds.Resource, v verdict) {
	if r == nil {
		return
	}
	for _, ref := range r.References() {
		if v > u[ref.Key] {
			u[ref.Key] = v
		}
	}
}

// retained finds a resource that the snapshot no longer has but that the
// client needs until the rollout is done, although it never held it (XS-71).
func (a *assembly) retained(name string) *xds.Resource {
	x := a.x
	if x.stream.old == nil || x.stage > stageEndpoints {
		return nil
	}
	r := x.stream.old.Set(x.typ.URL).Get(name)
	if r == nil || a.use(r.Key()) == ready {
		return nil
	}
	return r
}

// endRollout lets go of the snapshot from before an ordered change set, once
// nothing is on its way any more.
func (s *Stream) endRollout() {
	if s.old == nil {
		return
	}
	for _, x := range s.subs {
		if x.due.len() > 0 || len(x.out) > 0 {
			return
		}
	}
	s.old = nil
}

package wire

import (
	"math"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// stage is a type's place in the order of an aggregated stream (XS-67, XS-74).
type stage uint8

const (
	stageSupport stage = iota // secrets, runtime, extension configurations
	stageClusters
	stageEndpoints
	stageListeners
	stageRoutes
	stageScopes
	stageHosts
	stageOther
)

func stageOf(typeURL string) stage {
	switch typeURL {
	case xds.SecretType, xds.RuntimeType, xds.ExtensionConfigType:
		return stageSupport
	case xds.ClusterType:
		return stageClusters
	case xds.EndpointType, xds.LocalityEndpointType:
		return stageEndpoints
	case xds.ListenerType:
		return stageListeners
	case xds.RouteType:
		return stageRoutes
	case xds.ScopedRouteType:
		return stageScopes
	case xds.VirtualHostType:
		return stageHosts
	}
	return stageOther
}

// refers says that resources of the stage name clusters, so that they are sent
// after these and given up before them.
func (g stage) refers() bool { return g >= stageListeners && g <= stageHosts }

// orders reports whether a change makes its change set an ordered one (XS-73).
func orders(c *snapshot.Change) bool {
	return (c.Old == nil || c.New == nil || c.Old.Indirect() != c.New.Indirect()) &&
		(c.Type == xds.ClusterType || c.Type == xds.ListenerType || c.Type == xds.RouteType)
}

// order marks what the event touched as one ordered change set.
func (s *Stream) order(seq uint64) {
	for _, x := range s.subs {
		for i := range x.due.list {
			if o := &x.due.list[i]; !o.gone && o.last == seq {
				o.ordered = true
			}
		}
	}
}

// verdict says whether a due resource may be sent.
type verdict uint8

const (
	ready   verdict = iota
	waits           // for an ACK, no longer than the gate
	refused         // for a change, because what it needs was rejected
)

// verdict decides on a due entry as if nobody had asked for it; r is nil for a
// removal.
func (a *assembly) verdict(o *owed, r *xds.Resource) verdict {
	if r != nil {
		return a.mayUpdate(o, r)
	}
	return a.mayRemove(o)
}

// mayUpdate decides on a new or changed resource.
func (a *assembly) mayUpdate(o *owed, r *xds.Resource) verdict {
	x := a.x
	if !x.stream.aggregated() || !x.stage.refers() {
		return ready
	}
	if v := x.needs(r); v != ready {
		return v
	}
	return a.inTurn(o)
}

// inTurn makes a step of an ordered change set wait for the steps before it.
func (a *assembly) inTurn(o *owed) verdict {
	if o.ordered && a.before() <= o.last {
		return waits
	}
	return ready
}

// before is the oldest event that a stage before the sub-stream's own has not
// carried out.
func (a *assembly) before() uint64 {
	if a.unsettled == nil {
		first := uint64(math.MaxUint64)
		for _, y := range a.x.stream.subs {
			if y.stage >= stageClusters && y.stage < a.x.stage {
				first = min(first, y.oldest())
			}
		}
		a.unsettled = &first
	}
	return *a.unsettled
}

// oldest is the first event that the sub-stream has not carried out. Removals
// of what others refer to do not count, as they wait for these others; nor
// does what only a change can release, nor a subscription that has ended.
func (x *sub) oldest() uint64 {
	first := uint64(math.MaxUint64)
	if x.idle() {
		return first
	}
	for _, sent := range x.out {
		first = min(first, sent.minSeq)
	}
	for i := range x.due.list {
		o := &x.due.list[i]
		if o.gone || o.seq >= first || o.blocked == refused {
			continue
		}
		if x.stays(o.name) != nil || x.stage.refers() && !x.awaitsUsers() {
			first = o.seq
		}
	}
	return first
}

// stays is the resource as the snapshot has it; nil if there is none, or it has
// become one that the wildcard does not stand for, so that it goes away.
func (x *sub) stays(name string) *xds.Resource {
	if r := x.current(name); r != nil && (!r.Indirect() || x.covers(r)) {
		return r
	}
	return nil
}

// idle reports whether the client has unsubscribed from everything.
func (x *sub) idle() bool { return !x.wildcard && len(x.names) == 0 }

// needs looks for clusters of r that the client subscribes to but does not
// have yet (XS-68, XS-70).
func (x *sub) needs(r *xds.Resource) verdict {
	clusters := x.kin(xds.ClusterType)
	if clusters == nil || clusters.quiet() {
		return ready
	}
	v := ready
	for _, ref := range r.References() {
		if ref.Type == xds.ClusterType {
			v = max(v, clusters.lacks(ref.Name))
		}
	}
	return v
}

// quiet reports whether the client holds exactly the snapshot.
func (x *sub) quiet() bool {
	return x.due.len() == 0 && len(x.out) == 0 && len(x.rejected) == 0 && x.sweep == nil
}

// lacks says whether an existing, subscribed resource is not yet the client's.
func (x *sub) lacks(name string) verdict {
	c := x.current(name)
	if c == nil || !x.covers(c) {
		return ready
	}
	if f, ok := x.rejected[name]; ok && f.mayLack() {
		return refused
	}
	if o := x.due.find(name); o != nil && o.mayLack() {
		return waits
	}
	if x.unsent(c) {
		return waits
	}
	for _, sent := range x.out {
		if sent.introduces(name) {
			return waits
		}
	}
	return ready
}

// mayRemove decides on a resource that is going away (XS-68).
func (a *assembly) mayRemove(o *owed) verdict {
	x := a.x
	s := x.stream
	held := o.mayHold()
	if held == nil && o.former && s.aggregated() {
		return max(a.formerUse(), a.use(xds.Key{Type: x.typ.URL, Name: o.name}))
	}
	if held == nil {
		return ready
	}
	if x.typ.URL == xds.ExtensionConfigType && !s.cfg.DropExtensions && (s.cfg.KeepExtensions || s.view.Refers(held.Key())) {
		return refused // XS-66
	}
	if !s.aggregated() {
		return ready
	}
	v := a.formerUse()
	if x.stage <= stageEndpoints || x.stage == stageRoutes {
		v = max(v, a.use(held.Key()))
	}
	if v == refused || !o.ordered {
		return v
	}
	if x.stage.refers() {
		return max(v, a.inTurn(o), a.together(o))
	}
	if a.after() <= o.last {
		return waits
	}
	return v
}

// after is the oldest event that the stages which refer to clusters have not
// carried out.
func (a *assembly) after() uint64 {
	if a.unsettledUsers == nil {
		first := uint64(math.MaxUint64)
		for _, y := range a.x.stream.subs {
			if y.stage.refers() {
				first = min(first, y.oldest())
			}
		}
		a.unsettledUsers = &first
	}
	return *a.unsettledUsers
}

// span is the events that a withheld update follows from.
type span struct {
	first, last uint64
	verdict     verdict
}

// together makes a listener or route go away no earlier than what the same
// change set puts in its place.
func (a *assembly) together(o *owed) verdict {
	if a.withheld == nil {
		a.withheld = []span{}
		for i := range a.x.due.list {
			p := &a.x.due.list[i]
			if p.gone || !p.ordered {
				continue
			}
			if r := a.x.stays(p.name); r != nil && !r.Equal(p.held) {
				if v := a.mayUpdate(p, r); v != ready {
					a.withheld = append(a.withheld, span{p.seq, p.last, v})
				}
			}
		}
	}
	v := ready
	for _, w := range a.withheld {
		if w.first <= o.last && w.last >= o.seq {
			v = max(v, w.verdict)
		}
	}
	return v
}

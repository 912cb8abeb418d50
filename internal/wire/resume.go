package wire

import (
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// A client that comes back to a server which has started anew asks for
// everything at once and says which versions it holds, but not what these refer
// to. It may be using routes that lead to clusters which are gone, and what it
// is to have now may need clusters that it lacks. So until its first requests
// are dealt with
//
//   - the first answers of the types that refer to clusters wait until the client
//     has accepted the clusters that may be new to it;
//   - what goes away goes after what may refer to it has been accepted, in a
//     response of its own. Only delta can do that: the state of the world without
//     a cluster removes it, and the server does not know the cluster to add it.
//
// A client that holds nothing waits for nothing.

// resume notes that a sub-stream's first request tells of a former stream.
func (s *Stream) resume(r *Request) {
	if s.aggregated() && (r.Version != "" || len(r.Initial) > 0) {
		s.resumed = true
	}
}

// heldBack says whether the sub-stream's first answer is to wait for clusters.
func (x *sub) heldBack(now time.Time) bool {
	if !x.awaitsClusters() {
		x.since = time.Time{}
		return false
	}
	if x.since.IsZero() {
		x.since = now
	}
	if x.patience(now, x.since) {
		return true
	}
	x.since, x.patienceOver = time.Time{}, true
	x.stream.released = append(x.stream.released, x.asked)
	return false
}

func (x *sub) awaitsClusters() bool {
	if !x.stream.resumed || !x.stage.refers() || x.lastNonce != "" || x.patienceOver {
		return false
	}
	clusters := x.kin(xds.ClusterType)
	return clusters != nil && clusters.introducing()
}

// introducing reports whether resources are on their way that the client may
// not have held before.
func (x *sub) introducing() bool {
	if x.sweep != nil && !x.sweep.again {
		return true
	}
	for i := range x.due.list {
		o := &x.due.list[i]
		if !o.gone && o.blocked != refused && o.mayLack() && x.wanted(o.name) != nil {
			return true
		}
	}
	for _, sent := range x.out {
		if len(sent.bulk) > 0 {
			return true
		}
		for i := range sent.items {
			if sent.items[i].introduces() {
				return true
			}
		}
	}
	return false
}

// formerUse says whether the client may still be using a resource that goes away
// by something that it has from a former stream.
func (a *assembly) formerUse() verdict {
	if a.ofFormer == nil {
		v := a.x.formerUse()
		a.ofFormer = &v
	}
	return *a.ofFormer
}

func (x *sub) formerUse() verdict {
	s := x.stream
	if !s.resumed || x.stage > stageEndpoints && x.stage != stageRoutes {
		return ready
	}
	// The client's other first requests are read by the time it answers this one.
	clusters := x.kin(xds.ClusterType)
	if x.stage <= stageEndpoints && clusters != nil && (clusters.sweep != nil || len(clusters.out) > 0) {
		return waits
	}
	v := ready
	for _, y := range s.subs {
		uses := y.stage.refers()
		if x.stage == stageRoutes {
			uses = y.stage == stageListeners || y.stage == stageScopes
		}
		if uses && !y.idle() {
			v = max(v, y.behind())
		}
	}
	return v
}

// awaitsUsers reports whether removals of the type, which refers to others, wait
// for later stages: those of route tables for scopes.
func (x *sub) awaitsUsers() bool { return x.stage == stageRoutes && x.stream.resumed }

// behind says whether the client may hold something from a former stream that
// differs from the snapshot.
func (x *sub) behind() verdict {
	if len(x.out) > 0 || x.sweep != nil {
		return waits
	}
	v := ready
	for i := range x.due.list {
		o := &x.due.list[i]
		if o.gone {
			continue
		}
		if o.blocked != refused {
			return waits
		}
		if o.mayBeFormer() || x.unknown(o.held) {
			v = refused
		}
	}
	for _, f := range x.rejected {
		if f.former || x.unknown(f.before) {
			return refused
		}
	}
	return v
}

// unknown reports whether the client of a stream on which it was sent nothing but
// this of a resource may hold something else from a former one. In SotW that ends
// with the first state that it accepts.
func (x *sub) unknown(held *xds.Resource) bool {
	return x.stream.cfg.Variant == Sotw && held == nil && (!x.typ.FullState || x.status.Acks == 0)
}

// heldFormerly reports whether a delta client has said that it holds a resource.
func (x *sub) heldFormerly(name string) bool { return x.skip[name] != "" }

// endResumption forgets that there was a former stream, once the client has
// accepted everything for which that matters.
func (s *Stream) endResumption() {
	if !s.resumed {
		return
	}
	clusters, begun := false, false
	for _, y := range s.subs {
		ofClusters := y.stage == stageClusters
		if !ofClusters && !y.stage.refers() {
			continue
		}
		if !y.quiet() {
			return
		}
		clusters = clusters || ofClusters
		begun = begun || !ofClusters || y.lastNonce != ""
	}
	s.resumed = !clusters || !begun
}

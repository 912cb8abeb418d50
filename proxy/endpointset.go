package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
)

// edsState is an assignment of one source, and the clusters that have their
// hosts of it.
type edsState struct {
	name   string
	source *corev3.ConfigSource
	users  []*clusterEntry
	// last is the assignment in force as it is encoded, in which it is a tenth as
	// large; nil before the first.
	last []byte
	life time.Duration // how long it counts; 0 for ever
	// collected is the same if localities have their endpoints of collections, and
	// localities are those, each once.
	collected  *endpointv3.ClusterLoadAssignment
	localities []*localityState
	origin
	rejected *failure
	stale    *time.Timer // ends its life, if it has an end
}

func (s *edsState) halt() {
	if s.stale != nil {
		s.stale.Stop()
		s.stale = nil
	}
}

// attachEDS makes an EDS cluster follow its assignment, which it gets at once if
// it is known.
func (r *Resources) attachEDS(e *clusterEntry) {
	name, source, ok := e.EDS()
	if !ok {
		return
	}
	s := oneOfSource(r.endpoints[name], source)
	if s == nil {
		s = &edsState{name: name, source: source}
		r.endpoints[name] = append(r.endpoints[name], s)
		r.tell.add(true, EndpointType, name, source)
		e.subscription().asked(r.p.stat.Main(), source)
	}
	replaces := slices.ContainsFunc(s.users, func(u *clusterEntry) bool { return u.Name() == e.Name() })
	s.users = append(s.users, e)
	e.eds = s
	for _, l := range s.localities {
		e.leds().asked(r.p.stat.Main(), l.source)
	}
	if s.last == nil || s.incomplete() {
		return
	}
	if a, ok := r.p.o.Discovery.(awaiter); ok && replaces {
		e.again = a.Await(EndpointType, name, source)
	}
	// The assignment suited the clusters before. If it does not suit this one,
	// that waits for another.
	if err := r.inherit(e, s); err != nil {
		r.p.component("upstream").Warn("the endpoints in force do not suit a new cluster", "error", err)
		return
	}
	r.p.stat.Main().Inc(e.Stats.UpdateAttempt)
	e.subscription().inForce(r.p.stat.Main(), time.Now(), s.version)
}

// inherit gives a cluster the assignment that is in force.
func (r *Resources) inherit(e *clusterEntry, s *edsState) error {
	la := s.collected
	if la == nil {
		la = &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(s.last, la); err != nil {
			return fmt.Errorf("%w", err)
		}
	}
	a, err := e.ReadAssignment(la, s.endpoints)
	if err != nil {
		r.p.stat.Main().Inc(e.Stats.Discovery.UpdateRejected)
		return fmt.Errorf("%w", err)
	}
	e.Use(a)
	return nil
}

// askAgainAfter is how long a server that knows of a change of a cluster has to send
// its endpoints by itself, before it is asked to.
const askAgainAfter = time.Second

// waitAgain bounds the waiting of a changed cluster for its endpoints to be sent
// again, so that it begins with those that are meant for it (XC-43). If they are
// not sent, which not all servers do, it begins with those in force, after 15 s at
// the latest. r.ctx is set.
func (r *Resources) waitAgain(e *clusterEntry, name string, source *corev3.ConfigSource) {
	d := fetchTimeout(source)
	if d <= 0 {
		d = fetchTimeout(nil)
	}
	e.ask = r.after(askAgainAfter, func() {
		if a, ok := r.p.o.Discovery.(awaiter); ok && e.again {
			a.AskAgain(EndpointType, name, source)
		}
	})
	e.fetch = r.after(d, func() {
		if !e.again {
			return
		}
		r.p.component("upstream").Warn("endpoints were not sent again for a changed cluster, which begins with the former ones", "cluster", e.Name(), "service", name)
		r.p.stat.Main().Inc(e.Stats.Discovery.InitFetchTimeout)
		r.p.stat.Main().Inc(e.Stats.AssignmentUseCached)
		e.stopWaiting()
		r.settleNamed(e.Name())
	})
}

// sentAgain ends that waiting.
func (r *Resources) sentAgain(e *clusterEntry) {
	if e.again {
		e.stopWaiting()
		r.settleNamed(e.Name())
	}
}

// detachEDS is the end of that.
func (r *Resources) detachEDS(e *clusterEntry) {
	s := e.eds
	if s == nil {
		return
	}
	e.eds = nil
	s.users = slices.DeleteFunc(s.users, func(x *clusterEntry) bool { return x == e })
	if len(s.users) > 0 {
		return
	}
	s.halt()
	r.collect(s, nil)
	r.tell.add(false, EndpointType, s.name, s.source)
	forget(r.endpoints, s.name, s)
}

// SetEndpoints makes an assignment the hosts of the EDS clusters that refer to
// its name and source (CM-11); a nil source is any. Hosts that stay keep their
// connections and counts; those that are gone drain (CM-25). The cost is that of
// this assignment. One that no cluster refers to is ignored.
func (r *Resources) SetEndpoints(source *corev3.ConfigSource, la *endpointv3.ClusterLoadAssignment, version string) error {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(la)
	if err != nil {
		return fmt.Errorf("endpoints %q: %w", la.GetClusterName(), err)
	}
	return r.setEndpoints(source, la, encoded, version)
}

// SetEncodedEndpoints is SetEndpoints for who has the assignment's encoding, which
// stays the caller's; nil if there is none.
func (r *Resources) SetEncodedEndpoints(source *corev3.ConfigSource, la *endpointv3.ClusterLoadAssignment, encoded []byte, version string) error {
	if encoded == nil {
		return r.SetEndpoints(source, la, version)
	}
	return r.setEndpoints(source, la, encoded, version)
}

func (r *Resources) setEndpoints(source *corev3.ConfigSource, la *endpointv3.ClusterLoadAssignment, encoded []byte, version string) error {
	return setOfSource(r, func() []*edsState { return r.endpoints[la.GetClusterName()] }, source, func(s *edsState) error { return r.assign(s, la, encoded, version) })
}

func (r *Resources) assign(s *edsState, la *endpointv3.ClusterLoadAssignment, encoded []byte, version string) (err error) {
	m, begun := r.p.stat.Main(), time.Now()
	if s.last != nil && bytes.Equal(s.last, encoded) {
		s.version, s.rejected = version, nil
		r.refresh(s)
		for _, e := range slices.Clone(s.users) { // settling a cluster ends the former one
			e.subscription().accepted(m, begun, version)
			m.Inc(e.Stats.UpdateNoRebuild)
			if !s.incomplete() {
				r.sentAgain(e)
			}
		}
		return nil
	}
	if err = r.checkOwn(la); err == nil {
		err = r.checkLocalities(la)
	}
	users := slices.Clone(s.users)
	read := make([]*cluster.Assignment, len(users))
	for i, e := range users {
		if err == nil {
			read[i], err = e.ReadAssignment(la, nil)
		}
	}
	if err != nil {
		for _, e := range users {
			e.subscription().rejected(m)
		}
		s.rejected = &failure{la, version, time.Now(), err}
		r.goWithout(users)
		return fmt.Errorf("endpoints %q: %w", la.GetClusterName(), err)
	}
	s.last, s.life, s.origin, s.rejected = bytes.Clone(encoded), cluster.StaleAfter(la), origin{version: version, at: begun}, nil
	r.refresh(s)
	r.collect(s, la)
	for i, e := range users {
		if s.collected == nil {
			r.give(e, read[i])
		} else {
			e.stopWaiting() // collections have a time of their own
		}
		e.subscription().accepted(m, begun, version)
	}
	if s.collected != nil {
		r.giveCollected(s)
	}
	return nil
}

// subscription is what an EDS cluster counts of its assignment.
func (e *clusterEntry) subscription() *subscription {
	s, d := e.Stats, e.Stats.Discovery
	return &subscription{subscriptionStats{
		InitFetchTimeout: d.InitFetchTimeout, UpdateAttempt: s.UpdateAttempt, UpdateFailure: s.UpdateFailure, UpdateRejected: d.UpdateRejected,
		UpdateSuccess: s.UpdateSuccess, UpdateDuration: d.UpdateDuration, UpdateTime: d.UpdateTime, Version: s.Version,
	}, e.versionText}
}

// give makes an assignment a cluster's.
func (r *Resources) give(e *clusterEntry, a *cluster.Assignment) {
	e.Follow(a)
	e.stopWaiting()
	r.settleNamed(e.Name())
}

// refresh lets an assignment with endpoint_stale_after live from now on.
func (r *Resources) refresh(s *edsState) {
	s.halt()
	if s.life <= 0 {
		return
	}
	for _, e := range s.users {
		r.p.stat.Main().Inc(e.Stats.AssignmentTimeoutReceived)
	}
	s.stale = r.after(s.life, func() {
		s.last, s.stale = nil, nil
		r.collect(s, nil)
		for _, e := range s.users {
			e.Stale()
		}
	})
}

// Missing says that a source does not have a resource, or is not asked any more:
// what waits for it goes on without. A resource that was there before stays in
// force. A nil source is any.
func (r *Resources) Missing(source *corev3.ConfigSource, typeURL, name string) {
	if typeURL == RuntimeType {
		r.noRuntime(source, name)
		return
	}
	r.lock()
	defer r.unlock()
	if r.stopped {
		return
	}
	switch typeURL {
	case EndpointType:
		for _, s := range ofSource(r.endpoints[name], source) {
			r.noEndpoints(s)
		}
	case LocalityEndpointType:
		for _, s := range ofSource(r.localities[name], source) {
			r.noLocality(s)
		}
	case RouteType:
		for _, s := range ofSource(r.routes[name], source) {
			r.noRoutes(s)
		}
	case ScopedRouteType:
		for _, s := range ofSource(r.scopes, source) {
			r.noScopes(s)
		}
	case VirtualHostType:
		r.hostAnswered(source, name, false)
	case ClusterType:
		r.noCluster(source, name)
	case SecretType:
		for _, s := range ofSource(r.secrets[name], source) {
			r.noSecret(s)
		}
	case ExtensionType:
		for _, s := range ofSource(r.extensions[name], source) {
			r.noExtension(s)
		}
	}
}

func (r *Resources) noEndpoints(s *edsState) {
	for _, e := range s.users {
		r.p.stat.Main().Inc(e.Stats.UpdateEmpty)
	}
	r.goWithout(slices.Clone(s.users))
}

// goWithout ends the waiting of clusters for an assignment that does not exist or is
// wrong, as in Envoy: they have the former one, or no hosts.
func (r *Resources) goWithout(users []*clusterEntry) {
	for _, e := range users { // settling a cluster ends the former one
		if !e.Known() {
			e.Skip()
			r.settleNamed(e.Name())
		}
		r.sentAgain(e)
	}
}

package proxy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/discovery"
)

// LocalityEndpoint is what happened to an endpoint of a collection.
type LocalityEndpoint = discovery.LocalityEndpoint

// localityState are the endpoints of a collection of one source (LEDS, XN-29), and
// the assignments with localities that have them.
type localityState struct {
	name   string
	source *corev3.ConfigSource
	users  []*edsState
	// known says that the collection has come, or was waited for long enough.
	known   bool
	fetch   *time.Timer // ends the waiting
	held    map[string]*cluster.Endpoint
	list    []*cluster.Endpoint // the same by name; nil after a change
	refused map[string]*failure // of names whose last content was not good
}

func (s *localityState) halt() {
	if s.fetch != nil {
		s.fetch.Stop()
		s.fetch = nil
	}
}

// sorted are the endpoints in the order of their names, so that a change of one
// leaves the others where they are.
func (s *localityState) sorted() []*cluster.Endpoint {
	if s.list == nil {
		s.list = make([]*cluster.Endpoint, 0, len(s.held))
		for _, name := range slices.Sorted(maps.Keys(s.held)) {
			s.list = append(s.list, s.held[name])
		}
	}
	return s.list
}

// failure is what was refused last of an assignment, or of the collections that it
// names: then the first of the endpoints.
func (s *edsState) failure() *failure {
	if s.rejected != nil {
		return s.rejected
	}
	for _, l := range s.localities {
		if len(l.refused) > 0 {
			return l.refused[slices.Min(slices.Collect(maps.Keys(l.refused)))]
		}
	}
	return nil
}

// incomplete reports whether an assignment waits for a collection.
func (s *edsState) incomplete() bool {
	return s != nil && slices.ContainsFunc(s.localities, func(l *localityState) bool { return !l.known })
}

// endpoints are those of a collection that the assignment names.
func (s *edsState) endpoints(c *endpointv3.LedsClusterLocalityConfig) []*cluster.Endpoint {
	for _, l := range s.localities {
		if l.is(c) {
			return l.sorted()
		}
	}
	return nil
}

func (s *localityState) is(c *endpointv3.LedsClusterLocalityConfig) bool {
	return s.name == c.GetLedsCollectionName() && sameSource(s.source, c.GetLedsConfig())
}

// checkLocalities refuses collections that cannot be had.
func (r *Resources) checkLocalities(la *endpointv3.ClusterLoadAssignment) error {
	k, ok := r.p.o.Discovery.(collectionChecker)
	for i, l := range la.GetEndpoints() {
		c := l.GetLedsClusterLocalityConfig()
		if c == nil {
			continue
		}
		path := fmt.Sprintf("endpoints[%d].leds_cluster_locality_config.", i)
		if err := discovery.CheckGlob(c.GetLedsCollectionName(), LocalityEndpointType); err != nil {
			return fmt.Errorf("%sleds_collection_name: %w", path, err)
		}
		if c.GetLedsConfig() == nil {
			return fmt.Errorf("%sleds_config: a config source is needed", path)
		}
		if !ok {
			continue
		}
		if err := k.CheckCollection(path+"leds_config", c.GetLedsConfig(), LocalityEndpointType, c.GetLedsCollectionName()); err != nil {
			return fmt.Errorf("%w", err)
		}
	}
	return nil
}

// collect makes an assignment follow the collections that it names from now on,
// and none that it does not name; nil names none.
func (r *Resources) collect(s *edsState, la *endpointv3.ClusterLoadAssignment) {
	before := s.localities
	s.localities, s.collected = nil, nil
	for _, l := range la.GetEndpoints() {
		c := l.GetLedsClusterLocalityConfig()
		if c == nil {
			continue
		}
		s.collected = la
		if slices.ContainsFunc(s.localities, func(l *localityState) bool { return l.is(c) }) {
			continue
		}
		st := r.locality(c)
		s.localities = append(s.localities, st)
		if !slices.Contains(before, st) {
			st.users = append(st.users, s)
			for _, e := range s.users {
				e.leds().asked(r.p.stat.Main(), st.source)
			}
		}
	}
	for _, st := range before {
		if !slices.Contains(s.localities, st) {
			r.uncollect(st, s)
		}
	}
}

// locality is the state of a collection, which is asked for from now on.
func (r *Resources) locality(c *endpointv3.LedsClusterLocalityConfig) *localityState {
	name, source := c.GetLedsCollectionName(), c.GetLedsConfig()
	if s := oneOfSource(r.localities[name], source); s != nil {
		return s
	}
	s := &localityState{name: name, source: source, held: map[string]*cluster.Endpoint{}, refused: map[string]*failure{}}
	r.localities[name] = append(r.localities[name], s)
	r.tell.add(true, LocalityEndpointType, name, source)
	if d := fetchTimeout(source); d > 0 {
		s.fetch = r.after(d, func() {
			if s.known || len(s.users) == 0 {
				return
			}
			r.p.component("upstream").Warn("a collection of endpoints did not come within initial_fetch_timeout", "collection", name)
			s.each(func(e *clusterEntry) { r.p.stat.Main().Inc(e.Stats.LEDS().InitFetchTimeout) })
			r.spread(s)
		})
	}
	return s
}

// uncollect is the end of that for an assignment.
func (r *Resources) uncollect(s *localityState, user *edsState) {
	s.users = slices.DeleteFunc(s.users, func(x *edsState) bool { return x == user })
	if len(s.users) > 0 {
		return
	}
	s.halt()
	r.tell.add(false, LocalityEndpointType, s.name, s.source)
	forget(r.localities, s.name, s)
}

// each calls f with the clusters that have hosts of a collection.
func (s *localityState) each(f func(*clusterEntry)) {
	for _, u := range s.users {
		for _, e := range u.users {
			f(e)
		}
	}
}

// CheckLocalityEndpoint says what is wrong with an endpoint of a collection; it
// changes nothing.
func (r *Resources) CheckLocalityEndpoint(e *endpointv3.LbEndpoint) error {
	r.lock()
	defer r.unlock()
	if r.stopped {
		return ErrStopped
	}
	if err := r.checkOwn(e); err != nil {
		return err
	}
	if _, err := cluster.ReadEndpoint(e); err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}

// SetLocalityEndpoints changes endpoints of a collection at one stroke (LEDS): the
// clusters that have them get those that are new, and lose those that are gone; the
// other hosts keep their connections and counts. One that was refused stays as it
// was. After the first call the collection is there, and is not waited for any
// more. A collection that nothing refers to is ignored. A nil source is any.
func (r *Resources) SetLocalityEndpoints(source *corev3.ConfigSource, collection string, changes []LocalityEndpoint, version string) error {
	return setOfSource(r, func() []*localityState { return r.localities[collection] }, source, func(s *localityState) error {
		return r.change(s, changes, version)
	})
}

func (r *Resources) change(s *localityState, changes []LocalityEndpoint, version string) error {
	begun := time.Now()
	read := make([]*cluster.Endpoint, len(changes))
	for i := range changes {
		c := &changes[i]
		if c.Config == nil {
			continue
		}
		var err error
		if read[i], err = cluster.ReadEndpoint(c.Config); err != nil {
			return fmt.Errorf("endpoint %q of %q: %w", c.Name, s.name, err)
		}
	}
	rejected, changed := false, !s.known
	for i := range changes {
		c := &changes[i]
		delete(s.refused, c.Name)
		if c.Refused != nil {
			rejected = true
			s.refused[c.Name] = &failure{nil, c.Version, time.Now(), fmt.Errorf("endpoint %q of %q: %w", c.Name, s.name, c.Refused)}
		}
		switch _, held := s.held[c.Name]; {
		case read[i] != nil:
			s.held[c.Name] = read[i]
		case c.Gone && held:
			delete(s.held, c.Name)
		default:
			continue
		}
		s.list, changed = nil, true
	}
	if changed {
		r.spread(s)
	}
	s.each(func(e *clusterEntry) {
		if m := r.p.stat.Main(); rejected {
			e.leds().rejected(m)
		} else {
			e.leds().accepted(m, begun, version)
		}
	})
	return nil
}

// leds is what a cluster counts of the collections of its endpoints.
func (e *clusterEntry) leds() *subscription {
	s := e.Stats.LEDS()
	return &subscription{subscriptionStats{
		InitFetchTimeout: s.InitFetchTimeout, UpdateAttempt: s.UpdateAttempt, UpdateFailure: s.UpdateFailure, UpdateRejected: s.UpdateRejected,
		UpdateSuccess: s.UpdateSuccess, UpdateDuration: s.UpdateDuration, UpdateTime: s.UpdateTime, Version: s.Version,
	}, e.lease.Text("leds.version_text")}
}

// noLocality says that a collection is empty, and was.
func (r *Resources) noLocality(s *localityState) {
	s.each(func(e *clusterEntry) { r.p.stat.Main().Inc(e.Stats.LEDS().UpdateEmpty) })
	if !s.known {
		r.spread(s)
	}
}

// spread gives a collection's endpoints to those who have them.
func (r *Resources) spread(s *localityState) {
	s.known = true
	s.halt()
	for _, u := range slices.Clone(s.users) {
		r.giveCollected(u)
	}
}

// giveCollected makes an assignment the clusters', unless it waits for a collection:
// then they have the former one.
func (r *Resources) giveCollected(s *edsState) {
	if s.incomplete() {
		return
	}
	for _, e := range slices.Clone(s.users) { // settling a cluster ends the former one
		a, err := e.ReadAssignment(s.collected, s.endpoints)
		if err != nil { // it was good without the endpoints, and they were by themselves
			r.p.component("upstream").Error("the endpoints of collections do not suit a cluster", "cluster", e.Name(), "error", err)
			continue
		}
		if e.again { // it waits for the assignment itself
			e.Follow(a)
			continue
		}
		r.give(e, a)
	}
}

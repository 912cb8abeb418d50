package proxy

import (
	"time"

	"github.com/cespare/xxhash/v2"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/discovery"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// subscriptionStats are what every subscription counts.
type subscriptionStats = discovery.SubscriptionStats

// subscription counts what becomes of a subscription. Two that count by the same
// names are equal.
type subscription struct {
	subscriptionStats
	text *stats.Text // the version
}

// asked counts the subscription itself; a file is not asked.
func (s *subscription) asked(m *stats.Main, source *corev3.ConfigSource) {
	if source.GetPathConfigSource() == nil && source.GetPath() == "" { //nolint:staticcheck // bootstraps still have it
		m.Inc(s.UpdateAttempt)
	}
}

// accepted counts an update that was taken, which was begun with at a time.
func (s *subscription) accepted(m *stats.Main, begun time.Time, version string) {
	m.Inc(s.UpdateAttempt)
	m.Inc(s.UpdateSuccess)
	s.inForce(m, begun, version)
}

// inForce tells of the update that was taken last.
func (s *subscription) inForce(m *stats.Main, begun time.Time, version string) {
	now := time.Now()
	m.GaugeSet(s.UpdateTime, now.UnixMilli())
	m.Record(s.UpdateDuration, uint64(max(0, now.Sub(begun).Milliseconds()))) //nolint:gosec // not negative
	m.GaugeSetUint(s.Version, xxhash.Sum64String(version))
	s.text.Set(version)
}

// rejected counts an update that was not taken.
func (s *subscription) rejected(m *stats.Main) {
	m.Inc(s.UpdateAttempt)
	m.Inc(s.UpdateRejected)
}

// failed counts an attempt to reach the source.
func (s *subscription) failed(m *stats.Main) {
	m.Inc(s.UpdateAttempt)
	m.Inc(s.UpdateFailure)
}

// subscriptions calls do for the statistics of each subscription that several
// have a part in, once for each name.
func subscriptions[T any](users []T, of func(T) *subscription, do func(*subscription)) {
	seen := make(map[subscription]struct{}, len(users))
	for _, u := range users {
		s := of(u)
		if _, again := seen[*s]; s == nil || again {
			continue
		}
		seen[*s] = struct{}{}
		do(s)
	}
}

// Failed says that a source could not be reached, which was asked for resources
// of a type by these names: that is counted.
func (r *Resources) Failed(source *corev3.ConfigSource, typeURL, name string) {
	r.lock()
	defer r.unlock()
	m := r.p.stat.Main()
	failed := func(s *subscription) { s.failed(m) }
	switch typeURL {
	case EndpointType:
		for _, s := range ofSource(r.endpoints[name], source) {
			subscriptions(s.users, (*clusterEntry).subscription, failed)
		}
	case LocalityEndpointType:
		for _, s := range ofSource(r.localities[name], source) {
			s.each(func(e *clusterEntry) { e.leds().failed(m) })
		}
	case RouteType:
		for _, s := range ofSource(r.routes[name], source) {
			subscriptions(s.users, (*routeUser).subscription, failed)
		}
	case ScopedRouteType:
		for _, s := range ofSource(r.scopes, source) {
			subscriptions(s.users, (*scopeUser).subscription, failed)
		}
	case SecretType:
		for _, s := range ofSource(r.secrets[name], source) {
			failed(&s.stats.subscription)
		}
	case ExtensionType:
		for _, s := range ofSource(r.extensions[name], source) {
			failed(&s.stats.subscription)
		}
	}
}

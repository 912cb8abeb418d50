package proxy

import corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

// Refused says that a resource was refused before it could be brought: it cannot be
// read, or calls itself otherwise than it was asked for. As with what is wrong otherwise,
// that is counted, and what waits for it goes on without, as in Envoy.
func (r *Resources) Refused(source *corev3.ConfigSource, typeURL, name string) {
	r.lock()
	defer r.unlock()
	if r.stopped {
		return
	}
	m := r.p.stat.Main()
	rejected := func(s *subscription) { s.rejected(m) }
	switch typeURL {
	case EndpointType:
		for _, s := range ofSource(r.endpoints[name], source) {
			users := append([]*clusterEntry(nil), s.users...) // settling a cluster ends the former one
			subscriptions(users, (*clusterEntry).subscription, rejected)
			r.goWithout(users)
		}
	case RouteType:
		for _, s := range ofSource(r.routes[name], source) {
			subscriptions(s.users, (*routeUser).subscription, rejected)
			if s.hosts == nil {
				r.endRoutes(s)
			}
		}
	case ScopedRouteType:
		for _, s := range ofSource(r.scopes, source) {
			subscriptions(s.users, (*scopeUser).subscription, rejected)
			r.endScopes(s)
		}
	case SecretType:
		for _, s := range ofSource(r.secrets[name], source) {
			s.stats.rejected(m)
			if s.last == nil {
				r.noSecret(s)
			}
		}
	case ExtensionType:
		for _, s := range ofSource(r.extensions[name], source) {
			s.stats.rejected(m)
			m.Inc(s.stats.ConfigFail)
			r.extensionRefused(s)
		}
	case RuntimeType:
		for _, s := range r.runtime {
			if s.name == name && sameSource(s.source, source) {
				s.end()
			}
		}
		r.note()
	}
}

package proxy

import (
	"cmp"
	"maps"
	"slices"
)

// present is what a proxy is configured with at one time.
type present struct {
	versions  map[string]string
	clusters  []clusterSlot
	listeners []listenerSlot
	draining  []*listenerEntry
	routes    []routeState
	scopes    []presentScopes
	secrets   []secretState
	// extensions are configurations of filters.
	extensions []extensionState
	endpoints  map[*clusterEntry]*failure // refused last
}

// presentScopes are the scopes of a source.
type presentScopes struct {
	name string // of the first connection manager that has them
	origin
	list     []*scopeEntry
	rejected *failure
}

func (s *scopeState) present() presentScopes {
	out := presentScopes{origin: s.origin, list: s.all(), rejected: s.rejected}
	if len(s.users) > 0 {
		out.name = s.users[0].Config.GetName()
	}
	return out
}

// present copies the state, so that it can be shown while it changes: what it
// points to does not change any more.
func (r *Resources) present() *present {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &present{versions: maps.Clone(r.versions), endpoints: map[*clusterEntry]*failure{}}
	for _, s := range r.clusterSlots() {
		out.clusters = append(out.clusters, *s)
		if s.active != nil && s.active.eds != nil {
			out.endpoints[s.active] = s.active.eds.failure()
		}
	}
	for _, s := range r.listenerSlots() {
		out.listeners = append(out.listeners, *s)
	}
	for l := range r.drainingListeners {
		out.draining = append(out.draining, l)
	}
	slices.SortFunc(out.draining, func(a, b *listenerEntry) int { return cmp.Compare(a.Name, b.Name) })
	for _, list := range r.routes {
		for _, s := range list {
			out.routes = append(out.routes, *s)
		}
	}
	slices.SortFunc(out.routes, func(a, b routeState) int { return cmp.Compare(a.name, b.name) })
	for _, s := range r.scopes {
		out.scopes = append(out.scopes, s.present())
	}
	for _, list := range r.secrets {
		for _, s := range list {
			out.secrets = append(out.secrets, *s)
		}
	}
	for _, list := range r.extensions {
		for _, s := range list {
			out.extensions = append(out.extensions, *s)
		}
	}
	slices.SortFunc(out.extensions, func(a, b extensionState) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
	slices.SortFunc(out.secrets, func(a, b secretState) int { return cmp.Compare(a.name, b.name) })
	return out
}

// Accepted notes the version of the last response of a type that was taken, for
// /config_dump; the type is ClusterType or ListenerType.
func (r *Resources) Accepted(typeURL, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[typeURL] = version
}

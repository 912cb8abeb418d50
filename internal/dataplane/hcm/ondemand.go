package hcm

import (
	"strings"

	"github.com/xebec-proxy/xebec/internal/dataplane/demand"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

// Waits is what requests of this worker wait for; nil if nothing is discovered
// on demand.
func (s *Stream) Waits() *demand.Waits { return s.sv.Waits }

// UnknownHost is what a virtual host for the request can be asked for by, if it
// has no route and its route table can have more (RT-12): the host is written as
// the request has it, with its port, but in lower case. What cannot be a host is not asked
// for. A request of a scope whose
// routes are to be loaded on demand asks for these (RT-11).
func (s *Stream) UnknownHost() (demand.Key, bool) {
	if s.Entry() == nil && s.scope != nil && s.scope.Lazy {
		return demand.Key{Kind: demand.Scope, Name: string(s.scopeKey), Source: s.cfg.ScopeSource}, true
	}
	if s.Entry() != nil || s.table == nil || s.table.MoreHosts() == nil {
		return demand.Key{}, false
	}
	if !hostLike(s.req.Authority()) {
		return demand.Key{}, false
	}
	host := strings.ToLower(s.req.Authority())
	return demand.Key{Kind: demand.VirtualHost, Name: s.table.Name() + "/" + host, Source: s.table.MoreHosts()}, true
}

// Clients make up names, which are asked for, so they are bounded.
const (
	maxHost    = 255
	maxCluster = 1024
)

// hostLike reports whether an authority can be that of a host: a name or an
// address, with or without a port.
func hostLike(a string) bool {
	for i := range len(a) {
		switch c := a[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == ':', c == '[', c == ']':
		default:
			return false
		}
	}
	return a != "" && len(a) <= maxHost
}

// clusterLike reports whether a cluster can be asked for by a name: names of
// many clusters, which are wildcards, are none of a cluster.
func clusterLike(name string) bool {
	return name != "" && len(name) <= maxCluster && name != "*" && !strings.Contains(name, "/*")
}

// UnknownCluster is the name of the cluster that the request's route leads to if
// there is none of that name, or "". What clients cannot ask for is none.
func (s *Stream) UnknownCluster() string {
	if e := s.Entry(); e == nil || e.Kind() != route.Forward || !clusterLike(s.target.Cluster) || s.sv.Clusters.Cluster(s.target.Cluster) != nil {
		return ""
	}
	return strings.Clone(s.target.Cluster)
}

// Rematch forgets the request's route and the table it is of: the next use finds
// it in the table that is in force now.
func (s *Stream) Rematch() { s.table, s.resolved, s.rematching = nil, false, true }

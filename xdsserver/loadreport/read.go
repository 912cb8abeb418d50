package loadreport

import (
	"cmp"

	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

// Loads returns the load of every cluster, added up over all nodes (XL-03),
// sorted by cluster and service name. The caller owns the result.
func (s *Server) Loads() []ClusterLoad { return s.sum(everyCluster) }

// ByCluster returns the load of the cluster of that name, added up over all
// nodes; one entry for each service name it was reported with.
func (s *Server) ByCluster(name string) []ClusterLoad {
	return s.sum(func(k clusterKey) (clusterKey, bool) { return k, k.cluster == name })
}

// Services returns the load per service name, added up over all nodes and over
// all clusters that have the name (XL-03). A cluster without one counts under
// its own name, which is what it asks EDS for.
func (s *Server) Services() []ClusterLoad { return s.sum(byService) }

// ByService is the load of one service name as in [Server.Services]; false if
// nobody reported it.
func (s *Server) ByService(name string) (ClusterLoad, bool) {
	found := s.sum(func(k clusterKey) (clusterKey, bool) {
		k, _ = byService(k)
		return k, k.service == name
	})
	if len(found) == 0 {
		return ClusterLoad{}, false
	}
	return found[0], true
}

func byService(k clusterKey) (clusterKey, bool) {
	return clusterKey{service: cmp.Or(k.service, k.cluster)}, true
}

func (s *Server) sum(want selection) []ClusterLoad {
	out := tree{}
	for _, n := range s.nodes.All() {
		n.State.collectInto(out, want)
	}
	return out.export()
}

// Nodes returns what each remembered node reported, sorted by the nodes' ID
// and cluster.
func (s *Server) Nodes() []NodeLoad { return export(s.nodes.All()) }

// ByNode returns what the node with that ID reported. It has more than one
// entry if nodes share the ID and differ in cluster, and none if the node is
// unknown or forgotten.
func (s *Server) ByNode(id string) []NodeLoad { return export(s.nodes.ByID(id)) }

func export(nodes []reporting.Found[node]) []NodeLoad {
	var out []NodeLoad
	for _, n := range nodes {
		out = append(out, n.State.export(n.Streams))
	}
	return out
}

// Subscribe has f called with every report once it is recorded, until cancel
// is called. Reports of one stream come in order, those of different streams
// concurrently. A slow f delays the stream's next reports, and that stream
// only; it may call the server's methods. A call that has begun may outlast
// cancel.
func (s *Server) Subscribe(f func(Report)) (cancel func()) { return s.subs.Add(f) }

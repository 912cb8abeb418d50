package healthdiscovery

import (
	"slices"

	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

// Nodes returns the newest results of each remembered node, sorted by the
// nodes' ID and cluster.
func (s *Server) Nodes() []NodeHealth { return export(s.nodes.All()) }

// ByNode returns the newest results of the node with that ID. It has more than
// one entry if nodes share the ID and differ in cluster, and none if the node
// is unknown or forgotten.
func (s *Server) ByNode(id string) []NodeHealth { return export(s.nodes.ByID(id)) }

// ByCluster returns what the nodes say of each endpoint of a cluster, sorted
// by locality and address. The empty name stands for endpoints that were
// reported without their cluster, in the deprecated flat list.
func (s *Server) ByCluster(name string) []Endpoint {
	found := map[endpointKey]*Endpoint{}
	for _, n := range s.Nodes() {
		for _, e := range n.Endpoints {
			if e.Cluster != name {
				continue
			}
			p := found[e.key()]
			if p == nil {
				p = &Endpoint{Cluster: name, Locality: e.Locality, Address: e.Address, Hostname: e.Hostname}
				found[e.key()] = p
			}
			p.Observations = append(p.Observations, Observation{
				NodeID: n.Node.ID, NodeCluster: n.Node.Cluster, Connected: n.Streams > 0,
				Status: e.Status, Metadata: e.Metadata, Since: e.Since, Reported: n.LastReport,
			})
		}
	}
	out := make([]Endpoint, 0, len(found))
	for _, p := range found {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Endpoint) int {
		return endpointKey{name, a.Locality, a.Address}.compare(endpointKey{name, b.Locality, b.Address})
	})
	return out
}

func export(nodes []reporting.Found[node]) []NodeHealth {
	var out []NodeHealth
	for _, n := range nodes {
		out = append(out, n.State.export(n.Streams))
	}
	return out
}

// Subscribe has f called with every report once it is recorded, until cancel
// is called; Streams is not set. Reports of one stream come in order, those of
// different streams concurrently. A slow f delays the stream's next reports,
// and that stream only; it may call the server's methods. A call that has
// begun may outlast cancel.
func (s *Server) Subscribe(f func(NodeHealth)) (cancel func()) { return s.subs.Add(f) }

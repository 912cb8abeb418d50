package route

import (
	"errors"
	"fmt"
	"math"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

const authorityID = header.Authority

// Target is where a request goes.
type Target struct {
	// Cluster is the cluster's name; "" when a header should have told it.
	Cluster string
	// Weighted is the entry of weighted_clusters that was picked, or nil.
	Weighted *WeightedEntry
}

// WeightedEntry is one of a route's weighted clusters.
type WeightedEntry struct {
	name     string
	byHeader string
	weight   uint64
	key      string // runtime key of the weight, or ""
	host     string
	request  mutation
	response mutation
	filters  perFilter
	criteria *subset.Criteria // with those of its route; nil without
}

// clusterChoice is how a route picks its cluster (RT-15).
type clusterChoice struct {
	name     string
	byHeader string
	weighted []WeightedEntry
	total    uint64
	runtime  func(string) (uint64, bool) // not nil if weights can change
	random   string                      // the header with the random number, or ""
}

func (b *builder) clusterChoice(path string, a *routev3.RouteAction, criteria *subset.Criteria) clusterChoice {
	switch s := a.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		b.cluster(path+".cluster", "cluster", s.Cluster)
		return clusterChoice{name: s.Cluster}
	case *routev3.RouteAction_ClusterHeader:
		if name := strings.TrimPrefix(s.ClusterHeader, ":"); !validName(name) || name == "" {
			b.fail(path+".cluster_header", fmt.Errorf("%q is no header name", s.ClusterHeader))
		}
		return clusterChoice{byHeader: headerName(s.ClusterHeader)}
	case *routev3.RouteAction_WeightedClusters:
		return b.weighted(path+".weighted_clusters", s.WeightedClusters, criteria)
	case nil:
		b.fail(path, errors.New("no cluster is given: write cluster, cluster_header or weighted_clusters"))
	}
	return clusterChoice{} // the others are refused by their names
}

func (b *builder) cluster(path, kind, name string) {
	if name == "" {
		b.fail(path, errors.New("the cluster's name is empty"))
		return
	}
	if b.env.ClusterExists == nil {
		return
	}
	if b.asked = append(b.asked, name); !b.env.ClusterExists(name) {
		b.fail(path, fmt.Errorf("route: unknown %s '%s'", kind, name))
	}
}

func (b *builder) weighted(path string, w *routev3.WeightedCluster, criteria *subset.Criteria) clusterChoice {
	b.only(path, w, "clusters", "total_weight", "runtime_key_prefix", "header_name")
	c := clusterChoice{random: headerName(w.GetHeaderName())}
	if w.GetRuntimeKeyPrefix() != "" {
		c.runtime = b.env.RuntimeInteger
	}
	for i, k := range w.GetClusters() {
		p := index(path+".clusters", i)
		b.only(p, k, "name", "cluster_header", "weight", "request_headers_to_add", "request_headers_to_remove",
			"response_headers_to_add", "response_headers_to_remove", "typed_per_filter_config", "host_rewrite_literal", "metadata_match")
		switch {
		case k.GetName() != "" && k.GetClusterHeader() != "":
			b.fail(p, errors.New("Only one of name or cluster_header can be specified")) //nolint:staticcheck // Envoy's text
		case k.GetName() == "" && k.GetClusterHeader() == "":
			b.fail(p, errors.New("At least one of name or cluster_header need to be specified")) //nolint:staticcheck // Envoy's text
		case k.GetWeight() == nil:
			b.fail(p+".weight", errors.New("it is missing"))
		case k.GetName() != "":
			b.cluster(p+".name", "weighted cluster", k.GetName())
		}
		e := WeightedEntry{
			name: k.GetName(), byHeader: headerName(k.GetClusterHeader()), weight: uint64(k.GetWeight().GetValue()), host: k.GetHostRewriteLiteral(),
			request:  b.mutation(p, requestHeaders, k.GetRequestHeadersToAdd(), k.GetRequestHeadersToRemove()),
			response: b.mutation(p, responseHeaders, k.GetResponseHeadersToAdd(), k.GetResponseHeadersToRemove()),
			filters:  b.perFilter(p+".typed_per_filter_config", k.GetTypedPerFilterConfig()),
			criteria: criteria.Merged(k.GetMetadataMatch()),
		}
		if w.GetRuntimeKeyPrefix() != "" {
			e.key = w.GetRuntimeKeyPrefix() + "." + k.GetName()
		}
		c.total += e.weight
		c.weighted = append(c.weighted, e)
	}
	b.totalWeight(path, w, c.total)
	return c
}

func (b *builder) totalWeight(path string, w *routev3.WeightedCluster, sum uint64) {
	switch {
	case len(w.GetClusters()) == 0:
		b.fail(path+".clusters", errors.New("there is none: write at least one"))
	case sum == 0:
		b.fail(path, errors.New("Sum of weights in the weighted_cluster must be greater than 0.")) //nolint:revive,staticcheck // Envoy's text
	case sum > math.MaxUint32:
		b.fail(path, fmt.Errorf("The sum of weights of all weighted clusters of route exceeds %d", uint32(math.MaxUint32))) //nolint:staticcheck // Envoy's text
	}
	if w.GetTotalWeight() != nil { //nolint:staticcheck // deprecated fields still work (RT-31)
		b.warn("deprecated and without effect: the sum of the weights counts", path+".total_weight")
	}
}

// PickCluster is where the request goes. The same request with the same random
// number goes to the same cluster. It does not allocate.
func (e *Entry) PickCluster(c *Context) Target {
	k := &e.clusters
	switch {
	case k.weighted != nil:
		w := k.pick(c)
		if w.byHeader != "" {
			return Target{c.Request.Get(w.byHeader), w}
		}
		return Target{w.name, w}
	case k.byHeader != "":
		return Target{Cluster: c.Request.Get(k.byHeader)}
	}
	return Target{Cluster: k.name}
}

func (k *clusterChoice) pick(c *Context) *WeightedEntry {
	random, total := c.Random, k.total
	if k.random != "" && c.Request.Count(k.random) == 1 {
		if n, ok := parseUint(c.Request.Get(k.random)); ok {
			random = n
		}
	}
	if k.runtime != nil {
		total = 0
		for i := range k.weighted {
			total += k.weight(i)
		}
		if total == 0 {
			return &k.weighted[0]
		}
	}
	left := random % total
	for i := range k.weighted {
		w := k.weight(i)
		if left < w {
			return &k.weighted[i]
		}
		left -= w
	}
	return &k.weighted[len(k.weighted)-1]
}

func (k *clusterChoice) weight(i int) uint64 {
	e := &k.weighted[i]
	if k.runtime != nil {
		if n, ok := k.runtime(e.key); ok {
			return n
		}
	}
	return e.weight
}

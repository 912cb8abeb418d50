package validate

import (
	"fmt"
	"math"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

func (c *checker) routeTable(v *routev3.RouteConfiguration) {
	names := map[string]int{}
	domains := map[string][2]int{}
	for i, h := range v.GetVirtualHosts() {
		if j, dup := names[h.GetName()]; !dup {
			names[h.GetName()] = i
		} else if h.GetName() != "" {
			c.doubt(codeDuplicateHost, fmt.Sprintf("virtual_hosts[%d].name", i),
				fmt.Sprintf("virtual_hosts[%d] and [%d] are both called %q", j, i, h.GetName()), "rename one of them")
		}
		for j, d := range h.GetDomains() {
			folded := strings.ToLower(d)
			other, dup := domains[folded]
			if !dup {
				domains[folded] = [2]int{i, j}
				continue
			}
			c.fault(codeDuplicateDomain, fmt.Sprintf("virtual_hosts[%d].domains[%d]", i, j),
				fmt.Sprintf("Only unique values for domains are permitted. Duplicate entry of domain %s, first in virtual_hosts[%d].domains[%d]",
					d, other[0], other[1]), "keep the domain in one virtual host")
		}
	}
	c.specifierPlugins(v)
}

// specifierPlugins checks that the plugins which routes name are defined.
func (c *checker) specifierPlugins(v *routev3.RouteConfiguration) {
	defined := map[string]bool{}
	for _, p := range v.GetClusterSpecifierPlugins() {
		defined[p.GetExtension().GetName()] = true
	}
	for i, h := range v.GetVirtualHosts() {
		for j, r := range h.GetRoutes() {
			name := r.GetRoute().GetClusterSpecifierPlugin()
			if name == "" || defined[name] {
				continue
			}
			c.fault(codeUnknownPlugin, fmt.Sprintf("virtual_hosts[%d].routes[%d].route.cluster_specifier_plugin", i, j),
				fmt.Sprintf("unknown cluster specifier plugin %q", name), "define it in cluster_specifier_plugins of the route table")
		}
	}
}

func (c *checker) routeAction(v *routev3.RouteAction) {
	var ways []string
	if v.GetPrefixRewrite() != "" {
		ways = append(ways, "prefix_rewrite")
	}
	if v.GetRegexRewrite() != nil {
		ways = append(ways, "regex_rewrite")
	}
	if v.GetPathRewritePolicy() != nil {
		ways = append(ways, "path_rewrite_policy")
	}
	if len(ways) > 1 {
		c.fault(codeRewriteConflict, ways[1], "Specify only one of prefix_rewrite, regex_rewrite or path_rewrite_policy; set are "+
			strings.Join(ways, " and "), "keep one of them")
	}
}

func (c *checker) weightedClusters(v *routev3.WeightedCluster) {
	var sum uint64
	for i, w := range v.GetClusters() {
		sum += uint64(w.GetWeight().GetValue())
		name, header := w.GetName() != "", w.GetClusterHeader() != ""
		path := fmt.Sprintf("clusters[%d]", i)
		switch {
		case !name && !header:
			c.fault(codeWeightedName, path, "At least one of name or cluster_header need to be specified", "set name")
		case name && header:
			c.fault(codeWeightedName, path, "Only one of name or cluster_header can be specified", "remove one of them")
		}
	}
	switch {
	case len(v.GetClusters()) == 0: // a declared rule says so already
	case sum == 0:
		c.fault(codeWeightedZero, "clusters", "Sum of weights in the weighted_cluster must be greater than 0.", "give at least one cluster a weight")
	case sum > math.MaxUint32:
		c.fault(codeWeightOverflow, "clusters", fmt.Sprintf("the weights add up to %d, more than %d", sum, uint32(math.MaxUint32)),
			"scale the weights down")
	}
}

func (c *checker) retryPolicy(v *routev3.RetryPolicy) {
	b := v.GetRetryBackOff()
	if b.GetBaseInterval() == nil || b.GetMaxInterval() == nil {
		return
	}
	if base, longest := b.GetBaseInterval().AsDuration(), b.GetMaxInterval().AsDuration(); longest < base {
		c.fault(codeRetryInterval, "retry_back_off.max_interval",
			fmt.Sprintf("retry_policy.max_interval (%v) must be greater than or equal to the base_interval (%v)", longest, base),
			"raise max_interval, or remove it")
	}
}

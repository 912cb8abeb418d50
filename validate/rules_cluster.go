package validate

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

func (c *checker) cluster(v *clusterv3.Cluster) {
	ring := v.GetRingHashLbConfig()
	if low, high := ring.GetMinimumRingSize(), ring.GetMaximumRingSize(); low != nil && high != nil && low.GetValue() > high.GetValue() {
		c.fault(codeRingSize, "ring_hash_lb_config.minimum_ring_size",
			fmt.Sprintf("ring hash: minimum_ring_size (%d) > maximum_ring_size (%d)", low.GetValue(), high.GetValue()), "swap the two")
	}
	if v.GetClusterType() != nil {
		return
	}
	if v.GetType() == clusterv3.Cluster_EDS {
		c.edsCluster(v)
		return
	}
	if v.GetEdsClusterConfig() != nil {
		c.fault(codeEDSConfigUnused, "eds_cluster_config", "eds_cluster_config set in a non-EDS cluster", "set type: EDS, or remove it")
	}
	switch v.GetType() {
	case clusterv3.Cluster_STATIC:
		c.literalAddresses("load_assignment", v.GetLoadAssignment())
	case clusterv3.Cluster_LOGICAL_DNS:
		c.logicalDNS(v.GetLoadAssignment())
	case clusterv3.Cluster_ORIGINAL_DST:
		c.originalDst(v)
	}
}

func (c *checker) edsCluster(v *clusterv3.Cluster) {
	source := v.GetEdsClusterConfig().GetEdsConfig()
	if source.GetConfigSourceSpecifier() == nil {
		c.fault(codeEDSWithoutConfig, "eds_cluster_config.eds_config", "a cluster of type EDS needs eds_cluster_config.eds_config",
			"set it, for instance to {ads: {}}")
	}
	if v.GetLoadAssignment() != nil {
		c.doubt(codeEDSWithAssignment, "load_assignment", "a cluster of type EDS gets its endpoints from EDS, not from load_assignment",
			"remove load_assignment, or set type to STATIC or STRICT_DNS")
	}
	if strings.HasPrefix(v.GetName(), "xdstp:") && v.GetEdsClusterConfig().GetServiceName() == "" {
		c.doubt(codeServiceNameMissing, "eds_cluster_config.service_name", "a cluster with an xdstp name needs a service_name for EDS",
			"set service_name to the name of the ClusterLoadAssignment")
	}
}

func (c *checker) logicalDNS(v *endpointv3.ClusterLoadAssignment) {
	if len(v.GetEndpoints()) == 1 && len(v.GetEndpoints()[0].GetLbEndpoints()) == 1 {
		return
	}
	c.fault(codeLogicalDNSEndpoints, "load_assignment", "LOGICAL_DNS clusters must have a single locality_lb_endpoint and a single lb_endpoint",
		"keep one endpoint, or set type to STRICT_DNS")
}

func (c *checker) originalDst(v *clusterv3.Cluster) {
	if v.GetLbPolicy() != clusterv3.Cluster_CLUSTER_PROVIDED && v.GetLoadBalancingPolicy() == nil {
		c.fault(codeOriginalDstPolicy, "lb_policy", fmt.Sprintf("LB policy %s is not valid for Cluster type ORIGINAL_DST", v.GetLbPolicy()),
			"set lb_policy: CLUSTER_PROVIDED")
	}
	if v.GetLoadAssignment() != nil {
		c.fault(codeOriginalDstAssigned, "load_assignment", "ORIGINAL_DST clusters must have no load assignment configured",
			"remove load_assignment")
	}
}

// assignment checks what holds for the endpoints of any cluster, and for the
// resource of EDS the addresses too: other clusters may resolve them.
func (c *checker) assignment(v *endpointv3.ClusterLoadAssignment) {
	if c.walker.Path() == "" {
		c.literalAddresses("", v)
	}
	c.priorities(v)
	c.localities(v)
	c.weights(v)
	c.duplicateEndpoints(v)
}

// literalAddresses requires IP addresses where nothing resolves names.
func (c *checker) literalAddresses(path string, v *endpointv3.ClusterLoadAssignment) {
	for i, l := range v.GetEndpoints() {
		for j, e := range l.GetLbEndpoints() {
			a := e.GetEndpoint().GetAddress().GetSocketAddress()
			if a == nil || a.GetAddress() == "" || a.GetResolverName() != "" {
				continue
			}
			if _, err := netip.ParseAddr(a.GetAddress()); err != nil {
				c.fault(codeAddressNotIP,
					joinPath(path, fmt.Sprintf("endpoints[%d].lb_endpoints[%d].endpoint.address.socket_address.address", i, j)),
					fmt.Sprintf("malformed IP address: %s", a.GetAddress()),
					"give an IP address, or make the cluster STRICT_DNS or LOGICAL_DNS with the endpoint in its load_assignment")
			}
		}
	}
}

// priorities finds the lowest number that the priorities leave out; further
// gaps follow from it.
func (c *checker) priorities(v *endpointv3.ClusterLoadAssignment) {
	first := map[uint32]int{}
	for i, l := range v.GetEndpoints() {
		if _, ok := first[l.GetPriority()]; !ok {
			first[l.GetPriority()] = i
		}
	}
	for want, p := range slices.Sorted(maps.Keys(first)) {
		if p == uint32(want) {
			continue
		}
		c.doubt(codePriorityGap, fmt.Sprintf("endpoints[%d].priority", first[p]),
			fmt.Sprintf("no locality has priority %d, but one has %d; gRPC clients reject this", want, p), "number priorities from 0 without leaving one out")
		return
	}
}

type localityKey struct {
	region, zone, subZone string
	priority              uint32
}

func keyOf(l *endpointv3.LocalityLbEndpoints) localityKey {
	at := l.GetLocality()
	return localityKey{at.GetRegion(), at.GetZone(), at.GetSubZone(), l.GetPriority()}
}

func (c *checker) localities(v *endpointv3.ClusterLoadAssignment) {
	first := map[localityKey]int{}
	for i, l := range v.GetEndpoints() {
		j, dup := first[keyOf(l)]
		if !dup {
			first[keyOf(l)] = i
			continue
		}
		if l.GetLocality() == nil {
			continue // Envoy's clients use groups without a locality freely
		}
		c.doubt(codeDuplicateLocality, fmt.Sprintf("endpoints[%d].locality", i),
			fmt.Sprintf("endpoints[%d] and [%d] have the same locality and priority", j, i), "put their endpoints into one group")
	}
}

func (c *checker) weights(v *endpointv3.ClusterLoadAssignment) {
	sums := map[uint32]uint64{}
	for i, l := range v.GetEndpoints() {
		before := sums[l.GetPriority()]
		sums[l.GetPriority()] += uint64(l.GetLoadBalancingWeight().GetValue())
		if before <= math.MaxUint32 && sums[l.GetPriority()] > math.MaxUint32 {
			c.fault(codeWeightOverflow, fmt.Sprintf("endpoints[%d].load_balancing_weight", i),
				fmt.Sprintf("the weights of the localities of priority %d add up to more than %d", l.GetPriority(), uint32(math.MaxUint32)),
				"scale the weights down")
		}
		var sum uint64
		for _, e := range l.GetLbEndpoints() {
			sum += uint64(e.GetLoadBalancingWeight().GetValue())
		}
		if sum > math.MaxUint32 {
			c.fault(codeWeightOverflow, fmt.Sprintf("endpoints[%d].lb_endpoints", i),
				fmt.Sprintf("the weights of the endpoints add up to %d, more than %d", sum, uint32(math.MaxUint32)), "scale the weights down")
		}
	}
}

func (c *checker) duplicateEndpoints(v *endpointv3.ClusterLoadAssignment) {
	type address struct {
		host, name string
		port       uint32
		protocol   corev3.SocketAddress_Protocol
	}
	seen := map[address][2]int{}
	for i, l := range v.GetEndpoints() {
		for j, e := range l.GetLbEndpoints() {
			a := e.GetEndpoint().GetAddress().GetSocketAddress()
			if a == nil {
				continue
			}
			k := address{a.GetAddress(), a.GetNamedPort(), a.GetPortValue(), a.GetProtocol()}
			other, dup := seen[k]
			if !dup {
				seen[k] = [2]int{i, j}
				continue
			}
			c.doubt(codeDuplicateEndpoint, fmt.Sprintf("endpoints[%d].lb_endpoints[%d]", i, j),
				fmt.Sprintf("%s:%d is also the address of endpoints[%d].lb_endpoints[%d]", k.host, k.port, other[0], other[1]),
				"list each address once and give it a weight")
		}
	}
}

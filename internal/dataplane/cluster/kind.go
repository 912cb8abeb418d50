package cluster

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
)

// kind is how a cluster finds its hosts.
type kind uint8

const (
	kindStatic kind = iota
	kindStrictDNS
	kindLogicalDNS
	kindEDS
)

func (k kind) String() string {
	switch k {
	case kindStrictDNS:
		return "STRICT_DNS"
	case kindLogicalDNS:
		return "LOGICAL_DNS"
	case kindEDS:
		return "EDS"
	default:
		return "STATIC"
	}
}

const dnsClusterType = "envoy.extensions.clusters.dns.v3.DnsCluster"

// discovery reads type or cluster_type (CM-01). dns is the typed configuration
// of a DNS cluster, if there is one.
func discovery(c *clusterv3.Cluster) (k kind, dns *dnsv3.DnsCluster, err error) {
	custom := c.GetClusterType()
	if custom == nil {
		switch c.GetType() {
		case clusterv3.Cluster_STATIC:
			return kindStatic, nil, nil
		case clusterv3.Cluster_STRICT_DNS:
			return kindStrictDNS, nil, nil
		case clusterv3.Cluster_LOGICAL_DNS:
			return kindLogicalDNS, nil, nil
		case clusterv3.Cluster_EDS:
			return kindEDS, nil, nil
		default:
			return 0, nil, fmt.Errorf("type: %s is known but not built; use STATIC, STRICT_DNS, LOGICAL_DNS or EDS", c.GetType())
		}
	}
	if custom.GetTypedConfig().MessageName() == dnsClusterType {
		dns = &dnsv3.DnsCluster{}
		if err := unpack(custom.GetTypedConfig(), dns); err != nil {
			return 0, nil, fmt.Errorf("cluster_type.%w", err)
		}
	}
	k, err = customKind(custom.GetName(), dns)
	if err == nil && dns == nil && custom.GetTypedConfig() != nil {
		err = fmt.Errorf("cluster_type.typed_config: %s is not what %s takes; remove it", custom.GetTypedConfig().MessageName(), custom.GetName())
	}
	return k, dns, err
}

// customKind finds the kind by the type of the configuration or, without one,
// by the name. Proven on Envoy: envoy.cluster.logical_dns with a DnsCluster that
// does not say all_addresses_in_single_endpoint is STRICT_DNS.
func customKind(name string, dns *dnsv3.DnsCluster) (kind, error) {
	if dns.GetAllAddressesInSingleEndpoint() {
		return kindLogicalDNS, nil
	}
	if dns != nil {
		return kindStrictDNS, nil
	}
	switch name {
	case "envoy.cluster.static":
		return kindStatic, nil
	case "envoy.cluster.strict_dns", "envoy.cluster.dns":
		return kindStrictDNS, nil
	case "envoy.cluster.logical_dns":
		return kindLogicalDNS, nil
	case edsClusterType:
		return kindEDS, nil
	case "envoy.cluster.original_dst", "envoy.clusters.aggregate", "envoy.clusters.dynamic_forward_proxy",
		"envoy.clusters.redis", "envoy.clusters.composite", "envoy.clusters.reverse_connection", "envoy.clusters.dynamic_modules",
		"envoy.clusters.mcp_multicluster":
		return 0, fmt.Errorf("cluster_type.name: %s is known but not built", name)
	}
	return 0, fmt.Errorf("cluster_type.name: Didn't find a registered cluster factory implementation for name: '%s'", name)
}

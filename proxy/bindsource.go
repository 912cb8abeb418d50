package proxy

import (
	"errors"
	"fmt"
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// sourceOf is what connections to a cluster's hosts come from: the source_address of
// its upstream_bind_config, or, without one, of cluster_manager's (BS-40). The zero
// value leaves it to the system.
func (p *Proxy) sourceOf(c *clusterv3.Cluster) (netip.AddrPort, error) {
	b, path := c.GetUpstreamBindConfig(), "upstream_bind_config"
	if b == nil {
		b, path = p.cfg.GetClusterManager().GetUpstreamBindConfig(), "cluster_manager.upstream_bind_config"
	}
	if err := plainBind(b); err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s.%w", path, err)
	}
	a := b.GetSourceAddress()
	if a == nil {
		return netip.AddrPort{}, nil
	}
	ip, err := netip.ParseAddr(a.GetAddress())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s.source_address: malformed IP address: %s", path, a.GetAddress())
	}
	if _, numeric := a.GetPortSpecifier().(*corev3.SocketAddress_PortValue); !numeric {
		return netip.AddrPort{}, fmt.Errorf("%s.source_address: IP resolver can't handle port specifier type 4", path)
	}
	return netip.AddrPortFrom(ip, uint16(a.GetPortValue())), nil //nolint:gosec // 65535 at most: it was checked
}

// plainBind refuses what is known of a BindConfig and not built.
func plainBind(b *corev3.BindConfig) error {
	const unbuilt = ": known but not built; remove it"
	switch a := b.GetSourceAddress(); {
	case b.GetFreebind() != nil:
		return errors.New("freebind" + unbuilt)
	case len(b.GetSocketOptions()) > 0:
		return errors.New("socket_options" + unbuilt)
	case len(b.GetExtraSourceAddresses()) > 0:
		return errors.New("extra_source_addresses" + unbuilt)
	case len(b.GetAdditionalSourceAddresses()) > 0: //nolint:staticcheck // deprecated fields are refused like the others
		return errors.New("additional_source_addresses" + unbuilt)
	case b.GetLocalAddressSelector() != nil:
		return errors.New("local_address_selector" + unbuilt)
	case a.GetResolverName() != "":
		return fmt.Errorf("source_address: Unknown address resolver: %s", a.GetResolverName())
	case a.GetIpv4Compat():
		return errors.New("source_address.ipv4_compat" + unbuilt)
	case a.GetNetworkNamespaceFilepath() != "":
		return errors.New("source_address.network_namespace_filepath" + unbuilt)
	}
	return nil
}

// checkLocalCluster refuses a local_cluster_name that is none of the clusters of the
// bootstrap (BS-40). What follows from one, zone aware routing, clusters refuse.
func (p *Proxy) checkLocalCluster() error {
	name := p.cfg.GetClusterManager().GetLocalClusterName()
	if name == "" || p.res.clusters[name] != nil {
		return nil
	}
	return fmt.Errorf("cluster_manager.local_cluster_name: local cluster '%s' must be defined", name)
}

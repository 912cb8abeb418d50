package main

import (
	"fmt"
	"net/netip"
	"strings"
)

// liveBootstrap is that of a proxy that gets everything from one stream.
func liveBootstrap(admin, xds netip.AddrPort) string {
	return fmt.Sprintf(`node: {id: bench, cluster: bench}
admin: {address: {socket_address: {address: %s, port_value: %d}}}
dynamic_resources:
  ads_config: {api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: xds, endpoints: [{lb_endpoints: [%s]}]}
`, admin.Addr(), admin.Port(), liveEndpoint(xds, 1))
}

func liveEndpoint(at netip.AddrPort, weight int) string {
	return fmt.Sprintf("{endpoint: {address: {socket_address: {address: %s, port_value: %d}}}, load_balancing_weight: %d", at.Addr(), at.Port(), weight) + "}"
}

// mark is what the nth change leaves in its resource.
func mark(n int) string { return fmt.Sprintf("change-%d", n) }

// liveKinds make the resources of each kind, by number.
func liveKinds() map[string]func(l *live, n int) string {
	return map[string]func(*live, int) string{"listener": liveListener, "routes": liveRoutes, "cluster": liveCluster, "endpoints": liveAssignment}
}

func liveListener(l *live, n int) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: l%d
address: {socket_address: {address: %s, port_value: %d}}
filter_chains:
- filters:
  - name: hcm
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: l%d
      use_remote_address: true
      rds: {route_config_name: r%d, config_source: {ads: {}, resource_api_version: V3}}
      http_filters:
      - name: envoy.filters.http.router
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`, n, l.listeners[n].Addr(), l.listeners[n].Port(), n, n)
}

// liveRoutes are a table that leads to all clusters alike. The table is another
// after each change.
func liveRoutes(l *live, n int) string {
	var to []string
	for c := range liveTables {
		to = append(to, fmt.Sprintf("{name: c%d, weight: 5}", c))
	}
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: r%d
virtual_hosts:
- name: all
  domains: ["*"]
  routes:
  - match: {prefix: /%s}
    direct_response: {status: 404}
  - match: {prefix: /}
    name: %s
    route: {weighted_clusters: {clusters: [%s]}}
`, n, mark(l.changes), mark(l.changes), strings.Join(to, ", "))
}

func liveCluster(l *live, n int) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: c%d
type: EDS
connect_timeout: 5s
eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}, service_name: e%d}
metadata: {filter_metadata: {bench: {change: %s}}}
`, n, n, mark(l.changes))
}

// liveAssignment has both upstreams, with other weights after each change.
func liveAssignment(l *live, n int) string {
	metadata := fmt.Sprintf(", metadata: {filter_metadata: {bench: {change: %s}}}}", mark(l.changes))
	first := strings.TrimSuffix(liveEndpoint(l.upstream.A1, 1+l.changes%5), "}") + metadata
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: e%d
endpoints: [{locality: {region: here}, lb_endpoints: [%s, %s]}]
`, n, first, liveEndpoint(l.upstream.B1, 1+l.changes%3))
}

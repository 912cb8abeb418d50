package main

import (
	"fmt"
	"net/netip"
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
    load_assignment:
      cluster_name: xds
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %d}}}}]}]
`, admin.Addr(), admin.Port(), xds.Addr(), xds.Port())
}

// mark is what the nth change leaves in its resource.
func mark(n int) string { return fmt.Sprintf("change-%d", n) }

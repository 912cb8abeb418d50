package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxEndpoints is how many addresses a cluster has of its own.
const maxEndpoints = 200

func clusterName(i int) string { return fmt.Sprintf("svc-%05d", i) }

// writeResources writes what the management server serves. The first cluster's
// assignment is in a file of its own, to be changed.
func writeResources(dir string, clusters, endpoints int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var cds, eds strings.Builder
	cds.WriteString("resources:\n")
	eds.WriteString("resources:\n")
	for i := range clusters {
		fmt.Fprintf(&cds, `- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: %s
  type: EDS
  connect_timeout: 1s
  eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}
`, clusterName(i))
		if i > 0 {
			eds.WriteString("- " + assignment(i, endpoints, 0) + "\n")
		}
	}
	err := os.WriteFile(filepath.Join(dir, "clusters.yaml"), []byte(cds.String()), 0o600)
	if err == nil && clusters > 1 {
		err = os.WriteFile(filepath.Join(dir, "endpoints.yaml"), []byte(eds.String()), 0o600)
	}
	if err != nil {
		return err
	}
	return change(dir, endpoints, 0)
}

// assignment has the endpoints of a cluster; n is how often the last of them has
// changed.
func assignment(i, endpoints, n int) string {
	var list []string
	for j := range endpoints {
		host, port := fmt.Sprintf("10.%d.%d.%d", i>>8&255, i&255, j), 80
		if j == endpoints-1 {
			port += n
		}
		list = append(list, fmt.Sprintf("{endpoint: {address: {socket_address: {address: %s, port_value: %d}}}}", host, port))
	}
	return fmt.Sprintf(`{"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: %s, endpoints: [{lb_endpoints: [%s]}]}`,
		clusterName(i), strings.Join(list, ", "))
}

// change replaces the first cluster's assignment.
func change(dir string, endpoints, n int) error {
	tmp := filepath.Join(dir, ".one.tmp")
	if err := os.WriteFile(tmp, []byte(assignment(0, endpoints, n)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, "one.yaml"))
}

// bootstrap is what both proxies start with.
func bootstrap(server, admin string) (string, error) {
	host, port, ok := strings.Cut(server, ":")
	adminHost, adminPort, ok2 := strings.Cut(admin, ":")
	if !ok || !ok2 {
		return "", fmt.Errorf("addresses %q and %q: host:port is needed", server, admin)
	}
	return fmt.Sprintf(`node: {id: scale, cluster: scale}
admin: {address: {socket_address: {address: %s, port_value: %s}}}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services: [{envoy_grpc: {cluster_name: management}}]
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: management
    type: STATIC
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: management
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]
`, adminHost, adminPort, host, port), nil
}

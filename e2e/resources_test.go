//go:build interop

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// directory is what a server under test reads.
type directory struct {
	path string
}

// write replaces a file by rename, so that no reader sees a part of it. Several
// documents become one file and so one change set.
func (d directory) write(t *testing.T, name string, documents ...string) {
	t.Helper()
	path := filepath.Join(d.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte(strings.Join(documents, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// remove deletes a file.
func (d directory) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.path, name)); err != nil {
		t.Fatal(err)
	}
}

const (
	httpName   = "http"
	httpsName  = "https"
	routeName  = "routes"
	secretName = "server-certificate"
)

// rds has an HTTP connection manager fetch its routes.
func rds(source string) string {
	return fmt.Sprintf("rds: {route_config_name: %s, config_source: %s}", routeName, source)
}

// connectionManager is an HTTP connection manager with a source of routes, and
// HTTP filters before the router.
func connectionManager(prefix, routing string, filters ...string) string {
	router := `{name: envoy.filters.http.router,
      typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}`
	return fmt.Sprintf(`{
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
    stat_prefix: %s,
    %s,
    http_filters: [%s]}`, prefix, routing, strings.Join(append(filters, router), ",\n      "))
}

// filterChain is a chain that ends in an HTTP connection manager.
func filterChain(manager string) string {
	return fmt.Sprintf(`filters: [{name: envoy.filters.network.http_connection_manager,
    typed_config: %s}]`, manager)
}

// listenerFor listens for what an HTTP connection manager takes.
func listenerFor(name string, port int, manager string) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: %s
address: {socket_address: {address: 127.0.0.1, port_value: %d}}
filter_chains:
- %s
`, name, port, filterChain(manager))
}

// listener is a listener for plain HTTP.
func listener(port int, source string) string {
	return listenerFor(httpName, port, connectionManager(httpName, rds(source)))
}

// tlsListener is a listener for HTTPS that fetches its certificate.
func tlsListener(port int, source string) string {
	return listenerFor(httpsName, port, connectionManager(httpsName, rds(source))) + fmt.Sprintf(`  transport_socket:
    name: envoy.transport_sockets.tls
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
      common_tls_context:
        tls_certificate_sds_secret_configs: [{name: %s, sds_config: %s}]
`, secretName, source)
}

// apiListener is the Listener resource that a gRPC client asks for.
func apiListener(name, source string) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: %s
api_listener:
  api_listener: %s
`, name, connectionManager(name, rds(source)))
}

// routes sends every request to one cluster.
func routes(cluster string) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: %s
virtual_hosts:
- name: all
  domains: ["*"]
  routes: [{match: {prefix: "/"}, route: {cluster: %s}}]
`, routeName, cluster)
}

// cluster fetches its endpoints by its own name.
func cluster(name, source string, connectTimeout time.Duration) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: %s
type: EDS
connect_timeout: %gs
eds_cluster_config: {eds_config: %s}
`, name, connectTimeout.Seconds(), source)
}

// endpoints are loopback ports in one locality.
func endpoints(cluster string, ports ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: %s
endpoints:
- locality: {region: here}
  load_balancing_weight: 1
  lb_endpoints:
`, cluster)
	for _, port := range ports {
		fmt.Fprintf(&b, "  - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}\n", port)
	}
	return b.String()
}

// secret is a certificate with its key, in PEM.
func secret(certificate, key string) string {
	indent := func(pem string) string { return strings.ReplaceAll(strings.TrimSpace(pem), "\n", "\n      ") }
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
name: %s
tls_certificate:
  certificate_chain:
    inline_string: |
      %s
  private_key:
    inline_string: |
      %s
`, secretName, indent(certificate), indent(key))
}

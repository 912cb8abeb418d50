//go:build interop

package proxy

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// cluster is a cluster of a test's bootstrap, and the route to it: the path
// /NAME or below.
type cluster struct {
	name  string
	ports []int
	http2 bool
	more  string // fields of the cluster, as YAML's flow mappings have them
	route string // fields of the route action
}

// bootstrap describes a test's proxy: its listeners h1, h2 and tls offer the
// same routes in cleartext HTTP/1, in cleartext HTTP/2 and over TLS.
type bootstrap struct {
	h1, h2, tls int // ports; 0 leaves a listener out
	clusters    []cluster
	log         string // access log
	format      string
	manager     string // fields of the connection managers
	listener    string // fields of the listeners
	more        string // fields of the bootstrap
}

// ports chooses the ports of the listeners.
func (b *bootstrap) ports(t testing.TB) *bootstrap {
	b.h1, b.h2, b.tls = harness.FreePort(t), harness.FreePort(t), harness.FreePort(t)
	return b
}

const apiTypes = "type.googleapis.com/envoy.extensions."

func (b *bootstrap) yaml() string {
	var out strings.Builder
	out.WriteString("static_resources:\n  listeners:\n")
	for _, l := range []struct {
		name, codec string
		port        int
	}{{"h1", "HTTP1", b.h1}, {"h2", "HTTP2", b.h2}, {"tls", "AUTO", b.tls}} {
		if l.port == 0 {
			continue
		}
		fmt.Fprintf(&out, "  - {name: %s, address: %s, filter_chains: [{%s filters: [%s]}]%s}\n",
			l.name, address(l.port), b.transport(l.name), b.filter(l.name, l.codec), comma(b.listener))
	}
	out.WriteString("  clusters:\n")
	for i := range b.clusters {
		out.WriteString("  - " + b.clusters[i].yaml() + "\n")
	}
	return out.String() + b.more
}

func comma(fields string) string {
	if fields == "" {
		return ""
	}
	return ", " + fields
}

func address(port int) string {
	return fmt.Sprintf("{socket_address: {address: 127.0.0.1, port_value: %d}}", port)
}

func (b *bootstrap) transport(listener string) string {
	if listener != "tls" {
		return ""
	}
	return fmt.Sprintf(`transport_socket: {name: tls, typed_config: {"@type": %stransport_sockets.tls.v3.DownstreamTlsContext, common_tls_context: {`+
		`alpn_protocols: [h2, http/1.1], tls_certificates: [{certificate_chain: {filename: %q}, private_key: {filename: %q}}]}}},`,
		apiTypes, filepath.Join(certificates, "server.pem"), filepath.Join(certificates, "server-key.pem"))
}

func (b *bootstrap) filter(listener, codec string) string {
	var routes []string
	for _, c := range b.clusters {
		routes = append(routes, fmt.Sprintf("{match: {path_separated_prefix: /%s}, route: {cluster: %s%s}}", c.name, c.name, comma(c.route)))
	}
	logs := ""
	if b.log != "" {
		logs = fmt.Sprintf(`access_log: [{name: file, typed_config: {"@type": %saccess_loggers.file.v3.FileAccessLog, path: %q, `+
			`log_format: {text_format_source: {inline_string: %q}}}}],`, apiTypes, b.log, b.format)
	}
	return fmt.Sprintf(`{name: hcm, typed_config: {"@type": %sfilters.network.http_connection_manager.v3.HttpConnectionManager, `+
		`stat_prefix: %s, codec_type: %s, %s http_filters: [{name: router, typed_config: {"@type": %sfilters.http.router.v3.Router}}], `+
		`route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [%s]}]}%s}}`,
		apiTypes, listener, codec, logs, apiTypes, strings.Join(routes, ", "), comma(b.manager))
}

func (c *cluster) yaml() string {
	var hosts []string
	for _, port := range c.ports {
		hosts = append(hosts, fmt.Sprintf("{endpoint: {address: %s}}", address(port)))
	}
	protocol := "http_protocol_options"
	if c.http2 {
		protocol = "http2_protocol_options"
	}
	// Connections that nobody uses end soon, so that a test can wait until the
	// proxy has nothing left.
	options := fmt.Sprintf(`, typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: `+
		`{"@type": %supstreams.http.v3.HttpProtocolOptions, explicit_http_config: {%s: {}}, common_http_protocol_options: {idle_timeout: 1s}}}`,
		apiTypes, protocol)
	return fmt.Sprintf("{name: %s, connect_timeout: 2s, load_assignment: {cluster_name: %s, endpoints: [{lb_endpoints: [%s]}]}%s%s}",
		c.name, c.name, strings.Join(hosts, ", "), options, comma(c.more))
}

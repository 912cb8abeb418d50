//go:build interop

package living

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// silentServer is a management server that nobody has started.
const silentServer = `node: {id: living, cluster: living}
dynamic_resources:
  ads_config: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: xds, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]}
`

const stuckCluster = `  - name: web
    type: EDS
    eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}}
`

const stuckListener = `  listeners:
  - name: front
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          rds: {route_config_name: main, config_source: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}}
          http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
      transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificate_sds_secret_configs: [{name: cert, sds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}}]
`

// The pages for each mask, of proxies whose endpoints, or routes and certificate,
// never come, are those of Envoy, but for the order and for the number that tells
// versions of a listener apart. Proves AD-09.
func TestInitDumpSameAsEnvoy(t *testing.T) {
	for name, stuck := range map[string]string{"endpoints": stuckCluster, "routes": stuckListener} {
		t.Run(name, func(t *testing.T) {
			bootstrap := fmt.Sprintf(silentServer, harness.FreePort(t)) + stuck
			ours, theirs := startXebec(t, bootstrap), startProxy(t, "envoy", bootstrap, envoyBinary)
			for _, p := range []*proxy{ours, theirs} {
				harness.Eventually(t, 30*time.Second, p.Name+" waits", func() error {
					p.Check(t)
					page, err := p.Page("/init_dump")
					if err == nil && name == "routes" && !strings.Contains(page, "RDS init main") {
						err = fmt.Errorf("%s", page)
					}
					return err
				})
			}
			if got, want := waitState(ours), waitState(theirs); got != want {
				t.Errorf("/ready says %q, Envoy's %q", got, want)
			}
			for _, query := range []string{"", "?mask=", "?mask=listener", "?mask=cluster", "?mask=listener,cluster", "?mask=nosuch"} {
				if got, want := waits(t, ours, query), waits(t, theirs, query); got != want {
					t.Errorf("/init_dump%s:\n%s\nEnvoy's:\n%s", query, got, want)
				}
			}
		})
	}
}

// waitState is what /ready says of a proxy that is not ready.
func waitState(p *proxy) string {
	page, _ := p.Page("/ready") // 503 is what is expected
	return page
}

var versionNumber = regexp.MustCompile(` \d+$`)

// waits is /init_dump in an order, and without numbers.
func waits(t *testing.T, p *proxy, query string) string {
	t.Helper()
	page, err := p.Page("/init_dump" + query)
	if err != nil {
		t.Fatal(err)
	}
	var d adminv3.UnreadyTargetsDumps
	if err := protojson.Unmarshal([]byte(page), &d); err != nil {
		t.Fatalf("%v: %s", err, page)
	}
	var lines []string
	for _, u := range d.GetUnreadyTargetsDumps() {
		names := slices.Sorted(slices.Values(u.GetTargetNames()))
		lines = append(lines, versionNumber.ReplaceAllString(u.GetName(), "")+": "+strings.Join(names, ", "))
	}
	return strings.Join(lines, "\n")
}

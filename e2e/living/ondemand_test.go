//go:build interop

package living

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// demanding is a listener whose virtual hosts and clusters are discovered when
// requests need them: listener port, access log, and server port.
const demanding = `node: {id: node-1, cluster: c}
static_resources:
  listeners:
  - name: l
    address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          access_log:
          - name: log
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: %s
              log_format: {text_format_source: {inline_string: "%%REQ(:METHOD)%% %%REQ(:AUTHORITY)%% %%RESPONSE_CODE%% %%RESPONSE_FLAGS%% %%RESPONSE_CODE_DETAILS%% %%BYTES_RECEIVED%% %%UPSTREAM_CLUSTER%% %%ROUTE_NAME%% %%UPSTREAM_REQUEST_ATTEMPT_COUNT%%\n"}}
          rds: {route_config_name: rc, config_source: &here {resource_api_version: V3, initial_fetch_timeout: 2s, api_config_source: {api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}}}
          http_filters:
          - name: marked
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
              mutations: {request_mutations: [{append: {header: {key: x-mark, value: once}}}]}
          - name: on_demand
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand, odcds: {source: *here, timeout: 10s}}
          - name: after
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
              mutations: {request_mutations: [{append: {header: {key: x-mark, value: after}}}]}
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: xds
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: xds, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]}
`

const demandedRoutes = `"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: rc
vhds: {config_source: {resource_api_version: V3, initial_fetch_timeout: 2s, api_config_source: {api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}}}
virtual_hosts:
- name: own
  domains: [own.example]
  routes: [{name: own, match: {prefix: /}, direct_response: {status: 200, body: {inline_string: %s}}}]
`

func demandedHost(name, cluster string, domains ...string) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
name: rc/%s
domains: [%s]
routes: [{name: %s, match: {prefix: /}, route: {cluster: %s}}]
`, name, strings.Join(domains, ", "), name, cluster)
}

// playDemand asks a proxy for hosts and clusters that it does not know, and tells what
// it answered, logged and counted.
func playDemand(t *testing.T, name string, start func(testing.TB, string) *proxy) string {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %d %q", r.Host, n, r.Header.Values("X-Mark"))
	}))
	t.Cleanup(backend.Close)
	_, backendPort, _ := strings.Cut(backend.Listener.Addr().String(), ":")
	d := newDirectory(t)
	put := func(file, text string) {
		err := os.WriteFile(filepath.Join(d.temp, file), []byte(text), 0o600)
		if err == nil {
			err = os.Rename(filepath.Join(d.temp, file), filepath.Join(d.path, file))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("routes.yaml", fmt.Sprintf(demandedRoutes, "own"))
	put("cluster.yaml", fmt.Sprintf(`{"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: found, load_assignment: {cluster_name: found, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]}}`, backendPort))
	put("one.yaml", demandedHost("one", "found", "one.example", "'*.one.example'"))
	put("fresh.yaml", demandedHost("fresh", "found", "fresh.example")+"typed_per_filter_config: {marked: {'@type': type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}, after: {'@type': type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}}\n")
	put("lost.yaml", demandedHost("lost", "lost", "lost.example"))
	s := newServer(t, d.path)
	s.start(t)
	port, log := harness.FreePort(t), filepath.Join(t.TempDir(), "access.log")
	p := start(t, fmt.Sprintf(demanding, port, log, s.xds))
	p.live(t)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	client := &http.Client{Transport: tr, Timeout: 20 * time.Second}
	var told []string
	ask := func(method, host, body string) string {
		q, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d/", port), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Host = host
		resp, err := client.Do(q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return fmt.Sprintf("%d %s %v", resp.StatusCode, b, err)
	}
	tell := func(method, host, body string) { told = append(told, host+": "+ask(method, host, body)) }
	tell(http.MethodGet, "own.example", "")
	tell(http.MethodPost, "one.example", strings.Repeat("x", 3<<20)) // the host, with a body
	tell(http.MethodGet, "Fresh.Example", "")                        // the route turns filters off, too late
	tell(http.MethodGet, "A.One.Example", "")
	tell(http.MethodGet, "a.one.example:80", "")
	tell(http.MethodGet, "none.example", "")
	tell(http.MethodGet, "none.example", "")
	tell(http.MethodGet, "lost.example", "")
	put("none.yaml", demandedHost("none", "found", "none.example"))
	becomes := func(host, want string) {
		harness.Eventually(t, 20*time.Second, want, func() error {
			if got := ask(http.MethodHead, host, ""); !strings.HasPrefix(got, want) {
				return fmt.Errorf("%s: it is %q", name, got)
			}
			return nil
		})
	}
	becomes("none.example", "200")
	tell(http.MethodGet, "none.example", "")
	put("routes.yaml", strings.Replace(fmt.Sprintf(demandedRoutes, "changed"), "own.example]", "own.example, new.example]", 1))
	becomes("new.example", "200")
	tell(http.MethodGet, "own.example", "")
	tell(http.MethodGet, "none.example", "")
	return strings.Join(append(told, demandLog(t, log, len(told))...), "\n")
}

// demandLog are the lines of an access log but those of HEAD, when all are there.
func demandLog(t *testing.T, path string, n int) (lines []string) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, "the access log", func() error {
		b, err := os.ReadFile(path)
		lines = slices.DeleteFunc(strings.Split(strings.TrimSpace(string(b)), "\n"), func(l string) bool { return strings.HasPrefix(l, "HEAD ") })
		if err == nil && len(lines) < n {
			err = fmt.Errorf("it has %d lines of %d", len(lines), n)
		}
		return err
	})
	slices.Sort(lines) // those of several workers come as they come
	return lines
}

// TestOnDemandSameAsEnvoy asks Envoy and the proxy for hosts and clusters that
// they learn of from the same files when they are asked: they answer and log the
// same.
// Partly proves RT-12, HF-38, CM-33, XN-27.
func TestOnDemandSameAsEnvoy(t *testing.T) {
	t.Parallel()
	want := playDemand(t, "Envoy", startEnvoy)
	got := playDemand(t, "Xebec", startXebec)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-Envoy +Xebec):\n%s", diff)
	}
	t.Log(got)
}

//go:build interop

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// polled is the ConfigSource of what Envoy polls for.
const polled = `{"resource_api_version": "V3", "api_config_source": {"api_type": "REST", "transport_api_version": "V3",` +
	` "cluster_names": ["` + xdsCluster + `"], "refresh_delay": "0.2s"}}`

// pollingBootstrap has Envoy poll for listeners and clusters.
func (s *server) pollingBootstrap(protocol string) []byte {
	return fmt.Appendf(nil, `node: {id: %s, cluster: e2e}
dynamic_resources: {lds_config: %s, cds_config: %s}
static_resources:
  clusters:
  - name: %s
    type: STATIC
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {%s: {}}
    load_assignment:
      cluster_name: %s
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]
`, nodeID, polled, polled, xdsCluster, protocol, xdsCluster, s.xds[len("127.0.0.1:"):])
}

// TestEnvoyPolls has Envoy poll over REST for listeners, routes, clusters and
// endpoints, by both versions of HTTP and with and without a hold: what is there
// arrives, then each edit, one that it rejects does no harm, and removals.
// Partly proves XR-01, XR-02, XR-03, XR-04, XR-09.
func TestEnvoyPolls(t *testing.T) {
	for _, tt := range []struct {
		name, protocol string
		flags          []string
	}{
		{name: "HTTP1", protocol: "http_protocol_options"},
		{name: "HTTP2", protocol: "http2_protocol_options"},
		{name: "HTTP1-hold", protocol: "http_protocol_options", flags: []string{"--rest-hold", "700ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := setScene(t, variant{}, tt.flags...)
			s.source = polled
			s.write(t, "listeners.yaml", listener(s.port, polled))
			s.write(t, "endpoints-red.yaml", endpoints("red", s.a))
			s.write(t, "clusters-red.yaml", cluster("red", polled, connectTimeout))
			s.write(t, "routes.yaml", routes("red"))
			s.envoy = startEnvoy(t, s.pollingBootstrap(tt.protocol))
			s.envoy.ready(t)
			answers(t, s.url, "a")
			s.polledAndSynced(t)

			t.Log("edit of endpoints: served after", s.edit(t, "endpoints-red.yaml", "b", endpoints("red", s.b)))
			s.write(t, "more.yaml", cluster("blue", polled, connectTimeout), endpoints("blue", s.a))
			t.Log("edit of routes: served after", s.edit(t, "routes.yaml", "a", routes("blue")))
			if n := s.rejected(t); n != 0 {
				t.Errorf("Envoy rejected %d updates: %v", n, s.envoy.Stats(t, "update_rejected$"))
			}
			s.pollsThroughARejection(t)

			s.write(t, "listeners.yaml", "")
			client := newClient(t, nil)
			harness.Eventually(t, 10*time.Second, "the listener that left its file is closed", func() error {
				if answer, err := get(t.Context(), client, s.url); err == nil {
					return fmt.Errorf("answered by %s", answer)
				}
				return nil
			})
		})
	}
}

// polledAndSynced checks that status shows the polls, and that a poll that finds
// nothing new changes nothing.
func (s *scene) polledAndSynced(t *testing.T) {
	t.Helper()
	s.allSynced(t)
	kinds := map[string]bool{}
	for _, c := range s.status(t) {
		if c.Node != nodeID || c.Variant != "rest" || c.ADS {
			t.Errorf("status shows %+v", c)
		}
		for _, typ := range c.Types {
			kinds[typ.Kind] = true
		}
	}
	if len(kinds) != 4 {
		t.Errorf("status shows %v", kinds)
	}
	before := s.envoy.Stats(t, `^cluster_manager.cds.update_(attempt|success)$`)
	harness.Eventually(t, 10*time.Second, "more polls", func() error {
		now := s.envoy.Stats(t, `^cluster_manager.cds.update_(attempt|success)$`)
		if now["cluster_manager.cds.update_attempt"] < before["cluster_manager.cds.update_attempt"]+3 {
			return fmt.Errorf("%v", now)
		}
		if now["cluster_manager.cds.update_success"] != before["cluster_manager.cds.update_success"] {
			t.Errorf("polls without a change are updates: %v, before %v", now, before)
		}
		return nil
	})
}

// pollsThroughARejection serves what Envoy refuses: it asks again and again, and
// takes the corrected resource.
func (s *scene) pollsThroughARejection(t *testing.T) {
	t.Helper()
	s.write(t, "clusters-red.yaml", cluster("red", polled, connectTimeout)+"lb_policy: CLUSTER_PROVIDED\n")
	harness.Eventually(t, 10*time.Second, "more than one rejection", func() error {
		if n := s.rejected(t); n < 2 {
			return fmt.Errorf("%d rejections", n)
		}
		return nil
	})
	answers(t, s.url, "a")
	s.write(t, "clusters-red.yaml", cluster("red", polled, 2*connectTimeout))
	t.Log("after a rejection: served after", s.edit(t, "routes.yaml", "b", routes("red")))
	s.allSynced(t)
}

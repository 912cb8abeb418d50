//go:build interop

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// TestEnvoyIsServedClustersOnDemand has an Envoy that subscribes to no clusters
// fetch one when a request names it. That comes after a request for one that
// does not exist, which must not hold up the others.
// Partly proves XN-26: of clusters that requests name, with a real Envoy.
func TestEnvoyIsServedClustersOnDemand(t *testing.T) {
	for _, v := range variants() {
		if v.wire != "delta" {
			continue // the protocol has it in delta only
		}
		t.Run(v.name, func(t *testing.T) {
			s := setScene(t, v)
			filter := fmt.Sprintf(`{name: envoy.filters.http.on_demand, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand,
      odcds: {source: %s, timeout: 4s}}}`, s.source)
			table := fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: %s
virtual_hosts:
- name: all
  domains: ["*"]
  routes: [{match: {prefix: "/"}, route: {cluster_header: x-cluster}}]
`, routeName)
			s.write(t, "clusters.yaml", cluster("red", s.source, connectTimeout), endpoints("red", s.a),
				cluster("blue", s.source, connectTimeout), endpoints("blue", s.b))
			s.write(t, "listeners.yaml", table, listenerFor(httpName, s.port, connectionManager(httpName, rds(s.source), filter)))
			s.envoy = startEnvoy(t, withoutClusters(t, s.envoyBootstrap(t, v, nodeID)))
			s.envoy.ready(t)
			s.wait(t, "RouteConfiguration/"+routeName, "acked")
			if active, _, err := s.envoy.clusters(); err != nil || len(active) != 0 {
				t.Errorf("before the first request Envoy has the clusters %v, %v; want none", active, err)
			}
			s.demands(t, "absent", http.StatusServiceUnavailable, "")
			s.demands(t, "red", http.StatusOK, "a")
			s.demands(t, "blue", http.StatusOK, "b")
			s.write(t, "more.yaml", cluster("green", s.source, connectTimeout), endpoints("green", s.a))
			s.demands(t, "green", http.StatusOK, "a")
			s.remove(t, "more.yaml")
			harness.Eventually(t, 5*time.Second, "the removed cluster is gone", func() error {
				active, _, err := s.envoy.clusters()
				if _, there := active["green"]; err == nil && there {
					err = fmt.Errorf("it is active")
				}
				return err
			})
		})
	}
}

// demands waits for the answer to requests that name a cluster. None may take
// as long as Envoy's timeout for clusters on demand.
func (s *scene) demands(t *testing.T, name string, status int, backend string) {
	t.Helper()
	client := newClient(t, nil)
	harness.Eventually(t, 10*time.Second, fmt.Sprintf("cluster %s: %d %s", name, status, backend), func() error {
		start := time.Now()
		got, _, body, err := s.request(t, client, "localhost", http.Header{"X-Cluster": {name}})
		if err != nil {
			return err
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("a request for cluster %s took %v", name, took)
		}
		if got != status || backend != "" && body != backend {
			return fmt.Errorf("status %d: %s", got, body)
		}
		return nil
	})
}

// withoutClusters takes the subscription to clusters out of a bootstrap.
func withoutClusters(t *testing.T, bootstrap []byte) []byte {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal(bootstrap, &fields); err != nil {
		t.Fatal(err)
	}
	dynamic, ok := fields["dynamic_resources"].(map[string]any)
	if !ok || dynamic["cds_config"] == nil {
		t.Fatalf("no dynamic_resources.cds_config in the bootstrap:\n%s", bootstrap)
	}
	delete(dynamic, "cds_config")
	out, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

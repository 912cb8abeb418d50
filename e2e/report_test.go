//go:build interop

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// clusterLoad is the traffic of a cluster, as the admin page shows it.
type clusterLoad struct {
	Cluster    string `json:"cluster"`
	Successful int    `json:"successful"`
	Errors     int    `json:"errors"`
	Issued     int    `json:"issued"`
	Localities []struct {
		Region     string `json:"region"`
		Successful int    `json:"successful"`
	} `json:"localities"`
}

// reported reads the traffic that clients have reported for a cluster.
func (s *server) reported(t *testing.T, cluster string) (clusterLoad, error) {
	t.Helper()
	body, err := get(t.Context(), newClient(t, nil), "http://"+s.admin+"/api/v1/loads")
	if err != nil {
		return clusterLoad{}, err
	}
	var page struct {
		Clusters []clusterLoad `json:"clusters"`
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		return clusterLoad{}, fmt.Errorf("%w in %s", err, body)
	}
	for _, c := range page.Clusters {
		if c.Cluster == cluster {
			return c, nil
		}
	}
	return clusterLoad{}, fmt.Errorf("nothing is reported of cluster %s in %s", cluster, body)
}

// TestEnvoyReportsItsLoad compares what Envoy reports with its own counters,
// from the first report on: earlier requests are not in it.
// Partly proves XL-01, XL-02, XL-03.
func TestEnvoyReportsItsLoad(t *testing.T) {
	const interval = 200 * time.Millisecond
	s := setScene(t, variant{wire: "delta", aggregated: true}, "--load-interval", interval.String())
	s.write(t, "world.yaml", s.world(0)...)
	s.envoy = startEnvoy(t, s.bootstrap(t, "envoy", "--node-id", nodeID, "--variant", "delta", "--load-reports"))
	s.envoy.ready(t)
	sent := func() int {
		return s.envoy.Stats(t, `^cluster.red.upstream_rq_total$`)["cluster.red.upstream_rq_total"]
	}
	harness.Eventually(t, 10*time.Second, "the first report", func() error {
		answers(t, s.url, "a")
		_, err := s.reported(t, "red")
		return err
	})
	time.Sleep(5 * interval) // what has been answered is reported by then
	first, err := s.reported(t, "red")
	if err != nil {
		t.Fatal(err)
	}
	// A request that was under way when the counting began is in one of the two.
	unreported, unissued := sent()-first.Successful, sent()-first.Issued
	for range 2 {
		l := startLoad(t, s.url)
		l.goOn(t, 100)
		l.stop(t)
		want, issued := sent()-unreported, sent()-unissued
		harness.Eventually(t, 10*time.Second, "the reports add up", func() error {
			got, err := s.reported(t, "red")
			if err == nil && (got.Successful != want || got.Issued != issued || got.Errors != 0 || len(got.Localities) != 1 ||
				got.Localities[0].Region != "here" || got.Localities[0].Successful != want) {
				err = fmt.Errorf("%+v, want %d, of %d issued", got, want, issued)
			}
			return err
		})
	}
}

// TestGRPCReportsItsLoad asks gRPC clients for reports by their cluster.
// Partly proves XL-01, XL-03.
func TestGRPCReportsItsLoad(t *testing.T) {
	forEachGRPC(t, func(t *testing.T, s *server, _ *caller, _, _ int) {
		s.write(t, "clusters.yaml", cluster("red", ads, connectTimeout)+"lrs_server: {self: {}}\n")
		const least = 50
		harness.Eventually(t, 30*time.Second, "reports of the clients' calls", func() error {
			got, err := s.reported(t, "red")
			if err == nil && (got.Successful < least || len(got.Localities) != 1 || got.Localities[0].Region != "here") {
				err = fmt.Errorf("%+v, want %d at least", got, least)
			}
			return err
		})
	}, "--load-interval", "500ms")
}

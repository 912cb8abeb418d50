package admin

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

const metricsPage = "../../docs/metrics.md"

// TestMetricsPage keeps docs/metrics.md the same as the metrics, and sees that
// every one of them is there when it is scraped.
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Metrics

What ` + "`xebec serve`" + ` shows on ` + "`/metrics`" + ` of its admin address, beside those of the Go runtime (` + "`go_`" + `) and the process (` + "`process_`" + `). No label
names a client; ` + "`/api/v1/clients`" + ` has the detail. This page is written by ` + "`make golden`" + `.

| metric | labels | |
|---|---|---|
`)
	for _, m := range metrics() {
		fmt.Fprintf(&b, "| `%s%s` | %s | %s |\n", metricPrefix, m.name, strings.Join(m.labels, ", "), m.help)
	}
	if *update {
		if err := os.WriteFile(metricsPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), b.String()); diff != "" {
		t.Errorf("docs/metrics.md is out of date; run `make golden`:\n%s", diff)
	}
	f := newFixture(t, fixedSource{})
	f.apply(t, &clusterv3.Cluster{Name: "r"})
	scraped := f.request(t, "GET", "/metrics").Body.String()
	for _, m := range metrics() {
		onceUsed := len(m.labels) == 2 && m.labels[0] != "variant" && m.labels[0] != "aggregated"
		if !onceUsed && !strings.Contains(scraped, "\n"+metricPrefix+m.name) {
			t.Errorf("%s is not scraped", m.name)
		}
	}
}

package discovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/xds"
)

// shown are the statistics below a prefix, with what they count.
func shown(t *testing.T, r *stats.Registry, prefix string) string {
	t.Helper()
	snap, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := stats.Render(&b, snap, stats.RenderOptions{}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(b.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if leaf, ok := strings.CutPrefix(name, prefix); ok {
			if strings.Contains(leaf, "time") && value != "0" && leaf != "init_fetch_timeout" || leaf == "version" {
				value = "<n>"
			}
			if strings.HasPrefix(value, "P0(") {
				value = "<recorded>"
			}
			out = append(out, leaf+"="+value)
		}
	}
	return strings.Join(out, " ")
}

// Partly proves ST-07: cluster and listener discovery have their statistics from
// the start; what a file does wrong is counted by its kind, for those who want
// something of it too.
func TestFileStatistics(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const cluster = `{"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a}`
	cds := write("cds.yaml", "{version_info: one, resources: ["+cluster+"]}")
	rds := write("rds.yaml", `{version_info: one, resources: [{"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration, name: r}]}`)
	g := &target{}
	d := start(t, bootstrap(t, `{"dynamicResources": {"cdsConfig": {"pathConfigSource": {"path": "`+cds+`"}}, "ldsConfig": {"pathConfigSource": {"path": "`+write("lds.yaml", "{}")+`"}}}}`), "", g)
	d.Clusters(t.Context())
	g.until(t, "set cluster a")
	d.Listeners(t.Context())
	is := func(prefix, want string) {
		t.Helper()
		if got := shown(t, d.cfg.Stats, prefix); got != want {
			t.Errorf("%s\n got %s\nwant %s", prefix, got, want)
		}
	}
	is("cluster_manager.cds.", `version_text="one" config_reload=1 config_reload_time_ms=<n> init_fetch_timeout=0 update_attempt=1 update_failure=0 update_rejected=0 `+
		`update_success=1 update_time=<n> version=<n> update_duration=<recorded>`)
	is("listener_manager.lds.", `version_text="" init_fetch_timeout=0 update_attempt=1 update_failure=0 update_rejected=0 update_success=1 update_time=<n> version=<n> update_duration=<recorded>`)

	d.Want(xds.RouteType, "r", &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{Path: rds}}})
	g.until(t, "set routes r")
	write("rds.yaml", "{resources: [")
	g.until(t, "failed RouteConfiguration r")
	write("cds.yaml", "{version_info: two, resources: [")
	untilCounted(t, d.cfg.Stats, "cluster_manager.cds.update_failure")
	is("cluster_manager.cds.", `version_text="one" config_reload=1 config_reload_time_ms=<n> init_fetch_timeout=0 update_attempt=2 update_failure=1 update_rejected=0 `+
		`update_success=1 update_time=<n> version=<n> update_duration=<recorded>`)
}

// Partly proves ST-07: who wants something of a server that cannot be reached is
// told, and it counts as an attempt.
func TestUnreachableServer(t *testing.T) {
	g := &target{}
	ads := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	d := start(t, bootstrap(t, dynamic("GRPC", `{"ads": {}, "initialFetchTimeout": "0.01s"}`)), "127.0.0.1:1", g)
	d.Clusters(t.Context())
	d.Want(xds.EndpointType, "e", ads)
	g.until(t, "failed ClusterLoadAssignment e")
	untilCounted(t, d.cfg.Stats, "cluster_manager.cds.update_failure")
	if a, f := counted(t, d.cfg.Stats, "cluster_manager.cds.update_attempt"), counted(t, d.cfg.Stats, "cluster_manager.cds.update_failure"); a < f || f == 0 {
		t.Errorf("%d attempts, %d failures", a, f)
	}
}

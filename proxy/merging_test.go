package proxy_test

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// mergingCluster is an EDS cluster with a merge window, and never in panic.
func mergingCluster(name string, window time.Duration) *clusterv3.Cluster {
	c := edsCluster(name, "")
	c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{
		UpdateMergeWindow: durationpb.New(window), HealthyPanicThreshold: &typev3.Percent{},
	}
	return c
}

// only is an assignment of which one host is healthy.
func only(healthy int, name string, addresses ...string) *endpointv3.ClusterLoadAssignment {
	la := assignment(name, addresses...)
	for i, e := range la.GetEndpoints()[0].GetLbEndpoints() {
		if i != healthy {
			e.HealthStatus = corev3.HealthStatus_UNHEALTHY
		}
	}
	return la
}

// merging is byHeader where changes by EDS are merged, too.
var merging = byHeader + `
layered_runtime: {layers: [{name: s, static_layer: {envoy.reloadable_features.enable_batch_aware_update: false}}]}
`

// The first change of a health is in force with the next request, a second one when the
// window ends, and one that comes with a new host at once. A cluster that goes, or is
// replaced, takes along what waits.
// Partly proves CM-16: update_merge_window, as requests see it, and its counters.
func TestUpdatesAreMerged(t *testing.T) {
	a, b := namedBackend(t, "a"), namedBackend(t, "b")
	r := start(t, merging, newSource().by)
	res := r.Resources()
	give := func(healthy int, name string, more ...string) {
		t.Helper()
		must(t, res.SetEndpoints(nil, only(healthy, name, append([]string{a, b}, more...)...), "1"))
	}
	counts := func(what, want string) {
		t.Helper()
		got := r.get(t, "/stats?filter=^cluster_manager.(cluster_updated|update_)")
		same(t, what, strings.Join(strings.Fields(strings.ReplaceAll(got, "cluster_manager.", "")), " "), want)
	}
	for name, window := range map[string]time.Duration{"gone": 100 * time.Millisecond, "replaced": 100 * time.Millisecond, "x": 500 * time.Millisecond, "slow": time.Hour} {
		must(t, res.SetCluster(mergingCluster(name, window), "1"))
		give(0, name)
		r.expect(t, name, "200 a")
		give(1, name)
		same(t, "the first change", r.to(t, name), "200 b")
	}
	counts("first changes", "cluster_updated: 4 cluster_updated_via_merge: 0 update_merge_cancelled: 0 update_out_of_merge_window: 4")
	give(0, "slow")
	same(t, "the second change", r.to(t, "slow"), "200 b")
	give(0, "slow", "127.0.0.1:1")
	same(t, "a new host", r.to(t, "slow"), "200 a")
	give(1, "slow", "127.0.0.1:1") // waits until the proxy ends
	counts("a new host", "cluster_updated: 5 cluster_updated_via_merge: 0 update_merge_cancelled: 1 update_out_of_merge_window: 4")
	for _, name := range []string{"gone", "replaced", "x"} {
		give(0, name)
	}
	waiting := r.get(t, "/stats?filter=^cluster_manager.cluster_updated_via_merge")
	res.RemoveCluster("gone")
	must(t, res.SetCluster(mergingCluster("replaced", time.Hour), "2"))
	r.expect(t, "x", "200 a")
	if strings.HasSuffix(waiting, ": 0\n") { // else the machine was busy for as long as a window
		r.becomesStat(t, "cluster_manager.cluster_updated_via_merge", "1")
	}
	same(t, "a cluster that has replaced another", r.to(t, "replaced"), "200 a")
}

// By default changes by EDS do not wait for each other.
// Partly proves CM-16: what is merged by default is what Envoy 1.40 merges.
func TestBatchesAreNotMerged(t *testing.T) {
	a, b := namedBackend(t, "a"), namedBackend(t, "b")
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	must(t, res.SetCluster(mergingCluster("x", time.Hour), "1"))
	must(t, res.SetEndpoints(nil, only(0, "x", a, b), "1"))
	r.expect(t, "x", "200 a")
	for i := range 5 {
		must(t, res.SetEndpoints(nil, only((i+1)%2, "x", a, b), "2"))
		same(t, "a change", r.to(t, "x"), []string{"200 b", "200 a"}[i%2])
	}
}

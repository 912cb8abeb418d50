package admin

import (
	"slices"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"
)

func staticCluster(t rapid.TB, text string) *adminv3.ClustersConfigDump_StaticCluster {
	t.Helper()
	c := &clusterv3.Cluster{}
	if err := prototext.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	a, err := anypb.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &adminv3.ClustersConfigDump_StaticCluster{Cluster: a}
}

const oneCluster = `name: "a" alt_stat_name: "b" connect_timeout {seconds: 1 nanos: 5} common_lb_config {healthy_panic_threshold {value: 3}}`

// What a mask leaves of an element, and which masks do not fit (AD-08).
func TestTrimElement(t *testing.T) {
	for mask, want := range map[string]string{
		"cluster":                         oneCluster,
		"cluster.name":                    `name: "a"`,
		"cluster.name,cluster.type":       `name: "a"`,
		"cluster.connect_timeout.seconds": `connect_timeout {seconds: 1}`,
		"cluster.connect_timeout.seconds,cluster.connect_timeout": `connect_timeout {seconds: 1 nanos: 5}`,
		"cluster.connect_timeout,cluster.connect_timeout.seconds": `connect_timeout {seconds: 1 nanos: 5}`,
	} {
		m := staticCluster(t, oneCluster)
		if !trimElement(m.ProtoReflect(), strings.Split(mask, ",")) {
			t.Errorf("%s does not fit", mask)
		}
		if diff := cmp.Diff(staticCluster(t, want), m, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", mask, diff)
		}
	}
	for _, mask := range []string{"nosuch", "cluster.nosuch", "cluster.", "", "cluster.name.x", "cluster.load_assignment.endpoints.priority", "last_updated.seconds.x"} {
		if m := staticCluster(t, oneCluster); trimElement(m.ProtoReflect(), []string{mask}) {
			t.Errorf("%q fits: %v", mask, m)
		}
	}
}

// Trimming by the parts of a mask one by one and merging what is left gives what
// trimming by the whole mask does.
func TestTrimIsTheUnionOfItsPaths(t *testing.T) {
	paths := []string{"name", "alt_stat_name", "connect_timeout", "connect_timeout.seconds", "connect_timeout.nanos", "common_lb_config.healthy_panic_threshold.value", "type"}
	rapid.Check(t, func(t *rapid.T) {
		mask := rapid.SliceOfN(rapid.SampledFrom(paths), 1, 5).Draw(t, "mask")
		parse := func() *clusterv3.Cluster {
			c := &clusterv3.Cluster{}
			if err := prototext.Unmarshal([]byte(oneCluster), c); err != nil {
				t.Fatal(err)
			}
			return c
		}
		got, want := parse(), &clusterv3.Cluster{}
		trim(got.ProtoReflect(), mask)
		for _, path := range mask {
			part := parse()
			trim(part.ProtoReflect(), []string{path})
			proto.Merge(want, part)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Paths are sorted and unique, and each is either built or says what to do.
func TestEndpoints(t *testing.T) {
	list := endpoints()
	var paths []string
	for _, e := range list {
		paths = append(paths, e.path)
		if (e.serve == nil) != (e.help == "") || (e.serve == nil) != (e.instead != "") {
			t.Errorf("%s: help %q, instead %q", e.path, e.help, e.instead)
		}
	}
	sorted := slices.Sorted(slices.Values(paths))
	if diff := cmp.Diff(slices.Compact(sorted), paths); diff != "" {
		t.Error(diff)
	}
}

package xds_test

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/xds"
)

// The one encoding of a resource is, whole, the field of a delta response and,
// from some byte on, the field of a state-of-the-world response.
func TestOneEncodingServesBothVariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &clusterv3.Cluster{Name: rapid.String().Draw(t, "name"), AltStatName: rapid.String().Draw(t, "alt")}
		aliases := rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "aliases")
		version := rapid.StringN(0, 8, -1).Draw(t, "version")
		r, err := xds.Marshal(m.GetName(), m, xds.WithAliases(aliases...), xds.WithVersion(version))
		if err != nil {
			t.Fatal(err)
		}
		if version == "" {
			version = r.Version()
		}
		var delta discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(r.DeltaField(), &delta); err != nil || len(delta.GetResources()) != 1 {
			t.Fatalf("delta: %v, %v", err, &delta)
		}
		want := &discoveryv3.Resource{Name: m.GetName(), Version: version, Aliases: aliases, Resource: r.Any()}
		if d := cmp.Diff(want, delta.GetResources()[0], protocmp.Transform()); d != "" {
			t.Fatal(d)
		}
		var sotw discoveryv3.DiscoveryResponse
		if err := proto.Unmarshal(r.SotwField(), &sotw); err != nil || len(sotw.GetResources()) != 1 {
			t.Fatalf("SotW: %v, %v", err, &sotw)
		}
		got, err := sotw.GetResources()[0].UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, got, protocmp.Transform()); d != "" {
			t.Fatal(d)
		}
	})
}

func TestVersionFollowsContent(t *testing.T) {
	a := xds.NewResource(xds.ClusterType, "a", []byte("1"))
	for name, other := range map[string]*xds.Resource{
		"body":    xds.NewResource(xds.ClusterType, "a", []byte("2")),
		"aliases": xds.NewResource(xds.ClusterType, "a", []byte("1"), xds.WithAliases("x")),
		"version": xds.NewResource(xds.ClusterType, "a", []byte("1"), xds.WithVersion("7")),
	} {
		if a.Equal(other) || a.Version() == other.Version() {
			t.Errorf("another %s makes no other version", name)
		}
	}
	same := xds.NewResource(xds.ClusterType, "a", []byte("1"), xds.WithOrigin(xds.Position{File: "f", Line: 1}))
	if !a.Equal(same) || a.Version() != same.Version() {
		t.Error("the origin counts as content")
	}
}

func TestLookupType(t *testing.T) {
	for _, word := range []string{"CDS", "cds", "Cluster", "cluster", xds.ClusterType} {
		if ty, ok := xds.LookupType(word); !ok || ty.URL != xds.ClusterType {
			t.Errorf("%s: %v, %v", word, ty, ok)
		}
	}
	if _, ok := xds.LookupType("x"); ok {
		t.Error("x is a type")
	}
}

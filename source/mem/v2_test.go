package mem_test

import (
	"strings"
	"testing"

	api "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	authv2 "github.com/envoyproxy/go-control-plane/envoy/api/v2/auth"
	corev2 "github.com/envoyproxy/go-control-plane/envoy/api/v2/core"

	"github.com/xebec-proxy/xebec/source/mem"
	"github.com/xebec-proxy/xebec/xds"
)

// TestV2Input gives clusters of v2 as messages and as resources, and removes one by its
// type in v2. Proves XV-05 with TestV2Pairs and TestV2Encoded of configload.
func TestV2Input(t *testing.T) {
	cluster := func(name string) *api.Cluster {
		return &api.Cluster{
			Name: name, ClusterDiscoveryType: &api.Cluster_Type{Type: api.Cluster_EDS}, TlsContext: &authv2.UpstreamTlsContext{Sni: "a.test"}, //nolint:staticcheck // that is the point
			EdsClusterConfig: &api.Cluster_EdsClusterConfig{
				EdsConfig:   &corev2.ConfigSource{ConfigSourceSpecifier: &corev2.ConfigSource_Ads{Ads: &corev2.AggregatedConfigSource{}}},
				ServiceName: "svc",
			},
		}
	}
	r, err := xds.Marshal("b", cluster("b"))
	must(t, err)
	s := mem.New()
	must(t, s.Set(mem.DefaultGroup, cluster("a")))
	must(t, s.SetResources(mem.DefaultGroup, r))
	must(t, s.Set(mem.DefaultGroup, cluster("gone")))
	must(t, s.Remove(mem.DefaultGroup, xds.Key{Type: xds.V2Type(xds.ClusterType), Name: "gone"}))
	bad := &api.Cluster{Name: "bad", LoadAssignment: &api.ClusterLoadAssignment{Policy: &api.ClusterLoadAssignment_Policy{DisableOverprovisioning: true}}} //nolint:staticcheck // that is the point
	if err := s.Set(mem.DefaultGroup, bad); err == nil || !strings.Contains(err.Error(), "disable_overprovisioning") {
		t.Errorf("a field without a successor: %v", err)
	}
	if err := s.SetResources(mem.DefaultGroup, xds.NewResource(xds.V2Type(xds.ClusterType), "bytes", []byte{1})); err == nil {
		t.Error("bytes that are no cluster are taken")
	}
	to := &sink{}
	stop := run(t, s, to)
	must(t, s.Remove(mem.DefaultGroup)) // which waits for what was before
	stop()
	got := to.groups[mem.DefaultGroup]
	set := got.Set(xds.ClusterType)
	if set.Len() != 2 || got.Len() != 2 || set.Get("b").Version() != r.Version() {
		t.Fatalf("delivered %v", set.All())
	}
	for _, r := range set.All() {
		body := string(r.Body())
		if len(r.References()) != 1 || r.References()[0].Name != "svc" || !strings.Contains(body, "tls.v3.UpstreamTlsContext") || !strings.Contains(body, "a.test") {
			t.Errorf("%s: %v %q", r.Name(), r.References(), body)
		}
	}
}

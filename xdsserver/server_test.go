package xdsserver_test

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// Proves XS-01, XS-05, XS-09, XS-10: one client of each aggregated variant sees
// the same resources, with the server's identifier and the type's URL.
func TestAggregatedVariants(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithIdentifier("cp-1")}, func(h *harness) {
		h.set(res(xds.ClusterType, "a", "1"), res(xds.ClusterType, "b", "1"), res(xds.EndpointType, "a", "1"))
		s, d := h.sotw(), h.delta()
		s.send(&discoveryv3.DiscoveryRequest{Node: node("s"), TypeUrl: xds.ClusterType})
		d.send(&discoveryv3.DeltaDiscoveryRequest{Node: node("d"), TypeUrl: xds.ClusterType})
		sr, dr := s.got(), d.got()
		if len(sr.GetResources()) != 2 || len(dr.GetResources()) != 2 {
			t.Fatalf("got %d and %d clusters, want 2 and 2", len(sr.GetResources()), len(dr.GetResources()))
		}
		if id := sr.GetControlPlane().GetIdentifier() + dr.GetControlPlane().GetIdentifier(); id != "cp-1cp-1" {
			t.Errorf("identifiers %q", id)
		}
		for _, a := range sr.GetResources() {
			if a.GetTypeUrl() != xds.ClusterType {
				t.Errorf("a resource of type %q", a.GetTypeUrl())
			}
		}
		if r := dr.GetResources()[0]; r.GetName() != "a" || r.GetVersion() != "1" || r.GetResource().GetTypeUrl() != xds.ClusterType {
			t.Errorf("delta resource %v", r)
		}
		s.ack(sr)
		d.ack(dr)
		// Later requests for other types need no node.
		s.send(&discoveryv3.DiscoveryRequest{TypeUrl: xds.EndpointType, ResourceNames: []string{"a"}})
		d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.EndpointType, ResourceNamesSubscribe: []string{"a"}})
		if sr, dr = s.got(), d.got(); len(sr.GetResources()) != 1 || len(dr.GetResources()) != 1 {
			t.Fatalf("endpoints: %v, %v", sr, dr)
		}
		s.ack(sr, "a")
		d.ack(dr)
		h.set(res(xds.EndpointType, "a", "2"))
		if sr, dr = s.got(), d.got(); sr.GetTypeUrl() != xds.EndpointType || dr.GetResources()[0].GetVersion() != "2" {
			t.Fatalf("after the change: %v, %v", sr, dr)
		}
	})
}

// Proves XS-12, XS-63: a wildcard waits for the first load, and is then
// answered even if there is nothing.
func TestWaitsForTheFirstLoad(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		s, d := h.sotw(), h.delta()
		s.send(&discoveryv3.DiscoveryRequest{Node: node("s"), TypeUrl: xds.ListenerType})
		d.send(&discoveryv3.DeltaDiscoveryRequest{Node: node("d"), TypeUrl: xds.ListenerType})
		time.Sleep(time.Hour)
		if sr, dr := s.got(), d.got(); sr != nil || dr != nil {
			t.Fatalf("answered before the first load: %v, %v", sr, dr)
		}
		h.apply(snapshot.Batch{Full: true})
		if sr, dr := s.got(), d.got(); sr == nil || dr == nil || dr.GetNonce() == "" || len(sr.GetResources()) > 0 {
			t.Fatalf("after an empty load: %v, %v", sr, dr)
		}
	})
}

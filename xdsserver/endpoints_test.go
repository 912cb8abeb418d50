package xdsserver_test

import (
	"fmt"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xebec-proxy/xebec/xds"
)

// Partly proves XN-29: endpoints are the members of a glob collection, and a change of one
// of 10 000 is one resource of a response.
func TestOneOfManyEndpoints(t *testing.T) {
	const prefix = "xdstp://a/envoy.config.endpoint.v3.LbEndpoint/web/"
	endpoint := func(i int, status int32) *xds.Resource {
		e := &endpointv3.LbEndpoint{HealthStatus: 0, HostIdentifier: &endpointv3.LbEndpoint_EndpointName{EndpointName: fmt.Sprint(i, " ", status)}}
		return marshalled(t, fmt.Sprint(prefix, i), e)
	}
	bubble(t, nil, func(h *harness) {
		const many = 10_000
		all := make([]*xds.Resource, many)
		for i := range all {
			all[i] = endpoint(i, 1)
		}
		h.set(all...)
		c := h.delta()
		c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.LocalityEndpointType, ResourceNamesSubscribe: []string{prefix + "*"}})
		for got := 0; got < many; {
			r := c.must()
			got += len(r.GetResources())
			c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.LocalityEndpointType, ResponseNonce: r.GetNonce()})
		}
		h.set(endpoint(7, 2))
		r := c.must()
		if len(r.GetResources()) != 1 || r.GetResources()[0].GetName() != prefix+"7" || len(r.GetRemovedResources()) > 0 {
			t.Errorf("%d resources and %d removals are sent", len(r.GetResources()), len(r.GetRemovedResources()))
		}
		c.silent("after one change")
	})
}

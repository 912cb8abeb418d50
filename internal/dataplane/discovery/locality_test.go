package discovery

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

const webEndpoints = "xdstp://a/envoy.config.endpoint.v3.LbEndpoint/web/"

func lbEndpoint(t *testing.T, name, hostname string) *xds.Resource {
	t.Helper()
	return resource(t, webEndpoints+name, &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Hostname: hostname}}})
}

// A collection of endpoints comes at one stroke, and so does what a response changes
// of it; an endpoint that is bad is refused by its name, the others of its response
// are used, and what was there of it stays; an empty collection is missing.
// Partly proves XN-29.
func TestLocalityEndpoints(t *testing.T) {
	for name, source := range map[string]string{
		"ads":   `{"ads": {}}`,
		"alone": `{"apiConfigSource": {"apiType": "DELTA_GRPC", "transportApiVersion": "V3", "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := manage(t)
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{lbEndpoint(t, "1", "a"), lbEndpoint(t, "2", "b"), lbEndpoint(t, "3", "bad")}})
			g := &target{}
			b := bootstrap(t, dynamic("DELTA_GRPC", source))
			d := start(t, b, m.addr, g)
			cs := b.GetDynamicResources().GetCdsConfig()
			d.Want(xds.LocalityEndpointType, webEndpoints+"*", cs)
			g.until(t, "endpoints of web: +a@1 +b@2 -!3")
			rejected(t, m, xds.LocalityEndpointType, webEndpoints+"3")
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{lbEndpoint(t, "1", "c"), lbEndpoint(t, "3", "d")}})
			g.until(t, "endpoints of web: +c@1 +d@3")
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{lbEndpoint(t, "2", "bad")}})
			g.until(t, "endpoints of web: !2")
			m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.LocalityEndpointType, Name: webEndpoints + "3"}}})
			g.until(t, "endpoints of web: -3")
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{lbEndpoint(t, "2", "b")}})
			g.until(t, "endpoints of web: 2") // as it was
			d.Want(xds.LocalityEndpointType, webEndpoints+"none/*", cs)
			g.until(t, "missing LbEndpoint "+webEndpoints+"none/*")
			again := &corev3.ConfigSource{ConfigSourceSpecifier: cs.GetConfigSourceSpecifier()}
			d.Want(xds.LocalityEndpointType, webEndpoints+"*", again) // who comes later gets what is there
			g.until(t, "endpoints of web: +c@1 +b@2")
			for _, c := range []*corev3.ConfigSource{cs, again} {
				d.Unwant(xds.LocalityEndpointType, webEndpoints+"*", c)
			}
			d.Unwant(xds.LocalityEndpointType, webEndpoints+"none/*", cs)
			given(t, m, xds.LocalityEndpointType)
		})
	}
}

// One endpoint of 10 000 that changes is one change for the proxy, too. Partly
// proves XN-29.
func TestOneOfManyLocalityEndpoints(t *testing.T) {
	const many = 10_000
	m := manage(t)
	all := make([]*xds.Resource, many)
	for i := range all {
		all[i] = lbEndpoint(t, fmt.Sprint(i), "a")
	}
	m.apply(t, snapshot.Changes{Set: all})
	g := &target{}
	b := bootstrap(t, dynamic("DELTA_GRPC", `{"ads": {}}`))
	start(t, b, m.addr, g).Want(xds.LocalityEndpointType, webEndpoints+"*", b.GetDynamicResources().GetCdsConfig())
	g.until(t, "endpoints of web: 10000 changes")
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{lbEndpoint(t, "77", "b")}})
	g.until(t, "endpoints of web: +b@77")
	if len(g.log) != 2 {
		t.Errorf("the proxy was told %q", g.log)
	}
}

// Collections need delta xDS, from whoever their authority leads to. Partly proves XN-29.
func TestCheckCollection(t *testing.T) {
	b := bootstrap(t, `{"node": {"id": "n"}, "configSources": [
		{"authorities": [{"name": "b"}], "apiConfigSource": {"apiType": "DELTA_GRPC", "transportApiVersion": "V3", "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}}],
		"dynamicResources": {"adsConfig": {"apiType": "GRPC", "transportApiVersion": "V3", "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}}}`)
	d := start(t, b, "", &target{})
	ads := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	if err := d.CheckCollection("here", ads, xds.LocalityEndpointType, webEndpoints+"*"); err == nil || !strings.HasPrefix(err.Error(), "here: collections are discovered with delta xDS only") {
		t.Errorf("in the state of the world: %v", err)
	}
	if err := d.CheckCollection("here", ads, xds.LocalityEndpointType, strings.Replace(webEndpoints, "//a/", "//b/", 1)+"*"); err != nil {
		t.Errorf("by authority: %v", err)
	}
}

package xdsserver_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	api "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	corev2 "github.com/envoyproxy/go-control-plane/envoy/api/v2/core"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv2 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	lrsv2 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v2"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	statusv2 "github.com/envoyproxy/go-control-plane/envoy/service/status/v2"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv2 "github.com/envoyproxy/go-control-plane/envoy/type/matcher"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// methodsV2 is the specification's section 1, v2: as discoveryTable, with the last
// part of the REST path.
const methodsV2 = `
envoy.api.v2.ListenerDiscoveryService StreamListeners DeltaListeners FetchListeners envoy.api.v2.Listener listeners
envoy.api.v2.RouteDiscoveryService StreamRoutes DeltaRoutes FetchRoutes envoy.api.v2.RouteConfiguration routes
envoy.api.v2.ScopedRoutesDiscoveryService StreamScopedRoutes DeltaScopedRoutes FetchScopedRoutes envoy.api.v2.ScopedRouteConfiguration scoped-routes
envoy.api.v2.VirtualHostDiscoveryService - DeltaVirtualHosts - envoy.api.v2.route.VirtualHost -
envoy.api.v2.ClusterDiscoveryService StreamClusters DeltaClusters FetchClusters envoy.api.v2.Cluster clusters
envoy.api.v2.EndpointDiscoveryService StreamEndpoints DeltaEndpoints FetchEndpoints envoy.api.v2.ClusterLoadAssignment endpoints
envoy.service.discovery.v2.SecretDiscoveryService StreamSecrets DeltaSecrets FetchSecrets envoy.api.v2.auth.Secret secrets
envoy.service.discovery.v2.RuntimeDiscoveryService StreamRuntime DeltaRuntime FetchRuntime envoy.service.discovery.v2.Runtime runtime
envoy.service.discovery.v2.AggregatedDiscoveryService StreamAggregatedResources DeltaAggregatedResources - envoy.api.v2.Cluster -
`

// everyTypeOfV2 is a resource x of each type that v2 has, and r/x of VHDS.
func everyTypeOfV2(t testing.TB) []*xds.Resource {
	t.Helper()
	name := func(m proto.Message, names ...string) *xds.Resource {
		n := "x"
		if len(names) > 0 {
			n = names[0]
		}
		return marshalled(t, n, m)
	}
	return []*xds.Resource{
		name(&listenerv3.Listener{Name: "x", Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
		}}}}),
		name(&routev3.RouteConfiguration{Name: "x"}),
		name(&routev3.ScopedRouteConfiguration{
			Name: "x", RouteConfigurationName: "x",
			Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
				Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: "k"},
			}}},
		}),
		name(&routev3.VirtualHost{Name: "x", Domains: []string{"x.test"}}, "r/x"),
		name(&clusterv3.Cluster{Name: "x"}),
		name(&endpointv3.ClusterLoadAssignment{ClusterName: "x"}),
		name(&tlsv3.Secret{Name: "x"}),
		name(&runtimev3.Runtime{Name: "x", Layer: &structpb.Struct{}}),
	}
}

// oldNode is what an Envoy of v2 says of itself.
func oldNode(id string) *corev2.Node {
	return &corev2.Node{Id: id, Cluster: "test", BuildVersion: "84f1c8d/1.12.2/Clean/RELEASE/BoringSSL"} //nolint:staticcheck // that is the point
}

// Proves XV-01 and, with TestEveryMethodAnswers, XS-00: every method of v2 answers
// with v2's messages and the resource in v2. Proves XV-06 with TestV2Errors: no field
// is unknown to v2. Partly proves XV-03.
func TestEveryV2MethodAnswers(t *testing.T) {
	full(t, []xdsserver.Option{xdsserver.WithResourceErrors(true), xdsserver.WithCanary(true)}, nil, func(h *harness) {
		h.set(everyTypeOfV2(t)...)
		for row := range strings.Lines(strings.TrimSpace(methodsV2)) {
			f := strings.Fields(row)
			typeURL := xds.TypePrefix + f[4]
			x := "x"
			if strings.Contains(f[0], "VirtualHost") {
				x = "r/x"
			}
			// A virtual host that there is not is answered with a resource without a body.
			missing := map[string]string{"x": "missing", "r/x": "r/x"}[x]
			ask := &api.DiscoveryRequest{Node: oldNode("n"), ResourceNames: []string{x, "missing"}}
			askDelta := &api.DeltaDiscoveryRequest{Node: oldNode("n"), ResourceNamesSubscribe: []string{x, missing}}
			if strings.Contains(f[0], "Aggregated") {
				ask.TypeUrl, askDelta.TypeUrl = typeURL, typeURL
			}
			var r, u api.DiscoveryResponse
			var d api.DeltaDiscoveryResponse
			if f[1] != "-" {
				h.exchange("/"+f[0]+"/"+f[1], ask, &r)
				checkV2(t, f[1], typeURL, &r, len(r.GetResources()))
			}
			h.exchange("/"+f[0]+"/"+f[2], askDelta, &d)
			checkV2(t, f[2], typeURL, &d, len(d.GetResources()))
			if got := d.GetResources(); len(got) == 1 && (got[0].GetResource().GetTypeUrl() != typeURL || got[0].GetVersion() == "") {
				t.Errorf("%s: %v", f[2], got[0])
			}
			if f[3] != "-" {
				h.invoke("/"+f[0]+"/"+f[3], ask, &u)
				checkV2(t, f[3], typeURL, &u, len(u.GetResources()))
			}
		}
		h.exchange("/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats", &lrsv2.LoadStatsRequest{Node: oldNode("n")}, &lrsv2.LoadStatsResponse{})
		const csds = "/envoy.service.status.v2.ClientStatusDiscoveryService/"
		h.exchange(csds+"StreamClientStatus", &statusv2.ClientStatusRequest{}, &statusv2.ClientStatusResponse{})
		h.invoke(csds+"FetchClientStatus", &statusv2.ClientStatusRequest{}, &statusv2.ClientStatusResponse{})
		check := &discoveryv2.HealthCheckRequestOrEndpointHealthResponse{RequestType: &discoveryv2.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
			HealthCheckRequest: &discoveryv2.HealthCheckRequest{Node: oldNode("n")},
		}}
		const hds = "/envoy.service.discovery.v2.HealthDiscoveryService/"
		var streamed, fetched discoveryv2.HealthCheckSpecifier
		h.exchange(hds+"StreamHealthCheck", check, &streamed)
		h.invoke(hds+"FetchHealthCheck", check, &fetched)
		for _, spec := range []*discoveryv2.HealthCheckSpecifier{&streamed, &fetched} {
			if l := spec.GetClusterHealthChecks(); len(l) != 1 || l[0].GetClusterName() != "c" {
				t.Errorf("health checks: %v", spec)
			}
		}
	})
}

// checkV2 checks a response of v2: one resource x of the type, which v2 decodes
// whole, and nothing that v2 does not know.
func checkV2(t *testing.T, what, typeURL string, m proto.Message, resources int) {
	t.Helper()
	get := func(field protoreflect.Name) string {
		return m.ProtoReflect().Get(m.ProtoReflect().Descriptor().Fields().ByName(field)).String()
	}
	if get("type_url") != typeURL || get("nonce") == "" || resources != 1 {
		t.Errorf("%s: %v, want one of %s", what, m, typeURL)
	}
	if u := m.ProtoReflect().GetUnknown(); len(u) > 0 {
		t.Errorf("%s: v2 does not know %x", what, u)
	}
	if r, ok := m.(*api.DiscoveryResponse); ok {
		for _, a := range r.GetResources() {
			got, err := a.UnmarshalNew()
			if err != nil || a.GetTypeUrl() != typeURL || len(got.ProtoReflect().GetUnknown()) > 0 {
				t.Errorf("%s: %v (%v)", what, a, err)
			}
		}
	}
}

// Proves XV-02 and XV-03: what version a resource has follows from the type URL, on
// methods of either version, for one type and aggregated; a stream for one type
// carries what its first request says.
func TestVersionsOfMethodsAndTypes(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(restCluster(t, "c", ""))
		v2 := xds.V2Type(xds.ClusterType)
		for _, path := range []string{
			adsSotw, cdsSotw, "/envoy.api.v2.ClusterDiscoveryService/StreamClusters", "/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources",
		} {
			for _, typeURL := range []string{xds.ClusterType, v2} {
				s := h.sotwOn(path)
				s.subscribe(node("n"), typeURL)
				r := s.must()
				if r.GetTypeUrl() != typeURL || len(r.GetResources()) != 1 || r.GetResources()[0].GetTypeUrl() != typeURL {
					t.Fatalf("%s for %s: %v", path, typeURL, r)
				}
				s.ack(r)
				s.silent("after the answer")
				other := map[string]string{v2: xds.ClusterType, xds.ClusterType: v2}[typeURL]
				s.subscribe(nil, other)
				if strings.Contains(path, "Aggregated") {
					if r := s.must(); r.GetTypeUrl() != other || r.GetResources()[0].GetTypeUrl() != other {
						t.Errorf("%s: both versions: %v", path, r)
					}
				} else {
					s.endsWith(codes.InvalidArgument)
				}
				s.cancel()
			}
		}
		for _, path := range []string{cdsFetch, "/envoy.api.v2.ClusterDiscoveryService/FetchClusters"} {
			for _, typeURL := range []string{xds.ClusterType, v2} {
				var r discoveryv3.DiscoveryResponse
				h.invoke(path, &discoveryv3.DiscoveryRequest{TypeUrl: typeURL}, &r)
				if r.GetTypeUrl() != typeURL || len(r.GetResources()) != 1 || r.GetResources()[0].GetTypeUrl() != typeURL {
					t.Errorf("%s for %s: %v", path, typeURL, &r)
				}
			}
			var r discoveryv3.DiscoveryResponse
			err := h.conn().Invoke(h.ctx, path, &discoveryv3.DiscoveryRequest{TypeUrl: xds.V2Type(xds.EndpointType)}, &r)
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s for endpoints: %v", path, err)
			}
		}
	})
}

// unsayable is a cluster that v2 has no words for.
func unsayable(t testing.TB, name string) *xds.Resource {
	t.Helper()
	return marshalled(t, name, &clusterv3.Cluster{Name: name, LoadBalancingPolicy: &clusterv3.LoadBalancingPolicy{
		Policies: []*clusterv3.LoadBalancingPolicy_Policy{{TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: "x"}}},
	}})
}

// Proves XV-04 with TestPairs of apiv2: what v2 cannot say is left out with a
// resource error, counted and logged once, and status says why; on methods of v2 the
// error is not sent. Partly proves XV-06.
func TestV2Errors(t *testing.T) {
	var log bytes.Buffer
	opts := []xdsserver.Option{xdsserver.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}
	bubble(t, opts, func(h *harness) {
		h.set(restCluster(t, "good", ""), unsayable(t, "bad"))
		v2 := xds.V2Type(xds.ClusterType)
		for range 3 {
			s := h.sotw()
			s.subscribe(node("n"), v2)
			r := s.must()
			if len(r.GetResources()) != 1 || len(r.GetResourceErrors()) != 1 || r.GetResourceErrors()[0].GetResourceName().GetName() != "bad" ||
				!strings.Contains(r.GetResourceErrors()[0].GetErrorDetail().GetMessage(), "load_balancing_policy.policies[0].typed_extension_config: v2 of the API has no such field") {
				t.Errorf("got %v", r)
			}
		}
		d := h.delta()
		d.subscribe(node("n"), v2, "bad")
		if r := d.must(); len(r.GetResources()) != 0 || len(r.GetRemovedResources()) != 1 || len(r.GetResourceErrors()) != 1 {
			t.Errorf("delta: %v", r)
		}
		old := h.deltaOn("/envoy.service.discovery.v2.AggregatedDiscoveryService/DeltaAggregatedResources")
		old.subscribe(node("n"), v2, "bad", "good")
		if r := old.must(); len(r.GetResources()) != 1 || len(r.GetRemovedResources()) != 1 || r.GetResourceErrors() != nil || r.GetControlPlane() != nil {
			t.Errorf("delta of v2: %v", r)
		}
		whole := h.sotw()
		whole.subscribe(node("n"), xds.ClusterType)
		if r := whole.must(); len(r.GetResources()) != 2 || r.GetResourceErrors() != nil {
			t.Errorf("v3: %v", r)
		}
		if got := h.srv.Stats().LeftOut; got[v2] != 1 || got[xds.V2Type(xds.ListenerType)] != 0 {
			t.Errorf("counted %v", got)
		}
		if n := strings.Count(log.String(), "cannot be said in v2"); n != 1 || !strings.Contains(log.String(), "resource=bad") {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		found := false
		for _, r := range h.srv.Resources(1, v2) {
			found = found || r.Name == "bad" && r.State == xdsserver.NotSent && strings.Contains(r.Withheld, "v2 of the API")
		}
		if !found {
			t.Errorf("status: %+v", h.srv.Resources(1, v2))
		}
	})
}

// What a client was sent goes away when its next content cannot be said.
func TestV2ContentThatCannotBeSaidAnyMore(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(restCluster(t, "c", ""))
		d := h.deltaOn("/envoy.api.v2.ClusterDiscoveryService/DeltaClusters")
		d.subscribe(node("n"), "")
		d.ack(d.must())
		h.set(unsayable(t, "c"))
		r := d.must()
		if len(r.GetRemovedResources()) != 1 || len(r.GetResources()) != 0 {
			t.Fatalf("got %v", r)
		}
		d.ack(r)
		h.set(restCluster(t, "c", "again"))
		if r := d.must(); len(r.GetResources()) != 1 {
			t.Errorf("got %v", r)
		}
	})
}

// Requests of v2 know no locators: the field is ignored as v2 ignores any it does
// not know. Partly proves XV-06.
func TestV2RequestsHaveNoLocators(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(restCluster(t, "a", ""), restCluster(t, "b", ""))
		s := h.sotwOn("/envoy.api.v2.ClusterDiscoveryService/StreamClusters")
		s.send(&discoveryv3.DiscoveryRequest{Node: node("n"), ResourceNames: []string{"a"}, ResourceLocators: []*discoveryv3.ResourceLocator{{Name: "b", DynamicParameters: map[string]string{"k": "v"}}}})
		if r := s.must(); len(r.GetResources()) != 1 {
			t.Errorf("got %v", r)
		}
		d := h.deltaOn("/envoy.api.v2.ClusterDiscoveryService/DeltaClusters")
		d.send(&discoveryv3.DeltaDiscoveryRequest{Node: node("n"), ResourceNamesSubscribe: []string{"a"}, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{{Name: "b", DynamicParameters: map[string]string{"k": "v"}}}})
		if r := d.must(); len(r.GetResources()) != 1 {
			t.Errorf("got %v", r)
		}
	})
}

// Proves XV-07, XV-08 and XD-09: v2 clients' build version is shown; client status in
// v2 holds dumps in v2 for each type that it has a place for, and nothing else.
func TestV2ClientStatus(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithPerTypeStatus(true)}, func(h *harness) {
		h.set(everyTypeOfV2(t)...)
		h.set(unsayable(t, "bad"))
		cc := h.conn()
		st := open[api.DiscoveryRequest, api.DiscoveryResponse](h, cc, "/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources")
		for _, typeURL := range []string{xds.ListenerType, xds.ClusterType, xds.RouteType, xds.ScopedRouteType, xds.EndpointType} {
			names := []string{"x"}
			if typeURL == xds.ClusterType {
				names = nil
			}
			st.send(&api.DiscoveryRequest{Node: oldNode("old"), TypeUrl: xds.V2Type(typeURL), ResourceNames: names})
			r := st.must()
			if typeURL != xds.RouteType {
				st.send(&api.DiscoveryRequest{TypeUrl: r.GetTypeUrl(), VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce(), ResourceNames: names})
			}
		}
		st.silent("after the answers")
		byID := func(id string) []*matcherv2.NodeMatcher {
			return []*matcherv2.NodeMatcher{{NodeId: &matcherv2.StringMatcher{MatchPattern: &matcherv2.StringMatcher_Exact{Exact: id}}}}
		}
		var none, r statusv2.ClientStatusResponse
		const fetch = "/envoy.service.status.v2.ClientStatusDiscoveryService/FetchClientStatus"
		h.invoke(fetch, &statusv2.ClientStatusRequest{NodeMatchers: byID("else")}, &none)
		h.invoke(fetch, &statusv2.ClientStatusRequest{NodeMatchers: byID("old")}, &r)
		if len(none.GetConfig()) != 0 || len(r.GetConfig()) != 1 {
			t.Fatalf("got %v and %v", &none, &r)
		}
		c := r.GetConfig()[0]
		if c.GetNode().GetBuildVersion() != oldNode("").GetBuildVersion() || len(c.GetXdsConfig()) != 4 || len(c.ProtoReflect().GetUnknown()) > 0 { //nolint:staticcheck // that is the point
			t.Errorf("got %v", c)
		}
		checkV2Dumps(t, c.GetXdsConfig())
		regex := []*matcherv2.NodeMatcher{{NodeId: &matcherv2.StringMatcher{MatchPattern: &matcherv2.StringMatcher_Regex{Regex: "o.*"}}}} //nolint:staticcheck // that is the point
		err := cc.Invoke(h.ctx, fetch, &statusv2.ClientStatusRequest{NodeMatchers: regex}, &none)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "node_matchers[0].node_id.regex") {
			t.Errorf("a matcher that v3 does not have: %v", err)
		}
		var new3 statusv3.ClientStatusResponse
		h.invoke(statusv3.ClientStatusDiscoveryService_FetchClientStatus_FullMethodName, &statusv3.ClientStatusRequest{}, &new3)
		got := new3.GetConfig()[0]
		if n := got.GetNode(); n.GetUserAgentVersion() != oldNode("").GetBuildVersion() { //nolint:staticcheck // that is the point
			t.Errorf("the node in v3: %v", n)
		}
		if len(got.GetXdsConfig()) != 5 { //nolint:staticcheck // that is the point
			t.Errorf("xds_config in v3: %v", got)
		}
		for _, g := range got.GetGenericXdsConfigs() {
			if a := g.GetXdsConfig(); a != nil && a.GetTypeUrl() != g.GetTypeUrl() {
				t.Errorf("%s %q is shown as %s", g.GetTypeUrl(), g.GetName(), a.GetTypeUrl())
			}
		}
		if n := h.srv.Clients()[0].Node; n.BuildVersion != oldNode("").GetBuildVersion() { //nolint:staticcheck // that is the point
			t.Errorf("the node: %+v", n)
		}
	})
}

func checkV2Dumps(t *testing.T, list []*statusv2.PerXdsConfig) {
	t.Helper()
	for _, p := range list {
		want := statusv2.ConfigStatus_SYNCED
		var version, typeURL string
		switch d := p.GetPerXdsConfig().(type) {
		case *statusv2.PerXdsConfig_ListenerConfig:
			l := d.ListenerConfig.GetDynamicListeners()[0]
			version, typeURL = l.GetActiveState().GetVersionInfo(), l.GetActiveState().GetListener().GetTypeUrl()
			typeURL = strings.Replace(typeURL, "Listener", "", 1) + l.GetName()
		case *statusv2.PerXdsConfig_ClusterConfig:
			c := d.ClusterConfig.GetDynamicActiveClusters()
			if len(c) != 1 || d.ClusterConfig.GetVersionInfo() == "" {
				t.Errorf("clusters: %v", d)
				continue
			}
			version, typeURL = c[0].GetVersionInfo(), strings.Replace(c[0].GetCluster().GetTypeUrl(), "Cluster", "x", 1)
		case *statusv2.PerXdsConfig_RouteConfig:
			r := d.RouteConfig.GetDynamicRouteConfigs()[0]
			version, typeURL = r.GetVersionInfo(), strings.Replace(r.GetRouteConfig().GetTypeUrl(), "RouteConfiguration", "x", 1)
			want = statusv2.ConfigStatus_STALE
		case *statusv2.PerXdsConfig_ScopedRouteConfig:
			s := d.ScopedRouteConfig.GetDynamicScopedRouteConfigs()[0]
			version, typeURL = s.GetVersionInfo(), strings.Replace(s.GetScopedRouteConfigs()[0].GetTypeUrl(), "ScopedRouteConfiguration", "x", 1)
		}
		if version == "" || typeURL != xds.TypePrefix+"envoy.api.v2.x" || p.GetStatus() != want {
			t.Errorf("got %v (%q %q)", p, version, typeURL)
		}
	}
}

// Proves XR-01 with TestRESTPaths: the paths of v2, with types of either version.
// Partly proves XR-12 and XV-07.
func TestRESTV2(t *testing.T) {
	serving(t, nil, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		h.set(everyTypeOfV2(t)...)
		h.set(unsayable(t, "bad"))
		for row := range strings.Lines(strings.TrimSpace(methodsV2)) {
			f := strings.Fields(row)
			if f[5] == "-" {
				continue
			}
			path, typeURL := "/v2/discovery:"+f[5], xds.TypePrefix+f[4]
			body := `{"node":{"id":"a","build_version":"1.2"},"resource_names":["x","bad"],"type_url":`
			for _, asked := range []string{"", typeURL} {
				w := h.post(path, body+`"`+asked+`"}`)
				var r api.DiscoveryResponse
				if err := protojson.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusOK { // which allows no unknown fields
					t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
				}
				checkV2(t, path, typeURL, &r, len(r.GetResources()))
				if w := h.post(path, `{"version_info":"`+r.GetVersionInfo()+`",`+body[1:]+`"`+asked+`"}`); w.Code != http.StatusNotModified {
					t.Errorf("%s again: %d %s", path, w.Code, w.Body)
				}
			}
			v3 := xds.V3Type(typeURL)
			if r := polled(t, h.post(path, body+`"`+v3+`"}`)); r.GetTypeUrl() != v3 || r.GetResources()[0].GetTypeUrl() != v3 {
				t.Errorf("%s for %s: %v", path, v3, r)
			}
			if r := polled(t, h.post("/v3/discovery:"+f[5], body+`"`+typeURL+`"}`)); r.GetTypeUrl() != typeURL || r.GetResources()[0].GetTypeUrl() != typeURL {
				t.Errorf("the v3 path for %s: %v", typeURL, r)
			}
			if w := h.post(path, `{"type_url":"type.googleapis.com/x.Y"}`); w.Code != http.StatusBadRequest {
				t.Errorf("%s for another type: %d %s", path, w.Code, w.Body)
			}
		}
		w := h.post("/v2/discovery:client_status", `{}`)
		var r statusv2.ClientStatusResponse
		if err := protojson.Unmarshal(w.Body.Bytes(), &r); err != nil || !slices.ContainsFunc(r.GetConfig(), func(c *statusv2.ClientConfig) bool { return c.GetNode().GetBuildVersion() == "1.2" }) { //nolint:staticcheck // that is the point
			t.Errorf("client status: %d %s: %v", w.Code, w.Body, err)
		}
	})
}

// A stream that asks for a resource in both versions and gives one of them up is
// told of changes in the other.
func TestV2GivingUpOneVersion(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(restCluster(t, "c", ""))
		v2 := xds.V2Type(xds.ClusterType)
		for _, kept := range []string{xds.ClusterType, v2} {
			given := map[string]string{v2: xds.ClusterType, xds.ClusterType: v2}[kept]
			d := h.delta()
			for _, typeURL := range []string{xds.ClusterType, v2} {
				d.subscribe(node("n"), typeURL, "c")
				d.ack(d.must())
			}
			d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: given, ResourceNamesUnsubscribe: []string{"c"}})
			d.silent("after giving one up")
			h.set(restCluster(t, "c", "for "+kept))
			if r := d.must(); r.GetTypeUrl() != kept || len(r.GetResources()) != 1 {
				t.Errorf("got %v, want it as %s", r, kept)
			}
			d.silent("after the change")
			d.cancel()
		}
	})
	bubble(t, nil, func(h *harness) {
		d := h.delta()
		for _, typeURL := range []string{xds.ClusterType, xds.V2Type(xds.ClusterType)} {
			d.subscribe(node("n"), typeURL, "c")
		}
		d.cancel()
		d.endsWith(codes.Canceled)
		if n := h.srv.Held(); n.Interests != 0 || n.Streams != 0 {
			t.Errorf("a stream that has ended is remembered: %+v", n)
		}
	})
}

// A server holds v3 only: what is given in v2 would reach nobody.
func TestV2ResourcesAreRefused(t *testing.T) {
	srv, err := xdsserver.New()
	if err != nil {
		t.Fatal(err)
	}
	r := xds.NewResource(xds.V2Type(xds.ClusterType), "c", nil)
	err = srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: {Set: []*xds.Resource{r}}}})
	if err == nil || !strings.Contains(err.Error(), "in v3") {
		t.Errorf("got %v", err)
	}
}

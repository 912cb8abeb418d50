package xdsserver_test

import (
	"context"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
	"github.com/xebec-proxy/xebec/xdsserver/healthdiscovery"
	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

// registerBeside registers every service that a management server has beside
// discovery and client status.
func registerBeside(t *testing.T, gs *grpc.Server, srv *xdsserver.Server) {
	t.Helper()
	loads, err := loadreport.New(loadreport.WithAllow(srv.Authorize))
	if err != nil {
		t.Fatal(err)
	}
	checks, err := healthdiscovery.New(healthdiscovery.WithAllow(srv.Authorize), healthdiscovery.WithProvider(
		func(context.Context, healthdiscovery.Checker) (*healthv3.HealthCheckSpecifier, error) {
			return &healthv3.HealthCheckSpecifier{ClusterHealthChecks: []*healthv3.ClusterHealthCheck{{ClusterName: "c"}}}, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	loads.Register(gs)
	checks.Register(gs)
	healthpb.RegisterHealthServer(gs, health.NewServer())
	reflection.Register(gs)
	t.Cleanup(func() { loads.Close(); checks.Close() })
}

// full is a server with every service, in real time.
func full(t *testing.T, opts []xdsserver.Option, grpcOpts []grpc.ServerOption, test func(h *harness)) {
	t.Helper()
	servingWith(t, opts, grpcOpts, func(h *harness) {
		registerBeside(t, h.gs, h.srv)
	}, test)
}

// Methods of the specification's section 1, v3: service, then SotW, delta and
// unary method, "-" for none, and the type.
const discoveryTable = `
envoy.service.listener.v3.ListenerDiscoveryService StreamListeners DeltaListeners FetchListeners envoy.config.listener.v3.Listener
envoy.service.route.v3.RouteDiscoveryService StreamRoutes DeltaRoutes FetchRoutes envoy.config.route.v3.RouteConfiguration
envoy.service.route.v3.ScopedRoutesDiscoveryService StreamScopedRoutes DeltaScopedRoutes FetchScopedRoutes envoy.config.route.v3.ScopedRouteConfiguration
envoy.service.route.v3.VirtualHostDiscoveryService - DeltaVirtualHosts - envoy.config.route.v3.VirtualHost
envoy.service.cluster.v3.ClusterDiscoveryService StreamClusters DeltaClusters FetchClusters envoy.config.cluster.v3.Cluster
envoy.service.endpoint.v3.EndpointDiscoveryService StreamEndpoints DeltaEndpoints FetchEndpoints envoy.config.endpoint.v3.ClusterLoadAssignment
envoy.service.endpoint.v3.LocalityEndpointDiscoveryService - DeltaLocalityEndpoints - envoy.config.endpoint.v3.LbEndpoint
envoy.service.secret.v3.SecretDiscoveryService StreamSecrets DeltaSecrets FetchSecrets envoy.extensions.transport_sockets.tls.v3.Secret
envoy.service.runtime.v3.RuntimeDiscoveryService StreamRuntime DeltaRuntime FetchRuntime envoy.service.runtime.v3.Runtime
envoy.service.extension.v3.ExtensionConfigDiscoveryService StreamExtensionConfigs DeltaExtensionConfigs FetchExtensionConfigs envoy.config.core.v3.TypedExtensionConfig
envoy.service.discovery.v3.AggregatedDiscoveryService StreamAggregatedResources DeltaAggregatedResources - envoy.config.core.v3.TypedExtensionConfig
`

// Partly proves XS-00; every v3 method is registered and answers with the
// resource that was asked for.
func TestEveryMethodAnswers(t *testing.T) {
	full(t, nil, nil, func(h *harness) {
		rows := strings.Split(strings.TrimSpace(discoveryTable), "\n")
		for _, row := range rows {
			h.set(res(xds.TypePrefix+strings.Fields(row)[4], "x", "1"))
		}
		for _, row := range rows {
			f := strings.Fields(row)
			typeURL, only := xds.TypePrefix+f[4], !strings.Contains(f[0], "Aggregated")
			ask := &discoveryv3.DiscoveryRequest{Node: node("n"), ResourceNames: []string{"x"}}
			askDelta := &discoveryv3.DeltaDiscoveryRequest{Node: node("n"), ResourceNamesSubscribe: []string{"x"}}
			if !only {
				ask.TypeUrl, askDelta.TypeUrl = typeURL, typeURL
			}
			var r, u discoveryv3.DiscoveryResponse
			var d discoveryv3.DeltaDiscoveryResponse
			if f[1] != "-" {
				h.exchange("/"+f[0]+"/"+f[1], ask, &r)
				checkOne(t, f[1], typeURL, r.GetTypeUrl(), len(r.GetResources()))
			}
			h.exchange("/"+f[0]+"/"+f[2], askDelta, &d)
			checkOne(t, f[2], typeURL, d.GetTypeUrl(), len(d.GetResources()))
			if f[3] != "-" {
				h.invoke("/"+f[0]+"/"+f[3], ask, &u)
				checkOne(t, f[3], typeURL, u.GetTypeUrl(), len(u.GetResources()))
			}
		}
		h.exchange(lrsv3.LoadReportingService_StreamLoadStats_FullMethodName, &lrsv3.LoadStatsRequest{Node: node("n")}, &lrsv3.LoadStatsResponse{})
		h.exchange(statusv3.ClientStatusDiscoveryService_StreamClientStatus_FullMethodName, &statusv3.ClientStatusRequest{}, &statusv3.ClientStatusResponse{})
		h.invoke(statusv3.ClientStatusDiscoveryService_FetchClientStatus_FullMethodName, &statusv3.ClientStatusRequest{}, &statusv3.ClientStatusResponse{})
		check := &healthv3.HealthCheckRequestOrEndpointHealthResponse{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
			HealthCheckRequest: &healthv3.HealthCheckRequest{
				Node:       node("n"),
				Capability: &healthv3.Capability{HealthCheckProtocols: []healthv3.Capability_Protocol{healthv3.Capability_HTTP, healthv3.Capability_TCP}},
			},
		}}
		h.exchange(healthv3.HealthDiscoveryService_StreamHealthCheck_FullMethodName, check, &healthv3.HealthCheckSpecifier{})
		h.invoke(healthv3.HealthDiscoveryService_FetchHealthCheck_FullMethodName, check, &healthv3.HealthCheckSpecifier{})
	})
}

func checkOne(t *testing.T, method, wantType, gotType string, resources int) {
	t.Helper()
	if gotType != wantType || resources != 1 {
		t.Errorf("%s: %d resources of type %q, want 1 of %q", method, resources, gotType, wantType)
	}
}

// exchange sends one message on a stream and waits for one back.
func (h *harness) exchange(path string, ask, answer proto.Message) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	st, err := h.conn().NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err == nil {
		err = st.SendMsg(ask)
	}
	if err == nil {
		err = st.RecvMsg(answer)
	}
	if err != nil {
		h.t.Errorf("%s: %v", path, err)
	}
}

func (h *harness) invoke(path string, ask, answer proto.Message) {
	h.t.Helper()
	if err := h.conn().Invoke(h.ctx, path, ask, answer); err != nil {
		h.t.Errorf("%s: %v", path, err)
	}
}

// methods lists every method that is registered, true for streams.
func methods(gs *grpc.Server) map[string]bool {
	list := map[string]bool{}
	for service, info := range gs.GetServiceInfo() {
		for _, m := range info.Methods {
			list["/"+service+"/"+m.Name] = m.IsClientStream || m.IsServerStream
		}
	}
	return list
}

// probe calls a method with an empty message and returns how the call ended;
// OK stands for an answer.
func probe(ctx context.Context, cc *grpc.ClientConn, path string, stream bool) error {
	if !stream {
		return cc.Invoke(ctx, path, &emptypb.Empty{}, &emptypb.Empty{})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err != nil {
		return err
	}
	_ = st.SendMsg(&emptypb.Empty{}) // RecvMsg says why it failed
	_ = st.CloseSend()
	return st.RecvMsg(&emptypb.Empty{})
}

// Proves XS-02: on a stream of one type the type is implied and no other is
// taken.
// Proves XS-03: on an aggregated stream it has to be given.
func TestTypeURLRules(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"))
		s, d := h.sotwOn(cdsSotw), h.deltaOn(cdsDelta)
		s.subscribe(node("n"), "")
		d.subscribe(node("n"), "")
		if sr, dr := s.must(), d.must(); sr.GetTypeUrl() != xds.ClusterType || dr.GetTypeUrl() != xds.ClusterType {
			t.Errorf("implied type: %v, %v", sr, dr)
		}
		for _, c := range []struct{ sotw, delta, typeURL string }{
			{cdsSotw, cdsDelta, xds.EndpointType},
			{adsSotw, adsDelta, ""},
		} {
			s, d := h.sotwOn(c.sotw), h.deltaOn(c.delta)
			s.subscribe(node("n"), c.typeURL)
			d.subscribe(node("n"), c.typeURL)
			s.endsWith(codes.InvalidArgument)
			d.endsWith(codes.InvalidArgument)
		}
		var r discoveryv3.DiscoveryResponse
		err := h.conn().Invoke(h.ctx, cdsFetch, &discoveryv3.DiscoveryRequest{TypeUrl: xds.EndpointType}, &r)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a fetch of another type: %v", err)
		}
	})
}

// A unary fetch returns the present state: what is named, all of a wildcard
// type, or nothing; before the first load it is refused.
func TestFetch(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		fetch := func(path string, names ...string) (*discoveryv3.DiscoveryResponse, error) {
			r := &discoveryv3.DiscoveryResponse{}
			err := h.conn().Invoke(h.ctx, path, &discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "n"}, ResourceNames: names}, r)
			return r, err
		}
		if _, err := fetch(cdsFetch); status.Code(err) != codes.Unavailable {
			t.Errorf("before the load: %v", err)
		}
		h.apply(snapshot.Batch{Full: true})
		if r, err := fetch(cdsFetch); err != nil || len(r.GetResources()) != 0 || r.GetVersionInfo() == "" || r.GetNonce() == "" {
			t.Errorf("from an empty group: %v, %v", r, err)
		}
		h.set(res(xds.ClusterType, "a", "1"), res(xds.ClusterType, "b", "1"), res(xds.EndpointType, "a", "1"), res(xds.EndpointType, "b", "1"))
		for _, c := range []struct {
			path  string
			names []string
			want  int
		}{
			{cdsFetch, nil, 2},
			{cdsFetch, []string{"*"}, 2},
			{cdsFetch, []string{"a"}, 1},
			{cdsFetch, []string{"nope"}, 0},
			{edsFetch, nil, 0},
			{edsFetch, []string{"a", "b", "nope"}, 2},
			{edsFetch, []string{"nope"}, 0},
		} {
			r, err := fetch(c.path, c.names...)
			if err != nil || len(r.GetResources()) != c.want || r.GetVersionInfo() == "" || r.GetTypeUrl() == "" {
				t.Errorf("%s %v: %v, %v; want %d resources", c.path, c.names, r, err, c.want)
			}
		}
		// Every fetch is the whole answer, whatever the client says it has.
		r, err := fetch(cdsFetch)
		if err != nil {
			t.Fatal(err)
		}
		again := &discoveryv3.DiscoveryResponse{}
		ask := &discoveryv3.DiscoveryRequest{VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce()}
		if err := h.conn().Invoke(h.ctx, cdsFetch, ask, again); err != nil || len(again.GetResources()) != 2 {
			t.Errorf("a fetch at the present version: %v, %v", again, err)
		}
	})
}

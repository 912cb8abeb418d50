package xdsserver

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// method is one streaming method.
type method struct {
	path    string
	variant wire.Variant
	only    string // type URL, empty for ADS
	v2      bool   // its messages are those of v2 (XV-01)
}

// service is a row of the table of services (specification, section 1).
type service struct {
	name, only         string
	sotw, delta, fetch string // methods; empty if there is none
	file               string // the proto file that defines it
	// The same service in v2: its name and file; empty if there is none.
	v2, v2file string
}

func services() []service {
	return []service{
		{"envoy.service.listener.v3.ListenerDiscoveryService", xds.ListenerType, "StreamListeners", "DeltaListeners", "FetchListeners", "envoy/service/listener/v3/lds.proto", "envoy.api.v2.ListenerDiscoveryService", "envoy/api/v2/lds.proto"},
		{"envoy.service.route.v3.RouteDiscoveryService", xds.RouteType, "StreamRoutes", "DeltaRoutes", "FetchRoutes", "envoy/service/route/v3/rds.proto", "envoy.api.v2.RouteDiscoveryService", "envoy/api/v2/rds.proto"},
		{"envoy.service.route.v3.ScopedRoutesDiscoveryService", xds.ScopedRouteType, "StreamScopedRoutes", "DeltaScopedRoutes", "FetchScopedRoutes", "envoy/service/route/v3/srds.proto", "envoy.api.v2.ScopedRoutesDiscoveryService", "envoy/api/v2/srds.proto"},
		{"envoy.service.route.v3.VirtualHostDiscoveryService", xds.VirtualHostType, "", "DeltaVirtualHosts", "", "envoy/service/route/v3/rds.proto", "envoy.api.v2.VirtualHostDiscoveryService", "envoy/api/v2/rds.proto"},
		{"envoy.service.cluster.v3.ClusterDiscoveryService", xds.ClusterType, "StreamClusters", "DeltaClusters", "FetchClusters", "envoy/service/cluster/v3/cds.proto", "envoy.api.v2.ClusterDiscoveryService", "envoy/api/v2/cds.proto"},
		{"envoy.service.endpoint.v3.EndpointDiscoveryService", xds.EndpointType, "StreamEndpoints", "DeltaEndpoints", "FetchEndpoints", "envoy/service/endpoint/v3/eds.proto", "envoy.api.v2.EndpointDiscoveryService", "envoy/api/v2/eds.proto"},
		{"envoy.service.endpoint.v3.LocalityEndpointDiscoveryService", xds.LocalityEndpointType, "", "DeltaLocalityEndpoints", "", "envoy/service/endpoint/v3/leds.proto", "", ""},
		{"envoy.service.secret.v3.SecretDiscoveryService", xds.SecretType, "StreamSecrets", "DeltaSecrets", "FetchSecrets", "envoy/service/secret/v3/sds.proto", "envoy.service.discovery.v2.SecretDiscoveryService", "envoy/service/discovery/v2/sds.proto"},
		{"envoy.service.runtime.v3.RuntimeDiscoveryService", xds.RuntimeType, "StreamRuntime", "DeltaRuntime", "FetchRuntime", "envoy/service/runtime/v3/rtds.proto", "envoy.service.discovery.v2.RuntimeDiscoveryService", "envoy/service/discovery/v2/rtds.proto"},
		{"envoy.service.extension.v3.ExtensionConfigDiscoveryService", xds.ExtensionConfigType, "StreamExtensionConfigs", "DeltaExtensionConfigs", "FetchExtensionConfigs", "envoy/service/extension/v3/config_discovery.proto", "", ""},
		{"envoy.service.discovery.v3.AggregatedDiscoveryService", "", "StreamAggregatedResources", "DeltaAggregatedResources", "", "envoy/service/discovery/v3/ads.proto", "envoy.service.discovery.v2.AggregatedDiscoveryService", "envoy/service/discovery/v2/ads.proto"},
	}
}

// Register adds every discovery service and CSDS to a grpc.Server that was
// built with GRPCOptions.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	for _, svc := range services() {
		r.RegisterService(s.describe(svc, false), s)
		if svc.v2 != "" {
			r.RegisterService(s.describe(svc.inV2(), true), s)
		}
	}
	s.registerStatus(r)
}

// inV2 is the service of v2 (XV-01).
func (svc service) inV2() service {
	svc.name, svc.file, svc.only = svc.v2, svc.v2file, xds.V2Type(svc.only)
	return svc
}

func (s *Server) describe(svc service, v2 bool) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: svc.name, HandlerType: (*any)(nil), Metadata: svc.file}
	stream := func(name string, v wire.Variant) {
		if name == "" {
			return
		}
		m := method{path: "/" + d.ServiceName + "/" + name, variant: v, only: svc.only, v2: v2}
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: name, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, rpc grpc.ServerStream) error { return s.serve(rpc, m) },
		})
	}
	stream(svc.sotw, wire.Sotw)
	stream(svc.delta, wire.Delta)
	if svc.fetch != "" {
		m := method{path: "/" + d.ServiceName + "/" + svc.fetch, only: svc.only, v2: v2}
		d.Methods = []grpc.MethodDesc{{MethodName: svc.fetch, Handler: s.unary(m)}}
	}
	return d
}

func (s *Server) unary(m method) grpc.MethodHandler {
	return func(_ any, ctx context.Context, dec func(any) error, gate grpc.UnaryServerInterceptor) (any, error) {
		var in incoming
		if err := dec(&in); err != nil {
			return nil, err
		}
		call := func(ctx context.Context, _ any) (any, error) { return s.fetch(ctx, m, in.data) }
		if gate == nil {
			return call(ctx, &in)
		}
		return gate(ctx, &in, &grpc.UnaryServerInfo{Server: s, FullMethod: m.path}, call)
	}
}

// fetch answers a unary request with the present state of what it names.
func (s *Server) fetch(ctx context.Context, m method, data string) (any, error) {
	r, err := decode(wire.Sotw, m.v2, data)
	if err == nil {
		err = r.takeNames()
	}
	if err != nil {
		return nil, statusOf(err)
	}
	node := xds.NodeFromProto(r.node)
	if s.cfg.requireNode && node.Empty() {
		return nil, errNoNode
	}
	if err := s.authorize(ctx, m.path, node); err != nil {
		return nil, err
	}
	_, view := s.locate(node)
	if view == nil {
		return nil, errNotLoaded
	}
	return s.present(m.carries(r.TypeURL), node, view, &r.Request)
}

// present is a snapshot's answer to a request without history.
func (s *Server) present(m method, node *xds.Node, view *snapshot.Snapshot, r *wire.Request) (any, error) {
	cfg := s.wireConfig(m, node, func() *snapshot.Snapshot { return view })
	cfg.AlwaysFirst, cfg.MaxResponse = true, 1<<30
	w := wire.NewStream(cfg)
	r.Error = nil
	if _, err := w.Request(time.Time{}, r); err != nil {
		return nil, statusOf(err)
	}
	w.Publish(view)
	resp := w.Next(time.Time{})
	if resp == nil {
		resp = &wire.Response{TypeURL: m.only, Nonce: "0", Version: view.Set(canonical(m.only)).Version()}
	}
	resp.Resources = s.inForm(m.only, node.Supports(xds.FeatureRequireAnyStruct), resp.Resources)
	return &outgoing{s.encoder.encode(wire.Sotw, m.v2, resp)}, nil
}

// locate is the group of a node and what it is to receive now; nil while
// nothing is loaded.
func (s *Server) locate(node *xds.Node) (string, *snapshot.Snapshot) {
	s.entryMu.RLock()
	defer s.entryMu.RUnlock()
	name := (*s.groupOf.Load())(node)
	view := s.Snapshot(name)
	if view == nil && s.Loaded() {
		view = snapshot.New()
	}
	return name, view
}

const (
	defaultMaxRequest  = 16 << 20
	defaultMinPing     = 5 * time.Second
	defaultPing        = 30 * time.Second
	defaultPingTimeout = 20 * time.Second
	connBuffer         = 16 << 10
	streamWindow       = 256 << 10
)

// GRPCOptions are what a grpc.Server needs to carry the services of s: the
// codec that passes encoded resources through, the auth gate in front of every
// method of every service, and keepalive and size limits that suit Envoy
// (XS-91). Options given to grpc.NewServer after them win.
func (s *Server) GRPCOptions() []grpc.ServerOption {
	k := s.cfg.keepalive
	limit := s.cfg.limits.MaxRequestBytes
	if limit == 0 {
		limit = defaultMaxRequest
	}
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec(&s.room)),
		grpc.ChainStreamInterceptor(s.streamGate),
		grpc.ChainUnaryInterceptor(s.unaryGate),
		grpc.MaxRecvMsgSize(limit),
		grpc.MaxConcurrentStreams(1 << 20),
		grpc.ReadBufferSize(connBuffer),
		grpc.WriteBufferSize(connBuffer),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(2 * streamWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: orDefault(k.MinPing, defaultMinPing), PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: orDefault(k.Ping, defaultPing), Timeout: orDefault(k.PingTimeout, defaultPingTimeout),
			MaxConnectionAge: k.MaxAge, MaxConnectionAgeGrace: k.MaxAgeGrace,
		}),
	}
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

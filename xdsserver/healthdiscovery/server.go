package healthdiscovery

import (
	"log/slog"
	"sync"

	hdsv2 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/internal/apiv2"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

// Server is a health discovery server (XL-14). Build it with [New] and add it
// to a gRPC server with [Server.Register]. It starts nothing by itself: each
// stream has one goroutine beside gRPC's own, which ends with the stream. All
// methods are safe for concurrent use.
type Server struct {
	healthv3.UnimplementedHealthDiscoveryServiceServer

	provider Provider
	limits   Limits
	log      *slog.Logger
	gate     *reporting.Gate
	nodes    *reporting.Roster[node]
	subs     reporting.Subscribers[NodeHealth]
	// converter is made for the first client that speaks v2.
	converter func() *apiv2.Converter

	mu        sync.Mutex // guards what follows
	refreshed chan struct{}
}

// New builds a server. It returns an error for a negative retention or limit.
func New(opts ...Option) (*Server, error) {
	o := options{provider: nothing, logger: slog.New(slog.DiscardHandler)}
	for _, set := range opts {
		set(&o)
	}
	limits, err := o.limits.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := reporting.OrDefault("retention", &o.retention, DefaultRetention); err != nil {
		return nil, err
	}
	terms := reporting.Terms{
		Server: "health discovery server", Stream: "health check", Kept: "results", Purpose: "check health",
	}
	capacity := reporting.Capacity{Streams: limits.Streams, Nodes: limits.Nodes, Retention: o.retention}
	return &Server{
		provider: o.provider, limits: limits, log: o.logger,
		gate:      reporting.NewGate(terms, o.allow, o.logger),
		nodes:     reporting.NewRoster(terms, capacity, func() *node { return &node{} }),
		converter: sync.OnceValue(apiv2.New),
		refreshed: make(chan struct{}),
	}, nil
}

// Register adds the service to a gRPC server, that of v3 and that of v2.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	healthv3.RegisterHealthDiscoveryServiceServer(r, s)
	hdsv2.RegisterHealthDiscoveryServiceServer(r, &serverV2{srv: s})
}

// Refresh asks the provider again for every open stream, and sends what it
// says where that differs from what the client was told last. It does not wait
// for the streams; several calls in a row may be answered as one.
func (s *Server) Refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.refreshed)
	s.refreshed = make(chan struct{})
}

// nextRefresh is closed by the next Refresh.
func (s *Server) nextRefresh() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshed
}

// Close ends all streams with UNAVAILABLE and refuses new ones, so that
// grpc.Server.GracefulStop need not wait for clients. It does not wait for the
// streams. Results can still be read.
func (s *Server) Close() { s.gate.Close() }

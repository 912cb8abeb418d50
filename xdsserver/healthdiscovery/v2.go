package healthdiscovery

import (
	"context"

	hdsv2 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/apiv2"
)

// serverV2 is the service of v2 (XV-01).
type serverV2 struct {
	hdsv2.UnimplementedHealthDiscoveryServiceServer
	srv *Server
}

// messageV2 is a message of a client that speaks v2.
type messageV2 = hdsv2.HealthCheckRequestOrEndpointHealthResponse

// StreamHealthCheck serves a stream of v2.
func (s *serverV2) StreamHealthCheck(stream grpc.BidiStreamingServer[messageV2, hdsv2.HealthCheckSpecifier]) error {
	return s.srv.StreamHealthCheck(&streamV2{ServerStream: stream, v2: stream, srv: s.srv})
}

// FetchHealthCheck answers a unary request of v2.
func (s *serverV2) FetchHealthCheck(ctx context.Context, m *messageV2) (*hdsv2.HealthCheckSpecifier, error) {
	return s.srv.FetchHealthCheckV2(ctx, m)
}

// FetchHealthCheckV2 is [Server.FetchHealthCheck] in the messages of v2. A cluster
// whose checks cannot be said in v2 of the API is left out, and logged.
func (s *Server) FetchHealthCheckV2(ctx context.Context, m *messageV2) (*hdsv2.HealthCheckSpecifier, error) {
	var req message
	if err := apiv2.Reread(m, &req); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	spec, err := s.FetchHealthCheck(ctx, &req)
	if err != nil {
		return nil, err
	}
	return s.inV2(spec), nil
}

// inV2 is what v2 can say of a specifier.
func (s *Server) inV2(spec *healthv3.HealthCheckSpecifier) *hdsv2.HealthCheckSpecifier {
	to := &hdsv2.HealthCheckSpecifier{Interval: spec.GetInterval()}
	for _, c := range spec.GetClusterHealthChecks() {
		var old hdsv2.ClusterHealthCheck
		if err := s.converter().Message(c, &old); err != nil {
			s.log.Warn("the checks of a cluster cannot be said in v2 of the API, and are left out", "cluster", c.GetClusterName(), "err", err)
			continue
		}
		to.ClusterHealthChecks = append(to.ClusterHealthChecks, &old)
	}
	return to
}

// streamV2 is a stream of v2 that is served as one of v3.
type streamV2 struct {
	grpc.ServerStream
	v2  grpc.BidiStreamingServer[messageV2, hdsv2.HealthCheckSpecifier]
	srv *Server
}

// Recv implements grpc.BidiStreamingServer.
func (s *streamV2) Recv() (*message, error) {
	m, err := s.v2.Recv()
	if err != nil {
		return nil, err //nolint:wrapcheck // gRPC's own, io.EOF among them
	}
	to := &message{}
	if err := apiv2.Reread(m, to); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return to, nil
}

// Send implements grpc.BidiStreamingServer.
func (s *streamV2) Send(spec *healthv3.HealthCheckSpecifier) error {
	return s.v2.Send(s.srv.inV2(spec)) //nolint:wrapcheck // gRPC's own
}

package healthdiscovery

import (
	"context"
	"errors"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

type (
	message     = healthv3.HealthCheckRequestOrEndpointHealthResponse
	checkStream = grpc.BidiStreamingServer[message, healthv3.HealthCheckSpecifier]
)

// session is one open stream; it belongs to the goroutine that serves it.
type session struct {
	checker Checker
	member  *reporting.Member[node]
	told    *healthv3.HealthCheckSpecifier // nil before the first
}

// StreamHealthCheck serves one stream. It is called by gRPC.
//
// The stream ends with INVALID_ARGUMENT if it does not begin with a
// HealthCheckRequest with a node, if a later one has another node, or if a
// report is malformed; with RESOURCE_EXHAUSTED if it exceeds [Limits]; with
// UNAVAILABLE after [Server.Close] and as [Provider] says. A report is
// recorded whole or not at all. Bytes that are no message of the service never
// get here: gRPC ends that stream with INTERNAL.
func (s *Server) StreamHealthCheck(stream checkStream) error {
	in := reporting.Receive(stream, s.gate)
	first, ok, err := in.First()
	if !ok {
		return err
	}
	se, err := s.open(stream.Context(), first)
	if err != nil {
		return err
	}
	defer s.nodes.Leave(se.member)
	log := s.log.With("node", se.checker.Node.ID)
	log.Debug("health check stream opened")
	err = in.Serve(func() (<-chan struct{}, error) {
		refresh := s.nextRefresh() // first, so that none is missed meanwhile
		return refresh, s.tell(stream, se)
	}, func(m *message) error { return s.take(stream, se, m) })
	log.Debug("health check stream ended", "err", err)
	return err
}

// FetchHealthCheck answers a HealthCheckRequest with what the node should
// check. It refuses an EndpointHealthResponse with INVALID_ARGUMENT: in a
// unary call nothing says which node it comes from.
func (s *Server) FetchHealthCheck(ctx context.Context, m *message) (*healthv3.HealthCheckSpecifier, error) {
	if m.GetEndpointHealthResponse() != nil {
		return nil, status.Error(codes.InvalidArgument,
			"a unary EndpointHealthResponse does not name its node; report on StreamHealthCheck")
	}
	c, err := s.admit(ctx, m)
	if err != nil {
		return nil, err
	}
	spec, err := specifier(ctx, s.provider, c)
	if err != nil {
		return nil, s.unprovided(c, err)
	}
	return spec, nil
}

func (s *Server) open(ctx context.Context, first *message) (*session, error) {
	c, err := s.admit(ctx, first)
	if err != nil {
		return nil, err
	}
	m, err := s.nodes.Join(reporting.KeyOf(c.Node), func(n *node) { n.introduce(c) })
	if err != nil {
		return nil, err
	}
	return &session{checker: c, member: m}, nil
}

// admit checks that a message introduces a node that is allowed in.
func (s *Server) admit(ctx context.Context, m *message) (Checker, error) {
	r := m.GetHealthCheckRequest()
	if r.GetNode() == nil {
		return Checker{}, status.Error(codes.InvalidArgument, "the first message must be a HealthCheckRequest with a node")
	}
	c := checkerOf(r)
	return c, s.gate.Admit(ctx, c.Node)
}

func checkerOf(r *healthv3.HealthCheckRequest) Checker {
	return Checker{xds.NodeFromProto(r.GetNode()), r.GetCapability().GetHealthCheckProtocols()}
}

// tell sends what the client should check, unless it was told so already.
func (s *Server) tell(stream checkStream, se *session) error {
	spec, err := specifier(stream.Context(), s.provider, se.checker)
	switch {
	case err != nil && se.told == nil:
		return s.unprovided(se.checker, err)
	case err != nil:
		s.log.Warn("no new health check specifier; the node keeps its last one", "node", se.checker.Node.ID, "err", err)
		return nil
	case proto.Equal(spec, se.told):
		return nil
	}
	if err := stream.Send(spec); err != nil {
		return err
	}
	se.told = spec
	return nil
}

func (s *Server) unprovided(c Checker, err error) error {
	s.log.Warn("no health check specifier", "node", c.Node.ID, "err", err)
	return status.Error(codes.Unavailable, "the server cannot say now what to check; try again")
}

func (s *Server) take(stream checkStream, se *session, m *message) error {
	switch {
	case m.GetHealthCheckRequest() != nil:
		return s.reintroduce(stream, se, m.GetHealthCheckRequest())
	case m.GetEndpointHealthResponse() != nil:
		return s.record(se, m.GetEndpointHealthResponse())
	}
	return status.Error(codes.InvalidArgument, "a message must be a HealthCheckRequest or an EndpointHealthResponse")
}

// reintroduce takes a further request, by which a client changes what it is
// capable of.
func (s *Server) reintroduce(stream checkStream, se *session, r *healthv3.HealthCheckRequest) error {
	c := checkerOf(r)
	if r.GetNode() == nil {
		c.Node = se.checker.Node
	}
	if reporting.KeyOf(c.Node) != se.member.Key {
		return status.Errorf(codes.InvalidArgument,
			"the stream began as node %q and now says %q; open a stream per node", se.checker.Node.ID, c.Node.ID)
	}
	se.checker = c
	se.member.State.introduce(c)
	return s.tell(stream, se)
}

func (s *Server) record(se *session, r *healthv3.EndpointHealthResponse) error {
	report, err := decode(r, s.limits)
	if err != nil {
		s.log.Warn("health report refused", "node", se.checker.Node.ID, "err", err)
		if errors.Is(err, errLimit) {
			return status.Errorf(codes.ResourceExhausted, "health report: %v", err)
		}
		return status.Errorf(codes.InvalidArgument, "malformed health report: %v", err)
	}
	recorded := se.member.State.record(se.checker, report)
	s.subs.Deliver(func() NodeHealth { return recorded })
	return nil
}

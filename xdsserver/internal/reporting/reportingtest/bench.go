// Package reportingtest drives reporting services in tests.
package reportingtest

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// Service can be added to a gRPC server.
type Service interface {
	Register(grpc.ServiceRegistrar)
}

// Serve runs a service on an in-memory listener and returns a connection to
// it, both until the test ends. It may be called inside a synctest bubble.
func Serve(t *testing.T, s Service) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	g := grpc.NewServer()
	s.Register(g)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	conn, err := grpc.NewClient("passthrough:///bufconn",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Stream is the client's side of a stream, as a node.
type Stream[Req, Res any] struct {
	grpc.BidiStreamingClient[Req, Res]
	// Leave ends the stream.
	Leave context.CancelFunc

	t *testing.T
}

// Open starts a stream with the given method, without sending.
func Open[Req, Res any](
	ctx context.Context, t *testing.T,
	method func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Req, Res], error),
) *Stream[Req, Res] {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	stream, err := method(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	return &Stream[Req, Res]{stream, cancel, t}
}

// Send sends a message; it fails the test if it cannot. That the stream has ended is
// for the next receive to tell, with the reason.
func (s *Stream[Req, Res]) Send(m *Req) {
	s.t.Helper()
	if err := s.BidiStreamingClient.Send(m); err != nil && !errors.Is(err, io.EOF) {
		s.t.Fatal(err)
	}
}

// Answer waits for the next message; it fails the test if the stream ends.
func (s *Stream[Req, Res]) Answer() *Res {
	s.t.Helper()
	m, err := s.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// End waits for the stream's end, checks its code and returns its error.
func (s *Stream[Req, Res]) End(want codes.Code) error {
	s.t.Helper()
	for {
		if _, err := s.Recv(); err != nil {
			if status.Code(err) != want {
				s.t.Errorf("stream ended with %v, want %v", err, want)
			}
			return err
		}
	}
}

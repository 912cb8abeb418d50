package clientstatus

import (
	"context"
	"errors"
	"io"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Options say what is asked for.
type Options struct {
	// ExcludeContents leaves the resources themselves out (XD-07).
	ExcludeContents bool
}

// Describe tells what a client holds now: one config for each scope, such as a
// target of gRPC or a source of a proxy. It is called concurrently.
type Describe func(ctx context.Context, o Options) ([]*statusv3.ClientConfig, error)

// Service is the ClientStatusDiscoveryService of a client (GC-68). Safe for
// concurrent use.
type Service struct {
	statusv3.UnimplementedClientStatusDiscoveryServiceServer
	describe Describe
}

// New makes a service, to be registered with
// statusv3.RegisterClientStatusDiscoveryServiceServer.
func New(d Describe) *Service { return &Service{describe: d} }

// maxBytes bounds one answer, since it is made and sent as a whole.
const maxBytes = 32 << 20

// FetchClientStatus answers once (XD-08). node_matchers are refused with
// INVALID_ARGUMENT: there is but one node.
func (s *Service) FetchClientStatus(ctx context.Context, req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	if len(req.GetNodeMatchers()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "node_matchers: this is a client, which tells of itself only; leave them out")
	}
	list, err := s.describe(ctx, Options{ExcludeContents: req.GetExcludeResourceContents()})
	if err != nil {
		return nil, err
	}
	out := &statusv3.ClientStatusResponse{Config: list}
	if proto.Size(out) > maxBytes {
		return nil, status.Error(codes.ResourceExhausted, "the answer would be larger than 32 MiB: set exclude_resource_contents")
	}
	return out, nil
}

// StreamClientStatus answers each request of the stream (XD-08).
func (s *Service) StreamClientStatus(st grpc.BidiStreamingServer[statusv3.ClientStatusRequest, statusv3.ClientStatusResponse]) error {
	for {
		req, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // a gRPC status
		}
		out, err := s.FetchClientStatus(st.Context(), req)
		if err != nil {
			return err
		}
		if err := st.Send(out); err != nil {
			return err //nolint:wrapcheck // a gRPC status
		}
	}
}

package xdsserver

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xds"
)

// authorize asks the gate.
func (s *Server) authorize(ctx context.Context, method string, node *xds.Node) error {
	if s.cfg.auth == nil {
		return nil
	}
	err := s.cfg.auth(ctx, Call{Method: method, Peer: peerOf(ctx), Node: node})
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codes.PermissionDenied, err.Error())
	}
	s.log.Warn("a call was refused", "method", method, "peer", peerOf(ctx).String(), "reason", err)
	return err
}

// Authorize asks the gate about a node of a service beside discovery, such as
// load reporting, after its first message.
func (s *Server) Authorize(ctx context.Context, node *xds.Node) error {
	method, _ := grpc.Method(ctx)
	return s.authorize(ctx, method, node)
}

func (s *Server) streamGate(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	if err := s.authorize(ss.Context(), info.FullMethod, nil); err != nil {
		s.counters.refused.Add(1)
		return err
	}
	return h(srv, ss)
}

func (s *Server) unaryGate(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	if err := s.authorize(ctx, info.FullMethod, nil); err != nil {
		s.counters.refused.Add(1)
		return nil, err
	}
	return h(ctx, req)
}

// cleanEnd is what a handler returns for the reason a stream ended: a client
// that closes its side ends it well.
func cleanEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

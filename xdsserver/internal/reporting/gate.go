package reporting

import (
	"context"
	"log/slog"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xds"
)

// Gate decides which nodes may report, and ends all streams when the server
// shuts down. It is safe for concurrent use.
type Gate struct {
	terms  Terms
	allow  func(context.Context, *xds.Node) error
	log    *slog.Logger
	closed chan struct{}
	once   sync.Once
}

// NewGate builds an open gate. A nil allow lets every node in.
func NewGate(terms Terms, allow func(context.Context, *xds.Node) error, log *slog.Logger) *Gate {
	return &Gate{terms: terms, allow: allow, log: log, closed: make(chan struct{})}
}

// Admit returns the status for a node that may not report, nil for one that
// may (XD-11). A status that the gate's function gives is passed on; any other
// reason is logged and not told.
func (g *Gate) Admit(ctx context.Context, n *xds.Node) error {
	if g.allow == nil {
		return nil
	}
	err := g.allow(ctx, n)
	if err == nil {
		return nil
	}
	g.log.Warn("a node was denied", "service", g.terms.Server, "node", n.ID, "err", err)
	if st, ok := status.FromError(err); ok && st.Code() != codes.OK {
		return st.Err()
	}
	return status.Errorf(codes.PermissionDenied, "the node may not %s", g.terms.Purpose)
}

// Close ends all streams with UNAVAILABLE, and those yet to come. It does not
// wait for them, and may be called more than once.
func (g *Gate) Close() { g.once.Do(func() { close(g.closed) }) }

func (g *Gate) errClosed() error {
	return status.Errorf(codes.Unavailable, "the %s is shutting down", g.terms.Server)
}

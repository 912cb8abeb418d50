package xdsserver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

var (
	errDraining       = newStatus(codes.Unavailable, "the server is draining; reconnect")
	errTooManyStreams = newStatus(codes.ResourceExhausted, "the server has as many streams as it may")
	errAdmission      = newStatus(codes.Unavailable, "too many new streams at once; retry")
	errSendTimeout    = newStatus(codes.Unavailable, "the client did not take a response in time")
	errNoNode         = newStatus(codes.InvalidArgument, "the first request of a stream must carry a node")
)

// serve runs one discovery stream.
func (s *Server) serve(rpc grpc.ServerStream, m method) error {
	ctx := rpc.Context()
	calls := s.calls.Add(1)
	defer s.calls.Add(-1)
	if err := s.admit(ctx, calls); err != nil {
		s.counters.refused.Add(1)
		return err
	}
	first, err := receive(rpc, m)
	if err != nil {
		return err
	}
	x, err := s.open(ctx, rpc, m, first)
	if err != nil {
		s.counters.refused.Add(1)
		return err
	}
	s.counters.opened.Add(1)
	defer close(x.gone)
	defer x.leave()
	// The goroutine outlives this call only until gRPC has noticed that the
	// call is over: a blocked RecvMsg cannot be ended in another way.
	go x.read(ctx, first)
	select {
	case <-x.done:
		return x.result()
	case <-ctx.Done():
		x.end(ctx.Err())
		return ctx.Err() //nolint:wrapcheck // the client has gone
	}
}

// admit keeps to the limits on streams and their rate; calls is how many there
// are with this one.
func (s *Server) admit(ctx context.Context, calls int64) error {
	if n := s.cfg.limits.MaxStreams; n > 0 && calls > int64(n) {
		return errTooManyStreams
	}
	if s.admission == nil {
		return nil
	}
	turn := s.admission.Reserve()
	if turn.Delay() > admissionWait {
		turn.Cancel()
		return errAdmission
	}
	// No deadline here: it would come with a turn that is just in time, and either win.
	wait := time.NewTimer(turn.Delay())
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		turn.Cancel()
		return errAdmission
	}
}

func receive(rpc grpc.ServerStream, m method) (*request, error) {
	var in incoming
	if err := rpc.RecvMsg(&in); err != nil {
		return nil, err //nolint:wrapcheck // a gRPC status or io.EOF
	}
	r, err := decode(m.variant, m.v2, in.data)
	if err != nil {
		return nil, statusOf(err)
	}
	return r, nil
}

// open makes the stream's state from its first request.
func (s *Server) open(ctx context.Context, rpc grpc.ServerStream, m method, first *request) (*stream, error) {
	node := xds.NodeFromProto(first.node)
	if s.cfg.requireNode && node.Empty() {
		return nil, errNoNode
	}
	addr := peerOf(ctx)
	if err := s.authorize(ctx, m.path, node); err != nil {
		return nil, err
	}
	m = m.carries(first.TypeURL)
	x := &stream{
		srv: s, rpc: rpc, peer: addr.String(), method: m, variant: m.variant, only: m.only, connected: time.Now(),
		done: make(chan struct{}), gone: make(chan struct{}), node: node,
		needsStruct: node.Supports(xds.FeatureRequireAnyStruct), wireMu: &sync.Mutex{},
	}
	x.space = sync.NewCond(&x.turnMu)
	cfg := s.wireConfig(m, node, func() *snapshot.Snapshot { return x.wire.View() })
	cfg.Pending = s.pending(x.seeking)
	x.begin = func(d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithoutCancel(ctx), d)
	}
	x.wire = wire.NewStream(cfg)
	x.log = s.log.With("node", node.ID, "peer", x.peer, "variant", m.variant.String())
	x.debug = x.log.Enabled(ctx, slog.LevelDebug)
	x.limiters = s.nodes.join(node.ID)
	if err := s.settle(x); err != nil {
		x.leave()
		return nil, err
	}
	return x, nil
}

// settle puts a new stream into its group and makes it known.
func (s *Server) settle(x *stream) error {
	s.entryMu.RLock()
	defer s.entryMu.RUnlock()
	name := (*s.groupOf.Load())(x.node)
	if s.cfg.together && x.only != "" {
		s.bundles.join(x, name)
		return s.enter(x)
	}
	s.mu.Lock()
	x.group = s.groupLocked(name)
	view := x.group.join(x, x.wire.Interests)
	s.mu.Unlock()
	if view != nil {
		x.wire.Publish(view)
	}
	return s.enter(x)
}

// wireConfig translates options and the client's features. view is what the
// stream is at when the protocol asks.
func (s *Server) wireConfig(m method, node *xds.Node, view func() *snapshot.Snapshot) wire.Config {
	l := s.cfg.limits
	c := wire.Config{
		Variant: m.variant, Only: m.only, Gate: s.cfg.gate, Outstanding: l.Outstanding,
		MaxResponse: l.MaxResponseBytes, MaxNames: l.MaxNames, AlwaysFirst: s.cfg.alwaysFirst,
		MissingErrors: s.cfg.errors, DropExtensions: s.cfg.dropECDS, Inexpressible: s.inexpressible,
		Types: func(u string) (xds.Type, bool) { t, ok := s.types[u]; return t, ok },
	}
	if s.cfg.envoyQuirks && node.UserAgent == "envoy" {
		c.SilentMissing = func(u string) bool { return u == xds.RouteType || u == xds.ExtensionConfigType }
		c.KeepExtensions = true
		c.EndHosts = true
	}
	if s.cfg.emptyCLA {
		c.Substitute = emptyAssignment
	}
	if node.Supports(xds.FeatureRequireAnyStruct) {
		c.Deny = noStructs
		if s.structs != nil {
			c.Deny = s.structs.refuses(view, needsStructs)
		}
	}
	if s.cfg.deny != nil {
		c.Deny = s.denied(node, c.Deny)
	}
	return c
}

// denied asks the option's hook before another reason to keep a resource back.
func (s *Server) denied(node *xds.Node, next func(typeURL, name string) *wire.Status) func(typeURL, name string) *wire.Status {
	return func(typeURL, name string) *wire.Status {
		err := s.cfg.deny(node, typeURL, name)
		if err == nil {
			if next != nil {
				return next(typeURL, name)
			}
			return nil
		}
		st, ok := status.FromError(err)
		if !ok {
			return &wire.Status{Code: wire.PermissionDenied, Message: err.Error()}
		}
		return &wire.Status{Code: wire.Code(st.Code()), Message: st.Message()} //nolint:gosec // a small constant
	}
}

// emptyAssignment is a ClusterLoadAssignment without endpoints.
func emptyAssignment(typeURL, name string) *xds.Resource {
	if typeURL != xds.EndpointType {
		return nil
	}
	const clusterName = 1
	return xds.NewResource(typeURL, name, stringField(nil, clusterName, name))
}

// read delivers requests until the stream ends.
func (x *stream) read(ctx context.Context, r *request) {
	for {
		x.deliver(r)
		if err := x.wait(ctx); err != nil {
			x.end(err)
			return
		}
		var err error
		if r, err = receive(x.rpc, x.method); err != nil {
			x.end(err)
			return
		}
	}
}

func (x *stream) result() error {
	x.turnMu.Lock()
	defer x.turnMu.Unlock()
	return cleanEnd(x.endErr)
}

type noAddr struct{}

func (noAddr) Network() string { return "" }
func (noAddr) String() string  { return "" }

func peerOf(ctx context.Context) interface {
	Network() string
	String() string
} {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr
	}
	return noAddr{}
}

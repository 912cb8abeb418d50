package xdsserver

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/wire"
)

// Statuses that end streams. They are values of gRPC's status type.
func newStatus(c codes.Code, msg string) error { return status.Error(c, msg) }

const (
	admissionWait  = time.Second
	nodeRateFactor = 10
)

// statusOf turns a protocol error into a gRPC status.
func statusOf(err error) error {
	if e, ok := errors.AsType[*wire.StreamError](err); ok {
		return status.Error(codes.Code(e.Code), e.Msg) //nolint:gosec // a small constant
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

// nodeLimits holds one request limiter for each node id with open streams.
type nodeLimits struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex
	nodes map[string]*nodeLimit
}

type nodeLimit struct {
	limiter *rate.Limiter
	streams int
}

func newNodeLimits(l Limits) *nodeLimits {
	return &nodeLimits{limit: rate.Limit(l.RequestsPerSecond), burst: max(1, l.RequestBurst), nodes: map[string]*nodeLimit{}}
}

// join returns the limiters of a new stream; none if there is no limit.
func (n *nodeLimits) join(id string) []*rate.Limiter {
	if n.limit <= 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.nodes[id]
	if l == nil {
		l = &nodeLimit{limiter: rate.NewLimiter(n.limit*nodeRateFactor, n.burst*nodeRateFactor)}
		n.nodes[id] = l
	}
	l.streams++
	return []*rate.Limiter{rate.NewLimiter(n.limit, n.burst), l.limiter}
}

func (n *nodeLimits) leave(id string) {
	if n.limit <= 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.nodes[id]
	if l == nil {
		return
	}
	if l.streams--; l.streams == 0 {
		delete(n.nodes, id)
	}
}

// Package listener turns accepted connections into running ones: listener
// filters look at them, a filter chain is chosen, its transport socket is put
// on, and its network filters take over.
package listener

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/chainmatch"
	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// Listener is a configured listener; immutable and shared by workers.
type Listener struct {
	Name    string
	Config  *listenerv3.Listener
	Sockets []*Socket
	Matcher *chainmatch.Matcher
	// Chains are the filter chains as Matcher counts them.
	Chains  []*Chain
	Default *Chain // or nil
	// Filters are the listener filters.
	Filters []FilterSpec
	// FilterTimeout limits them; 0 does not.
	FilterTimeout     time.Duration
	ContinueOnTimeout bool
	// BufferLimit is per_connection_buffer_limit_bytes.
	BufferLimit int
	// StuckTimeout is per_connection_buffer_high_watermark_timeout; 0 is none.
	StuckTimeout time.Duration
	// UseOriginal is use_original_dst: connections that were redirected go to the
	// listener of the address that was wanted, if there is one (LM-12).
	UseOriginal bool
	Logs        accesslog.Logs
	// Overload says how far the overload manager's actions are taken; nil if there is
	// none, or not for this listener (bypass_overload_manager).
	Overload *overload.Levels
	// all are the connections of all listeners; exempt says that their limit is not
	// for this listener.
	all    *overload.Connections
	exempt bool
	// limit is how many connections may be open, over all workers, if there is a
	// limit now (LM-19).
	limit   func() (most uint64, ok bool)
	opened  *atomic.Int64 // connections
	retired atomic.Pointer[Draining]
	leaves  atomic.Pointer[Draining] // while it serves on
	ending  atomic.Bool              // each response is the last of its connection

	Scope *stats.Scope
	Stats Stats
	SSL   SSLStats
}

// FilterSpec is a listener filter.
type FilterSpec struct {
	// Name is the filter's configured name.
	Name string
	New  filter.ListenerFactory
	// Discovered is where New is found instead, if that is discovered; else nil.
	Discovered *extension.Slot[filter.ListenerFactory]
	// Disabled tells whether the filter is left out for a connection (LF-03).
	Disabled func(info *filter.ConnectionInfo) bool
}

// Chain is a filter chain.
type Chain struct {
	Name string
	// Config is what the chain was built of.
	Config *listenerv3.FilterChain
	// Metadata is the configuration's, for access logs.
	Metadata *corev3.Metadata
	// TLS is the transport socket, or nil for raw bytes.
	TLS *ServerTLS
	// HandshakeTimeout is transport_socket_connect_timeout; 0 is none.
	HandshakeTimeout time.Duration
	// Filters are the network filters, without the last one if that is Terminal.
	Filters []NetworkSpec
	// Terminal is the last filter, if it is built in and not discovered; else nil.
	Terminal Terminal

	open    atomic.Int64 // connections
	retired atomic.Pointer[Draining]
}

// ServerTLS is the TLS of a filter chain, which changes when its secrets do:
// connections keep what they began with. Safe for concurrent use.
type ServerTLS struct {
	now atomic.Pointer[tlsio.ServerContext]
}

// NewServerTLS is TLS with a context; nil if its secrets have not come.
func NewServerTLS(c *tlsio.ServerContext) *ServerTLS {
	t := &ServerTLS{}
	t.now.Store(c)
	return t
}

// Context is the present context, nil if its secrets have not come.
func (t *ServerTLS) Context() *tlsio.ServerContext { return t.now.Load() }

// Replace puts another context in force.
func (t *ServerTLS) Replace(c *tlsio.ServerContext) { t.now.Store(c) }

// NetworkSpec is a network filter.
type NetworkSpec struct {
	// Name is the filter's configured name.
	Name string
	New  filter.NetworkFactory
	// Discovered is where the filter is found instead, if that is discovered; else
	// nil.
	Discovered *extension.Slot[Network]
}

// Network is a network filter that was discovered: one of both.
type Network struct {
	New      filter.NetworkFactory
	Terminal Terminal
}

// Terminal is a built-in network filter that ends a chain.
type Terminal interface {
	// Open makes the filter of a connection; nil closes it.
	Open(w *Worker, c *Connection) Session
}

// Session is a terminal filter at work on one connection.
type Session interface {
	// OnData gets what was received and must take all of it.
	OnData(data []byte)
	// OnEnd says that the client sends no more.
	OnEnd()
	// OnBlocked and OnDrained say whether the client takes what it is sent.
	OnBlocked()
	OnDrained()
	// OnClose says that the connection is gone, once.
	OnClose(why loop.Reason, err error)
}

// Worker is what listeners need of a worker.
type Worker struct {
	*worker.Worker
	// Context ends with the proxy.
	Context context.Context //nolint:containedctx // the worker's life
	// User carries what terminals need (their servers of this worker).
	User any

	conns  []*Connection // each knows where it is
	ports  map[*Port]struct{}
	places map[filter.Address]place
	deaf   bool // stop_accepting_connections
	// draining: every connection is to end, those too that have no session yet.
	draining bool
}

// StopAccepting closes the worker's listening sockets.
func (w *Worker) StopAccepting() {
	for p := range w.ports {
		p.Stop(w)
	}
}

// NewWorker makes the listeners' side of a worker.
func NewWorker(ctx context.Context, w *worker.Worker) *Worker {
	return &Worker{Worker: w, Context: ctx, ports: map[*Port]struct{}{}, places: map[filter.Address]place{}}
}

// Drainer is a Session that can end in order.
type Drainer interface{ Drain() }

// Drain asks every connection of the worker to end in order, now or when it has come to
// its filter chain.
func (w *Worker) Drain() {
	w.draining = true
	for c := range w.each() {
		if d, ok := c.session.(Drainer); ok {
			d.Drain()
		}
	}
}

// each is every connection that is open. Connections may close meanwhile.
func (w *Worker) each() iter.Seq[*Connection] {
	return func(yield func(*Connection) bool) {
		//nolint:modernize // not [slices.Backward]: what closes is replaced by one from the end
		for i := len(w.conns) - 1; i >= 0; i-- {
			if i < len(w.conns) && !yield(w.conns[i]) {
				return
			}
		}
	}
}

func (w *Worker) enlist(c *Connection) {
	c.at = int32(len(w.conns)) //nolint:gosec // as many as there are descriptors
	w.conns = append(w.conns, c)
}

func (w *Worker) delist(c *Connection) {
	last := len(w.conns) - 1
	w.conns[c.at] = w.conns[last]
	w.conns[c.at].at = c.at
	w.conns[last] = nil
	w.conns = w.conns[:last]
}

// Open is the number of the worker's connections.
func (w *Worker) Open() int { return len(w.conns) }

// CloseAll closes every connection.
func (w *Worker) CloseAll() {
	for c := range w.each() {
		c.conn.Abort(false)
	}
}

// Package hcm is the HTTP connection manager: the network filter that makes
// HTTP streams of a downstream connection, applies the proxy's rules to their
// heads, runs their filters, and sends the responses.
package hcm

import (
	"bytes"
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
	"github.com/xebec-proxy/xebec/internal/dataplane/demand"
	"github.com/xebec-proxy/xebec/internal/dataplane/edge"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// Codec is codec_type.
type Codec uint8

// The codecs.
const (
	Auto Codec = iota
	HTTP1
	HTTP2
)

// Config is the configuration of a connection manager; immutable and shared by
// workers (extensions/filters/network/http_connection_manager/v3).
type Config struct {
	Codec Codec
	HTTP1 http1.Options
	HTTP2 http2.Options
	Rules *edge.Rules
	// Routes is the route table, which a stream takes once, as the worker of this
	// number has it.
	Routes func(worker int) *route.Table
	// Scopes, if not nil, are in the place of Routes: the table is that of the
	// request's scope (RT-11).
	Scopes func(worker int) *route.Scopes
	// ScopeSource is where Scopes are discovered, which tells connection managers
	// apart.
	ScopeSource *corev3.ConfigSource
	// Filters are the HTTP filters in configured order, the router last.
	Filters []chain.Spec
	// Upgrades are upgrade_configs by lower-case type.
	Upgrades map[string]Upgrade
	Logs     accesslog.Logs

	IdleTimeout    time.Duration // of the connection; 0 never
	StreamIdle     time.Duration
	FlushTimeout   time.Duration
	RequestTimeout time.Duration
	HeadersTimeout time.Duration
	MaxStream      time.Duration
	MaxConnection  time.Duration
	MaxConnJitter  float64
	// SafeMaxConnection ends an old connection of HTTP/1 only with a response.
	SafeMaxConnection bool
	DrainTimeout      time.Duration
	DelayedClose      time.Duration
	MaxRequests       uint64
	KeepaliveInterval time.Duration
	KeepaliveTimeout  time.Duration
	KeepaliveJitter   float64
	// StreamErrorOnInvalid keeps a connection of HTTP/1 after a request that was
	// read and is answered with 400. HTTP2 has its own.
	StreamErrorOnInvalid bool
	// MatchUpstream makes :scheme that of the upstream connection.
	MatchUpstream bool
	// Proxy100 passes Expect: 100-continue on.
	Proxy100 bool
	// BufferLimit is the listener's per_connection_buffer_limit_bytes.
	BufferLimit int
	// Overload says how far the actions are taken that are for requests; nil if there
	// is no overload manager, or not for this listener.
	Overload *overload.Levels
	// RuntimeInteger is a runtime key's whole number, if the runtime has the key.
	RuntimeInteger func(key string) (n uint64, ok bool)

	// Scope is "http.<prefix>".
	Scope    *stats.Scope
	Stats    *Stats
	Listener *ListenerStats
	Codecs   *CodecStats
	agents   *agents
}

// runtime is a runtime key's whole number, or the default.
func (c *Config) runtime(key string, fallback uint64) uint64 {
	if c.RuntimeInteger != nil {
		if n, ok := c.RuntimeInteger(key); ok {
			return n
		}
	}
	return fallback
}

// Upgrade is an upgrade_configs entry.
type Upgrade struct {
	Enabled bool
	// Filters replace those of the connection manager, unless nil.
	Filters []chain.Spec
}

// Downstream is the connection that a manager serves.
type Downstream interface {
	Writer() *[]byte
	WriteBody(data []byte)
	Pause()
	Resume()
	Close(delay time.Duration)
	SetFlushTimeout(d time.Duration)
	ReceiveLate()
	Abort(reset bool)
	CloseWrite()
	Closed() bool
	Buffered() int
	Sent() uint64
	Received() uint64
}

// Server serves HTTP on a worker's connections.
type Server struct {
	W        *worker.Worker
	Clusters *pool.Set
	// Context ends with the proxy; work of filters runs under it.
	Context context.Context //nolint:containedctx // the server's life
	// Waits is what requests wait for that is discovered on demand; nil if
	// nothing is.
	Waits  *demand.Waits
	free   []*Stream
	h1free []*serverH1
	// prefixes are what has come of connections while nothing says which protocol
	// they speak; few are so slow.
	prefixes map[*Conn][]byte
	heads    []routedHead // of those that came together
	tell     func()       // tellHeads, bound once
}

// NewServer makes a worker's server.
func NewServer(ctx context.Context, w *worker.Worker, c *pool.Set) *Server {
	sv := &Server{W: w, Clusters: c, Context: ctx}
	sv.tell = sv.tellHeads
	return sv
}

func (sv *Server) keepPrefix(c *Conn, data []byte) {
	if sv.prefixes == nil {
		sv.prefixes = map[*Conn][]byte{}
	}
	sv.prefixes[c] = bytes.Clone(data)
}

func (sv *Server) stream() *Stream {
	if n := len(sv.free); n > 0 {
		s := sv.free[n-1]
		sv.free = sv.free[:n-1]
		return s
	}
	s := &Stream{sv: sv, w: sv.W}
	s.init()
	return s
}

const keepStreams = 4096

func (sv *Server) recycle(s *Stream) {
	if len(sv.free) < keepStreams {
		sv.free = append(sv.free, s)
	}
}

// codec is what a stream needs of its connection's codec.
type codec interface {
	writeHead(s *Stream, h *header.Map, end bool)
	informational(s *Stream, h *header.Map)
	data(s *Stream, b []byte, end bool)
	trailers(s *Stream, t *header.Map)
	// reset ends the stream; the codec calls nothing for it any more.
	reset(s *Stream)
	// pause stops the request's body, or lets it go on.
	pause(s *Stream, pause bool)
	// responded says that the response is complete; requestDone tells whether
	// the request is.
	responded(s *Stream, requestDone bool)
	protocol() filter.Protocol
}

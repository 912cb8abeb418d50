// Package pool keeps a worker's connections to upstream hosts: HTTP/1
// connections that carry one request after another, HTTP/2 connections that
// carry many at once, and plain ones for tcp_proxy. Everything is confined to
// the worker, but for the limits of circuit breakers, which are the process's.
package pool

import (
	"context"
	"net/netip"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/lb"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/proxyheader"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// Protocol is what a pool's connections speak.
type Protocol uint8

// Protocols of pools.
const (
	// HTTP1 and HTTP2 are fixed.
	HTTP1 Protocol = iota
	HTTP2
	// ALPN lets the TLS handshake choose; HTTP/1 without a choice.
	ALPN
)

// TransportOptions are what a stream asks of its connection's transport
// socket; streams that ask differently do not share connections (CM-19).
type TransportOptions struct {
	// SNI and VerifySAN are taken from the request (TS-13).
	SNI, VerifySAN string
	// RawALPN offers only what is configured, nothing for HTTP.
	RawALPN bool
	// Source is whose connection a PROXY header tells of (TS-24); nil without one.
	Source *Source
}

// Transport makes a connection's transport socket. info is called after the
// handshake; both may be nil for raw bytes.
type Transport func(ctx context.Context, host *cluster.Host, p Protocol, o TransportOptions) (t loop.Transport, info func() *filter.TLSInfo)

// Options are the settings of a cluster's pools; immutable and shared by workers.
type Options struct {
	HTTP1 http1.Options
	HTTP2 http2.Options
	// Protocol is what connections speak, unless UseDownstream makes them speak
	// what the client does.
	Protocol      Protocol
	UseDownstream bool
	// MaxStreamDuration limits a stream; 0 does not.
	MaxStreamDuration time.Duration
	// PerRequestTransport takes options of the transport from a request (TS-13);
	// nil if there are none.
	PerRequestTransport func(request *header.Map) TransportOptions
	// Filters are the cluster's upstream HTTP filters, without the codec.
	Filters []chain.Spec
	// ConnectTimeout covers TCP and TLS.
	ConnectTimeout time.Duration
	// IdleTimeout closes a connection without streams; 0 never.
	IdleTimeout time.Duration
	// MaxConnectionDuration drains a connection after a time; 0 never.
	MaxConnectionDuration time.Duration
	// MaxConnectionJitter is the part of it that is added at most.
	MaxConnectionJitter float64
	// MaxRequests is max_requests_per_connection; 0 is no limit.
	MaxRequests uint64
	// BufferLimit is per_connection_buffer_limit_bytes.
	BufferLimit int
	// KeepaliveInterval and KeepaliveTimeout are HTTP/2's connection_keepalive;
	// 0 is off.
	KeepaliveInterval, KeepaliveTimeout time.Duration
	// KeepaliveJitter is the part of the interval that is added at most.
	KeepaliveJitter float64
	// KeepaliveIdle sends a PING ahead of a stream on a connection that had none
	// for so long; 0 does not.
	KeepaliveIdle time.Duration
	// Source is what connections come from; the zero value leaves it to the system.
	Source netip.AddrPort
	// Control sets options of sockets before they connect.
	Control func(fd int) error
	// Transport makes transport sockets; nil is raw bytes. CountTransport counts
	// how the handshake of one ended; it is not nil if Transport is not.
	Transport      Transport
	CountTransport func(s *stats.Shard, t loop.Transport, done bool)
	// ProxyHeaders are the PROXY headers that connections begin with, by the number of
	// the match that selects a host's transport socket, plus 1; nil where there is none.
	// Empty if no socket of the cluster has one. ProxyHeaderTooLong counts those from
	// which TLVs were left out.
	ProxyHeaders       []*proxyheader.Config
	ProxyHeaderTooLong stats.Counter
}

// Reset is why an upstream stream ended before its response did.
type Reset uint8

// Reasons, with Envoy's texts (envoy/http/codec.h StreamResetReason).
const (
	LocalReset Reset = iota
	LocalRefused
	RemoteReset
	RemoteRefused
	LocalConnectionFailure
	RemoteConnectionFailure
	ConnectionTimeout
	ConnectionTermination
	Overflow
	ProtocolError
	PendingOverflow // Overflow before a host was asked
)

// String is the reason as Envoy says it.
func (r Reset) String() string {
	return [...]string{
		"local reset", "local refused stream reset", "remote reset", "remote refused stream reset",
		"local connection failure", "remote connection failure", "connection timeout",
		"connection termination", "overflow", "protocol error", "overflow",
	}[r]
}

// ConnInfo is what is known of an upstream connection.
type ConnInfo struct {
	ID       uint64
	Local    filter.Address
	Protocol filter.Protocol
	TLS      *filter.TLSInfo
	// ConnectStart, ConnectEnd and HandshakeEnd are when it was made, since the
	// process started. With TLS the end of connecting is not known, and 0.
	ConnectStart, ConnectEnd, HandshakeEnd time.Duration
}

// Receiver is the owner of an upstream stream. After Failed, OnReset, the end
// of the response or Stream.Reset nothing more is called.
type Receiver interface {
	// Waiter is memory for the pool; it belongs to it until the stream is over.
	Waiter() *Waiter
	// Headers and Trailers are the maps to decode the response into.
	Headers() *header.Map
	Trailers() *header.Map
	// Cases is how the request's names were written, for an HTTP/1 host; nil when
	// that is not kept. SetCases tells how the response's were.
	Cases() *http1.Cases
	SetCases(c *http1.Cases)
	// Ready says that the request can be sent. It may come within NewStream.
	Ready(s Stream)
	// Failed says that there will be no stream.
	Failed(why Reset, transportFailure string)
	// On1xx gets an informational head in Headers.
	On1xx()
	// OnHeaders gets the head of the response in Headers.
	OnHeaders(end bool)
	// OnData gets a part of the body.
	OnData(data []byte, end bool)
	// OnTrailers gets the trailers in Trailers.
	OnTrailers()
	// OnReset says that the stream broke.
	OnReset(why Reset, transportFailure string)
	// OnBlocked says that the host does not take the request as fast as it comes.
	OnBlocked()
	// OnDrained says that it does again.
	OnDrained()
}

// Stream is a request under way on a connection.
type Stream interface {
	// SendHeaders sends the request's head. While those of a batch are told, it may be
	// written after the others ([http2.Conn.OpenStreamLater]): until the handler has
	// heard of all of them, or the stream is reset, h must not change.
	SendHeaders(h *header.Map, end bool)
	SendData(data []byte, end bool)
	SendTrailers(t *header.Map)
	// Reset gives the stream up.
	Reset()
	// Pause stops the response, or lets it go on.
	Pause(pause bool)
	// Info is the connection.
	Info() *ConnInfo
	// Wire is what was sent and received for the stream so far, in bytes.
	Wire() (sent, received uint64)
}

// Cluster is a cluster on a worker.
type Cluster struct {
	Cfg *cluster.Cluster
	opt *Options
	w   *worker.Worker

	ctx     context.Context //nolint:containedctx // the worker's life
	retired bool            // another one has taken its place
	picker  lb.Picker
	pools   map[key]*hostPool
	recent  recentPools
	sources map[string]*Source // that have pools, by their keys
	tcp     *TCP               // the first of those that a failing host would cut, or nil
}

type key struct {
	host  *cluster.Host
	proto Protocol
	prio  cluster.RoutePriority
	opts  TransportOptions
}

// NewCluster makes a cluster's pools on a worker.
func NewCluster(ctx context.Context, w *worker.Worker, c *cluster.Cluster, p lb.Picker, o *Options) *Cluster {
	return &Cluster{ctx: ctx, Cfg: c, opt: o, w: w, picker: p, pools: map[key]*hostPool{}}
}

// Options are the settings of the cluster's pools.
func (c *Cluster) Options() *Options { return c.opt }

// Pick chooses a host, or nil.
func (c *Cluster) Pick(ctx *lb.Context) *cluster.Host { return c.picker.Pick(ctx) }

// HostsChanged drains the connections of hosts that are gone, and all of them if
// the cluster wants that of every change (CM-25).
func (c *Cluster) HostsChanged() {
	if c.Cfg.CloseConnectionsOnHostSetChange() {
		c.Drain()
	}
	for _, p := range c.pools {
		if p.host.Removed() {
			p.drop()
		}
	}
}

// HostsFailed drains the pools of hosts that have failed their health checks: other
// connections may do better. It cuts their plain connections if the cluster wants
// that (CM-25).
func (c *Cluster) HostsFailed(hosts []*cluster.Host) {
	for _, h := range hosts {
		for _, p := range c.pools {
			if p.host == h {
				p.drain()
			}
		}
		c.cut(h)
	}
}

// Retire says that the cluster is no longer in the worker's set: its connections
// close as soon as they carry nothing. What is under way ends on it, even if
// that takes further connections.
func (c *Cluster) Retire() {
	c.retired = true
	for _, p := range c.pools {
		p.drop()
	}
}

// Drain closes every connection that carries nothing, and the others when they
// are done.
func (c *Cluster) Drain() {
	for _, p := range c.pools {
		p.drain()
	}
}

// NewStream asks for a stream to a host. r.Ready or r.Failed answers, perhaps
// before NewStream returns; until then r.Waiter().Cancel() takes the request back.
func (c *Cluster) NewStream(h *cluster.Host, p Protocol, prio cluster.RoutePriority, o TransportOptions, r Receiver) {
	hp := c.find(h, p, prio, &o)
	if hp == nil {
		k := key{h, p, prio, o}
		brk := c.Cfg.Breaker(prio)
		if !brk.CxPool.Try() {
			c.w.Stats.Inc(c.Cfg.Stats.UpstreamCxPoolOverflow)
			r.Failed(Overflow, "")
			return
		}
		hp = &hostPool{c: c, host: h, key: k, brk: brk, dropped: c.retired}
		c.pools[k] = hp
		c.keep(o.Source)
	}
	hp.newStream(r)
	if o.Source != nil {
		hp.forget() // there may be no connection
	}
}

// recentPools are some of a cluster's pools: most clusters have few hosts, and to
// look at their addresses takes less than to hash a key.
type recentPools struct {
	hosts [4]*cluster.Host
	pools [4]*hostPool
	next  uint8
}

// find is the pool for a kind of stream to a host, or nil.
func (c *Cluster) find(h *cluster.Host, p Protocol, prio cluster.RoutePriority, o *TransportOptions) *hostPool {
	r := &c.recent
	for i, other := range &r.hosts {
		if other != h {
			continue
		}
		if k := &r.pools[i].key; k.proto == p && k.prio == prio && k.opts == *o {
			return r.pools[i]
		}
	}
	hp := c.pools[key{h, p, prio, *o}]
	if hp != nil {
		i := r.next % uint8(len(r.hosts))
		r.hosts[i], r.pools[i] = h, hp
		r.next++
	}
	return hp
}

// Waiter is a request's place in a pool. The zero value is ready.
type Waiter struct {
	pool       *hostPool
	r          Receiver
	prev, next *Waiter
	queued     bool
	h2         h2Stream // the stream, if HTTP/2 carries it
}

// Cancel takes a request that waits out of the queue.
func (w *Waiter) Cancel() {
	if !w.queued {
		return
	}
	p := w.pool
	p.unqueue(w)
	p.c.w.Stats.Inc(p.c.Cfg.Stats.UpstreamRqCancelled)
	p.forget()
}

// hostPool is the connections of one kind to one host.
type hostPool struct {
	c    *Cluster
	host *cluster.Host
	key  key
	brk  *cluster.Breaker

	first, last *Waiter // who waits for a connection
	waiting     int

	idle    []*client // HTTP/1: without a request, most recently used last
	ready   []*client // HTTP/2: open
	all     map[*client]struct{}
	opening int
	dropped bool // its host is gone, or its cluster
}

func (p *hostPool) newStream(r Receiver) {
	if cl := p.usable(); cl != nil {
		p.attach(cl, r)
		return
	}
	st := p.c.Cfg.Stats
	if !p.brk.TryPending() {
		p.c.w.Stats.Inc(st.UpstreamRqPendingOverflow)
		r.Failed(PendingOverflow, "")
		return
	}
	p.queue(r)
	p.grow()
}

// usable is a connection that takes a stream now, or nil.
func (p *hostPool) usable() *client {
	if n := len(p.idle); n > 0 {
		cl := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		return cl
	}
	for _, cl := range p.ready {
		if cl.h2.conn.CanOpen() {
			return cl
		}
	}
	return nil
}

func (p *hostPool) queue(r Receiver) {
	w := r.Waiter()
	w.pool, w.r, w.queued, w.prev, w.next = p, r, true, p.last, nil
	if p.last != nil {
		p.last.next = w
	} else {
		p.first = w
	}
	p.last = w
	p.waiting++
	s, st := p.c.w.Stats, p.c.Cfg.Stats
	s.Inc(st.UpstreamRqPendingTotal)
	s.GaugeAdd(st.UpstreamRqPendingActive, 1)
}

func (p *hostPool) unqueue(w *Waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		p.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		p.last = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	p.waiting--
	p.brk.ReleasePending()
	p.c.w.Stats.GaugeAdd(p.c.Cfg.Stats.UpstreamRqPendingActive, -1)
}

// grow opens connections until there are enough for those who wait.
func (p *hostPool) grow() {
	for p.opening*p.perConnection() < p.waiting {
		st := p.c.Cfg.Stats
		if !p.brk.TryCx() {
			p.c.w.Stats.Inc(st.UpstreamCxOverflow)
			if len(p.all) > 0 {
				return
			}
			p.brk.ForceCx() // a pool without any could never serve (CB-02)
		}
		if !p.host.TryCx() {
			p.brk.ReleaseCx()
			p.c.w.Stats.Inc(st.UpstreamCxOverflow)
			return
		}
		p.open()
	}
}

// perConnection is how many streams a connection that is being opened is
// expected to carry.
func (p *hostPool) perConnection() int {
	if p.key.proto == HTTP1 {
		return 1
	}
	n := int(min(p.c.opt.HTTP2.MaxConcurrentStreams, 1<<20))
	if n == 0 {
		n = 1024
	}
	return n
}

// serve gives connections to those who wait.
func (p *hostPool) serve() {
	for p.first != nil {
		cl := p.usable()
		if cl == nil {
			p.grow()
			return
		}
		w := p.first
		p.unqueue(w)
		p.attach(cl, w.r)
	}
}

// attach puts a stream on a connection.
func (p *hostPool) attach(cl *client, r Receiver) {
	s, st := p.c.w.Stats, p.c.Cfg.Stats
	if !p.brk.TryRequest() {
		if cl.h2 == nil {
			p.idle = append(p.idle, cl)
		}
		s.Inc(st.UpstreamRqActiveOverflow)
		r.Failed(Overflow, "")
		return
	}
	cl.requests++
	s.Inc(st.UpstreamRqTotal)
	s.GaugeAdd(st.UpstreamRqActive, 1)
	s.Inc(p.host.Stats.RqTotal)
	p.host.AddRqActive(1)
	cl.active++
	if limit := p.c.opt.MaxRequests; limit > 0 && cl.requests >= limit {
		s.Inc(st.UpstreamCxMaxRequests)
		cl.stopUsing()
	}
	cl.start(r)
}

// over counts the end of a stream.
func (p *hostPool) over(cl *client) {
	cl.active--
	p.brk.ReleaseRequest()
	p.host.AddRqActive(-1)
	p.c.w.Stats.GaugeAdd(p.c.Cfg.Stats.UpstreamRqActive, -1)
}

// fail tells all who wait that there is no connection.
func (p *hostPool) fail(why Reset, details string) {
	// Who asks again meanwhile waits for the next connection.
	for range p.waiting {
		w := p.first
		if w == nil {
			return
		}
		p.unqueue(w)
		p.c.w.Stats.Inc(p.c.Cfg.Stats.UpstreamRqPendingFailureEject)
		w.r.Failed(why, details)
	}
}

// drain closes what is idle now and the rest when it is done. A connection that
// is being opened stays while somebody waits for it.
func (p *hostPool) drain() {
	for cl := range p.all {
		if cl.opened || p.first == nil {
			cl.stopUsing()
			cl.closeIfDone()
		}
	}
}

// drop lets the pool end: it keeps no connection that it does not need.
func (p *hostPool) drop() {
	p.dropped = true
	p.drain()
	p.forget()
}

// forget takes leave of a pool when it has nothing left, if its host is gone or if it
// is for one connection of a client, of which there may be any number.
func (p *hostPool) forget() {
	if (p.dropped || p.key.opts.Source != nil) && len(p.all) == 0 && p.first == nil && p.c.pools[p.key] == p {
		delete(p.c.pools, p.key)
		p.c.recent = recentPools{}
		p.c.release(p.key.opts.Source)
		p.brk.CxPool.Release()
	}
}

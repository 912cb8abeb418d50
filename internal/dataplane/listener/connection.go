package listener

import (
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/chainmatch"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// Connection is a downstream connection, from accept to close. It is the
// handler of its loop connection.
type Connection struct {
	w    *Worker
	l    *Listener
	sock *Socket
	conn *loop.Conn

	// Info is what is known of the connection.
	Info   filter.ConnectionInfo
	stream *filter.StreamInfo // nil until somebody asks

	pre     *prelude // while listener filters look at it
	chain   *Chain
	tls     *tlsio.Session
	session Session
	net     *netChain   // with filters before the last one
	timer   *loop.Timer // of listener filters, then of the handshake; nil without
	stuck   *stuck      // nil unless a buffer has been full
	got     uint64      // bytes for network filters

	// What is small stands together: there may be many idle connections.
	at      int32 // in the worker's list
	counted bool
	done    bool
	ended   bool
	gone    bool // OnClose was called
	unread  bool // see drop
	// redirected says that Info.Local is where the client wanted to go, moved that
	// no other listener is looked for any more.
	redirected, moved bool
	exempt            bool // from the limit of all connections
}

// Accept takes a connection that a socket accepted.
func (l *Listener) Accept(w *Worker, s *Socket, conn *loop.Conn, from filter.Address) {
	if !l.admit(w) {
		conn.SetHandler(refused{})
		conn.Abort(false)
		return
	}
	c := &Connection{w: w, l: l, sock: s, conn: conn, exempt: l.exempt}
	conn.SetHandler(c)
	conn.SetHigh(l.BufferLimit)
	now := w.Loop.Now()
	c.Info.ID = w.ConnectionID()
	c.Info.Start, c.Info.ListenerMetadata = now, c.l.Config.GetMetadata()
	c.Info.Remote = from
	c.Info.Local = s.local
	if !s.fixed {
		c.Info.Local = conn.Local()
	}
	w.enlist(c)
	c.look()
}

// look runs the listener's filters, if there are any, and then chooses a chain, or
// hands the connection to another listener.
func (c *Connection) look() {
	c.restore()
	switch {
	case len(c.l.Filters) > 0:
		c.begin()
	case !c.handOff(nil):
		c.choose("", nil)
	}
}

// choose finds the filter chain (FC).
func (c *Connection) choose(transport string, alpn []string) {
	l := c.l
	in := chainmatch.Input{
		DestPort: c.Info.Local.IP.Port(), DestIP: c.Info.Local.IP.Addr(), SNI: c.Info.RequestedServerName,
		Transport: transport, ALPN: alpn,
		DirectSource: c.Info.DirectRemote().IP.Addr(), Source: c.Info.Remote.IP.Addr(), SourcePort: c.Info.Remote.IP.Port(),
		Stream: c.stream, Stats: c.w.Stats,
	}
	chain := l.Default
	switch i := l.Matcher.Match(&in); {
	case i >= 0:
		chain = l.Chains[i]
	case i == chainmatch.NoSuchChain:
		chain = nil
	}
	if chain == nil {
		c.w.Stats.Inc(l.Stats.NoChain)
		i := c.Stream()
		i.Flags |= filter.FlagNoRouteFound
		i.Details = "filter_chain_not_found"
		c.log()
		c.done = true
		c.drop()
		return
	}
	c.chain = chain
	chain.open.Add(1)
	c.Info.FilterChain, c.Info.FilterChainMetadata = chain.Name, chain.Metadata
	c.count()
	if chain.TLS == nil {
		c.openSession()
		return
	}
	c.startTLS()
}

// count makes the connection one of the listener's.
func (c *Connection) count() {
	c.counted = true
	c.w.Stats.Inc(c.l.Stats.CxTotal)
	c.w.Stats.GaugeAdd(c.l.Stats.CxActive, 1)
	c.w.Stats.Inc(c.sock.workerTotal[c.w.ID])
	c.w.Stats.GaugeAdd(c.sock.workerActive[c.w.ID], 1)
}

func (c *Connection) startTLS() {
	ctx := c.chain.TLS.Context()
	if ctx == nil {
		c.Info.Ending().TransportFailure = noSecret
		c.w.Stats.Inc(c.l.Scope.Counter("server_ssl_socket_factory.downstream_context_secrets_not_ready"))
		c.drop()
		return
	}
	c.tls = ctx.NewSession(tlsio.ConnInfo{})
	if d := c.chain.HandshakeTimeout; d > 0 {
		if c.l.Overload != nil {
			d = c.w.Timeouts.Of(overload.Handshake, d)
		}
		c.setTimer(d)
	}
	c.conn.SetTransport(newServerTransport(c.w.Context, c.tls))
}

// BufferedGauge implements worker.Buffering.
func (c *Connection) BufferedGauge() stats.Gauge {
	if b, ok := c.session.(worker.Buffering); ok {
		return b.BufferedGauge()
	}
	return 0
}

// OnOpen implements loop.Handler: the handshake is done.
func (c *Connection) OnOpen() {
	c.stopTimer()
	c.Info.HandshakeDone = c.w.Loop.Now()
	c.Info.TLS = InfoOf(c.tls.Info())
	c.l.countHandshake(c.w.Stats, c.tls)
	c.openSession()
}

// openSession gives the connection to its network filters.
func (c *Connection) openSession() {
	if len(c.chain.Filters) > 0 {
		c.openNet()
		return
	}
	c.session = c.chain.Terminal.Open(c.w, c)
	if c.session == nil {
		c.drop()
		return
	}
	c.begun()
}

// OnData implements loop.Handler.
func (c *Connection) OnData(data []byte) {
	if c.pre == nil {
		c.got += uint64(len(data))
	}
	switch {
	case c.pre != nil:
		c.peek(data)
	case c.net != nil:
		c.net.received(data)
	case c.session != nil:
		c.session.OnData(data)
	}
}

// OnEnd implements loop.Handler.
func (c *Connection) OnEnd() {
	switch {
	case c.pre != nil:
		c.w.Stats.Inc(c.l.Stats.ListenerRemote)
		c.drop()
	case c.net != nil:
		c.net.endOf()
	case c.session != nil:
		c.session.OnEnd()
	default:
		c.conn.Abort(false)
	}
}

// OnBlocked implements loop.Handler.
func (c *Connection) OnBlocked() {
	c.fill(sending, true)
	if c.net != nil {
		c.net.watermark(true)
	}
	if c.session != nil && !c.gone {
		c.session.OnBlocked()
	}
}

// OnDrained implements loop.Handler.
func (c *Connection) OnDrained() {
	c.fill(sending, false)
	if c.net != nil {
		c.net.watermark(false)
	}
	if c.session != nil && !c.gone {
		c.session.OnDrained()
	}
}

// OnClose implements loop.Handler.
func (c *Connection) OnClose(why loop.Reason, err error) {
	c.gone = true
	c.w.delist(c)
	c.l.opened.Add(-1)
	c.l.all.Leave(c.exempt)
	if c.chain != nil {
		c.chain.open.Add(-1)
	}
	c.stopTimer()
	if c.stuck != nil {
		c.stuck.timer.Unlink()
	}
	if c.pre != nil {
		c.pre = nil
		c.w.Stats.GaugeAdd(c.l.Stats.PreCxActive, -1)
	}
	if why == loop.TransportFailed && c.tls != nil {
		c.Info.Ending().TransportFailure = c.tls.FailureReason()
		c.l.countFailure(c.w.Stats, c.tls)
	}
	if c.session != nil {
		c.session.OnClose(why, err)
	}
	if c.net != nil {
		c.net.closed(why, err)
	}
	now := c.w.Loop.Now()
	if c.counted {
		c.w.Stats.GaugeAdd(c.l.Stats.CxActive, -1)
		c.w.Stats.GaugeAdd(c.sock.workerActive[c.w.ID], -1)
		c.w.Stats.Inc(c.l.Stats.CxDestroy)
		c.w.Stats.Record(c.l.Stats.CxLength, worker.Millis(now-c.Info.Start))
	}
	c.log()
}

// log writes the listener's access log (LM-16), once.
func (c *Connection) log() {
	if c.done || len(c.l.Logs) == 0 {
		return
	}
	c.done = true
	c.Stream().Timing.End = c.w.Loop.Now()
	c.traffic()
	ctx := format.Context{Info: c.stream, Now: c.w.Loop.Wall(), LogType: "NotSet"}
	c.l.Logs.Log(c.w.Log, &ctx)
}

// traffic tells the stream info what went over the connection, unless a network
// filter counts that itself.
func (c *Connection) traffic() {
	i := c.stream
	if i.BytesReceived == 0 && i.BytesSent == 0 {
		i.BytesReceived, i.BytesSent = c.got, c.conn.Sent()
	}
	if p, ok := c.session.(interface{ Protocol() filter.Protocol }); ok {
		i.Protocol = p.Protocol()
	}
}

// expire is the timeout of listener filters or of the handshake.
func (c *Connection) expire() {
	switch {
	case c.pre != nil:
		c.w.Stats.Inc(c.l.Stats.PreCxTimeout)
		if c.l.ContinueOnTimeout {
			c.finishPrelude()
			return
		}
		c.drop()
	case c.tls != nil && c.session == nil:
		c.w.Stats.Inc(c.l.Stats.CxHandshakeTime)
		c.closes("transport socket timeout was reached", "transport_socket_timeout")
		c.conn.Abort(false)
	}
}

func (c *Connection) setTimer(d time.Duration) {
	if c.timer == nil {
		c.timer = &loop.Timer{}
		c.timer.Init(c.w.Loop, c.expire)
	}
	c.timer.Set(d)
}

// stopTimer gives the timer up: a running connection has no use for one.
func (c *Connection) stopTimer() {
	if c.timer != nil {
		c.timer.Unlink()
		c.timer = nil
	}
}

// Stream is the connection's own stream info, for listener and network filters
// and their logs. HTTP streams have their own.
func (c *Connection) Stream() *filter.StreamInfo {
	if c.stream == nil {
		c.stream = &filter.StreamInfo{Connection: &c.Info, StartTime: c.w.Loop.Start().Add(c.Info.Start)}
		c.stream.Timing.Reset(c.Info.Start)
	}
	return c.stream
}

// Inherit gives an HTTP stream the connection's dynamic metadata and filter
// state, as copies: what a stream adds is its own (NF-05).
func (c *Connection) Inherit(to *filter.StreamInfo) {
	if c.stream == nil {
		return
	}
	to.State = maps.Clone(c.stream.State)
	if len(c.stream.Metadata) == 0 {
		return
	}
	to.Metadata = make(map[string]*structpb.Struct, len(c.stream.Metadata))
	for namespace, s := range c.stream.Metadata {
		to.Metadata[namespace] = &structpb.Struct{Fields: maps.Clone(s.GetFields())}
	}
}

// Conn is the connection below.
func (c *Connection) Conn() *loop.Conn { return c.conn }

// Listener is the connection's listener.
func (c *Connection) Listener() *Listener { return c.l }

// CloseReason sets %DOWNSTREAM_LOCAL_CLOSE_REASON%.
func (c *Connection) CloseReason(why string) { c.Info.Ending().LocalCloseReason = why }

// closes says why the connection is about to be closed.
func (c *Connection) closes(details, reason string) {
	e := c.Info.Ending()
	e.TerminationDetails, e.LocalCloseReason = details, reason
}

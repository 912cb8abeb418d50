package pool

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// client is one connection to a host. It is the connection's handler until it
// is open; then its codec is.
type client struct {
	pool      *hostPool
	conn      *loop.Conn
	info      ConnInfo
	tls       func() *filter.TLSInfo
	transport loop.Transport
	h1        *h1Client
	h2        *h2Client
	opened    bool
	gone      bool
	unusable  bool // no new stream
	local     bool // this side closes it
	ended     bool // the host has ended its side
	active    int32
	read      stats.Latest // what was received last
	requests  uint64
	since     time.Duration // when connecting began
	openedAt  time.Duration
	restedAt  time.Duration // when the last stream ended
	rx, tx    uint64        // counted already
	idle      loop.Timer
	age       loop.Timer
	ping      loop.Timer
}

// open starts a connection.
func (p *hostPool) open() {
	w, o := p.c.w, p.c.opt
	cl := &client{pool: p, since: w.Loop.Now()}
	cl.info.ID = w.ConnectionID()
	d := loop.DialOptions{Timeout: o.ConnectTimeout, Source: o.Source, Control: o.Control}
	if o.Transport != nil {
		cl.transport, cl.tls = o.Transport(p.c.ctx, p.host, p.key.proto, p.key.opts)
		d.Transport = cl.transport
	}
	if o.ProxyHeaders != nil && cl.transport != nil {
		d.Transport = loop.Precede(cl.transport, cl.header)
	}
	if p.all == nil {
		p.all = map[*client]struct{}{}
	}
	p.all[cl] = struct{}{}
	p.opening++
	st := p.c.Cfg.Stats
	w.Stats.Inc(st.UpstreamCxTotal)
	if p.key.proto == HTTP1 {
		w.Stats.Inc(st.UpstreamCxHTTP1Total) // as Envoy, whether or not it will open
	}
	w.Stats.GaugeAdd(st.UpstreamCxActive, 1)
	w.Stats.Inc(p.host.Stats.CxTotal)
	cl.idle.Init(w.Loop, cl.onIdle)
	cl.age.Init(w.Loop, cl.onAge)
	cl.ping.Init(w.Loop, cl.onPing)
	cl.conn = dial(w.Loop, p.host, &d, cl)
	if o.BufferLimit > 0 {
		cl.conn.SetHigh(o.BufferLimit)
	}
}

// header is the PROXY header of the connection; nil if there is none.
func (cl *client) header() []byte {
	p := cl.pool
	return p.c.header(p.host, p.key.opts.Source.source(), cl.conn, cl.info.ID)
}

// dial connects to a host: to the first of its addresses that answers (CM-09).
func dial(l *loop.Loop, h *cluster.Host, o *loop.DialOptions, to loop.Handler) *loop.Conn {
	more := h.AdditionalAddresses()
	if len(more) == 0 {
		return l.Dial(h.Address(), o, to)
	}
	return l.DialAny(append([]filter.Address{h.Address()}, more...), o, to)
}

// OnOpen implements loop.Handler.
func (cl *client) OnOpen() {
	p := cl.pool
	w, st := p.c.w, p.c.Cfg.Stats
	p.opening--
	cl.opened, cl.openedAt = true, w.Loop.Now()
	w.Stats.Record(st.UpstreamCxConnectMs, worker.Millis(cl.openedAt-cl.since))
	cl.info.Local = cl.conn.Local()
	cl.info.ConnectStart, cl.info.ConnectEnd = cl.since, cl.openedAt
	if cl.tls != nil {
		cl.info.ConnectEnd, cl.info.HandshakeEnd = 0, cl.openedAt
		cl.info.TLS = cl.tls()
		p.c.opt.CountTransport(w.Stats, cl.transport, true)
	}
	if p.c.opt.ProxyHeaders != nil && cl.transport == nil {
		cl.conn.Write(cl.header())
	}
	proto := p.key.proto
	if proto == ALPN {
		proto = HTTP1
		if cl.transport != nil && cl.transport.Protocol() == "h2" {
			proto = HTTP2
		}
	}
	if d := p.c.opt.MaxConnectionDuration; d > 0 {
		cl.age.Set(w.Loop.Jitter(d, p.c.opt.MaxConnectionJitter))
	}
	if proto == HTTP2 {
		w.Stats.Inc(st.UpstreamCxHTTP2Total)
		cl.info.Protocol = filter.HTTP2
		cl.openH2()
	} else {
		if p.key.proto == ALPN {
			w.Stats.Inc(st.UpstreamCxHTTP1Total)
		}
		cl.info.Protocol = filter.HTTP11
		cl.openH1()
	}
	cl.rest()
	p.serve()
}

// rest notes that the connection may have nothing to do.
func (cl *client) rest() {
	cl.restedAt = cl.pool.c.w.Loop.Now()
	if cl.active > 0 || cl.gone {
		return
	}
	if cl.pool.dropped && cl.pool.first == nil {
		cl.stopUsing()
		cl.closeIfDone()
		return
	}
	if d := cl.pool.c.opt.IdleTimeout; d > 0 {
		cl.idle.Set(d)
	}
}

func (cl *client) onIdle() {
	if cl.active > 0 {
		return // Set again when the last stream ends
	}
	cl.pool.c.w.Stats.Inc(cl.pool.c.Cfg.Stats.UpstreamCxIdleTimeout)
	cl.stopUsing()
	cl.closeIfDone()
}

func (cl *client) onAge() {
	cl.pool.c.w.Stats.Inc(cl.pool.c.Cfg.Stats.UpstreamCxMaxDurationReached)
	cl.stopUsing()
	cl.closeIfDone()
}

func (cl *client) onPing() {
	if cl.h2 != nil {
		cl.h2.onPing()
	}
}

// start puts a stream on the connection.
func (cl *client) start(r Receiver) {
	cl.idle.Stop()
	if cl.h2 != nil {
		if d := cl.pool.c.opt.KeepaliveIdle; d > 0 && cl.active == 1 && cl.pool.c.w.Loop.Now()-cl.restedAt >= d {
			cl.h2.probe()
		}
		cl.h2.start(r)
		return
	}
	cl.h1.start(r)
}

// stopUsing makes the connection take no new stream.
func (cl *client) stopUsing() {
	if cl.unusable {
		return
	}
	cl.unusable = true
	p := cl.pool
	p.idle = without(p.idle, cl)
	p.ready = without(p.ready, cl)
}

func without(list []*client, cl *client) []*client {
	for i, x := range list {
		if x == cl {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// closeIfDone closes a connection that is not to be used any more and has
// nothing under way.
func (cl *client) closeIfDone() {
	if cl.unusable && cl.active == 0 && !cl.gone {
		cl.local = true
		cl.conn.Close(0)
	}
}

// received notes the size of a read.
func (cl *client) received(n int) {
	cl.read.Set(cl.pool.c.w.Stats, cl.pool.c.Cfg.Stats.UpstreamCxRxBytesBuffered, n)
}

// account counts the bytes since the last time.
func (cl *client) account() {
	st, s := cl.pool.c.Cfg.Stats, cl.pool.c.w.Stats
	if n := cl.conn.Received(); n != cl.rx {
		s.Add(st.UpstreamCxRxBytesTotal, n-cl.rx)
		cl.rx = n
	}
	if n := cl.conn.Sent(); n != cl.tx {
		s.Add(st.UpstreamCxTxBytesTotal, n-cl.tx)
		cl.tx = n
	}
}

// OnData implements loop.Handler: nothing is expected before OnOpen.
func (cl *client) OnData([]byte) {}

// OnEnd implements loop.Handler.
func (cl *client) OnEnd() {
	cl.ended = true
	cl.conn.Abort(false)
}

// OnBlocked implements loop.Handler.
func (cl *client) OnBlocked() {}

// OnDrained implements loop.Handler.
func (cl *client) OnDrained() {}

// OnClose implements loop.Handler: the connection never opened.
func (cl *client) OnClose(why loop.Reason, err error) { cl.closed(why, err) }

// closed counts the end of the connection and frees its place.
func (cl *client) closed(why loop.Reason, err error) {
	if cl.gone {
		return
	}
	cl.gone = true
	cl.local = cl.local || errors.Is(err, loop.ErrBind)
	p := cl.pool
	s, st := p.c.w.Stats, p.c.Cfg.Stats
	cl.account()
	cl.read.Set(s, st.UpstreamCxRxBytesBuffered, 0)
	cl.stopUsing()
	cl.idle.Unlink()
	cl.age.Unlink()
	cl.ping.Unlink()
	delete(p.all, cl)
	p.brk.ReleaseCx()
	p.host.ReleaseCx()
	s.GaugeAdd(st.UpstreamCxActive, -1)
	s.Inc(st.UpstreamCxDestroy)
	if cl.closedHere(why) {
		s.Inc(st.UpstreamCxDestroyLocal)
	} else {
		s.Inc(st.UpstreamCxDestroyRemote)
	}
	if cl.opened {
		s.Record(st.UpstreamCxLengthMs, worker.Millis(p.c.w.Loop.Now()-cl.openedAt))
		s.Record(st.UpstreamRqPerCx, cl.requests)
	} else {
		cl.connectFailed(why, err)
	}
	p.forget()
}

func (cl *client) connectFailed(why loop.Reason, err error) {
	p := cl.pool
	p.opening--
	s, st := p.c.w.Stats, p.c.Cfg.Stats
	s.Inc(st.UpstreamCxConnectFail)
	if errors.Is(err, loop.ErrBind) {
		s.Inc(st.BindErrors)
	}
	s.Inc(p.host.Stats.CxConnectFail)
	if why == loop.TransportFailed {
		p.c.opt.CountTransport(s, cl.transport, false)
	}
	reason, details := RemoteConnectionFailure, ""
	switch {
	case loop.IsTimeout(err):
		s.Inc(st.UpstreamCxConnectTimeout)
		reason = ConnectionTimeout
	case cl.local:
		reason = LocalConnectionFailure
	}
	if err != nil && !loop.IsTimeout(err) {
		details = transportText(why, err)
	}
	p.fail(reason, details)
	p.grow()
}

// transportText is %UPSTREAM_TRANSPORT_FAILURE_REASON%.
func transportText(why loop.Reason, err error) string {
	var e syscall.Errno
	switch {
	case why == loop.TransportFailed:
		return err.Error()
	case errors.As(err, &e):
		text := e.Error() // the C library's begins with a capital
		return "delayed connect error: " + strings.ToUpper(text[:1]) + text[1:]
	}
	return err.Error()
}

// closedHere tells whether it was this side that closed the connection.
func (cl *client) closedHere(why loop.Reason) bool {
	return !cl.ended && (cl.local || why == loop.Local)
}

// broken counts a stream that its connection's end broke.
func (cl *client) broken(local bool) {
	s, st := cl.pool.c.w.Stats, cl.pool.c.Cfg.Stats
	s.Inc(st.UpstreamCxDestroyWithActiveRq)
	if local {
		s.Inc(st.UpstreamCxDestroyLocalWithActiveRq)
	} else {
		s.Inc(st.UpstreamCxDestroyRemoteWithActiveRq)
	}
}

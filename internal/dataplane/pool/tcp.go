package pool

import (
	"errors"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/proxyheader"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// TCPHandler owns a connection of its own to a host (NF-09). After OnFailed or
// OnClose nothing more is called.
type TCPHandler interface {
	// OnOpen says that bytes can be sent.
	OnOpen()
	// OnFailed says that there is no connection.
	OnFailed(why Reset, transportFailure string)
	OnData(data []byte)
	OnEnd()
	OnBlocked()
	OnDrained()
	// OnClose says that an open connection is gone.
	OnClose(why loop.Reason)
}

// TCP is a connection of its own to a host. Confined to the worker.
type TCP struct {
	c         *Cluster
	host      *cluster.Host
	brk       *cluster.Breaker
	h         TCPHandler
	conn      *loop.Conn
	info      ConnInfo
	tls       func() *filter.TLSInfo
	transport loop.Transport
	source    *proxyheader.Source // whose connection a PROXY header tells of, or nil
	opened    bool
	local     bool
	endedLast bool         // the host has ended its side, after this one
	done      bool         // nothing is under way
	read      stats.Latest // what was received last
	since     time.Duration
	openAt    time.Duration
	rx, tx    uint64

	prev, next *TCP // of the cluster, if failing hosts cut their connections
	listed     bool
}

// list puts a connection on the list of those that a failing host cuts.
func (t *TCP) list() {
	if !t.c.Cfg.CloseConnectionsOnHostHealthFailure() {
		return
	}
	t.listed, t.next = true, t.c.tcp
	if t.next != nil {
		t.next.prev = t
	}
	t.c.tcp = t
}

func (t *TCP) unlist() {
	if !t.listed {
		return
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		t.c.tcp = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next, t.listed = nil, nil, false
}

// cut ends the plain connections of a host.
func (c *Cluster) cut(h *cluster.Host) {
	var next *TCP
	for t := c.tcp; t != nil; t = next {
		next = t.next // a connection that is cut leaves the list
		if t.host == h {
			t.Close(true)
		}
	}
}

// Dial opens a connection of its own to a host; h.OnOpen or h.OnFailed answers.
// It is nil, and OnFailed was called, when a circuit breaker does not allow it:
// with Overflow if there may be no more connections, with PendingOverflow if no
// more may be waited for. info is the stream that the connection is for.
func (c *Cluster) Dial(host *cluster.Host, prio cluster.RoutePriority, info *filter.StreamInfo, h TCPHandler) *TCP {
	s, st := c.w.Stats, c.Cfg.Stats
	t := &TCP{c: c, host: host, brk: c.Cfg.Breaker(prio), h: h, since: c.w.Loop.Now()}
	if !t.brk.TryCx() {
		s.Inc(st.UpstreamCxOverflow)
		h.OnFailed(Overflow, "")
		return nil
	}
	if !t.brk.TryPending() {
		t.brk.ReleaseCx()
		s.Inc(st.UpstreamRqPendingOverflow)
		h.OnFailed(PendingOverflow, "")
		return nil
	}
	if !host.TryCx() {
		t.brk.ReleasePending()
		t.brk.ReleaseCx()
		s.Inc(st.UpstreamCxOverflow)
		h.OnFailed(Overflow, "")
		return nil
	}
	s.Inc(st.UpstreamRqPendingTotal)
	s.GaugeAdd(st.UpstreamRqPendingActive, 1)
	s.Inc(st.UpstreamCxTotal)
	s.GaugeAdd(st.UpstreamCxActive, 1)
	s.Inc(host.Stats.CxTotal)
	t.info.ID = c.w.ConnectionID()
	o := loop.DialOptions{Timeout: c.opt.ConnectTimeout, Source: c.opt.Source, Control: c.opt.Control}
	if c.opt.Transport != nil {
		t.transport, t.tls = c.opt.Transport(c.ctx, host, HTTP1, TransportOptions{RawALPN: true})
		o.Transport = t.transport
	}
	if c.opt.ProxyHeaders != nil {
		t.announce(info, &o)
	}
	t.conn = dial(c.w.Loop, host, &o, t)
	if c.opt.BufferLimit > 0 {
		t.conn.SetHigh(c.opt.BufferLimit)
	}
	t.list()
	return t
}

// announce prepares the PROXY header of the connection.
func (t *TCP) announce(info *filter.StreamInfo, o *loop.DialOptions) {
	if info.Connection != nil {
		from := proxyheader.SourceOf(info)
		t.source = &from
	}
	if t.transport != nil {
		o.Transport = loop.Precede(t.transport, t.header)
	}
}

// header is the PROXY header of the connection; nil if there is none.
func (t *TCP) header() []byte { return t.c.header(t.host, t.source, t.conn, t.info.ID) }

// Conn is the connection below.
func (t *TCP) Conn() *loop.Conn { return t.conn }

// Host is the host.
func (t *TCP) Host() *cluster.Host { return t.host }

// Info is what is known of the connection once it is open.
func (t *TCP) Info() *ConnInfo { return &t.info }

// Close ends the connection: what was written is sent unless now is set.
func (t *TCP) Close(now bool) {
	t.local = true
	if now {
		t.conn.Abort(false)
		return
	}
	t.conn.Close(0)
}

// Done says that nothing is under way any more on an open connection, which is
// about to be closed.
func (t *TCP) Done() {
	if t.opened && !t.done {
		t.done = true
		t.c.w.Stats.GaugeAdd(t.c.Cfg.Stats.UpstreamRqActive, -1)
		t.host.AddRqActive(-1)
	}
}

// OnOpen implements loop.Handler.
func (t *TCP) OnOpen() {
	s, st := t.c.w.Stats, t.c.Cfg.Stats
	t.opened, t.openAt = true, t.c.w.Loop.Now()
	t.brk.ReleasePending()
	s.GaugeAdd(st.UpstreamRqPendingActive, -1)
	s.Record(st.UpstreamCxConnectMs, worker.Millis(t.openAt-t.since))
	s.Inc(st.UpstreamRqTotal)
	s.GaugeAdd(st.UpstreamRqActive, 1)
	s.Inc(t.host.Stats.RqTotal)
	t.host.AddRqActive(1)
	t.info.Local = t.conn.Local()
	t.info.ConnectStart, t.info.ConnectEnd = t.since, t.openAt
	if t.tls != nil {
		t.info.ConnectEnd, t.info.HandshakeEnd = 0, t.openAt
		t.info.TLS = t.tls()
		t.c.opt.CountTransport(s, t.transport, true)
	}
	if t.c.opt.ProxyHeaders != nil && t.transport == nil {
		t.conn.Write(t.header())
	}
	t.h.OnOpen()
}

// OnData implements loop.Handler.
func (t *TCP) OnData(data []byte) {
	t.read.Set(t.c.w.Stats, t.c.Cfg.Stats.UpstreamCxRxBytesBuffered, len(data))
	t.h.OnData(data)
	t.account()
}

func (t *TCP) account() {
	s, st := t.c.w.Stats, t.c.Cfg.Stats
	if n := t.conn.Received(); n != t.rx {
		s.Add(st.UpstreamCxRxBytesTotal, n-t.rx)
		t.rx = n
	}
	if n := t.conn.Sent(); n != t.tx {
		s.Add(st.UpstreamCxTxBytesTotal, n-t.tx)
		t.tx = n
	}
}

// OnEnd implements loop.Handler.
func (t *TCP) OnEnd() {
	t.endedLast = t.conn.WriteClosed()
	t.h.OnEnd()
}

// OnBlocked implements loop.Handler.
func (t *TCP) OnBlocked() {
	t.c.w.Stats.Inc(t.c.Cfg.Stats.UpstreamFlowControlBackedUpTotal)
	t.account()
	t.h.OnBlocked()
}

// OnDrained implements loop.Handler.
func (t *TCP) OnDrained() {
	t.c.w.Stats.Inc(t.c.Cfg.Stats.UpstreamFlowControlDrainedTotal)
	t.account()
	t.h.OnDrained()
}

// OnClose implements loop.Handler.
func (t *TCP) OnClose(why loop.Reason, err error) {
	s, st := t.c.w.Stats, t.c.Cfg.Stats
	t.unlist()
	t.account()
	t.read.Set(s, st.UpstreamCxRxBytesBuffered, 0)
	t.brk.ReleaseCx()
	t.host.ReleaseCx()
	s.GaugeAdd(st.UpstreamCxActive, -1)
	s.Inc(st.UpstreamCxDestroy)
	unbound := errors.Is(err, loop.ErrBind)
	local := unbound || why == loop.Local && !t.endedLast
	if local {
		s.Inc(st.UpstreamCxDestroyLocal)
	} else {
		s.Inc(st.UpstreamCxDestroyRemote)
	}
	if t.opened {
		if !t.done {
			t.broken(local)
			t.Done()
		}
		s.Record(st.UpstreamCxLengthMs, worker.Millis(t.c.w.Loop.Now()-t.openAt))
		t.h.OnClose(why)
		return
	}
	t.notOpened(why, err, unbound)
}

// broken counts what the connection's end broke.
func (t *TCP) broken(local bool) {
	s, st := t.c.w.Stats, t.c.Cfg.Stats
	s.Inc(st.UpstreamCxDestroyWithActiveRq)
	if local {
		s.Inc(st.UpstreamCxDestroyLocalWithActiveRq)
	} else {
		s.Inc(st.UpstreamCxDestroyRemoteWithActiveRq)
	}
}

// notOpened counts a connection that could not be made, and says so.
func (t *TCP) notOpened(why loop.Reason, err error, unbound bool) {
	s, st := t.c.w.Stats, t.c.Cfg.Stats
	t.brk.ReleasePending()
	s.GaugeAdd(st.UpstreamRqPendingActive, -1)
	s.Inc(st.UpstreamCxConnectFail)
	if unbound {
		s.Inc(st.BindErrors)
	}
	s.Inc(t.host.Stats.CxConnectFail)
	if why == loop.TransportFailed {
		t.c.opt.CountTransport(s, t.transport, false)
	}
	reason, details := RemoteConnectionFailure, ""
	switch {
	case loop.IsTimeout(err):
		s.Inc(st.UpstreamCxConnectTimeout)
		reason = ConnectionTimeout
	case unbound:
		reason = LocalConnectionFailure
	case t.local:
		reason = LocalConnectionFailure
		s.Inc(st.UpstreamRqCancelled)
	}
	if !t.local {
		s.Inc(st.UpstreamRqPendingFailureEject)
	}
	if err != nil && !loop.IsTimeout(err) {
		details = transportText(why, err)
	}
	t.h.OnFailed(reason, details)
}

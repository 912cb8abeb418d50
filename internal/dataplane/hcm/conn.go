package hcm

import (
	"bytes"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// Conn is a downstream connection of HTTP.
type Conn struct {
	sv   *Server
	cfg  *Config
	d    Downstream
	info *filter.ConnectionInfo
	// below is the connection whose metadata and state streams begin with; nil
	// without.
	below *listener.Connection

	h1       *serverH1 // nil while there is nothing to remember
	h2       *serverH2
	first    *Stream // streams, newest first
	requests uint64
	start    time.Duration
	rx, tx   uint64
	active   int32        // streams
	read     stats.Latest // what was received last
	isH1     bool
	spoken   filter.Protocol
	draining bool
	old      bool // the next response of HTTP/1 is the last
	closed   bool
	local    bool        // this side closes
	gone     bool        // the client has ended its side
	busy     bool        // streams were ended for the connection's end
	over     bool        // the client does not keep up
	agent    *agentStats // nil for most clients

	idle loop.Timer
	age  *aging   // max_connection_duration, then of Drain; nil without
	part *parting // nil unless the connection ends by and by
}

// NewConn serves a connection.
func (sv *Server) NewConn(cfg *Config, d Downstream, info *filter.ConnectionInfo) *Conn {
	c := &Conn{sv: sv, cfg: cfg, d: d, info: info, start: sv.W.Loop.Now()}
	d.SetFlushTimeout(cfg.DelayedClose)
	s, st := sv.W.Stats, cfg.Stats
	s.Inc(st.CxTotal)
	s.GaugeAdd(st.CxActive, 1)
	if info.TLS != nil {
		s.Inc(st.CxSSLTotal)
		s.GaugeAdd(st.CxSSLActive, 1)
	}
	c.idle.Init(sv.W.Loop, c.onIdle)
	c.armIdle()
	if d := cfg.MaxConnection; d > 0 {
		d = sv.W.Loop.Jitter(d, cfg.MaxConnJitter)
		c.aging(d).Set(c.wait(overload.ConnectionMax, d))
	}
	return c
}

// Protocol is the version of HTTP of the latest request; NoProtocol before the
// first. The listener's access log has it.
func (c *Conn) Protocol() filter.Protocol { return c.spoken }

func (c *Conn) armIdle() {
	if c.cfg.IdleTimeout > 0 && c.active == 0 {
		c.idle.Set(c.wait(overload.ConnectionIdle, c.cfg.IdleTimeout))
	}
}

// alpn is the protocol that TLS agreed on, or "".
func (c *Conn) alpn() string {
	if c.info.TLS == nil {
		return ""
	}
	return c.info.TLS.ALPN
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// OnData takes received bytes.
func (c *Conn) OnData(data []byte) {
	if c.closed {
		return
	}
	c.read.Set(c.sv.W.Stats, c.cfg.Stats.CxRxBuffered, len(data))
	switch {
	case c.h2 != nil:
		c.h2.feed(data)
	case c.isH1:
		c.codec1().feed(data)
	default:
		c.choose(data)
	}
	if !c.closed {
		c.account()
	}
}

// choose decides by the first bytes what is spoken (HC-02).
func (c *Conn) choose(data []byte) {
	switch alpn := c.alpn(); {
	case c.cfg.Codec == HTTP2 || c.cfg.Codec == Auto && alpn == "h2":
		c.openH2()
		c.h2.feed(data)
		return
	case c.cfg.Codec == HTTP1 || alpn != "":
		c.openH1()
		c.codec1().feed(data)
		return
	}
	if begun := c.sv.prefixes[c]; len(begun) > 0 {
		data = append(begun, data...)
	}
	n := min(len(data), len(preface))
	switch {
	case !bytes.Equal(data[:n], []byte(preface[:n])):
		c.openH1()
	case n < len(preface):
		c.sv.keepPrefix(c, data)
		return
	default:
		c.openH2()
	}
	delete(c.sv.prefixes, c)
	if c.h2 != nil {
		c.h2.feed(data)
	} else {
		c.codec1().feed(data)
	}
}

// OnEnd takes the end of what the client sends.
func (c *Conn) OnEnd() {
	if c.h1 != nil && c.h1.s != nil {
		c.sv.tellHeads() // its own may wait, which came before the end
		if c.closed || c.d.Closed() {
			return // by its answer, which is still to be sent
		}
	}
	c.gone = true
	switch {
	case c.closed:
	case c.isH1:
		c.codec1().end()
	default:
		c.d.Abort(false)
	}
}

// OnBlocked says that the client does not take what is sent. Upstreams are read
// no more, which their clusters count.
func (c *Conn) OnBlocked() {
	c.over = true
	if c.h2 != nil {
		c.h2.conn.SetWriteBlocked(true)
	}
	for s := c.first; s != nil; s = s.next {
		s.clientPaused(true)
	}
}

// OnDrained says that the client keeps up again.
func (c *Conn) OnDrained() {
	c.over = false
	if c.h2 != nil {
		c.d.Writer()
		c.h2.conn.SetWriteBlocked(false)
	}
	for s := c.first; s != nil; s = s.next {
		if !s.streamOver {
			s.clientPaused(false)
		}
	}
}

// OnClose says that the connection is gone.
func (c *Conn) OnClose(why loop.Reason, err error) {
	if c.closed {
		return
	}
	c.closed = true
	s, st := c.sv.W.Stats, c.cfg.Stats
	c.account()
	c.read.Set(s, st.CxRxBuffered, 0)
	if loop.IsDelayedClose(err) {
		s.Inc(st.CxDelayedClose)
	}
	if c.h1 != nil {
		c.h1.interrupted()
	}
	local := c.local || why == loop.Local && !c.gone
	busy := c.busy || c.active > 0
	for c.first != nil {
		c.first.disconnected(local)
	}
	c.idle.Unlink()
	delete(c.sv.prefixes, c)
	if c.age != nil {
		c.age.Unlink()
	}
	if c.part != nil {
		c.part.last.Unlink()
	}
	c.countClose(local, busy)
	switch {
	case c.isH1:
		s.GaugeAdd(st.CxHTTP1Active, -1)
		if c.old {
			s.GaugeAdd(st.CxHTTP1SoftDrain, -1)
		}
		if c.h1 != nil {
			c.h1.gone()
		}
	case c.h2 != nil:
		s.GaugeAdd(st.CxHTTP2Active, -1)
		c.h2.gone()
	}
	s.GaugeAdd(st.CxActive, -1)
	if c.info.TLS != nil {
		s.GaugeAdd(st.CxSSLActive, -1)
	}
	length := worker.Millis(c.sv.W.Loop.Now() - c.start)
	s.Record(st.CxLength, length)
	if c.agent != nil {
		s.Record(c.agent.CxLength, length)
	}
}

func (c *Conn) countClose(local, busy bool) {
	s, st := c.sv.W.Stats, c.cfg.Stats
	s.Inc(st.CxDestroy)
	if local {
		s.Inc(st.CxDestroyLocal)
	} else {
		s.Inc(st.CxDestroyRemote)
	}
	if !busy {
		return
	}
	s.Inc(st.CxDestroyActiveRq)
	if local {
		s.Inc(st.CxDestroyLocalActive)
	} else {
		s.Inc(st.CxDestroyRemoteActive)
		if c.agent != nil {
			s.Inc(c.agent.CxDestroyRemoteActive)
		}
	}
}

// account counts bytes since the last time.
func (c *Conn) account() {
	s, st := c.sv.W.Stats, c.cfg.Stats
	if n := c.d.Received(); n != c.rx {
		s.Add(st.CxRxTotal, n-c.rx)
		c.rx = n
	}
	if n := c.d.Sent(); n != c.tx {
		s.Add(st.CxTxTotal, n-c.tx)
		c.tx = n
	}
}

func (c *Conn) link(s *Stream) {
	s.prev, s.next = nil, c.first
	if c.first != nil {
		c.first.prev = s
	}
	c.first = s
	c.active++
	c.requests++
}

func (c *Conn) unlink(s *Stream) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		c.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	c.active--
	c.armIdle()
}

func (c *Conn) onIdle() {
	if c.active > 0 || c.closed {
		return
	}
	c.sv.W.Stats.Inc(c.cfg.Stats.CxIdleTimeout)
	if c.h2 != nil {
		c.Drain() // a request may be on its way
		return
	}
	c.shut()
}

func (c *Conn) onAge() {
	if !c.draining {
		c.sv.W.Stats.Inc(c.cfg.Stats.CxMaxDuration)
		if c.old = c.isH1 && c.cfg.SafeMaxConnection; !c.old {
			c.Drain()
		} else {
			c.sv.W.Stats.GaugeAdd(c.cfg.Stats.CxHTTP1SoftDrain, 1)
		}
		return
	}
	if c.h2 == nil && c.active == 0 && !c.closed {
		c.shut()
	}
}

// shut closes a connection without streams.
func (c *Conn) shut() {
	c.local = true
	if c.h2 != nil {
		c.h2.goAway()
	}
	c.d.Close(0)
}

// lingering is how long a close waits for the client to have read all.
func (c *Conn) lingering() time.Duration { return c.cfg.DelayedClose }

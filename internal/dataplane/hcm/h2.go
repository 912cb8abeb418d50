package hcm

import (
	"errors"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// serverH2 is HTTP/2 on a connection.
type serverH2 struct {
	c       *Conn
	conn    http2.Conn
	closed  uint64 // streams, and of them those reset early (HC-07)
	early   uint64
	second  loop.Timer // of the GOAWAY that ends draining
	ping    loop.Timer
	pinged  bool
	broken  bool // the client violated the protocol
	feeding bool
	fell    bool // what is being read ended a stream by such a violation
	resume  func()
	remote  string // the client's IP address, "" if it has none
}

func (c *Conn) openH2() {
	s, st := c.sv.W.Stats, c.cfg.Stats
	s.Inc(st.CxHTTP2Total)
	s.GaugeAdd(st.CxHTTP2Active, 1)
	h := &serverH2{c: c}
	if ip := c.info.Remote.IP; ip.IsValid() {
		h.remote = ip.Addr().String()
	}
	h.resume = h.goOn
	h.second.Init(c.sv.W.Loop, h.endDrain)
	h.ping.Init(c.sv.W.Loop, h.onPing)
	c.h2 = h
	c.d.ReceiveLate()
	s.Inc(c.cfg.Codecs.Nghttp2)
	h.conn.Init(http2.Server, &c.cfg.HTTP2, h, c.d.Writer())
	h.conn.UsePool(&c.sv.W.Streams)
	h.conn.Start()
	if d := c.cfg.KeepaliveInterval; d > 0 {
		h.ping.Set(h.jitter(d))
	}
	if c.draining {
		h.drain() // which could not be told before
	}
}

func (h *serverH2) protocol() filter.Protocol { return filter.HTTP2 }

func (h *serverH2) jitter(d time.Duration) time.Duration {
	return h.c.sv.W.Loop.Jitter(d, h.c.cfg.KeepaliveJitter)
}

// onPing asks whether the client is alive, or ends the connection of one that has
// not answered (HC-08).
func (h *serverH2) onPing() {
	cfg := h.c.cfg
	if h.pinged {
		h.c.sv.W.Stats.Inc(cfg.Codecs.Keepalive)
		h.c.local = true
		h.c.d.Abort(false)
		return
	}
	h.pinged = true
	h.c.d.Writer()
	h.conn.Ping([8]byte{1})
	h.ping.Set(cfg.KeepaliveTimeout)
}

// OnPingAck implements http2.Handler.
func (h *serverH2) OnPingAck([8]byte) {
	if h.pinged {
		h.pinged = false
		h.ping.Set(h.jitter(h.c.cfg.KeepaliveInterval))
	}
}

func (h *serverH2) feed(data []byte) {
	if h.pinged {
		h.ping.Set(h.c.cfg.KeepaliveTimeout) // who sends is alive: the answer may be behind it
	}
	h.c.d.Writer()
	h.fell, h.feeding = false, true
	err := h.conn.Feed(data)
	h.feeding = false
	h.count()
	if err != nil && !h.c.closed {
		h.fail(err)
	}
}

// count takes over what the codec counted.
func (h *serverH2) count() {
	n := h.conn.Counts
	if n == (http2.Counts{}) {
		return
	}
	h.conn.Counts = http2.Counts{}
	s, st := h.c.sv.W.Stats, h.c.cfg.Codecs
	s.Add(st.RxReset, n.RxReset)
	s.Add(st.TxReset, n.TxReset)
	s.Add(st.RxError, n.RxMessagingError)
	s.Add(st.StreamRefused, n.Refused)
	s.Add(st.HeadersNoStream, n.HeadersNoStream)
	s.Add(st.Trailers, n.Trailers)
	s.Add(st.GoawaySent, n.GoAwaySent)
	s.Add(st.Dropped, n.DroppedUnderscores)
	s.Add(st.Rejected, n.RejectedUnderscores)
}

// fail closes the connection after a violation (HC-06, HC-09).
func (h *serverH2) fail(err error) {
	var e *http2.ConnError
	errors.As(err, &e)
	c := h.c
	s, st := c.sv.W.Stats, c.cfg.Codecs
	s.Inc(c.cfg.Stats.CxProtocolError)
	switch e.Flood {
	case http2.FloodOutbound:
		s.Inc(st.OutboundFlood)
	case http2.FloodOutboundControl:
		s.Inc(st.ControlFlood)
	case http2.FloodInboundEmpty:
		s.Inc(st.EmptyFlood)
	case http2.FloodInboundPriority:
		s.Inc(st.PriorityFlood)
	case http2.FloodInboundWindow:
		s.Inc(st.WindowFlood)
	}
	c.local, h.broken = true, true
	active := c.active
	h.conn.Close(e.Code, e.Details)
	c.busy = active > 0 || h.fell
	c.d.Close(c.lingering())
}

// goAway tells the client that the connection ends.
func (h *serverH2) goAway() {
	h.c.d.Writer()
	h.conn.GoAway(http2.NoError, h.conn.LastPeerStream(), "")
}

func (h *serverH2) drain() {
	h.c.d.Writer()
	h.conn.Shutdown()
	h.second.Set(h.c.cfg.DrainTimeout)
}

func (h *serverH2) endDrain() {
	if h.c.closed {
		return
	}
	h.goAway()
	h.closeIfDone()
}

func (h *serverH2) closeIfDone() {
	if h.c.draining && !h.second.Active() && h.c.active == 0 && !h.c.closed {
		h.c.local = true
		h.c.d.Close(0)
	}
}

func (h *serverH2) gone() {
	h.second.Unlink()
	h.ping.Unlink()
	h.conn.Close(http2.NoError, "")
	h.count()
}

func streamOf(s *http2.Stream) *Stream {
	x, _ := s.User.(*Stream)
	return x
}

// OnStream implements http2.Handler.
func (h *serverH2) OnStream(s *http2.Stream) {
	x := h.c.sv.stream()
	x.prepare(h.c, h)
	x.clock()
	x.h2 = s
	s.User, s.Headers, s.Trailers = x, &x.req, &x.reqTrailers
	h.c.sv.W.Stats.GaugeAdd(h.c.cfg.Codecs.StreamsActive, 1)
}

// OnHeaders implements http2.Handler.
func (h *serverH2) OnHeaders(s *http2.Stream, end bool) {
	x := streamOf(s)
	if x == nil {
		return
	}
	if h.c.draining && !h.second.Active() {
		h.drop(x, s)
		return
	}
	upgrade := http2.UpgradeOfRequest(&x.req)
	x.begin()
	if limit := h.c.cfg.MaxRequests; limit > 0 && h.c.requests >= limit && !h.c.draining {
		h.c.sv.W.Stats.Inc(h.c.cfg.Stats.CxMaxRequests)
		h.c.Drain()
	}
	x.requestHeaders(end, upgrade)
}

// OnHeads implements http2.BatchHandler: all heads of a batch have their routes
// before a filter sees the first.
func (h *serverH2) OnHeads() { h.c.sv.tellHeads() }

func (h *serverH2) drop(x *Stream, s *http2.Stream) {
	s.User = nil
	x.h2 = nil
	x.giveBack()
	s.Reset(http2.RefusedStream)
}

// OnInformational implements http2.Handler: clients send none.
func (h *serverH2) OnInformational(*http2.Stream) {}

// OnData implements http2.Handler.
func (h *serverH2) OnData(s *http2.Stream, b []byte, end bool) {
	x := streamOf(s)
	if x == nil {
		s.Consumed(len(b))
		return
	}
	x.requestData(b, end)
	if x.h2 != s {
		return
	}
	if x.reqPaused > 0 {
		x.unread += len(b)
	} else {
		s.Consumed(len(b))
	}
}

// OnTrailers implements http2.Handler.
func (h *serverH2) OnTrailers(s *http2.Stream) {
	if x := streamOf(s); x != nil {
		x.requestTrailers()
	}
}

// OnReset implements http2.Handler.
func (h *serverH2) OnReset(s *http2.Stream, code http2.ErrCode, remote bool, details string) {
	x := streamOf(s)
	if x == nil {
		return
	}
	if !x.begun {
		x.begin()
	}
	x.remoteReset(remote && !h.broken, details)
	if remote && !h.broken {
		h.rapidReset(x)
	} else {
		h.fell = true
	}
}

// OnWritable implements http2.Handler.
func (h *serverH2) OnWritable(s *http2.Stream) {
	if x := streamOf(s); x != nil && x.streamOver {
		x.streamOver = false
		if !h.c.over {
			x.clientPaused(false)
		}
	}
}

// OnFull implements http2.Handler: the output is handed to the system at the end
// of the turn, or the client does not keep up.
func (h *serverH2) OnFull() { h.c.sv.W.Loop.AtEnd(h.resume) }

func (h *serverH2) goOn() {
	if !h.c.closed {
		h.c.d.Writer()
		h.conn.Continue()
	}
}

// OnClosed implements http2.Handler.
func (h *serverH2) OnClosed(s *http2.Stream) {
	h.c.sv.W.Stats.GaugeAdd(h.c.cfg.Codecs.StreamsActive, -1)
	h.closed++
	if x := streamOf(s); x != nil {
		x.h2 = nil
		switch {
		case !x.begun:
			x.giveBack()
		case x.flushing:
			x.finish()
		}
	}
	if h.c.draining {
		h.c.sv.W.Loop.AtEnd(h.closeIfDone)
	}
}

// OnGoAway implements http2.Handler.
func (h *serverH2) OnGoAway(uint32, http2.ErrCode) {}

// OnSettings implements http2.Handler.
func (h *serverH2) OnSettings() {}

// Runtime keys of the guard against rapid resets (HC-07), and their defaults.
const (
	resetTotalKey    = "overload.premature_reset_total_stream_count"
	resetLifetimeKey = "overload.premature_reset_min_stream_lifetime_seconds"
	resetTotal       = 500
	resetLifetime    = 1
)

// rapidReset ends a connection that mostly opens streams to reset them (HC-07),
// as soon as no number of good streams could save it. Like Envoy it counts the
// lifetime of a stream in whole seconds: with the default of 1, a reset comes
// early until two seconds have passed, and with 0, until one has.
func (h *serverH2) rapidReset(x *Stream) {
	cfg := h.c.cfg
	lived := uint64((h.c.sv.W.Loop.Now() - x.info.Timing.Start) / time.Second)
	if h.c.local || x.responded || lived > cfg.runtime(resetLifetimeKey, resetLifetime) {
		return
	}
	h.early++
	if h.early*2 < max(h.closed+1, cfg.runtime(resetTotalKey, resetTotal)) {
		return
	}
	h.c.sv.W.Stats.Inc(cfg.Stats.RqPremature)
	h.c.local = true
	h.c.sv.W.Loop.AtEnd(func() { h.c.d.Abort(false) })
}

func (h *serverH2) writeHead(s *Stream, m *header.Map, end bool) {
	h.c.parts()
	if s.closeAfter {
		h.c.Drain()
	}
	if s.h2 != nil {
		if to := &s.w.Scratch; s.upgrade {
			if http2.ConnectOfResponse(m, to) {
				m = to
			}
		}
		h.c.d.Writer()
		s.h2.SendHeaders(m, end)
	}
}

func (h *serverH2) informational(s *Stream, m *header.Map) {
	if s.h2 != nil {
		h.c.d.Writer()
		s.h2.SendInformational(m)
	}
}

// streamHigh is the high watermark of a stream's unsent bytes.
const streamHigh = 256 << 10

func (h *serverH2) data(s *Stream, b []byte, end bool) {
	if s.h2 == nil {
		return
	}
	h.c.d.Writer()
	s.h2.SendData(b, end)
	if !end && s.h2 != nil && !s.streamOver && s.h2.Buffered() > streamHigh {
		s.streamOver = true
		s.clientPaused(true)
	}
}

func (h *serverH2) trailers(s *Stream, t *header.Map) {
	if s.h2 != nil {
		h.c.d.Writer()
		s.h2.SendTrailers(t)
	}
}

func (h *serverH2) reset(s *Stream) {
	if x := s.h2; x != nil {
		s.h2 = nil
		x.User = nil
		h.c.d.Writer()
		x.Reset(s.resetCode(http2.InternalError))
	}
}

// resetCode is the code that ends a stream that was not complete: of a tunnel
// whose other end is gone or was never reached, another one (RFC 9113 section
// 8.5).
func (s *Stream) resetCode(otherwise http2.ErrCode) http2.ErrCode {
	const lost = filter.FlagUpstreamConnectionFailure | filter.FlagUpstreamConnectionTermination
	if s.upgrade && s.info.Flags&lost != 0 {
		return http2.ConnectError
	}
	return otherwise
}

func (h *serverH2) pause(s *Stream, pause bool) {
	if !pause && s.unread > 0 && s.h2 != nil {
		h.c.d.Writer()
		s.h2.Consumed(s.unread)
		s.unread = 0
	}
}

// responded implements codec. A request that is not complete is given up (HC-56).
func (h *serverH2) responded(s *Stream, requestDone bool) {
	if !requestDone {
		h.c.sv.W.Stats.Inc(h.c.cfg.Stats.RqRxReset)
		if h.feeding {
			s.info.Timing.LastTx = -1 // as in Envoy: a reset follows at once
		}
	}
	if x := s.h2; x != nil && !requestDone {
		// The rest of the request may be in what is being read just now.
		gen := s.gen
		h.c.sv.W.Loop.AtEnd(func() {
			if s.gen == gen && s.h2 == x && !s.reqEnd {
				h.c.d.Writer()
				x.ResetWhenSent(s.resetCode(http2.NoError))
			}
		})
	}
	if s.h2 == nil {
		s.finish()
		return
	}
	s.flush() // the client has not taken all of it yet
}

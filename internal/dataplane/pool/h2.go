package pool

import (
	"encoding/binary"
	"errors"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// h2Client speaks HTTP/2 on a client's connection.
type h2Client struct {
	cl     *client
	conn   http2.Conn
	stats  *cluster.HTTP2Stats
	why    Reset // what the end of the connection means to its streams
	sent   bool  // a keepalive is under way
	resume func()
}

// h2Stream is a stream of a h2Client. It lives in its request's Waiter.
type h2Stream struct {
	c       *h2Client
	s       *http2.Stream
	r       Receiver
	paused  bool
	held    int // bytes passed on while paused, not acknowledged
	over    bool
	tx, rx  uint64 // see Wire, once s is gone
	sentEnd bool
	upgrade string // the type of the upgrade that the request asks for, or ""
}

func (cl *client) openH2() {
	p := cl.pool
	h := &h2Client{cl: cl, why: ConnectionTermination, stats: p.c.Cfg.Stats.HTTP2()}
	cl.h2 = h
	h.resume = h.goOn
	cl.conn.SetHandler((*h2Socket)(h))
	cl.conn.ReceiveLate()
	out := cl.conn.Writer()
	p.c.w.Stats.Inc(h.stats.Nghttp2UpstreamConnections)
	h.conn.Init(http2.Client, &p.c.opt.HTTP2, h, out)
	h.conn.UsePool(&p.c.w.Streams)
	h.conn.Start()
	p.ready = append(p.ready, cl)
	if d := p.c.opt.KeepaliveInterval; d > 0 {
		cl.ping.Set(p.c.w.Loop.Jitter(d, p.c.opt.KeepaliveJitter))
	}
}

func (h *h2Client) start(r Receiver) {
	st := &r.Waiter().h2
	*st = h2Stream{c: h, r: r}
	h.cl.pool.c.w.Stats.GaugeAdd(h.stats.StreamsActive, 1)
	r.Ready(st)
}

// SendHeaders implements Stream.
func (st *h2Stream) SendHeaders(m *header.Map, end bool) {
	h := st.c
	h.cl.conn.Writer()
	st.sentEnd = end
	to := &h.cl.pool.c.w.Scratch
	var s *http2.Stream
	var err error
	if kind, ok := http2.ConnectOfRequest(m, to); ok {
		st.upgrade = kind
		s, err = h.conn.OpenStream(to, end, st.r.Headers(), st.r.Trailers(), st)
	} else {
		s, err = h.conn.OpenStreamLater(m, end, st.r.Headers(), st.r.Trailers(), st)
	}
	if err != nil {
		// The connection was usable when the stream was attached to it.
		r := st.r
		st.gone()
		r.OnReset(LocalRefused, err.Error())
		return
	}
	st.s = s
}

// SendData implements Stream.
func (st *h2Stream) SendData(data []byte, end bool) {
	if st.s == nil {
		return
	}
	st.c.cl.conn.Writer()
	st.sentEnd = st.sentEnd || end
	st.s.SendData(data, end)
	st.mark()
}

// mark notices that the stream holds more than it should.
func (st *h2Stream) mark() {
	if !st.over && st.s != nil && st.s.Buffered() > streamHigh {
		st.over = true
		st.c.cl.pool.c.w.Stats.Inc(st.c.cl.pool.c.Cfg.Stats.UpstreamFlowControlBackedUpTotal)
		st.r.OnBlocked()
	}
}

// streamHigh is the high watermark of a stream's unsent bytes; the codec's own
// default, at which OnWritable is armed.
const streamHigh = 256 << 10

// SendTrailers implements Stream.
func (st *h2Stream) SendTrailers(t *header.Map) {
	if st.s != nil {
		st.c.cl.conn.Writer()
		st.sentEnd = true
		st.s.SendTrailers(t)
	}
}

// Reset implements Stream.
func (st *h2Stream) Reset() {
	s := st.s
	if st.r == nil {
		return
	}
	st.gone()
	if s != nil {
		st.c.cl.conn.Writer()
		st.c.cl.pool.c.w.Stats.Inc(st.c.cl.pool.c.Cfg.Stats.UpstreamRqTxReset)
		s.Reset(http2.InternalError)
		st.c.count()
	}
}

// Pause implements Stream.
func (st *h2Stream) Pause(pause bool) {
	st.paused = pause
	if !pause && st.held > 0 && st.s != nil {
		st.c.cl.conn.Writer()
		st.s.Consumed(st.held)
		st.held = 0
	}
}

// Info implements Stream.
func (st *h2Stream) Info() *ConnInfo { return &st.c.cl.info }

// Wire implements Stream.
func (st *h2Stream) Wire() (sent, received uint64) {
	if st.s != nil {
		return st.s.Wire()
	}
	return st.tx, st.rx
}

// part forgets the codec's stream, but not what it has counted.
func (st *h2Stream) part() {
	if st.s != nil {
		st.tx, st.rx = st.s.Wire()
		st.s = nil
	}
}

// gone ends the stream's part.
func (st *h2Stream) gone() {
	h := st.c
	st.r = nil
	if st.s != nil {
		st.s.User = nil
		st.part()
	}
	p := h.cl.pool
	p.c.w.Stats.GaugeAdd(h.stats.StreamsActive, -1)
	p.over(h.cl)
	if h.cl.active == 0 {
		h.cl.rest()
		h.cl.closeIfDone()
	}
	if p.first != nil && !h.cl.gone {
		p.c.w.Loop.AtEnd(p.serve)
	}
}

func streamOf(s *http2.Stream) *h2Stream {
	st, _ := s.User.(*h2Stream)
	return st
}

// OnStream implements http2.Handler: hosts open no streams.
func (h *h2Client) OnStream(*http2.Stream) {}

// OnHeaders implements http2.Handler.
func (h *h2Client) OnHeaders(s *http2.Stream, end bool) {
	if st := streamOf(s); st != nil {
		r := st.r
		if st.upgrade != "" {
			http2.UpgradeOfResponse(r.Headers(), st.upgrade)
		}
		r.OnHeaders(end)
		st.finish(r, end)
	}
}

// finish ends the stream after its response, if that has not been done.
func (st *h2Stream) finish(r Receiver, end bool) {
	if end && st.r == r && r != nil {
		s := st.s
		st.gone()
		// The request is given up if it is not complete (HC-56).
		if s != nil && !s.Closed() && !st.sentEnd {
			st.c.cl.conn.Writer()
			st.c.cl.pool.c.w.Stats.Inc(st.c.cl.pool.c.Cfg.Stats.UpstreamRqTxReset)
			s.Reset(http2.InternalError)
		}
	}
}

// OnInformational implements http2.Handler.
func (h *h2Client) OnInformational(s *http2.Stream) {
	if st := streamOf(s); st != nil {
		st.r.On1xx()
	}
}

// OnData implements http2.Handler.
func (h *h2Client) OnData(s *http2.Stream, b []byte, end bool) {
	st := streamOf(s)
	if st == nil {
		s.Consumed(len(b))
		return
	}
	r := st.r
	r.OnData(b, end)
	if st.r != r {
		return // the stream is over
	}
	if st.paused {
		st.held += len(b)
	} else {
		s.Consumed(len(b))
	}
	st.finish(r, end)
}

// OnTrailers implements http2.Handler.
func (h *h2Client) OnTrailers(s *http2.Stream) {
	if st := streamOf(s); st != nil {
		r := st.r
		r.OnTrailers()
		st.finish(r, true)
	}
}

// OnReset implements http2.Handler.
func (h *h2Client) OnReset(s *http2.Stream, code http2.ErrCode, remote bool, details string) {
	st := streamOf(s)
	if st == nil {
		return
	}
	if details == http2.DetailTooLarge {
		h.cl.pool.c.w.Stats.Inc(h.stats.HeaderListSizeTooLarge)
	}
	r := st.r
	why := RemoteReset
	switch {
	case h.cl.gone || h.why == ProtocolError:
		why = h.why
	case code == http2.ProtocolError:
		why = ProtocolError // whoever says so
	case remote && code == http2.RefusedStream:
		why = RemoteRefused
	}
	st.gone()
	if why == ProtocolError {
		h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamRqTxReset)
	}
	r.OnReset(why, "")
}

// OnWritable implements http2.Handler.
func (h *h2Client) OnWritable(s *http2.Stream) {
	if st := streamOf(s); st != nil && st.over {
		st.over = false
		h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamFlowControlDrainedTotal)
		st.r.OnDrained()
	}
}

// OnFull implements http2.Handler: the output is handed to the system at the end
// of the turn, or the host does not keep up.
func (h *h2Client) OnFull() { h.cl.pool.c.w.Loop.AtEnd(h.resume) }

func (h *h2Client) goOn() {
	if !h.cl.gone {
		h.cl.conn.Writer()
		h.conn.Continue()
	}
}

// OnClosed implements http2.Handler.
func (h *h2Client) OnClosed(s *http2.Stream) {
	if st := streamOf(s); st != nil {
		st.part()
	}
}

// OnGoAway implements http2.Handler.
func (h *h2Client) OnGoAway(uint32, http2.ErrCode) {
	h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamCxCloseNotify)
	h.cl.stopUsing()
	h.cl.pool.c.w.Loop.AtEnd(h.cl.closeIfDone)
}

// OnSettings implements http2.Handler: more streams may be possible.
func (h *h2Client) OnSettings() {
	if h.cl.pool.first != nil {
		h.cl.pool.c.w.Loop.AtEnd(h.cl.pool.serve)
	}
}

// OnPingAck implements http2.Handler.
func (h *h2Client) OnPingAck([8]byte) {
	if !h.sent {
		return
	}
	h.sent = false
	h.cl.ping.Stop()
	if o := h.cl.pool.c.opt; o.KeepaliveInterval > 0 {
		h.cl.ping.Set(h.cl.pool.c.w.Loop.Jitter(o.KeepaliveInterval, o.KeepaliveJitter))
	}
}

// onPing sends a keepalive, or ends a connection that did not answer one.
func (h *h2Client) onPing() {
	if h.sent {
		h.cl.pool.c.w.Stats.Inc(h.stats.KeepaliveTimeout)
		h.cl.local = true
		h.cl.conn.Abort(false)
		return
	}
	h.probe()
}

// probe sends a keepalive, unless one is under way.
func (h *h2Client) probe() {
	if h.sent {
		return
	}
	o, w := h.cl.pool.c.opt, h.cl.pool.c.w
	h.cl.conn.Writer()
	h.sent = true
	var data [8]byte
	binary.BigEndian.PutUint64(data[:], w.Loop.Random())
	h.conn.Ping(data)
	h.cl.ping.Set(o.KeepaliveTimeout)
}

// count takes over what the codec counted.
func (h *h2Client) count() {
	n := h.conn.Counts
	if n == (http2.Counts{}) {
		return
	}
	h.conn.Counts = http2.Counts{}
	s, st := h.cl.pool.c.w.Stats, h.stats
	s.Add(st.RxReset, n.RxReset)
	s.Add(st.TxReset, n.TxReset)
	s.Add(st.RxMessagingError, n.RxMessagingError)
	s.Add(st.StreamRefusedErrors, n.Refused)
	s.Add(st.HeadersCbNoStream, n.HeadersNoStream)
	s.Add(st.GoawaySent, n.GoAwaySent)
}

// h2Socket is a h2Client as its connection's handler.
type h2Socket h2Client

// OnOpen implements loop.Handler.
func (h *h2Socket) OnOpen() {}

// OnData implements loop.Handler.
func (h *h2Socket) OnData(data []byte) {
	cl := h.cl
	cl.received(len(data))
	if h.sent {
		cl.ping.Set(cl.pool.c.opt.KeepaliveTimeout) // who sends is alive: the answer may be behind it
	}
	cl.conn.Writer()
	err := h.conn.Feed(data)
	(*h2Client)(h).count()
	if err != nil {
		var e *http2.ConnError
		errors.As(err, &e)
		cl.pool.c.w.Stats.Inc(cl.pool.c.Cfg.Stats.UpstreamCxProtocolError)
		h.why = ProtocolError
		h.conn.Close(e.Code, e.Details)
		cl.stopUsing()
		cl.local = true
		cl.conn.Close(0)
		return
	}
	if !cl.gone {
		cl.account()
	}
}

// OnEnd implements loop.Handler.
func (h *h2Socket) OnEnd() {
	h.cl.ended = true
	h.cl.conn.Abort(false)
}

// OnBlocked implements loop.Handler.
func (h *h2Socket) OnBlocked() { h.conn.SetWriteBlocked(true) }

// OnDrained implements loop.Handler.
func (h *h2Socket) OnDrained() {
	h.cl.conn.Writer()
	h.conn.SetWriteBlocked(false)
}

// OnClose implements loop.Handler.
func (h *h2Socket) OnClose(why loop.Reason, err error) {
	if h.cl.active > 0 {
		h.cl.broken(h.cl.closedHere(why))
	}
	h.cl.closed(why, err)
	h.conn.Close(http2.NoError, "")
	(*h2Client)(h).count()
}

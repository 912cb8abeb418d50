package hcm

import (
	"errors"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
)

// serverH1 is HTTP/1 on a connection: one request at a time.
type serverH1 struct {
	c       *Conn
	dec     http1.Decoder
	enc     http1.Encoder
	s       *Stream // the exchange under way
	cur     *Stream // the stream whose head is being received
	rest    []byte  // received and not decoded
	reqDone bool
	paused  bool // the request's body
	held    bool // reading, since too much is waiting
	feeding bool
	last    bool // no request follows
	ended   bool // the client sends no more
	used    bool // it must be initialised before its next connection
	cfg     *Config
	tx0     uint64
}

func (c *Conn) openH1() {
	s, st := c.sv.W.Stats, c.cfg.Stats
	s.Inc(st.CxHTTP1Total)
	s.GaugeAdd(st.CxHTTP1Active, 1)
	c.isH1 = true
}

// codec1 is the connection's codec. A connection that waits for a request has
// none: many wait, and few work.
func (c *Conn) codec1() *serverH1 {
	if c.h1 != nil {
		return c.h1
	}
	var h *serverH1
	if n := len(c.sv.h1free); n > 0 {
		h = c.sv.h1free[n-1]
		c.sv.h1free = c.sv.h1free[:n-1]
		h.c = c
	} else {
		h = &serverH1{c: c}
		h.dec.Init(http1.Server, &c.cfg.HTTP1)
		h.enc.Init(http1.Server, &c.cfg.HTTP1)
		h.cfg = c.cfg
	}
	if h.cfg != c.cfg || h.used {
		h.dec.Init(http1.Server, &c.cfg.HTTP1)
		h.enc.Init(http1.Server, &c.cfg.HTTP1)
		h.cfg, h.used = c.cfg, false
	}
	c.h1 = h
	return h
}

// rests gives the codec up while there is nothing to remember.
func (h *serverH1) rests() {
	c := h.c
	if h.s != nil || h.feeding || h.reqDone || h.last || h.paused || h.held || h.ended || len(h.rest) > 0 || h.dec.Started() || c.closed || c.h1 != h {
		return
	}
	if h.cur != nil {
		h.cur.giveBack()
		h.cur = nil
	}
	c.h1 = nil
	h.c = nil
	if len(c.sv.h1free) < 1024 {
		c.sv.h1free = append(c.sv.h1free, h)
	}
}

func (h *serverH1) protocol() filter.Protocol {
	if h.dec.Version() == http1.HTTP10 {
		return filter.HTTP10
	}
	return filter.HTTP11
}

// maxWaiting is how much of pipelined requests is taken before reading stops.
const maxWaiting = 64 << 10

func (h *serverH1) feed(data []byte) {
	if h.last && h.s == nil {
		return // nothing is expected: the connection is being closed
	}
	if len(h.rest) > 0 {
		h.rest = append(h.rest, data...)
		data = h.rest
	}
	h.feeding = true
	n := h.decode(data)
	h.feeding = false
	if h.c.closed {
		return
	}
	switch {
	case n == len(data):
		h.rest = h.rest[:0]
		if cap(h.rest) > 4<<10 {
			h.rest = nil
		}
	default:
		h.rest = append(h.rest[:0], data[n:]...)
	}
	h.rests()
	if h.c == nil {
		return
	}
	h.hold(len(h.rest) > maxWaiting && (h.paused || h.reqDone))
}

// hold stops reading while too much waits to be decoded.
func (h *serverH1) hold(hold bool) {
	if hold == h.held {
		return
	}
	h.held = hold
	if hold {
		h.c.d.Pause()
	} else {
		h.c.d.Resume()
	}
}

func (h *serverH1) decode(data []byte) (n int) {
	for !h.c.closed && !h.paused && !h.reqDone && (!h.last || h.s != nil) {
		m := h.target()
		ev, k, body, end, err := h.dec.Next(data[n:], m)
		n += k
		if err != nil {
			h.fail(err)
			return len(data)
		}
		switch ev {
		case http1.NeedMore:
			h.began(len(data)-n > 0 || h.dec.Started())
			return n
		case http1.Headers:
			h.began(true)
			h.head(end)
		case http1.Data:
			h.body(body, end)
		case http1.Trailers:
			h.reqDone = true
			s := h.s
			s.requestTrailers()
		case http1.End:
			h.body(nil, true)
		}
	}
	return n
}

// target is the map that the next head or the trailers go to.
func (h *serverH1) target() *header.Map {
	if h.s != nil {
		return &h.s.reqTrailers
	}
	if h.cur == nil {
		h.cur = h.c.sv.stream()
		h.cur.prepare(h.c, h)
	}
	return &h.cur.req
}

// began starts the clock of a request whose first bytes have come.
func (h *serverH1) began(yes bool) {
	if yes && h.s == nil && h.cur != nil && !h.cur.clocked {
		h.cur.clock()
	}
}

func (h *serverH1) head(end bool) {
	s := h.cur
	h.cur, h.s, h.reqDone = nil, s, end
	h.tx0 = h.c.d.Sent()
	if n := h.dec.Dropped(); n > 0 {
		h.c.sv.W.Stats.Add(h.c.cfg.Codecs.H1Dropped, uint64(n))
	}
	if !h.dec.KeepAlive() && !h.dec.HasUpgrade() {
		h.last = true
	}
	s.begin()
	if c := h.c; c.cfg.MaxRequests > 0 && c.requests == c.cfg.MaxRequests {
		c.sv.W.Stats.Inc(c.cfg.Stats.CxMaxRequests)
	}
	s.requestHeaders(end, h.dec.HasUpgrade())
}

func (h *serverH1) body(b []byte, end bool) {
	if end {
		h.reqDone = true
	}
	h.s.requestData(b, end)
}

// fail answers a request that cannot be parsed (HC-09).
func (h *serverH1) fail(err error) {
	var e *http1.Error
	errors.As(err, &e)
	c := h.c
	c.sv.W.Stats.Inc(c.cfg.Stats.CxProtocolError)
	if e.Details == http1.DetailUnderscore {
		c.sv.W.Stats.Inc(c.cfg.Codecs.H1Rejected)
	}
	h.last = true
	s := h.s
	if s == nil {
		s = h.cur
		h.cur, h.s = nil, s
		if !s.clocked {
			s.clock()
		}
		s.begin()
	}
	s.malformed(e.Status, e.Details)
}

func (h *serverH1) writeHead(s *Stream, m *header.Map, end bool) {
	h.c.parts()
	if h.c.draining || h.c.old || h.c.cfg.MaxRequests > 0 && h.c.requests >= h.c.cfg.MaxRequests {
		h.last = true
	}
	if !h.reqDone && !s.upgraded {
		h.last = true // nobody would wait for the rest of the request
	}
	closing := h.last || s.closeAfter
	h.enc.SetCases(s.respCases)
	w := h.c.d.Writer()
	*w = h.enc.ResponseHead(*w, m, s.method, h.dec.Version(), end, closing)
}

func (h *serverH1) informational(s *Stream, m *header.Map) {
	w := h.c.d.Writer()
	*w = h.enc.InformationalHead(*w, m)
}

func (h *serverH1) data(s *Stream, b []byte, end bool) {
	d := h.c.d
	if len(b) > 0 && !h.enc.DropsBody() {
		w := d.Writer()
		*w = h.enc.DataPrefix(*w, len(b))
		d.WriteBody(b)
		w = d.Writer()
		*w = h.enc.DataSuffix(*w)
	}
	if end {
		w := d.Writer()
		*w = h.enc.End(*w, nil)
		if s.upgraded {
			d.CloseWrite()
		}
	}
}

func (h *serverH1) trailers(_ *Stream, t *header.Map) {
	w := h.c.d.Writer()
	*w = h.enc.End(*w, t)
}

// reset implements codec: HTTP/1 cannot end a response but with the connection.
func (h *serverH1) reset(*Stream) {
	h.s, h.last = nil, true
	h.c.local = true
	h.c.d.Close(0)
}

func (h *serverH1) pause(_ *Stream, pause bool) {
	if pause == h.paused {
		return
	}
	h.paused = pause
	if pause {
		h.c.d.Pause()
		return
	}
	h.c.d.Resume()
	h.goOn()
}

// goOn decodes what waits, once the present callbacks have returned.
func (h *serverH1) goOn() {
	if len(h.rest) > 0 && !h.feeding {
		h.c.sv.W.Loop.AtEnd(h.again)
	}
}

func (h *serverH1) again() {
	if h.c != nil && !h.c.closed && !h.feeding && len(h.rest) > 0 {
		h.feed(nil)
	}
}

// responded implements codec.
func (h *serverH1) responded(s *Stream, requestDone bool) {
	c := h.c
	h.s = nil
	if h.paused {
		h.paused = false
		c.d.Resume()
	}
	switch {
	case !requestDone:
		h.last = true
		c.local = true
		c.sv.W.Stats.Inc(c.cfg.Stats.RqRxReset)
		c.d.Close(c.lingering())
	case h.last || h.enc.UntilClose() || s.upgraded || s.closeAfter:
		h.last = true
		c.local = true
		if h.ended || !h.dec.KeepAlive() && len(h.rest) == 0 && !s.upgraded {
			// The client expects the end, and nothing of it is unread.
			c.d.Close(0)
		} else {
			c.d.Close(c.lingering())
		}
	case h.ended:
		c.d.Close(0)
	default:
		h.reqDone = false
		h.hold(false)
		h.goOn()
		if len(h.rest) == 0 && !h.feeding {
			h.rests()
		}
	}
	s.finish()
}

// end takes the end of what the client sends.
func (h *serverH1) end() {
	h.ended = true
	s := h.s
	switch {
	case s == nil:
		h.c.d.Abort(false)
	case s.upgraded:
		if h.dec.EOF() == nil {
			h.reqDone = true
			s.requestData(nil, true)
			return
		}
		h.c.d.Abort(false) // in the middle of the request's own body
	default:
		// A client that half-closes after its request may still read (HC-46),
		// but nobody can tell it from one that is gone: Envoy ends the stream.
		h.c.d.Abort(false)
	}
}

// interrupted makes a request of a head that has begun and will not go on.
func (h *serverH1) interrupted() {
	s := h.cur
	if h.s != nil || s == nil || !s.clocked {
		return
	}
	h.cur = nil
	s.req.Reset()
	s.begin()
}

// gone gives back what the connection had.
func (h *serverH1) gone() {
	if h.cur != nil {
		h.cur.giveBack()
		h.cur = nil
	}
	h.c.sv.W.Loop.AtEnd(h.free)
}

func (h *serverH1) free() {
	sv := h.c.sv
	if len(sv.h1free) >= 1024 {
		return
	}
	*h = serverH1{rest: h.rest[:0], used: true}
	sv.h1free = append(sv.h1free, h)
}

package pool

import (
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// h1Client speaks HTTP/1 on a client's connection. It is the connection's
// handler and, while a request is under way, its Stream.
type h1Client struct {
	cl   *client
	dec  http1.Decoder
	enc  http1.Encoder
	r    Receiver
	rest []byte // received and not decoded yet

	sentEnd  bool // the request is complete
	gotHead  bool
	respEnd  bool
	reusable bool
	paused   bool
	upgraded bool
	feeding  bool
	keepCase bool
	rx, tx   uint64 // bytes of the exchange, before encryption
}

func (cl *client) openH1() {
	o := &cl.pool.c.opt.HTTP1
	h := &h1Client{cl: cl, keepCase: o.HeaderCase == http1.PreserveCase}
	h.dec.Init(http1.Client, o)
	h.enc.Init(http1.Client, o)
	cl.h1 = h
	cl.conn.SetHandler(h)
	cl.pool.c.Cfg.Stats.HTTP1()
	cl.pool.idle = append(cl.pool.idle, cl)
}

func (h *h1Client) start(r Receiver) {
	h.r = r
	h.sentEnd, h.gotHead, h.respEnd, h.reusable, h.upgraded = false, false, false, false, false
	h.rx, h.tx = 0, 0
	r.Ready(h)
}

// SendHeaders implements Stream.
func (h *h1Client) SendHeaders(m *header.Map, end bool) {
	h.dec.ExpectResponseTo(m.Method(), m.HasID(header.Upgrade))
	h.enc.SetCases(h.r.Cases()) // as the client wrote them, if the listener keeps that
	w := h.cl.conn.Writer()
	h.put(w, h.enc.RequestHead(*w, m, end))
	if end {
		h.requestEnded()
	}
}

// SendData implements Stream.
func (h *h1Client) SendData(data []byte, end bool) {
	c := h.cl.conn
	if len(data) > 0 {
		w := c.Writer()
		h.put(w, h.enc.DataPrefix(*w, len(data)))
		c.WriteBody(data)
		h.tx += uint64(len(data))
		w = c.Writer()
		h.put(w, h.enc.DataSuffix(*w))
	}
	if !end {
		return
	}
	if h.upgraded {
		c.CloseWrite()
	}
	w := c.Writer()
	h.put(w, h.enc.End(*w, nil))
	h.requestEnded()
}

// SendTrailers implements Stream.
func (h *h1Client) SendTrailers(t *header.Map) {
	w := h.cl.conn.Writer()
	h.put(w, h.enc.End(*w, t))
	h.requestEnded()
}

// put makes the output what the encoder has made of it.
func (h *h1Client) put(w *[]byte, out []byte) {
	h.tx += uint64(len(out) - len(*w))
	*w = out
}

func (h *h1Client) requestEnded() {
	h.sentEnd = true
}

// Reset implements Stream: a connection with half an exchange is of no use.
func (h *h1Client) Reset() {
	if h.r == nil {
		return
	}
	h.detach()
	h.cl.broken(true)
	h.cl.local = true
	h.cl.conn.Abort(false)
}

// Pause implements Stream.
func (h *h1Client) Pause(pause bool) {
	if pause == h.paused || h.cl.gone {
		return
	}
	h.paused = pause
	if pause {
		h.cl.conn.Pause()
		return
	}
	h.cl.conn.Resume()
	if len(h.rest) > 0 && !h.feeding {
		h.cl.pool.c.w.Loop.AtEnd(h.again)
	}
}

// again decodes what came before a pause.
func (h *h1Client) again() {
	if !h.paused && !h.cl.gone && len(h.rest) > 0 {
		h.OnData(nil)
	}
}

// Info implements Stream.
func (h *h1Client) Info() *ConnInfo { return &h.cl.info }

// Wire implements Stream.
func (h *h1Client) Wire() (sent, received uint64) {
	return h.tx, h.rx
}

// OnOpen implements loop.Handler.
func (h *h1Client) OnOpen() {}

// OnData implements loop.Handler.
func (h *h1Client) OnData(data []byte) {
	h.rx += uint64(len(data))
	if len(data) > 0 { // and not what has waited
		h.cl.received(len(data))
	}
	if len(h.rest) > 0 {
		h.rest = append(h.rest, data...)
		data = h.rest
	}
	h.feeding = true
	n := h.decode(data)
	h.feeding = false
	if h.cl.gone {
		return
	}
	h.cl.account()
	h.rest = append(h.rest[:0], data[n:]...)
	if len(h.rest) == 0 && cap(h.rest) > 4<<10 {
		h.rest = nil
	}
}

// decode handles the events in data and returns how much it used.
func (h *h1Client) decode(data []byte) (n int) {
	for !h.cl.gone && !h.paused {
		r := h.r
		var m *header.Map
		switch {
		case r == nil:
			if n < len(data) {
				h.protocolError() // bytes that nobody asked for
			}
			return n
		case h.gotHead:
			m = r.Trailers()
		default:
			m = r.Headers()
		}
		ev, k, body, end, err := h.dec.Next(data[n:], m)
		n += k
		if err != nil {
			h.protocolError()
			return n
		}
		if ev == http1.NeedMore {
			return n
		}
		h.event(r, ev, body, end)
	}
	return n
}

func (h *h1Client) event(r Receiver, ev http1.Event, body []byte, end bool) {
	switch ev {
	case http1.Informational:
		r.On1xx()
		r.Headers().Reset()
		return
	case http1.Headers:
		h.gotHead = true
		if h.keepCase {
			r.SetCases(h.dec.Cases())
		}
		h.upgraded = h.dec.HasUpgrade()
		if h.upgraded && h.sentEnd {
			h.cl.conn.CloseWrite() // whoever asked for the tunnel has nothing more to say
		}
		if h.dec.SaysClose() {
			h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamCxCloseNotify)
		}
	}
	if end {
		h.responseEnded()
	}
	switch ev {
	case http1.Headers:
		r.OnHeaders(end)
	case http1.Data:
		r.OnData(body, end)
	case http1.Trailers:
		r.OnTrailers()
	case http1.End:
		r.OnData(nil, true)
	}
	if end && h.r == r {
		h.finish()
	}
}

// finish ends an exchange whose response is complete. A request that is not is
// given up, and the connection with it.
func (h *h1Client) finish() {
	if h.sentEnd {
		h.release()
		return
	}
	h.detach()
	h.cl.broken(true)
	h.cl.stopUsing()
	h.cl.local = true
	h.cl.conn.Abort(false)
}

func (h *h1Client) responseEnded() {
	h.respEnd = true
	h.reusable = h.dec.KeepAlive() && !h.upgraded
}

// detach ends the stream's part.
func (h *h1Client) detach() {
	h.r = nil
	if h.paused {
		h.paused = false
		h.cl.conn.Resume()
	}
	h.cl.pool.over(h.cl)
}

// release gives the connection back after an exchange.
func (h *h1Client) release() {
	h.detach()
	cl := h.cl
	if !h.reusable || cl.unusable || cl.conn.Closed() {
		cl.stopUsing()
		cl.closeIfDone()
		return
	}
	cl.pool.idle = append(cl.pool.idle, cl)
	cl.rest()
	if cl.pool.first != nil {
		cl.pool.serve()
	}
}

func (h *h1Client) protocolError() {
	h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamCxProtocolError)
	h.fail(ProtocolError, true)
	h.cl.local = true
	h.cl.conn.Abort(false)
}

// fail resets the stream, if there is one.
func (h *h1Client) fail(why Reset, local bool) {
	r := h.r
	if r == nil {
		return
	}
	h.detach()
	h.cl.broken(local)
	h.cl.stopUsing()
	r.OnReset(why, "")
}

// OnEnd implements loop.Handler: the host ended its side.
func (h *h1Client) OnEnd() {
	h.cl.ended = true
	r := h.r
	if r == nil {
		h.cl.conn.Abort(false)
		return
	}
	if h.respEnd {
		h.cl.conn.Abort(false)
		return
	}
	if err := h.dec.EOF(); err != nil {
		if h.dec.Started() || h.gotHead {
			h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamCxProtocolError)
			h.fail(ProtocolError, false)
		} else {
			h.fail(ConnectionTermination, false)
		}
		h.cl.conn.Abort(false)
		return
	}
	h.responseEnded()
	h.reusable = false
	r.OnData(nil, true)
	if h.r == r && !h.cl.gone {
		h.finish()
	}
}

// OnBlocked implements loop.Handler.
func (h *h1Client) OnBlocked() {
	h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamFlowControlBackedUpTotal)
	if h.r != nil {
		h.r.OnBlocked()
	}
}

// OnDrained implements loop.Handler.
func (h *h1Client) OnDrained() {
	h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamFlowControlDrainedTotal)
	if h.r != nil {
		h.r.OnDrained()
	}
}

// OnClose implements loop.Handler.
func (h *h1Client) OnClose(why loop.Reason, err error) {
	r := h.r
	reset := ConnectionTermination
	if r != nil {
		// A reset within a response cuts it off as an end does, see OnEnd.
		if why == loop.RemoteReset && !h.upgraded && (h.dec.Started() || h.gotHead) {
			h.cl.pool.c.w.Stats.Inc(h.cl.pool.c.Cfg.Stats.UpstreamCxProtocolError)
			reset = ProtocolError
		}
		h.detach()
		h.cl.broken(h.cl.closedHere(why))
	}
	h.cl.closed(why, err)
	if r != nil {
		r.OnReset(reset, "")
	}
}

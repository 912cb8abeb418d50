package chain

import (
	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// DecodeHeaders gives the request's head to the filters.
func (c *Chain) DecodeHeaders(h *header.Map, end bool) {
	defer c.rescue(anyone)
	c.decodeHeaders(0, h, end)
}

// DecodeData gives a part of the request's body to the filters.
func (c *Chain) DecodeData(data []byte, end bool) {
	defer c.rescue(anyone)
	c.req.view.View(data)
	c.decodeData(0, &c.req.view, end)
}

// DecodeTrailers gives the request's trailers to the filters.
func (c *Chain) DecodeTrailers(t *header.Map) {
	defer c.rescue(anyone)
	c.req.trailers = t
	c.decodeTrailers(0)
}

// aborted reports whether decoders are not to be called any more.
func (c *Chain) aborted() bool { return c.replied || c.dead }

// afterDecoder is called when a decoder has returned: the local reply that it
// asked for is made now.
func (c *Chain) afterDecoder(outer call) {
	c.req.calling = outer
	if c.hasPending && !c.dead {
		c.hasPending = false
		c.reply(&c.pending)
	}
}

func (c *Chain) decodeHeaders(from int, h *header.Map, end bool) {
	added := false // a filter added a body: it goes on behind the head
	i := from
	for ; i < c.used; i++ {
		if c.aborted() {
			return
		}
		e := &c.entries[i]
		if e.f.Decoder == nil {
			e.dec.passed = true
			continue
		}
		e.dec.end, e.dec.ended = end, end
		outer := c.req.calling
		c.req.calling = call{i, inHeaders}
		st := e.f.Decoder.DecodeHeaders(h, end)
		c.afterDecoder(outer)
		if c.aborted() {
			return
		}
		if !e.dec.afterHeaders(st, &end) {
			break
		}
		if e.dec.buf != nil {
			added, end = true, false
		}
	}
	for i = min(i, c.used-1); added && i >= from; i-- {
		if e := &c.entries[i]; e.dec.state == going && e.dec.buf != nil {
			c.continueDecoding(i)
		}
	}
}

func (c *Chain) decodeData(from int, data *filter.Buffer, end bool) {
	maker := -1 // the filter that made trailers
	i := from
	for ; i < c.used; i++ {
		if c.aborted() {
			return
		}
		e := &c.entries[i]
		if e.f.Decoder == nil {
			continue
		}
		if e.dec.ended {
			return // it was told the end before: nothing can follow
		}
		e.dec.end = end
		if e.dec.state >= stoppedAll {
			c.holdRequest(e, data, e.dec.state == stoppedMark)
			break
		}
		st := c.callDecodeData(e, data, end)
		if c.aborted() {
			return
		}
		if end && !e.dec.end {
			maker, end = i, false
		}
		if !c.afterDecodeData(e, st, data) {
			break
		}
	}
	if i >= c.used {
		data.Reset() // the last filter has seen them
	}
	if maker >= 0 && c.entries[maker].dec.state == going {
		c.decodeTrailers(maker + 1)
	}
}

func (c *Chain) callDecodeData(e *entry, data *filter.Buffer, end bool) filter.DataStatus {
	l := &c.req
	outer, outerData := l.calling, l.data
	l.calling, l.data, e.dec.ended = call{e.index, inData}, data, end
	st := e.f.Decoder.DecodeData(data, end)
	l.data = outerData
	c.afterDecoder(outer)
	return st
}

// afterDecodeData applies what a filter answered; false stops the iteration.
func (c *Chain) afterDecodeData(e *entry, st filter.DataStatus, data *filter.Buffer) bool {
	switch st {
	case filter.DataContinue:
		if e.dec.state == going && e.dec.buf == nil {
			return true
		}
		// It goes on after all, with what was held or added before.
		c.holdRequest(e, data, c.req.streaming)
		c.continueDecoding(e.index)
		return false
	case filter.DataStopIterationNoBuffer:
		c.drop(&e.dec, data)
	default:
		e.dec.state = stopped
		c.holdRequest(e, data, st == filter.DataStopIterationAndWatermark)
	}
	e.dec.state = stopped
	return false
}

func (c *Chain) decodeTrailers(from int) {
	for i := from; i < c.used; i++ {
		if c.aborted() {
			return
		}
		e := &c.entries[i]
		if e.f.Decoder == nil {
			continue
		}
		e.dec.trailers = true
		if e.dec.state >= stoppedAll || e.dec.trailed || e.dec.ended {
			return
		}
		e.dec.trailed = true
		outer := c.req.calling
		c.req.calling = call{i, inTrailers}
		st := e.f.Decoder.DecodeTrailers(c.req.trailers)
		c.afterDecoder(outer)
		if c.aborted() {
			return
		}
		if st != filter.TrailersContinue {
			e.dec.state = stopped
			return
		}
		if e.dec.state == stopped || e.dec.buf != nil {
			c.continueDecoding(i)
			return
		}
	}
}

// holdRequest holds request data at a filter.
func (c *Chain) holdRequest(e *entry, data *filter.Buffer, streaming bool) {
	c.keep(&c.req, &e.dec, data, streaming)
	c.limitRequest()
}

// limitRequest acts on more data than the limit allows: 413, or a pause.
func (c *Chain) limitRequest() {
	l := &c.req
	switch {
	case l.limit <= 0 || c.heldRequest() <= l.limit:
	case !l.streaming:
		c.LocalReply(&filter.LocalReply{Status: 413, Body: "Payload Too Large", Details: "request_payload_too_large"})
	case !l.paused:
		l.paused = true
		c.owner.PauseRequest(true)
	}
}

// requestDrained lets the sender go on when not much is held any more.
func (c *Chain) requestDrained() {
	if c.req.paused && !c.dead && c.heldRequest() <= c.req.limit/2 {
		c.req.paused = false
		c.owner.PauseRequest(false)
	}
}

// ContinueDecoding implements filter.Callbacks.
func (e *entry) ContinueDecoding() {
	defer e.chain.rescue(anyone)
	e.chain.continueDecoding(e.index)
}

func (c *Chain) continueDecoding(at int) {
	s, l := &c.entries[at].dec, &c.req
	if c.aborted() {
		return
	}
	proceed, self := s.begin()
	if !proceed {
		return
	}
	next := at + 1
	if self {
		next = at
	}
	if s.open {
		s.open = false
		if s.end {
			c.hold(s) // the end that it kept back goes on now
		}
	}
	if !s.passed {
		s.passed = true
		c.decodeHeaders(at+1, c.owner.RequestHeaders(), s.end && s.buf == nil)
	}
	if b := s.buf; b != nil && !c.aborted() {
		s.buf = nil
		l.taken = append(l.taken, b)
		if b.Len() > 0 || s.end {
			c.decodeData(next, b, s.end)
		}
		l.taken = l.taken[:len(l.taken)-1]
		c.recycle(b)
		c.requestDrained()
	}
	if s.trailers && (s.trailed || self) && !c.aborted() {
		c.decodeTrailers(next)
	}
}

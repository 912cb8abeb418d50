package chain

import (
	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// Encode1xx gives an informational head to the filters, and then to the owner.
func (c *Chain) Encode1xx(h *header.Map) {
	defer c.rescue(anyone)
	for i := c.used - 1; i >= 0; i-- {
		if c.aborted() {
			return
		}
		if e := &c.entries[i]; e.f.Encoder != nil {
			e.f.Encoder.Encode1xx(h)
		}
	}
	if !c.aborted() {
		c.owner.Encoded1xx(h)
	}
}

// EncodeHeaders gives the response's head to the filters. A response that comes
// after a local reply is dropped.
func (c *Chain) EncodeHeaders(h *header.Map, end bool) {
	defer c.rescue(anyone)
	if !c.aborted() {
		c.startResponse(h, end)
	}
}

// EncodeData gives a part of the response's body to the filters.
func (c *Chain) EncodeData(data []byte, end bool) {
	defer c.rescue(anyone)
	if !c.aborted() {
		c.moreResponse(data, end)
	}
}

// EncodeTrailers gives the response's trailers to the filters.
func (c *Chain) EncodeTrailers(t *header.Map) {
	defer c.rescue(anyone)
	if !c.aborted() {
		c.resp.trailers = t
		c.encodeTrailers(c.used - 1)
	}
}

func (c *Chain) startResponse(h *header.Map, end bool) {
	c.respHeaders, c.headersSeen = h, true
	c.encodeHeaders(c.used-1, h, end)
}

func (c *Chain) moreResponse(data []byte, end bool) {
	c.resp.view.View(data)
	c.encodeData(c.used-1, &c.resp.view, end)
}

// closed reports whether encoders are not to be called any more: the stream is
// gone, all was sent, or a local reply took the place of the response.
func (c *Chain) closed() bool { return c.dead || c.respDone || c.bypassed }

func (c *Chain) encodeHeaders(from int, h *header.Map, end bool) {
	added, i := false, from
	for ; i >= 0; i-- {
		e := &c.entries[i]
		if e.f.Encoder == nil {
			e.enc.passed = true
			continue
		}
		e.enc.end, e.enc.ended = end, end
		outer := c.resp.calling
		c.resp.calling = call{i, inHeaders}
		st := e.f.Encoder.EncodeHeaders(h, end)
		c.resp.calling = outer
		if c.closed() {
			return
		}
		if !e.enc.afterHeaders(st, &end) {
			break
		}
		if e.enc.buf != nil {
			added, end = true, false
		}
	}
	if i < 0 {
		c.sendHeaders(h, end)
	}
	for i = max(i, 0); added && i <= from; i++ {
		if e := &c.entries[i]; e.enc.state == going && e.enc.buf != nil {
			c.continueEncoding(i)
		}
	}
}

func (c *Chain) sendHeaders(h *header.Map, end bool) {
	c.headersSent, c.respDone = true, end
	c.owner.EncodedHeaders(h, end)
}

func (c *Chain) encodeData(from int, data *filter.Buffer, end bool) {
	maker, i := -1, from
	for ; i >= 0; i-- {
		if c.closed() {
			return
		}
		e := &c.entries[i]
		if e.f.Encoder == nil {
			continue
		}
		if e.enc.ended {
			return
		}
		e.enc.end = end
		if e.enc.state >= stoppedAll {
			c.holdResponse(e, data, e.enc.state == stoppedMark)
			break
		}
		st := c.callEncodeData(e, data, end)
		if c.closed() {
			return
		}
		if end && !e.enc.end {
			maker, end = i, false
		}
		if !c.afterEncodeData(e, st, data) {
			break
		}
	}
	if i < 0 && !c.closed() {
		c.respDone = end
		c.owner.EncodedData(data.Bytes(), end)
		data.Reset()
	}
	if maker >= 0 && c.entries[maker].enc.state == going {
		c.encodeTrailers(maker - 1)
	}
}

func (c *Chain) callEncodeData(e *entry, data *filter.Buffer, end bool) filter.DataStatus {
	l := &c.resp
	outer, outerData := l.calling, l.data
	l.calling, l.data, e.enc.ended = call{e.index, inData}, data, end
	st := e.f.Encoder.EncodeData(data, end)
	l.calling, l.data = outer, outerData
	return st
}

func (c *Chain) afterEncodeData(e *entry, st filter.DataStatus, data *filter.Buffer) bool {
	switch st {
	case filter.DataContinue:
		if e.enc.state == going && e.enc.buf == nil {
			return true
		}
		c.holdResponse(e, data, c.resp.streaming)
		c.continueEncoding(e.index)
		return false
	case filter.DataStopIterationNoBuffer:
		c.drop(&e.enc, data)
	default:
		e.enc.state = stopped
		c.holdResponse(e, data, st == filter.DataStopIterationAndWatermark)
	}
	e.enc.state = stopped
	return false
}

func (c *Chain) encodeTrailers(from int) {
	for i := from; i >= 0; i-- {
		if c.closed() {
			return
		}
		e := &c.entries[i]
		if e.f.Encoder == nil {
			continue
		}
		e.enc.trailers = true
		if e.enc.state >= stoppedAll || e.enc.trailed || e.enc.ended {
			return
		}
		e.enc.trailed = true
		outer := c.resp.calling
		c.resp.calling = call{i, inTrailers}
		st := e.f.Encoder.EncodeTrailers(c.resp.trailers)
		c.resp.calling = outer
		if c.closed() {
			return
		}
		if st != filter.TrailersContinue {
			e.enc.state = stopped
			return
		}
		if e.enc.state == stopped || e.enc.buf != nil {
			c.continueEncoding(i)
			return
		}
	}
	if !c.closed() {
		c.respDone = true
		c.owner.EncodedTrailers(c.resp.trailers)
	}
}

// holdResponse holds response data at a filter.
func (c *Chain) holdResponse(e *entry, data *filter.Buffer, streaming bool) {
	c.keep(&c.resp, &e.enc, data, streaming)
	c.limitResponse()
}

// limitResponse acts on more data than the limit allows: 500, a reset if the
// head is out, or a pause.
func (c *Chain) limitResponse() {
	l := &c.resp
	switch {
	case l.limit <= 0 || c.heldResponse() <= l.limit:
	case !l.streaming:
		c.LocalReply(&filter.LocalReply{Status: 500, Body: "Internal Server Error", Details: "response_payload_too_large"})
	case !l.paused:
		l.paused = true
		c.owner.PauseResponse(true)
	}
}

func (c *Chain) responseDrained() {
	if c.resp.paused && !c.dead && c.heldResponse() <= c.resp.limit/2 {
		c.resp.paused = false
		c.owner.PauseResponse(false)
	}
}

// ContinueEncoding implements filter.Callbacks.
func (e *entry) ContinueEncoding() {
	defer e.chain.rescue(anyone)
	e.chain.continueEncoding(e.index)
}

func (c *Chain) continueEncoding(at int) {
	s, l := &c.entries[at].enc, &c.resp
	if c.closed() || c.respHeaders == nil {
		return
	}
	proceed, self := s.begin()
	if !proceed {
		return
	}
	next := at - 1
	if self {
		next = at
	}
	if s.open {
		s.open = false
		if s.end {
			c.hold(s)
		}
	}
	if !s.passed {
		s.passed = true
		c.encodeHeaders(at-1, c.respHeaders, s.end && s.buf == nil)
	}
	if b := s.buf; b != nil && !c.closed() {
		s.buf = nil
		l.taken = append(l.taken, b)
		if b.Len() > 0 || s.end {
			c.encodeData(next, b, s.end)
		}
		l.taken = l.taken[:len(l.taken)-1]
		c.recycle(b)
		c.responseDrained()
	}
	if s.trailers && (s.trailed || self) && !c.closed() {
		c.encodeTrailers(next)
	}
}

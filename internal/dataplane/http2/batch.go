package http2

// With Options.Batch, what comes in one read is told to the handler when all of it is
// parsed, and by kind: first the heads of its messages, then what there is of bodies, then
// trailers. What a stream sends stays in order. A processor runs the same code for
// one message after the other so, and has it at hand from the second on: its cache
// is smaller than the way of a request through a proxy.
//
// Anything but heads, bodies and trailers comes after what was before it: for that,
// and for errors, what waits is told first.

// maxBatch is how many events of a kind wait at most: the messages of a batch are
// in the cache, too.
const maxBatch = 32

// batch is what waits to be told.
type batch struct {
	heads    [maxBatch]*Stream
	data     [maxBatch]dataEvent
	trailers [maxBatch]*Stream

	numHeads, numData, numTrailers int
}

// dataEvent is a part of a body, in the bytes that are fed.
type dataEvent struct {
	s      *Stream
	b      []byte
	end    bool
	parsed uint64 // bytes of the stream up to it
}

// tell tells the handler what waits. An error of the connection ends it: nothing is
// told then that came behind what led to it.
func (c *Conn) tell() {
	q := c.batch
	if q == nil || q.numHeads+q.numData+q.numTrailers == 0 {
		return
	}
	c.batch = nil // what handlers do is not put off
	c.tellHeads(q)
	for i := range q.data[:q.numData] {
		d := &q.data[i]
		if c.err == nil && !d.s.isClosed {
			d.s.received = d.parsed
			c.tellData(d.s, d.b, d.end)
		}
		*d = dataEvent{}
	}
	q.numData = 0
	for i, s := range q.trailers[:q.numTrailers] {
		q.trailers[i] = nil
		if c.err == nil && !s.isClosed {
			c.tellTrailers(s)
		}
	}
	q.numTrailers = 0
	c.batch = q
}

// Telling reports whether the handler is told the heads of a batch just now, by
// OnHeaders: OnHeads follows if it is a BatchHandler.
func (c *Conn) Telling() bool { return c.telling }

func (c *Conn) tellHeads(q *batch) {
	if q.numHeads == 0 {
		return
	}
	outer := c.pool.telling
	c.pool.telling, c.telling = true, true
	for i, s := range q.heads[:q.numHeads] {
		q.heads[i] = nil
		if c.err == nil && !s.isClosed {
			c.tellHead(s)
		}
	}
	q.numHeads = 0
	c.telling = false
	if b, ok := c.h.(BatchHandler); ok {
		b.OnHeads()
	}
	if c.pool.telling = outer; !outer {
		c.pool.writeLater()
	}
}

func (c *Conn) addHead(s *Stream) {
	q := c.batch
	if q == nil {
		c.tellHead(s)
		return
	}
	if q.numHeads == maxBatch {
		c.tell()
	}
	q.heads[q.numHeads] = s
	q.numHeads++
}

func (c *Conn) addData(s *Stream, b []byte, end bool) {
	q := c.batch
	if q == nil {
		s.received = s.parsed
		c.tellData(s, b, end)
		return
	}
	if q.numData == maxBatch {
		c.tell()
	}
	q.data[q.numData] = dataEvent{s, b, end, s.parsed}
	q.numData++
}

func (c *Conn) addTrailers(s *Stream) {
	q := c.batch
	if q == nil {
		c.tellTrailers(s)
		return
	}
	if q.numTrailers == maxBatch {
		c.tell()
	}
	q.trailers[q.numTrailers] = s
	q.numTrailers++
}

// tellHead gives the final head of a message to the handler.
func (c *Conn) tellHead(s *Stream) {
	end := s.headEnds
	s.recvEnded, s.received = end, s.inHead
	c.h.OnHeaders(s, end)
	if end && s.sentEnd {
		c.close(s)
	}
}

// tellData gives a part of a body to the handler.
func (c *Conn) tellData(s *Stream, b []byte, end bool) {
	s.recvEnded = end
	c.h.OnData(s, b, end)
	if end && s.sentEnd {
		c.close(s)
	}
}

func (c *Conn) tellTrailers(s *Stream) {
	s.recvEnded, s.received = true, s.parsed
	c.h.OnTrailers(s)
	if s.sentEnd {
		c.close(s)
	}
}

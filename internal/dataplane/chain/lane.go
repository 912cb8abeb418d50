package chain

import (
	"slices"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// lane is one direction of a stream: the request or the response.
type lane struct {
	view      filter.Buffer // what comes from the sender
	limit     int           // of what filters hold together; 0 is none
	streaming bool          // what is held pauses the sender instead of failing the stream
	paused    bool          // the sender is
	calling   call          // the callback that is running
	// data is what the running data callback looks at; taken are the buffers
	// that were held and go on now.
	data     *filter.Buffer
	taken    []*filter.Buffer
	trailers *header.Map
	made     header.Map // trailers that a filter made
}

// call is a callback that is running.
type call struct {
	index int
	kind  callKind
}

type callKind uint8

const (
	noCall callKind = iota
	inHeaders
	inData
	inTrailers
)

func (l *lane) reset(limit int) {
	l.view.Reset()
	l.limit, l.streaming, l.paused, l.calling = limit, false, false, call{}
	l.data, l.taken, l.trailers = nil, l.taken[:0], nil
}

// state is where a filter stands in one direction.
type state uint8

const (
	going       state = iota
	stopped           // later filters wait, this one gets data
	stoppedAll        // nothing reaches this one either; data are held
	stoppedMark       // the same, and the sender is paused at the limit
)

// side is a filter's progress in one direction.
type side struct {
	state state
	// passed: later filters have the headers.
	passed bool
	// open: it kept a stream open that had ended with its headers.
	open bool
	// end and trailers: these have come as far as this filter.
	end, trailers bool
	// ended and trailed: it was told of them (or has made the trailers).
	ended, trailed bool
	// buf is what is held here, or nil; held but empty data make the end go on.
	buf *filter.Buffer
	// inject is what it gives to later filters.
	inject filter.Buffer
}

// begin makes the filter go on; proceed is false if it is not waiting for that,
// self tells that data and trailers begin with the filter itself.
func (s *side) begin() (proceed, self bool) {
	if s.state == going && !s.open && s.buf == nil {
		return false, false
	}
	self = s.state >= stoppedAll
	s.state = going
	return true, self
}

// hold is the buffer of what is held at a filter.
func (c *Chain) hold(s *side) *filter.Buffer {
	if s.buf == nil {
		if n := len(c.free); n > 0 {
			s.buf, c.free = c.free[n-1], c.free[:n-1]
		} else {
			s.buf = new(filter.Buffer)
		}
	}
	return s.buf
}

// keep holds data at a filter.
func (c *Chain) keep(l *lane, s *side, data *filter.Buffer, streaming bool) {
	l.streaming = streaming
	c.hold(s).Move(data)
}

// drop is DataStopIterationNoBuffer: the filter has taken the data. If they were
// the last, an empty rest is held, so that the end goes on in time.
func (c *Chain) drop(s *side, data *filter.Buffer) {
	data.Reset()
	if s.end {
		c.hold(s)
	}
}

// letGo gives a filter's buffer back.
func (c *Chain) letGo(s *side) {
	if s.buf != nil {
		c.recycle(s.buf)
		s.buf = nil
	}
}

func (c *Chain) recycle(b *filter.Buffer) {
	b.Reset()
	c.free = append(c.free, b)
}

// add holds what a filter adds: behind what it holds or, if that was held
// before and goes on now, behind the data of the callback; else before what
// comes next.
func (c *Chain) add(l *lane, s *side, data []byte) {
	if s.buf == nil && l.isTaken() {
		l.data.Append(data)
		return
	}
	l.streaming = false
	c.hold(s).Append(data)
}

// buffer is what a filter sees as held: what waits here, or what goes on now.
func (l *lane) buffer(s *side) *filter.Buffer {
	if s.buf == nil && l.isTaken() {
		return l.data
	}
	return s.buf
}

// isTaken reports whether the running data callback looks at what was held.
func (l *lane) isTaken() bool {
	return l.calling.kind == inData && slices.Contains(l.taken, l.data)
}

func (l *lane) addTrailers(s *side) *header.Map {
	if l.trailers == nil {
		l.made.Reset()
		l.trailers = &l.made
		s.trailers, s.trailed, s.end = true, true, false
	}
	return l.trailers
}

// heldRequest and heldResponse are how much filters hold together.
func (c *Chain) heldRequest() int {
	n := 0
	for i := range c.entries[:c.used] {
		if b := c.entries[i].dec.buf; b != nil {
			n += b.Len()
		}
	}
	return n
}

func (c *Chain) heldResponse() int {
	n := 0
	for i := range c.entries[:c.used] {
		if b := c.entries[i].enc.buf; b != nil {
			n += b.Len()
		}
	}
	return n
}

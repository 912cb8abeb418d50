package http2

// streamList is a queue of streams that can send.
type streamList struct{ first, last *Stream }

func (l *streamList) push(s *Stream) {
	if s.queued {
		return
	}
	s.queued = true
	s.prev, s.next = l.last, nil
	if l.last != nil {
		l.last.next = s
	} else {
		l.first = s
	}
	l.last = s
}

func (l *streamList) remove(s *Stream) {
	if !s.queued {
		return
	}
	s.queued = false
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		l.last = s.prev
	}
	s.next, s.prev = nil, nil
}

// SetWriteBlocked says whether the socket takes no more bytes: while it does
// not, DATA stays in the buffers of the streams. On false they go on, one frame
// of each in turn.
func (c *Conn) SetWriteBlocked(blocked bool) {
	c.blocked = blocked
	if !blocked {
		c.flush()
	}
}

// Continue goes on after OnFull: to be called when some of the output was
// written, or everything that the socket takes. OnFull may come again.
func (c *Conn) Continue() {
	c.full = false
	c.flush()
}

// room is how many bytes of DATA the output takes now: none, or a frame at least.
func (c *Conn) room() int {
	if c.blocked {
		return 0
	}
	if n := c.o.OutputHigh - len(*c.out); n > 0 {
		return max(n, minMaxFrame)
	}
	if !c.full {
		c.full = true
		c.h.OnFull()
	}
	return 0
}

// flush sends unsent bytes as far as windows and socket allow.
func (c *Conn) flush() {
	if c.ready.first == nil {
		return
	}
	c.enter()
	for c.sendWindow > 0 && c.err == nil {
		s := c.ready.first
		if s == nil || c.room() == 0 {
			break
		}
		c.ready.remove(s)
		c.flushStream(s)
	}
	c.leave()
}

// flushStream sends one frame of a stream.
func (c *Conn) flushStream(s *Stream) {
	front := s.waiting.front()
	n := min(len(front), c.peerFrame, int(c.o.MaxFrameSize))
	n = int(min(int64(n), s.sendWindow, c.sendWindow))
	last := n == s.Buffered()
	c.writeData(s, front[:n], last && s.endQueued && s.trailers == nil)
	s.waiting.drop(n, c.pool)
	c.unsent -= n
	switch {
	case !last:
		if s.sendWindow > 0 {
			c.ready.push(s)
		}
	default:
		if s.trailers != nil {
			c.writeHeaders(s, s.trailers, true)
			s.trailers = nil
		}
		if s.endQueued {
			s.ended()
		}
	}
	if s.above && !s.isClosed && 2*s.Buffered() < c.o.StreamBufferHigh {
		s.above = false
		c.h.OnWritable(s)
	}
}

// streamWindow adds to what a stream may send.
func (c *Conn) streamWindow(s *Stream, n int64) {
	s.sendWindow += n
	if s.sendWindow > 0 && s.Buffered() > 0 {
		c.ready.push(s)
	} else if s.sendWindow <= 0 {
		c.ready.remove(s)
	}
}

package loop

// flush sends what waits, unless the system is known to take nothing now.
func (c *Conn) flush(writable bool) {
	if c.state == closed || c.state == connecting {
		return
	}
	before := c.sent
	if (!c.blocked || writable) && !c.sendAll() {
		return
	}
	c.flushed(c.sent != before)
}

// flushed does what follows when output was sent, or could not be; some says
// whether the system took any.
func (c *Conn) flushed(some bool) {
	c.watermark()
	switch {
	case c.state != closed && !c.blocked && c.drained():
		c.release()
		c.sentAll()
	case c.state == established && c.closing && c.patience > 0 && (c.timer == nil || some):
		c.setTimer(c.patience)
	}
}

func (c *Conn) drained() bool {
	return len(c.out) == 0 && (c.transport == nil || len(c.transport.Output()) == 0)
}

// sendAll hands the output to the system; false if that ended the connection.
func (c *Conn) sendAll() bool {
	for {
		data, err := c.unsent()
		if err == nil && len(data) == 0 {
			c.setBlocked(false)
			return true
		}
		n := 0
		if err == nil {
			n, err = c.sock.send(data, nil)
		}
		if err != nil {
			c.end(RemoteReset, err, false)
			return false
		}
		c.took(n, len(data))
		if c.blocked {
			return true
		}
	}
}

// unsent is what is to be sent next: the output, or what the transport makes
// of it.
func (c *Conn) unsent() ([]byte, error) {
	if c.transport != nil {
		return c.unsentTransport()
	}
	return c.out, nil
}

// took notes that the system took n of the bytes that unsent gave.
func (c *Conn) took(n, of int) {
	c.sent += uint64(n)
	switch {
	case c.transport != nil:
		c.transport.Consumed(n)
		c.setBlocked(n < of)
	case n == of:
		c.reclaim()
		c.setBlocked(false)
	default:
		c.setBlocked(true)
		c.skip(n)
	}
}

// skip drops the first bytes of a blocked connection's output. What is left is
// moved to the buffer's beginning only once it is not more than what was sent
// since the last move: many small sends of a large output would otherwise cost
// the square of it.
func (c *Conn) skip(n int) {
	at := &c.loop.slow[c.blockedAt].start
	if !sameArray(*at, c.out) {
		*at = c.out[:cap(c.out)] // appending has moved it
	}
	c.out = c.out[n:]
	if cap(*at)-cap(c.out) >= len(c.out) {
		c.out = (*at)[:copy(*at, c.out)]
	}
}

// sameArray reports whether two slices that end where their array does share it.
func sameArray(a, b []byte) bool {
	return cap(a) > 0 && cap(b) > 0 && &a[:cap(a)][cap(a)-1] == &b[:cap(b)][cap(b)-1]
}

// reclaim empties the output and gives it its whole buffer again.
func (c *Conn) reclaim() {
	if c.blocked {
		if start := c.loop.slow[c.blockedAt].start; sameArray(start, c.out) {
			c.out = start
		}
	}
	c.out = c.out[:0]
}

func (c *Conn) setBlocked(b bool) {
	if b == c.blocked {
		return
	}
	c.blocked = b
	c.loop.noteBlocked(c)
	c.ask()
}

// watermark tells the handler when output passes the high mark and when it is
// half of that again.
func (c *Conn) watermark() {
	n := c.Waiting()
	switch {
	case !c.overHigh && c.blocked && n > int(c.high):
		c.overHigh = true
		c.h.OnBlocked()
	case c.overHigh && n <= int(c.high)/2:
		c.overHigh = false
		c.h.OnDrained()
	}
}

// writable: the system takes more.
func (c *Conn) writable() {
	if c.state == connecting {
		return
	}
	c.flush(true)
}

func (c *Conn) release() {
	if c.out != nil && len(c.out) == 0 {
		c.loop.giveBack(c.out)
		c.out = nil
	}
}

// sentAll does what waited for everything to be sent.
func (c *Conn) sentAll() {
	switch {
	case c.closing && c.state != lingering && c.delay > 0 && !c.ended:
		c.linger()
	case c.closing && c.state != lingering:
		c.end(Local, nil, false)
	case c.finAfter && !c.finSent:
		c.finSent = true
		c.shutdownWrite()
	}
}

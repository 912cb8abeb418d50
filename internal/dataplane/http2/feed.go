package http2

// Feed takes bytes of the peer, all of them: it keeps only what is incomplete
// of a frame that is not DATA. An error is a *ConnError and ends the connection.
func (c *Conn) Feed(b []byte) error {
	c.fresh = len(*c.out) == 0
	c.enter()
	if c.o.Batch {
		c.batch = c.pool.batch()
	}
	c.feed(b)
	if c.batch != nil {
		c.tell()
		c.pool.giveBack(&c.batch)
	}
	c.leave()
	if c.err != nil {
		return c.err
	}
	return nil
}

func (c *Conn) feed(b []byte) {
	if c.role == Server && c.prefaceAt < len(preface) {
		if b = c.readPreface(b); len(b) == 0 {
			return
		}
	}
	for c.err == nil && len(b) > 0 {
		switch {
		case c.in.on:
			b = c.data(b)
		case len(c.pend) > 0:
			b = c.resume(b)
		default:
			b = c.next(b)
		}
	}
}

func (c *Conn) readPreface(b []byte) []byte {
	n := min(len(b), len(preface)-c.prefaceAt)
	if string(b[:n]) != preface[c.prefaceAt:c.prefaceAt+n] {
		c.fail(ProtocolError, DetailCodec, "the client did not send the connection preface")
		return nil
	}
	c.prefaceAt += n
	return b[n:]
}

// next reads a frame that begins at b.
func (c *Conn) next(b []byte) []byte {
	if len(b) < frameHead {
		c.pend = append(c.pend, b...)
		return nil
	}
	h := parseHead(b)
	if !c.admit(h) {
		return nil
	}
	if h.typ == typeData {
		c.startData(h)
		return b[frameHead:]
	}
	if len(b) < frameHead+h.length {
		c.pend = append(c.pend, b...)
		return nil
	}
	c.frame(h, b[frameHead:frameHead+h.length])
	return b[frameHead+h.length:]
}

// resume goes on with the frame whose beginning was kept.
func (c *Conn) resume(b []byte) []byte {
	if b = c.fill(b, frameHead); len(c.pend) < frameHead {
		return nil
	}
	h := parseHead(c.pend)
	if !c.admit(h) {
		return nil
	}
	if h.typ == typeData {
		c.pend = c.pend[:0]
		c.startData(h)
		return b
	}
	if b = c.fill(b, frameHead+h.length); len(c.pend) < frameHead+h.length {
		return nil
	}
	c.frame(h, c.pend[frameHead:])
	if cap(c.pend) > 2*minMaxFrame {
		c.pend = nil
	}
	c.pend = c.pend[:0]
	return b
}

// fill moves bytes to what is kept until that is n long.
func (c *Conn) fill(b []byte, n int) []byte {
	k := min(len(b), max(0, n-len(c.pend)))
	c.pend = append(c.pend, b[:k]...)
	return b[k:]
}

// admit judges a frame by its head.
func (c *Conn) admit(h head) bool {
	switch {
	case h.length > int(c.o.MaxFrameSize):
		c.fail(FrameSizeError, DetailCodec, "a frame is larger than SETTINGS_MAX_FRAME_SIZE")
	case !c.settings && (h.typ != typeSettings || h.flags&flagAck != 0):
		c.fail(ProtocolError, DetailCodec, "the first frame is not SETTINGS")
	case c.cont.id != 0 && (h.typ != typeContinuation || h.id != c.cont.id):
		c.fail(ProtocolError, DetailCodec, "a header block is interrupted by another frame")
	}
	return c.err == nil
}

func (c *Conn) startData(h head) {
	if h.id == 0 || c.idle(h.id) {
		c.fail(ProtocolError, DetailCodec, "DATA on a stream that is not open")
		return
	}
	s := c.stream(h.id)
	if int64(h.length) > c.recvWindow || s != nil && (s.peerEnded || int64(h.length) > s.recvWindow) {
		c.tell() // that may open the windows, or be the stream's end
		s = c.stream(h.id)
	}
	if int64(h.length) > c.recvWindow {
		c.fail(FlowControlError, DetailCodec, "DATA beyond the window of the connection")
		return
	}
	c.recvWindow -= int64(h.length)
	c.in = dataFrame{on: true, left: h.length, end: h.flags&flagEndStream != 0, needPad: h.flags&flagPadded != 0}
	s.took(h)
	switch {
	case s == nil:
		if c.closed.find(h.id) == endedPeer {
			c.fail(StreamClosed, DetailCodec, "DATA after the end of a stream")
			return
		}
	case s.peerEnded:
		c.streamError(s, StreamClosed, DetailMessaging)
	case !s.gotHead:
		c.messageError(s, DetailMessaging, "DATA before the head of a message")
	case int64(h.length) > s.recvWindow:
		c.streamError(s, FlowControlError, DetailUnknown)
	default:
		s.recvWindow -= int64(h.length)
		s.recvLast = c.in.end
		c.in.s = s
	}
	if c.in.needPad {
		if h.length == 0 {
			c.fail(FrameSizeError, DetailCodec, "a padded frame has no padding length")
		}
		return
	}
	c.judgeData()
}

// judgeData goes on when the padding is known.
func (c *Conn) judgeData() {
	d := &c.in
	if d.left == 0 && !d.end {
		c.emptyFrame()
	} else {
		c.empty = 0
	}
	if c.err != nil {
		return
	}
	if s := d.s; s != nil && s.length >= 0 {
		if n := int64(d.left); n > s.length || d.end && n != s.length {
			c.streamError(s, ProtocolError, DetailMessaging)
		} else {
			s.length -= n
		}
	}
	if d.left == 0 && d.s != nil && d.end {
		c.deliver(nil)
	}
	d.on = d.left+d.pad > 0
}

// emptyFrame counts frames in a row that carry nothing (HC-06).
func (c *Conn) emptyFrame() {
	c.empty++
	limit := uint32(1)
	if c.o.MaxEmptyFrames != nil {
		limit = *c.o.MaxEmptyFrames
	}
	if c.empty > limit {
		c.failFlood(EnhanceYourCalm, DetailEmpty, "too many frames in a row are empty", FloodInboundEmpty)
	}
}

// data reads on in a DATA frame.
func (c *Conn) data(b []byte) []byte {
	d := &c.in
	if d.needPad {
		d.needPad = false
		d.pad = int(b[0])
		if d.left--; d.pad > d.left {
			c.fail(ProtocolError, DetailCodec, "padding is longer than its frame")
			return nil
		}
		d.left -= d.pad
		if s := d.s; s != nil {
			c.creditPadding(s, int64(d.pad)+1)
		}
		if d.s == nil {
			c.creditConn(int64(d.pad) + 1)
		}
		b = b[1:]
		c.judgeData()
		return b
	}
	if n := min(len(b), d.left); n > 0 {
		d.left -= n
		if d.s == nil {
			c.creditConn(int64(n))
		} else {
			c.deliver(b[:n])
		}
		b = b[n:]
	}
	n := min(len(b), d.pad)
	if d.left == 0 {
		d.pad -= n
		b = b[n:]
	}
	d.on = d.left+d.pad > 0
	return b
}

func (c *Conn) creditPadding(s *Stream, n int64) {
	s.creditStream(n)
	c.creditConn(n)
}

// deliver has a part of the body told to the handler.
func (c *Conn) deliver(b []byte) {
	d := &c.in
	s := d.s
	s.unread += int64(len(b))
	end := d.end && d.left == 0
	if end {
		s.peerEnded = true
		d.s = nil
	}
	c.addData(s, b, end)
}

// idle reports whether a stream was never opened.
func (c *Conn) idle(id uint32) bool {
	if id&1 == 0 {
		return true // nobody pushes
	}
	if c.role == Client {
		return id >= c.nextID
	}
	return id > c.lastPeer
}

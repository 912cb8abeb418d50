package http2

import "encoding/binary"

// frame handles a whole frame that is not DATA.
func (c *Conn) frame(h head, p []byte) {
	if h.typ == typeHeaders {
		c.onHeaders(h, p)
		return
	}
	c.tell()
	switch h.typ {
	case typeContinuation:
		c.onContinuation(h, p)
	case typePriority:
		c.onPriority(h, p)
	case typeRST:
		c.onRST(h, p)
	case typeSettings:
		c.onSettings(h, p)
	case typePing:
		c.onPing(h, p)
	case typeGoAway:
		c.onGoAway(h, p)
	case typeWindowUpdate:
		c.onWindowUpdate(h, p)
	case typePushPromise:
		c.fail(ProtocolError, DetailCodec, "PUSH_PROMISE, which is switched off")
	}
}

func (c *Conn) onPriority(h head, p []byte) {
	if h.id == 0 {
		c.fail(ProtocolError, DetailCodec, "PRIORITY on stream 0")
		return
	}
	c.prio++
	limit := uint64(100)
	if c.o.MaxPriorityFrames != nil {
		limit = uint64(*c.o.MaxPriorityFrames)
	}
	if c.prio > limit*(1+c.opened) {
		c.failFlood(EnhanceYourCalm, DetailPriorityFlood, "too many PRIORITY frames", FloodInboundPriority)
		return
	}
	switch {
	case len(p) != 5:
		c.idError(h.id, FrameSizeError)
	case binary.BigEndian.Uint32(p)&maxStreamID == h.id:
		c.idError(h.id, ProtocolError)
	}
}

// idError is a stream error of a stream that need not be open.
func (c *Conn) idError(id uint32, code ErrCode) {
	if s := c.stream(id); s != nil {
		c.streamError(s, code, DetailUnknown)
	} else if c.idle(id) {
		c.fail(code, DetailCodec, "a wrong frame for a stream that is not open")
	} else {
		c.writeRST(id, code)
	}
}

func (c *Conn) onRST(h head, p []byte) {
	switch {
	case len(p) != 4:
		c.fail(FrameSizeError, DetailCodec, "RST_STREAM has not 4 bytes")
		return
	case h.id == 0 || c.idle(h.id):
		c.fail(ProtocolError, DetailCodec, "RST_STREAM on a stream that is not open")
		return
	}
	s := c.stream(h.id)
	if s == nil {
		return
	}
	s.took(h)
	code, details := ErrCode(binary.BigEndian.Uint32(p)), DetailRemoteReset
	if code == RefusedStream {
		details = DetailRemoteRefuse
	}
	c.Counts.RxReset++
	c.resetBy(s, code, true, details)
}

func (c *Conn) onPing(h head, p []byte) {
	switch {
	case len(p) != 8:
		c.fail(FrameSizeError, DetailCodec, "PING has not 8 bytes")
	case h.id != 0:
		c.fail(ProtocolError, DetailCodec, "PING on a stream")
	case h.flags&flagAck != 0:
		c.h.OnPingAck([8]byte(p))
	default:
		c.ping([8]byte(p), flagAck)
	}
}

func (c *Conn) onGoAway(h head, p []byte) {
	switch {
	case h.id != 0:
		c.fail(ProtocolError, DetailCodec, "GOAWAY on a stream")
		return
	case len(p) < 8:
		c.fail(FrameSizeError, DetailCodec, "GOAWAY is too short")
		return
	}
	last, code := binary.BigEndian.Uint32(p)&maxStreamID, ErrCode(binary.BigEndian.Uint32(p[4:]))
	c.goneAway = true
	c.h.OnGoAway(last, code)
	if c.role != Client {
		return
	}
	c.collect(last)
	for _, id := range c.ids {
		if s := c.stream(id); s != nil {
			c.resetBy(s, RefusedStream, true, DetailRemoteRefuse)
		}
	}
}

func (c *Conn) onWindowUpdate(h head, p []byte) {
	if len(p) != 4 {
		c.fail(FrameSizeError, DetailCodec, "WINDOW_UPDATE has not 4 bytes")
		return
	}
	if h.id != 0 && c.idle(h.id) {
		c.fail(ProtocolError, DetailCodec, "WINDOW_UPDATE on a stream that is not open")
		return
	}
	c.wupd++
	if c.wupd > 5+2*(c.opened+uint64(c.o.MaxWindowUpdateFrames)*c.dataSent) {
		c.failFlood(EnhanceYourCalm, DetailWindowFlood, "too many WINDOW_UPDATE frames", FloodInboundWindow)
		return
	}
	n := int64(binary.BigEndian.Uint32(p) & maxWindow)
	if h.id == 0 {
		switch {
		case n == 0:
			c.fail(ProtocolError, DetailCodec, "WINDOW_UPDATE of 0")
		case c.sendWindow+n > maxWindow:
			c.fail(FlowControlError, DetailCodec, "the window of the connection overflows")
		default:
			c.sendWindow += n
			c.flush()
		}
		return
	}
	s := c.stream(h.id)
	switch {
	case s == nil: // closed
	case n == 0:
		c.streamError(s, ProtocolError, DetailUnknown)
	case s.sendWindow+n > maxWindow:
		c.streamError(s, FlowControlError, DetailUnknown)
	default:
		c.streamWindow(s, n)
		c.flush()
	}
}

func (c *Conn) onSettings(h head, p []byte) {
	ack := h.flags&flagAck != 0
	switch {
	case h.id != 0:
		c.fail(ProtocolError, DetailCodec, "SETTINGS on a stream")
	case ack && len(p) != 0:
		c.fail(FrameSizeError, DetailCodec, "an acknowledgement of SETTINGS is not empty")
	case len(p)%6 != 0:
		c.fail(FrameSizeError, DetailCodec, "SETTINGS is no multiple of 6 bytes")
	case ack:
		c.settingsAcked()
	default:
		c.settings = true
		c.applySettings(p)
	}
}

// settingsAcked is when the peer works with our settings.
func (c *Conn) settingsAcked() {
	if c.acked {
		return
	}
	c.acked = true
	c.dec.SetLimit(c.o.HeaderTableSize)
	if d := int64(c.o.StreamWindow) - c.initRecv; d != 0 {
		c.initRecv += d
		for _, s := range c.streams.slots {
			if s != nil {
				s.recvWindow += d
			}
		}
	}
}

func (c *Conn) applySettings(p []byte) {
	window := c.peerWindow
	for ; len(p) > 0 && c.err == nil; p = p[6:] {
		v := binary.BigEndian.Uint32(p[2:])
		switch binary.BigEndian.Uint16(p) {
		case setHeaderTableSize:
			c.enc.SetLimit(v)
		case setEnablePush:
			if v > 1 || v == 1 && c.role == Client {
				c.fail(ProtocolError, DetailCodec, "SETTINGS_ENABLE_PUSH is wrong")
			}
		case setMaxStreams:
			c.peerMax = v
		case setInitialWindow:
			if window = int64(v); v > maxWindow {
				c.fail(FlowControlError, DetailCodec, "SETTINGS_INITIAL_WINDOW_SIZE is too large")
			}
		case setMaxFrameSize:
			if v < minMaxFrame || v > maxMaxFrame {
				c.fail(ProtocolError, DetailCodec, "SETTINGS_MAX_FRAME_SIZE is out of range")
			}
			c.peerFrame = int(v)
		case setEnableConnect:
			if v > 1 || v == 0 && c.peerConn {
				c.fail(ProtocolError, DetailCodec, "SETTINGS_ENABLE_CONNECT_PROTOCOL is wrong")
			}
			c.peerConn = v == 1
		}
	}
	if c.err != nil {
		return
	}
	c.commit(appendHead(c.begin(1, 1), 0, typeSettings, flagAck, 0))
	c.setPeerWindow(window)
	if c.err == nil {
		c.h.OnSettings()
		c.flush()
	}
}

// setPeerWindow moves the windows of all streams (RFC 9113 section 6.9.2).
func (c *Conn) setPeerWindow(window int64) {
	d := window - c.peerWindow
	c.peerWindow = window
	if d == 0 {
		return
	}
	for _, s := range c.streams.slots { // nothing in here calls the handler
		if s == nil {
			continue
		}
		if s.sendWindow+d > maxWindow {
			c.fail(FlowControlError, DetailCodec, "the window of a stream overflows")
			return
		}
		c.streamWindow(s, d)
	}
}

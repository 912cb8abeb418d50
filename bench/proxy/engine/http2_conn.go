package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Frame types and flags of RFC 9113.
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	framePing     = 6
	frameGoAway   = 7
	frameWindow   = 8

	flagEnd        = 1 // of the stream; in SETTINGS and PING: an acknowledgement
	flagEndHeaders = 4

	frameHeader   = 9
	maxFrame      = 16384
	initialWindow = 65535
	streamWindow  = 1 << 20
	connWindow    = 1 << 30
	updateAfter   = 1 << 19
	fullTable     = 4096
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

var errGoAway = errors.New("the proxy closes an HTTP/2 connection")

// http2Conn is what both ends of HTTP/2 have in common. A whole message fits a
// stream's window at both ends.
type http2Conn struct {
	loop     *Loop
	fd       int
	in       []byte // the beginning of a frame
	out      []byte
	waiting  bool // for the socket to be writable
	window   int  // what the connection may still send
	received int  // what came since the last WINDOW_UPDATE
	table    int  // the peer's header table, bytes
	sent     bool // the dynamic table is filled
	blocked  []uint32
	body     []byte // of every message this end sends
	// frame handles a frame that is not the connection's; unblocked sends the
	// body of a stream that waited for the window.
	frame     func(kind, flags byte, id uint32, payload []byte)
	unblocked func(id uint32)
	closed    func()
}

func newHTTP2Conn(l *Loop, fd int, body []byte) *http2Conn {
	return &http2Conn{loop: l, fd: fd, window: initialWindow, table: fullTable, body: body}
}

func (c *http2Conn) header(kind, flags byte, id uint32, n int) {
	c.out = append(c.out, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	c.out = binary.BigEndian.AppendUint32(c.out, id)
}

func (c *http2Conn) headers(id uint32, block []byte, flags byte) {
	c.header(frameHeaders, flagEndHeaders|flags, id, len(block))
	c.out = append(c.out, block...)
}

// settings opens the connection, with large windows: they are no part of what
// is measured.
func (c *http2Conn) settings(more ...byte) {
	c.header(frameSettings, 0, 0, 6+len(more))
	c.out = binary.BigEndian.AppendUint32(append(c.out, 0, 4), streamWindow)
	c.out = append(c.out, more...)
	c.header(frameWindow, 0, 0, 4)
	c.out = binary.BigEndian.AppendUint32(c.out, connWindow)
}

// room says whether the window has room for the body now; otherwise the stream
// is queued until it has.
func (c *http2Conn) room(id uint32) bool {
	if c.window >= len(c.body) && len(c.blocked) == 0 {
		return true
	}
	c.blocked = append(c.blocked, id)
	return false
}

// data sends the body, ending the stream if last.
func (c *http2Conn) data(id uint32, last bool) {
	c.window -= len(c.body)
	for p := c.body; len(p) > 0; {
		n, flags := min(len(p), maxFrame), byte(0)
		if n == len(p) && last {
			flags = flagEnd
		}
		c.header(frameData, flags, id, n)
		c.out = append(c.out, p[:n]...)
		p = p[n:]
	}
}

func (c *http2Conn) unblock() {
	n := 0
	for ; n < len(c.blocked) && c.window >= len(c.body); n++ {
		c.unblocked(c.blocked[n])
	}
	c.blocked = append(c.blocked[:0], c.blocked[n:]...)
}

func (c *http2Conn) flush() {
	if len(c.out) > 0 {
		c.out = append(c.out[:0], c.out[write(c.fd, c.out):]...)
	}
	if (len(c.out) > 0) != c.waiting {
		c.waiting = !c.waiting
		c.loop.wantWrite(c.fd, c.waiting)
	}
}

func (c *http2Conn) ready(events uint32) {
	if events&writable != 0 {
		c.flush()
	}
	if events&^writable == 0 {
		return
	}
	b, closed := c.loop.read(c.fd)
	if closed {
		c.loop.close(c.fd)
		c.closed()
		return
	}
	if len(c.in) > 0 {
		c.in = append(c.in, b...)
		b = c.in
	}
	c.in = append(c.in[:0], c.frames(b)...)
	if c.received > updateAfter {
		c.header(frameWindow, 0, 0, 4)
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(c.received))
		c.received = 0
	}
	c.flush()
}

// frames handles the complete frames in b and returns the rest.
func (c *http2Conn) frames(b []byte) []byte {
	for len(b) >= frameHeader {
		end := frameHeader + (int(b[0])<<16 | int(b[1])<<8 | int(b[2]))
		if len(b) < end {
			break
		}
		c.handle(b[3], b[4], binary.BigEndian.Uint32(b[5:])&0x7fffffff, b[frameHeader:end])
		b = b[end:]
	}
	return b
}

func (c *http2Conn) handle(kind, flags byte, id uint32, p []byte) {
	switch kind {
	case frameData:
		c.received += len(p)
		c.frame(kind, flags, id, p)
	case frameSettings:
		if flags&flagEnd == 0 {
			c.configured(p)
		}
	case framePing:
		if flags&flagEnd == 0 {
			c.header(framePing, flagEnd, 0, len(p))
			c.out = append(c.out, p...)
		}
	case frameWindow:
		if id == 0 && len(p) == 4 {
			c.window += int(binary.BigEndian.Uint32(p) & 0x7fffffff)
			c.unblock()
		}
	default:
		c.frame(kind, flags, id, p)
	}
}

// configured acknowledges the peer's settings. Only the size of its header
// table matters here.
func (c *http2Conn) configured(p []byte) {
	for ; len(p) >= 6; p = p[6:] {
		if p[0] == 0 && p[1] == 1 {
			c.table = int(binary.BigEndian.Uint32(p[2:]))
		}
	}
	c.header(frameSettings, flagEnd, 0, 0)
}

func goAway(p []byte) error { return fmt.Errorf("%w: GOAWAY %x", errGoAway, p) }

package http2

import (
	"encoding/binary"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Stream is one exchange. It is used again after OnClosed: forget it then.
type Stream struct {
	ID   uint32
	User any // its owner's
	// Headers and Trailers receive what the peer sends.
	Headers, Trailers *header.Map

	c          *Conn
	next, prev *Stream // in Conn.ready
	queued     bool

	gotHead   bool // the peer's final head came
	recvLast  bool // the last DATA frame of the peer has begun
	peerEnded bool // the peer ended its side
	recvEnded bool // and the handler was told so
	headEnds  bool // the peer did so with the head
	endQueued bool // the owner ended our side
	sentEnd   bool // END_STREAM was sent
	isClosed  bool
	localRST  bool
	later     bool // client: its head is to be written
	noBody    bool // client: the answer to HEAD
	connect   bool
	above     bool // unsent bytes were above the high watermark
	endReset  bool // reset with endCode when our side was sent
	endCode   ErrCode
	dropped   int

	sendWindow int64
	recvWindow int64
	credit     int64 // received and passed on, not told to the peer
	unread     int64 // received and not passed on
	length     int64 // bytes of the body to come, or -1

	sent, received uint64 // bytes of its frames, as far as the handler was told
	parsed, inHead uint64 // bytes that came in all, and up to the head

	waiting  backlog     // unsent bytes
	trailers *header.Map // to follow them
}

// SendHeaders sends the head, of a response or once of a request.
func (s *Stream) SendHeaders(h *header.Map, end bool) {
	if s.isClosed || s.endQueued {
		return
	}
	s.c.writeHeaders(s, h, end)
	if end {
		s.endQueued = true
		s.ended()
	}
}

// SendInformational sends a 1xx head.
func (s *Stream) SendInformational(h *header.Map) { s.SendHeaders(h, false) }

// SendData sends a part of the body. What the windows or a blocked socket do
// not admit is copied and sent when they do: look at Buffered.
func (s *Stream) SendData(b []byte, end bool) {
	c := s.c
	if s.isClosed || s.endQueued || c.err != nil {
		return
	}
	if s.Buffered() == 0 {
		n := min(len(b), c.room())
		n = int(min(int64(n), max(0, min(c.sendWindow, s.sendWindow))))
		if n > 0 || len(b) == 0 {
			c.writeData(s, b[:n], end && n == len(b))
		}
		if b = b[n:]; len(b) == 0 {
			if end {
				s.endQueued = true
				s.ended()
			}
			return
		}
	}
	s.endQueued = end
	s.keep(b)
	if s.sendWindow > 0 {
		c.ready.push(s)
		_ = c.room() // what waits for nothing but room is to be sent then
	}
}

// keep copies bytes that wait.
func (s *Stream) keep(b []byte) {
	s.waiting.add(b, s.c.pool)
	s.c.unsent += len(b)
	if s.Buffered() > s.c.o.StreamBufferHigh {
		s.above = true
	}
}

// SendTrailers ends our side with trailers, which must not change before they
// are sent: at the latest when OnClosed comes.
func (s *Stream) SendTrailers(h *header.Map) {
	if s.isClosed || s.endQueued {
		return
	}
	s.endQueued = true
	if s.Buffered() > 0 {
		s.trailers = h
		return
	}
	s.c.writeHeaders(s, h, true)
	s.ended()
}

// ended says that END_STREAM was sent.
func (s *Stream) ended() {
	s.sentEnd = true
	switch {
	case s.recvEnded:
		s.c.close(s)
	case s.endReset:
		s.Reset(s.endCode)
	}
}

// ResetWhenSent resets the stream as soon as our side is sent, unless the peer
// ended its own before: a response that does not wait for the rest of its
// request (HC-56) uses it with NoError.
func (s *Stream) ResetWhenSent(code ErrCode) {
	if s.isClosed {
		return
	}
	s.endReset, s.endCode = true, code
	if s.sentEnd && !s.recvEnded {
		s.Reset(code)
	}
}

// Reset ends the stream both ways and drops what is unsent. OnClosed comes
// before it returns, OnReset does not.
func (s *Stream) Reset(code ErrCode) {
	if s.isClosed {
		return
	}
	c := s.c
	s.writeRST(code)
	c.close(s)
}

// Closed reports whether OnClosed was called; only of use within callbacks.
func (s *Stream) Closed() bool { return s.isClosed }

// Buffered is the number of unsent body bytes.
func (s *Stream) Buffered() int { return s.waiting.size }

// Wire is how many bytes of its frames, their heads included, were handed to the
// output, and how many came from the peer. As in Envoy, headers that are refused
// and window updates that came are not counted.
func (s *Stream) Wire() (sent, received uint64) { return s.sent, s.received }

// took counts a frame of the peer. The stream may be nil.
func (s *Stream) took(h head) {
	if s != nil {
		s.parsed += uint64(frameHead + h.length)
	}
}

// SendWindow is how many bytes the peer takes now.
func (s *Stream) SendWindow() int64 { return min(s.sendWindow, s.c.sendWindow) }

// Unread is how many body bytes were given to OnData and not yet acknowledged
// by Consumed.
func (s *Stream) Unread() int { return int(s.unread) }

// Consumed says that n body bytes were passed on, so that the peer may send as
// many more.
func (s *Stream) Consumed(n int) {
	k := min(int64(n), s.unread)
	if s.isClosed || k <= 0 {
		return
	}
	s.unread -= k
	s.creditStream(k)
	s.c.creditConn(k)
}

func (s *Stream) creditStream(n int64) {
	if s.recvLast || s.peerEnded {
		return
	}
	s.credit += n
	if 2*s.credit >= int64(s.c.o.StreamWindow) {
		s.c.windowUpdate(s.ID, s.credit)
		s.sent += frameHead + 4
		s.recvWindow += s.credit
		s.credit = 0
	}
}

func (c *Conn) creditConn(n int64) {
	c.credit += n
	if 2*c.credit >= int64(c.o.ConnWindow) {
		c.windowUpdate(0, c.credit)
		c.recvWindow += c.credit
		c.credit = 0
	}
}

func (c *Conn) windowUpdate(id uint32, n int64) {
	if c.err == nil {
		c.commit(binary.BigEndian.AppendUint32(appendHead(c.begin(1, 1), 4, typeWindowUpdate, 0, id), uint32(n)))
	}
}

func (s *Stream) writeRST(code ErrCode) {
	s.c.writeRST(s.ID, code)
	s.sent += frameHead + 4
	s.localRST = true
}

func (c *Conn) writeRST(id uint32, code ErrCode) {
	if c.err == nil {
		c.Counts.TxReset++
		c.commit(binary.BigEndian.AppendUint32(appendHead(c.begin(1, 1), 4, typeRST, 0, id), uint32(code)))
	}
}

// writeHeaders sends a header block, in as many frames as it needs.
func (c *Conn) writeHeaders(s *Stream, h *header.Map, end bool) {
	if c.err != nil {
		return
	}
	flags := byte(flagEndHeaders)
	if end {
		flags |= flagEndStream
	}
	out := c.begin(1, 0)
	at := len(out)
	out = c.enc.Append(appendHead(out, 0, typeHeaders, flags, s.ID), h)
	if n := len(out) - at - frameHead; n <= c.peerFrame {
		putLength(out[at:], n)
	} else {
		out = c.splitBlock(out, at, s.ID, flags)
	}
	s.sent += uint64(len(out) - at)
	c.commit(out)
}

// splitBlock makes frames of a header block that is too long for one.
func (c *Conn) splitBlock(out []byte, at int, id uint32, flags byte) []byte {
	rest := append([]byte(nil), out[at+frameHead:]...)
	out = out[:at]
	typ, flags := byte(typeHeaders), flags&^flagEndHeaders
	for {
		n := min(len(rest), c.peerFrame)
		if n == len(rest) {
			flags |= flagEndHeaders
		}
		out = append(appendHead(out, n, typ, flags, id), rest[:n]...)
		if rest = rest[n:]; len(rest) == 0 {
			return out
		}
		typ, flags = typeContinuation, 0
		c.frames++
	}
}

// writeData sends what the windows admit, and END_STREAM with the last of it.
func (c *Conn) writeData(s *Stream, b []byte, end bool) {
	s.sendWindow -= int64(len(b))
	c.sendWindow -= int64(len(b))
	limit := min(c.peerFrame, int(c.o.MaxFrameSize))
	for {
		n := min(len(b), limit)
		flags := byte(0)
		if end && n == len(b) {
			flags = flagEndStream
		}
		c.dataSent++
		s.sent += uint64(frameHead + n)
		c.commit(append(appendHead(c.begin(1, 0), n, typeData, flags, s.ID), b[:n]...))
		if b = b[n:]; len(b) == 0 || c.err != nil {
			return
		}
	}
}

// close ends a stream: both sides ended, or it was reset.
func (c *Conn) close(s *Stream) {
	if s.isClosed {
		return
	}
	s.isClosed = true
	if s.later {
		c.forgetLater(s)
	}
	c.current = nil
	c.streams.del(s.ID)
	c.active--
	c.ready.remove(s)
	c.unsent -= s.Buffered()
	c.closed.add(s.ID, s.localRST)
	if c.in.s == s {
		c.in.s = nil
	}
	if c.cont.s == s {
		c.cont.kind, c.cont.s, c.cont.m = blockIgnored, nil, nil
	}
	if s.unread > 0 {
		c.creditConn(s.unread)
		s.unread = 0
	}
	c.enter()
	c.h.OnClosed(s)
	c.dead = append(c.dead, s)
	c.leave()
}

// resetBy ends a stream that the peer ended, by its will or its fault.
func (c *Conn) resetBy(s *Stream, code ErrCode, remote bool, details string) {
	s.endQueued = true // nothing follows a reset
	s.received = s.parsed
	c.enter()
	c.h.OnReset(s, code, remote, details)
	c.close(s)
	c.leave()
}

// streamError answers a fault of the peer that concerns one stream.
func (c *Conn) streamError(s *Stream, code ErrCode, details string) {
	if c.tell(); s.isClosed || c.err != nil {
		return
	}
	c.countInvalid(details)
	s.writeRST(code)
	c.resetBy(s, code, false, details)
}

func (c *Conn) countInvalid(details string) {
	if details == DetailMessaging || details == DetailHeaderField {
		c.Counts.RxMessagingError++
	}
}

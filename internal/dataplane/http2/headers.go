package http2

import (
	"encoding/binary"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/hpack"
)

func (c *Conn) onHeaders(h head, p []byte) {
	if h.id == 0 || h.id&1 == 0 || c.role == Client && c.idle(h.id) {
		c.fail(ProtocolError, DetailCodec, "HEADERS on a stream that the peer cannot open")
		return
	}
	p, ok := c.unpad(h, p)
	if !ok {
		return
	}
	selfDependent := false
	if h.flags&flagPriority != 0 {
		if len(p) < 5 {
			c.fail(FrameSizeError, DetailCodec, "HEADERS is too short for its priority")
			return
		}
		selfDependent = binary.BigEndian.Uint32(p)&maxStreamID == h.id
		p = p[5:]
	}
	if selfDependent {
		c.fail(ProtocolError, DetailCodec, "a stream depends on itself")
		return
	}
	end := h.flags&flagEndStream != 0
	if len(p) == 0 && !end {
		c.emptyFrame()
	} else {
		c.empty = 0
	}
	if c.err != nil {
		return
	}
	if !c.startBlock(h.id, end) {
		return
	}
	c.cont.bytes = uint64(frameHead + h.length)
	if h.flags&flagEndHeaders != 0 {
		if _, ok := c.decode(p, true); ok {
			c.endBlock()
		}
		return
	}
	c.block = append(c.block[:0], p...)
	c.decodeSome()
}

// unpad takes the padding from a frame of headers.
func (c *Conn) unpad(h head, p []byte) ([]byte, bool) {
	if h.flags&flagPadded == 0 {
		return p, true
	}
	if len(p) == 0 || int(p[0]) > len(p)-1 {
		c.fail(ProtocolError, DetailCodec, "padding is longer than its frame")
		return nil, false
	}
	return p[1 : len(p)-int(p[0])], true
}

func (c *Conn) onContinuation(h head, p []byte) {
	if c.cont.id == 0 {
		c.fail(ProtocolError, DetailCodec, "CONTINUATION without a header block")
		return
	}
	if len(p) == 0 && h.flags&flagEndHeaders == 0 {
		if c.emptyFrame(); c.err != nil {
			return
		}
	} else {
		c.empty = 0
	}
	c.cont.bytes += uint64(h.length)
	c.cont.frames++
	c.cont.total += len(p)
	if c.cont.frames > maxContinuations || c.cont.total > 4*c.maxHeaderBytes()+1<<20 {
		c.blockFlood()
		return
	}
	c.block = append(c.block, p...)
	if h.flags&flagEndHeaders == 0 {
		c.decodeSome()
		return
	}
	if _, ok := c.decode(c.block, true); ok {
		c.endBlock()
	}
	if cap(c.block) > 64<<10 {
		c.block = nil
	}
}

// maxContinuations bounds the frames of one header block.
const maxContinuations = 2048

func (c *Conn) maxHeaderBytes() int { return int(c.o.MaxHeadersKB) << 10 }

func (c *Conn) blockFlood() {
	c.failFlood(EnhanceYourCalm, DetailCodec, "a header block is too long", FloodInboundContinued)
}

// blockKind is what a header block is.
type blockKind uint8

const (
	blockIgnored blockKind = iota
	blockRefused           // a request beyond the limit of streams
	blockLate              // on a stream whose peer ended its side
	blockRequest
	blockResponse
	blockTrailers
)

// block is a header block under way.
type block struct {
	id     uint32 // 0 for none
	kind   blockKind
	end    bool
	s      *Stream
	m      *header.Map // where the fields go, or nil
	flags  hpack.Flags
	frames int    // CONTINUATION
	total  int    // bytes of them
	bytes  uint64 // of all frames; as in Envoy with the head of the first only
	next   int    // bytes to wait for before decoding goes on
}

// begin makes k a new block. Its fields are set one by one, as they are read: to
// copy a struct of which parts were just written waits for memory.
func (k *block) begin(id uint32, end bool) {
	k.id, k.kind, k.end = id, blockIgnored, end
	k.s, k.m, k.flags = nil, nil, 0
	k.frames, k.total, k.bytes, k.next = 0, 0, 0, minMaxFrame
}

// startBlock says what becomes of a block. The decoder has to see every one.
func (c *Conn) startBlock(id uint32, end bool) bool {
	c.cont.begin(id, end)
	c.dec.Begin()
	var s *Stream
	if c.role == Client || id <= c.lastPeer {
		if s = c.stream(id); s != nil && s.peerEnded {
			c.tell() // that may be the stream's end
			s = c.stream(id)
		}
	}
	switch {
	case s != nil && s.peerEnded:
		c.cont.kind, c.cont.s = blockLate, s
	case s != nil && s.gotHead:
		c.cont.kind, c.cont.s, c.cont.m = blockTrailers, s, s.Trailers
	case s != nil:
		c.cont.kind, c.cont.s, c.cont.m = blockResponse, s, s.Headers
	case c.role == Server && id > c.lastPeer:
		c.startRequest(id)
	default:
		switch c.closed.find(id) {
		case endedPeer:
			c.fail(StreamClosed, DetailCodec, "HEADERS after the end of a stream")
		case endedSkipped:
			c.fail(ProtocolError, DetailCodec, "a stream is opened out of order")
		}
	}
	return c.err == nil
}

func (c *Conn) startRequest(id uint32) {
	if id > c.lastPeer+2 {
		c.closed.skip(c.lastPeer+1, id-1)
	}
	c.lastPeer = id
	switch {
	case c.goingAway && id > c.lastOurs: // the peer knows that it was not processed
		c.closed.add(id, true)
	case c.crowded():
		c.closed.add(id, true)
		c.cont.kind = blockRefused
	default:
		s := c.newStream(id)
		c.cont.kind, c.cont.s = blockRequest, s
		c.h.OnStream(s)
		if !s.isClosed {
			c.cont.m = s.Headers
		}
	}
}

// crowded reports whether there are as many streams as there may be.
func (c *Conn) crowded() bool {
	if uint32(c.active) < c.o.MaxConcurrentStreams {
		return false
	}
	c.tell() // that may be the end of some
	return uint32(c.active) >= c.o.MaxConcurrentStreams
}

// decodeSome decodes what is complete once enough came, so that a block is not
// kept whole and no field is looked at for every small frame again.
func (c *Conn) decodeSome() {
	if len(c.block) < c.cont.next {
		return
	}
	rest, ok := c.decode(c.block, false)
	if !ok {
		return
	}
	if rest > c.maxHeaderBytes()+64<<10 {
		c.blockFlood()
		return
	}
	c.block = c.block[:copy(c.block, c.block[len(c.block)-rest:])]
	c.cont.next = rest + minMaxFrame
}

// decode decodes a part of the block; ok is false after an error of the connection.
func (c *Conn) decode(b []byte, last bool) (rest int, ok bool) {
	k := &c.cont
	bytes, count := c.maxHeaderBytes(), int(c.o.MaxHeaders)
	if k.m != nil {
		bytes, count = bytes-k.m.Size(), count-k.m.Len()
	}
	rest, flags, err := c.dec.Part(b, last, k.m, bytes, count)
	if err != nil {
		c.fail(CompressionError, DetailCodec, err.Error())
		return 0, false
	}
	if k.flags |= flags; flags&(hpack.TooLarge|hpack.TooMany) != 0 {
		k.m = nil
	}
	return rest, true
}

// endBlock handles a whole block.
func (c *Conn) endBlock() {
	k := &c.cont
	id, kind, end, s, flags, bytes := k.id, k.kind, k.end, k.s, k.flags, k.bytes
	k.id, k.s, k.m = 0, nil, nil // a call of the handler may end the connection
	if s != nil {
		s.dropped = 0
	}
	switch kind {
	case blockIgnored:
		c.Counts.HeadersNoStream++
	case blockRefused:
		c.Counts.Refused++
		c.writeRST(id, RefusedStream)
	case blockLate:
		c.streamError(s, StreamClosed, DetailMessaging)
	case blockRequest:
		if c.accept(s, flags, s.Headers) {
			c.request(s, end)
		}
	case blockResponse:
		if c.accept(s, flags, s.Headers) {
			c.response(s, end, bytes)
		}
	case blockTrailers:
		if c.accept(s, flags, s.Trailers) {
			c.trailers(s, end, bytes)
		}
	}
}

func (c *Conn) request(s *Stream, end bool) {
	if f := c.checkRequest(s); f.why != "" {
		c.messageError(s, f.details, f.why)
		return
	}
	c.head(s, end)
}

// head has the final head of a message told to the handler.
func (c *Conn) head(s *Stream, end bool) {
	s.gotHead = true
	if end {
		if s.length > 0 {
			c.messageError(s, DetailMessaging, "a message without a body has a content-length")
			return
		}
		s.peerEnded = true
	}
	s.headEnds, s.inHead = end, s.parsed
	c.addHead(s)
}

func (c *Conn) response(s *Stream, end bool, bytes uint64) {
	informational, f := c.checkResponse(s, end)
	if f.why != "" {
		c.messageError(s, f.details, f.why)
		return
	}
	s.parsed += bytes
	switch {
	case informational:
		c.tell()
		s.received = s.parsed
		c.h.OnInformational(s)
		if !s.isClosed {
			s.Headers.Reset()
		}
	default:
		c.head(s, end)
	}
}

func (c *Conn) trailers(s *Stream, end bool, bytes uint64) {
	f := checkTrailers(s.Trailers)
	switch {
	case !end:
		f = messaging("a second head without END_STREAM")
	case f.why == "" && s.length > 0:
		f = messaging("the body is shorter than content-length")
	}
	if f.why != "" {
		c.messageError(s, f.details, f.why)
		return
	}
	s.peerEnded = true
	s.parsed += bytes
	c.Counts.Trailers++
	c.addTrailers(s)
}

// accept judges what the decoder noticed.
func (c *Conn) accept(s *Stream, f hpack.Flags, m *header.Map) bool {
	switch {
	case f&(hpack.BadName|hpack.BadValue) != 0:
		c.messageError(s, DetailHeaderField, "a header has an invalid name or value")
	case f&hpack.TooLarge != 0:
		c.streamError(s, InternalError, DetailTooLarge)
	case f&hpack.TooMany != 0:
		c.streamError(s, InternalError, DetailTooMany)
	case f&hpack.Underscore != 0 && c.role == Server && c.o.Underscores != UnderscoresAllow:
		return c.underscores(s, m)
	default:
		return true
	}
	return false
}

// messageError answers an invalid message as configured (HC-09).
func (c *Conn) messageError(s *Stream, details, why string) {
	if c.tell(); s.isClosed || c.err != nil {
		return
	}
	if c.o.StreamErrors {
		c.streamError(s, ProtocolError, details)
		return
	}
	c.countInvalid(details)
	c.fail(ProtocolError, details, why)
	if c.err.Details == details {
		c.err.Stream = s.ID
	}
}

package client

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// output is what a connection has still to send: control frames, which may go
// at once, and messages, which flow control may hold back. Message parts are
// shared between connections and never changed.
type output struct {
	control  []byte
	messages [][]byte // parts, in order
	window   sendWindow
	unsent   []byte // framed, but the socket did not take it
}

// message queues one gRPC message made of parts.
func (o *output) message(parts ...[]byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	prefix := make([]byte, grpcPrefix, grpcPrefix+len(parts[0]))
	binary.BigEndian.PutUint32(prefix[1:], uint32(size))
	if len(parts[0]) <= 1024 {
		prefix, parts = append(prefix, parts[0]...), parts[1:]
	}
	o.messages = append(o.messages, prefix)
	for _, p := range parts {
		if len(p) > 0 {
			o.messages = append(o.messages, p)
		}
	}
}

// appendTo frames as much as flow control and the free capacity of b allow and
// appends it to b. It reports whether all of it fitted into b's capacity.
func (o *output) appendTo(b []byte) ([]byte, bool) {
	b = append(b, o.control...)
	o.control = o.control[:0]
	for len(o.messages) > 0 {
		room := min(o.window.allowed(), maxFrame)
		if room == 0 {
			return b, true
		}
		if cap(b)-len(b) < frameHeader+maxFrame {
			return b, false
		}
		b = o.appendData(b, room)
	}
	o.messages = nil
	return b, true
}

// appendData appends one DATA frame of at most room bytes.
func (o *output) appendData(b []byte, room int) []byte {
	at := len(b)
	b = appendFrame(b, http2.FrameData, 0, streamID, 0)
	for len(o.messages) > 0 && room > 0 {
		p := o.messages[0]
		n := min(len(p), room)
		b = append(b, p[:n]...)
		room -= n
		if n < len(p) {
			o.messages[0] = p[n:]
		} else {
			o.messages = o.messages[1:]
		}
	}
	size := len(b) - at - frameHeader
	b[at], b[at+1], b[at+2] = byte(size>>16), byte(size>>8), byte(size)
	o.window.take(size)
	return b
}

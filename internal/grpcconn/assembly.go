package grpcconn

import (
	"encoding/binary"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// headSize is the length of what precedes a message: a flag and its length.
const headSize = 5

// assembly makes messages of the pieces in which a stream's bytes come. It
// holds one message, whole or in the making, and behind a whole one the bytes
// of the next as they came. These the peer gets no credit for, so that the
// window of the stream bounds them.
type assembly struct {
	limit    int    // bytes of a message
	encoding string // of compressed messages, as the server calls it

	head  [headSize]byte
	heads int // bytes of the head that came
	size  int // of the message, once the head is there
	whole bool
	msg   *memory

	behind []byte
	at     int // bytes of behind that are used

	lent  *memory // the last message handed out
	spare sync.Pool
}

// memory holds a message. While none is there it is in a pool, from which the
// garbage collector may take it.
type memory struct{ data []byte }

// add takes bytes of the peer, and says how many of them are used: for as many
// the peer may send more.
func (a *assembly) add(b []byte) (used int, err error) {
	if !a.whole {
		if used, err = a.fill(b); err != nil {
			return used, err
		}
	}
	a.behind = append(a.behind, b[used:]...)
	return used, nil
}

// fill adds to the message in the making.
func (a *assembly) fill(b []byte) (used int, err error) {
	if a.heads < headSize {
		used = copy(a.head[a.heads:], b)
		a.heads += used
		if a.heads < headSize {
			return used, nil
		}
		if err := a.begin(); err != nil {
			return used, err
		}
	}
	n := min(len(b)-used, a.size-len(a.msg.data))
	a.msg.grow(n, a.size)
	a.msg.data = append(a.msg.data, b[used:used+n]...)
	a.whole = len(a.msg.data) == a.size
	return used + n, nil
}

// begin judges the head of a message.
func (a *assembly) begin() error {
	size := binary.BigEndian.Uint32(a.head[1:])
	switch flag := a.head[0]; {
	case flag > 1:
		return status.Errorf(codes.Internal, "a message begins with the byte %#x: this is not gRPC", flag)
	case flag == 1 && (a.encoding == "" || a.encoding == "identity"):
		return status.Error(codes.Internal, "a message is compressed, but the server did not say how")
	case flag == 1:
		return status.Errorf(codes.Unimplemented, "a message is compressed with %q, which was not offered", a.encoding)
	case uint64(size) > uint64(a.limit):
		return status.Errorf(codes.ResourceExhausted, "a message has %d bytes; at most %d are taken", size, a.limit)
	}
	a.size = int(size)
	m, ok := a.spare.Get().(*memory)
	if !ok {
		m = &memory{}
	}
	m.data = m.data[:0]
	a.msg = m
	return nil
}

// grow makes room for n bytes of a message of so many. What a head promises is
// not taken before some of it has come.
func (m *memory) grow(n, size int) {
	const least = 4 << 10
	have := len(m.data)
	if have+n <= cap(m.data) {
		return
	}
	data := make([]byte, have, min(size, max(2*cap(m.data), have+n, least)))
	copy(data, m.data)
	m.data = data
}

// next is the message if it is whole; it lasts until release. used is for how
// many bytes that waited behind it the peer may send more.
func (a *assembly) next() (msg []byte, used int, ok bool, err error) {
	if !a.whole {
		return nil, 0, false, nil
	}
	msg, a.lent = a.msg.data, a.msg
	a.msg, a.heads, a.whole = nil, 0, false
	used, err = a.fill(a.behind[a.at:])
	a.at += used
	a.tidy()
	return msg, used, true, err
}

// tidy forgets bytes that are used: all, or many at a time.
func (a *assembly) tidy() {
	switch {
	case a.at == len(a.behind):
		a.behind, a.at = nil, 0
	case 2*a.at >= len(a.behind):
		a.behind = a.behind[:copy(a.behind, a.behind[a.at:])]
		a.at = 0
	}
}

// release gives back the memory of the last message.
func (a *assembly) release() {
	if a.lent != nil {
		a.spare.Put(a.lent)
		a.lent = nil
	}
}

// partial reports whether a message has begun and is not whole.
func (a *assembly) partial() bool { return !a.whole && a.heads > 0 }

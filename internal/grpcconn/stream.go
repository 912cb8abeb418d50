package grpcconn

import (
	"encoding/binary"
	"io"
	"math"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// HeadSize is how many bytes a message given to Send begins with that are for
// gRPC's own head.
const HeadSize = headSize

// Stream is a call. Recv is called by one goroutine, Send and TrySend by one at
// a time, at the same time as Recv.
type Stream struct {
	c    *Conn
	stop func() bool // no longer minds the context

	// What follows is guarded by the connection's lock.
	h              *http2.Stream // nil after the end
	head, trailers header.Map
	in             assembly
	err            error // the end: io.EOF for OK
	cancelled      bool
	waiting        bool      // in Recv, while somebody else reads
	leading        bool      // in Recv, and reading
	news           sync.Cond // a message, the end, or time to read
	space          sync.Cond // room for another message, or the end
}

// Recv waits for the next message. It lasts until the next call. The error is
// io.EOF when the server has ended the stream with the status OK, or has a
// status.
func (s *Stream) Recv() ([]byte, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.leave()
	s.in.release()
	for {
		if s.cancelled {
			return nil, s.err
		}
		if msg, ok := s.take(); ok {
			return msg, nil
		}
		switch {
		case s.err != nil:
			return nil, s.ending()
		case c.reading:
			s.waiting = true
			s.news.Wait()
			s.waiting = false
		default:
			s.leading = true
			c.lead()
			s.leading = false
		}
	}
}

// take is the next message, if it is there.
func (s *Stream) take() ([]byte, bool) {
	msg, used, ok, err := s.in.next()
	if !ok {
		return nil, false
	}
	c := s.c
	switch {
	case err != nil: // of the message after this one
		c.prepare()
		s.reset(http2.Cancel, err)
		c.settle()
	case used > 0 && s.h != nil:
		c.prepare()
		s.h.Consumed(used)
		c.settle()
	}
	return msg, true
}

// ending is the error of a stream without a further message.
func (s *Stream) ending() error {
	if s.err == io.EOF && s.in.partial() { //nolint:errorlint // it is not wrapped
		return status.Error(codes.Internal, "the server ended the stream within a message")
	}
	return s.err
}

// Send sends a message, of which the first part begins with HeadSize bytes that
// do not belong to it. It waits as long as the message before has not gone out;
// the parts are the caller's again when it returns. An error says that the stream
// is over.
func (s *Stream) Send(first, rest []byte) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for s.err == nil && s.h.Buffered() > 0 {
		c.senders++
		c.attend()
		s.space.Wait()
		c.senders--
	}
	if s.err != nil {
		return s.err
	}
	return s.send(first, rest)
}

// TrySend is Send if it need not wait; otherwise false.
func (s *Stream) TrySend(first, rest []byte) bool {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.err == nil && s.h.Buffered() == 0 && s.send(first, rest) == nil
}

func (s *Stream) send(first, rest []byte) error {
	size := len(first) - headSize + len(rest)
	if int64(size) > math.MaxUint32 {
		return status.Errorf(codes.ResourceExhausted, "a message of %d bytes is too large for gRPC", size)
	}
	first[0] = 0                                        // not compressed
	binary.BigEndian.PutUint32(first[1:], uint32(size)) //nolint:gosec // looked at above
	s.c.prepare()
	s.h.SendData(first, false)
	if len(rest) > 0 {
		s.h.SendData(rest, false)
	}
	s.c.settle()
	return nil
}

// cancel ends the stream from our side.
func (s *Stream) cancel(err error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.cancelled = s.err == nil
	c.prepare()
	s.reset(http2.Cancel, err)
	c.settle()
	if s.leading && c.reading && !c.poked && c.err == nil {
		c.poked = true
		c.sock.wake()
	}
}

// over is the end by the server: nil if all is well. We have said all, too.
func (s *Stream) over(err error) {
	if err == nil {
		err = io.EOF
	}
	s.reset(http2.NoError, err)
}

// reset ends the stream and says so to the server.
func (s *Stream) reset(code http2.ErrCode, err error) {
	s.finish(err)
	if s.h != nil {
		s.h.Reset(code)
	}
}

// finish notes the end. The first reason stays.
func (s *Stream) finish(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	s.stop()
	s.news.Broadcast()
	s.space.Broadcast()
}

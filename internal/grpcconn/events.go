package grpcconn

import (
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// handler is what the codec tells of the server. All of it happens with the
// lock held.
type handler struct{ c *Conn }

func streamOf(h *http2.Stream) *Stream {
	s, _ := h.User.(*Stream)
	return s
}

// OnStream implements http2.Handler: a server opens no streams.
func (handler) OnStream(*http2.Stream) {}

// OnInformational implements http2.Handler.
func (handler) OnInformational(*http2.Stream) {}

// OnHeaders implements http2.Handler.
func (handler) OnHeaders(h *http2.Stream, end bool) {
	s := streamOf(h)
	err := foreign(&s.head)
	switch {
	case end && (err == nil || s.head.HasID(header.GRPCStatus)):
		s.over(verdict(&s.head))
	case err != nil:
		s.reset(http2.Cancel, err)
	default:
		s.in.encoding = s.head.GetID(header.GRPCEncoding)
	}
}

// OnData implements http2.Handler.
func (handler) OnData(h *http2.Stream, b []byte, end bool) {
	s := streamOf(h)
	used, err := s.in.add(b)
	if err != nil {
		s.reset(http2.Cancel, err)
		return
	}
	h.Consumed(used)
	if s.in.whole {
		s.news.Broadcast()
	}
	if end {
		s.over(status.Error(codes.Internal, "the server ended the stream without trailers"))
	}
}

// OnTrailers implements http2.Handler.
func (handler) OnTrailers(h *http2.Stream) {
	s := streamOf(h)
	s.over(verdict(&s.trailers))
}

// OnReset implements http2.Handler.
func (e handler) OnReset(h *http2.Stream, code http2.ErrCode, remote bool, details string) {
	s := streamOf(h)
	switch {
	case e.c.err != nil:
		s.finish(e.c.err)
	case e.c.gone != nil && code == http2.RefusedStream:
		s.finish(e.c.gone)
	case remote:
		s.finish(status.Errorf(ofReset(code), "the server reset the stream: %s", code))
	default:
		s.finish(status.Errorf(codes.Internal, "the server broke the rules of HTTP/2 on the stream: %s (%s)", details, code))
	}
}

// OnWritable implements http2.Handler: settle looks.
func (handler) OnWritable(*http2.Stream) {}

// OnFull implements http2.Handler.
func (e handler) OnFull() { e.c.full = true }

// OnClosed implements http2.Handler.
func (e handler) OnClosed(h *http2.Stream) {
	s := streamOf(h)
	s.finish(io.EOF) // unless there is another reason
	s.h = nil
	e.c.forget(s)
}

// OnGoAway implements http2.Handler.
func (e handler) OnGoAway(_ uint32, code http2.ErrCode) {
	e.c.gone = status.Errorf(codes.Unavailable, "the server is going away: %s", code)
}

// OnSettings implements http2.Handler.
func (e handler) OnSettings() { e.c.ready = true }

// OnPingAck implements http2.Handler: that something came is noted anyway.
func (handler) OnPingAck([8]byte) {}

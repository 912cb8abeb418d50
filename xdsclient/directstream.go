package xdsclient

import (
	"slices"

	"github.com/xebec-proxy/xebec/internal/grpcconn"
	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xdsclient/internal/message"
)

// directStream is a Stream of a Direct transport.
type directStream struct {
	rpc   *grpcconn.Stream
	delta bool
	node  []byte
	names namesSent
	// scratch is where requests are encoded, one at a time.
	scratch []byte
	in      inbound
}

// keepScratch is the memory for requests that a stream keeps.
const keepScratch = 4 << 10

func (s *directStream) Send(r *client.Request) error {
	first, rest := s.encode(r)
	return s.rpc.Send(first, rest) //nolint:wrapcheck // the reader's error says why
}

// trySend is Send if it need not wait.
func (s *directStream) trySend(r *client.Request) bool {
	first, rest := s.encode(r)
	return s.rpc.TrySend(first, rest)
}

// encode encodes a request, with room for the head of gRPC.
func (s *directStream) encode(r *client.Request) (first, rest []byte) {
	head := slices.Grow(s.scratch, grpcconn.HeadSize)[:grpcconn.HeadSize]
	if s.delta {
		first = message.AppendDelta(head, r, s.node)
	} else {
		first, rest = message.AppendSotw(head, r, s.node), s.names.encode(r.TypeURL, r.Names)
	}
	if s.scratch = first[:0]; cap(first) > keepScratch {
		s.scratch = nil
	}
	return first, rest
}

func (s *directStream) Recv() (*client.Response, error) {
	s.in.release()
	data, err := s.rpc.Recv()
	if err != nil {
		return nil, err //nolint:wrapcheck // its caller does
	}
	m := s.in.hold()
	if s.delta {
		return m.reader.Delta(data) //nolint:wrapcheck // says it all
	}
	return m.reader.Sotw(data) //nolint:wrapcheck // says it all
}

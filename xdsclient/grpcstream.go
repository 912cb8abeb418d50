package xdsclient

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xdsclient/internal/message"
)

// grpcStream is a Stream over gRPC.
type grpcStream struct {
	rpc   grpc.ClientStream
	delta bool
	node  []byte
	names namesSent
	in    inbound
}

// namesSent are the names of the last request of each type.
type namesSent map[string]namesOf

// namesOf is a list of names, and its encoding.
type namesOf struct {
	list    []string
	encoded []byte
}

func (s *grpcStream) Send(r *client.Request) error {
	var m mem.BufferSlice
	if s.delta {
		m = mem.BufferSlice{mem.SliceBuffer(message.AppendDelta(nil, r, s.node))}
	} else {
		m = mem.BufferSlice{mem.SliceBuffer(message.AppendSotw(nil, r, s.node)), mem.SliceBuffer(s.names.encode(r.TypeURL, r.Names))}
	}
	return s.rpc.SendMsg(m) //nolint:wrapcheck // the reader's error says why
}

// encode encodes names. A list that is the one before, as it is in every ACK, is
// not encoded again; a list that a request has had does not change.
func (s namesSent) encode(typeURL string, names []string) []byte {
	n, ok := s[typeURL]
	if !ok || len(n.list) != len(names) || unsafe.SliceData(n.list) != unsafe.SliceData(names) {
		n = namesOf{names, message.AppendNames(nil, names)}
		s[typeURL] = n
	}
	return n.encoded
}

func (s *grpcStream) Recv() (*client.Response, error) {
	s.in.release()
	if err := s.rpc.RecvMsg(&s.in); err != nil {
		return nil, err //nolint:wrapcheck // its caller does
	}
	if s.delta {
		return s.in.last.reader.Delta(s.in.last.data) //nolint:wrapcheck // says it all
	}
	return s.in.last.reader.Sotw(s.in.last.data) //nolint:wrapcheck // says it all
}

// inbound is where a stream's responses are read into, one after the other.
type inbound struct {
	last *memory
	// spare is the memory of the last response while the next is waited for, which
	// may be long: the garbage collector takes it then.
	spare sync.Pool
}

// memory holds a message, unless the transport does, and what was read from it.
type memory struct {
	data   []byte
	reader message.Reader
}

func (in *inbound) release() {
	if in.last != nil {
		in.spare.Put(in.last)
		in.last = nil
	}
}

// hold is memory for a response.
func (in *inbound) hold() *memory {
	m, ok := in.spare.Get().(*memory)
	if !ok {
		m = &memory{}
	}
	in.last = m
	return m
}

// take copies a message out of gRPC's buffers.
func (in *inbound) take(message mem.BufferSlice) {
	m := in.hold()
	size := message.Len()
	m.data = slices.Grow(m.data[:0], size)[:size]
	message.CopyTo(m.data)
}

// codec passes messages through as bytes. A received one is copied once, out of
// gRPC's buffers; its resources stay slices of that copy.
type codec struct{}

// Name is the content subtype of gRPC's own codec.
func (codec) Name() string { return "proto" }

// Marshal passes on an encoded message.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(mem.BufferSlice)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return m, nil
}

// Unmarshal copies a message.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	in.take(data)
	return nil
}

package xdsserver

import (
	"fmt"
	"sync"
	"unsafe"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec passes discovery messages through as bytes and leaves every other
// message to gRPC's own codec, so that further services share the server.
type codec struct {
	proto encoding.CodecV2
	room  *room
}

func newCodec(r *room) codec { return codec{proto: encoding.GetCodecV2(proto.Name), room: r} }

// Name is the content subtype of gRPC's own codec.
func (codec) Name() string { return proto.Name }

// outgoing is an encoded response.
type outgoing struct{ data mem.BufferSlice }

// incoming is a request's bytes as one string that the names in it share.
type incoming struct{ data string }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if o, ok := v.(*outgoing); ok {
		return o.data, nil
	}
	b, err := c.proto.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return b, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return c.proto.Unmarshal(data, v) //nolint:wrapcheck // gRPC's own error
	}
	b := c.room.get(data.Len())
	data.CopyTo(b)
	in.data = unsafe.String(unsafe.SliceData(b), len(b)) // nobody writes to it before it is put back
	return nil
}

// room is the room of long requests of which nothing was kept, for the next
// ones: clients repeat lists of many names with every ACK.
type room struct{ pool sync.Pool }

// minRoom is from which length on room is used again.
const minRoom = 4 << 10

// get gives room for n bytes.
func (r *room) get(n int) []byte {
	if n >= minRoom {
		if b, ok := r.pool.Get().(*[]byte); ok && cap(*b) >= n && cap(*b) <= 2*n {
			return (*b)[:n]
		}
	}
	return make([]byte, n)
}

// put takes the room of a request that nothing refers to any more.
func (r *room) put(data string) {
	if len(data) >= minRoom {
		b := unsafe.Slice(unsafe.StringData(data), len(data))
		r.pool.Put(&b)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// HTTP/2 as far as one stream of gRPC needs it.
const (
	initialWindow = 65535
	maxFrame      = 16384
	grpcHead      = 5
	// ourWindow is what the client may send at once.
	ourWindow = 1 << 20
)

// responseHead is ":status: 200" and "content-type: application/grpc", by HPACK
// without a table.
var responseHead = append([]byte{0x88, 0x0f, 0x10, 16}, "application/grpc"...) //nolint:gochecknoglobals // read-only

// server serves one client at a time over delta ADS. What it sends was encoded
// before; what it is asked for it reads, so as to know what is wanted and that nothing
// was refused. It is safe for concurrent use.
type server struct {
	mu      sync.Mutex
	current map[string]*kind // by type URL
	c       *connection      // nil if there is no client
	refused error            // the first NACK
}

// kind is what there is of a type.
type kind struct {
	typeURL string
	order   []string
	fields  map[string][]byte // by name, as fields of a response
	wanted  map[string]bool   // by name; nil for all
}

// connection is a client's connection, which has one stream.
type connection struct {
	net.Conn
	framer *http2.Framer
	stream uint32
	// windows of the client: of the connection, of the stream, and of new streams.
	// waiting is what they had no room for.
	conn, own, fresh int64
	waiting          []byte
	in               []byte // the beginning of a request
	read             uint32 // bytes of requests that the client does not know to be read
	nonce            int
}

func newServer() *server { return &server{current: map[string]*kind{}} }

// set makes a resource what there is by its name; that is not sent.
func (s *server) set(typeURL, name string, field []byte) {
	k := s.current[typeURL]
	if k == nil {
		k = &kind{typeURL: typeURL, fields: map[string][]byte{}, wanted: map[string]bool{}}
		s.current[typeURL] = k
	}
	if k.fields[name] == nil {
		k.order = append(k.order, name)
	}
	k.fields[name] = field
}

// resourceField encodes a resource as it is in a response.
func resourceField(typeURL, name, version string, m proto.Message) ([]byte, error) {
	body, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	resource := appendText(nil, 3, name)
	resource = appendText(resource, 1, version)
	content := appendText(nil, 1, typeURL)
	content = protowire.AppendBytes(protowire.AppendTag(content, 2, protowire.BytesType), body)
	resource = protowire.AppendBytes(protowire.AppendTag(resource, 2, protowire.BytesType), content)
	return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), resource), nil
}

func appendText(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

// serve serves clients, one after the other, until the context ends.
func (s *server) serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.c != nil {
			_ = s.c.Close()
		}
	})
	defer stop()
	for {
		nc, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.client(nc); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// client serves one connection to its end.
func (s *server) client(nc net.Conn) error {
	defer nc.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(nc, preface); err != nil {
		return nil //nolint:nilerr // somebody who looked whether there is a server
	}
	c := &connection{Conn: nc, framer: http2.NewFramer(nc, nc), conn: initialWindow, fresh: initialWindow}
	s.mu.Lock()
	s.c = c
	for _, k := range s.current {
		k.wanted = map[string]bool{}
	}
	err := errors.Join(
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: ourWindow}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1}),
		c.framer.WriteWindowUpdate(0, ourWindow))
	s.mu.Unlock()
	for err == nil {
		var f http2.Frame
		if f, err = c.framer.ReadFrame(); err == nil {
			s.mu.Lock()
			err = s.frame(c, f)
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c = nil
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// frame works off a frame.
func (s *server) frame(c *connection, f http2.Frame) error {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
			c.own += int64(v) - c.fresh
			c.fresh = int64(v)
		}
		return errors.Join(c.framer.WriteSettingsAck(), c.flush())
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		return c.framer.WritePing(true, f.Data)
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.conn += int64(f.Increment)
		} else {
			c.own += int64(f.Increment)
		}
		return c.flush()
	case *http2.HeadersFrame:
		c.stream, c.own = f.StreamID, c.fresh
		return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: responseHead, EndHeaders: true})
	case *http2.DataFrame:
		if c.read += f.Length; c.read > ourWindow/2 { // seldom: each wakes the client
			n := c.read
			c.read = 0
			if err := errors.Join(c.framer.WriteWindowUpdate(0, n), c.framer.WriteWindowUpdate(f.StreamID, n)); err != nil {
				return err
			}
		}
		return s.data(c, f.Data())
	}
	return nil
}

// data works off the requests in what came.
func (s *server) data(c *connection, b []byte) error {
	c.in = append(c.in, b...)
	for len(c.in) >= grpcHead {
		n := grpcHead + int(c.in[1])<<24 + int(c.in[2])<<16 + int(c.in[3])<<8 + int(c.in[4])
		if len(c.in) < n {
			break
		}
		var r discoveryv3.DeltaDiscoveryRequest
		if err := proto.Unmarshal(c.in[grpcHead:n], &r); err != nil {
			return fmt.Errorf("a request: %w", err)
		}
		c.in = append(c.in[:0], c.in[n:]...)
		if err := s.request(c, &r); err != nil {
			return err
		}
	}
	return nil
}

// request notes what is wanted, and sends it.
func (s *server) request(c *connection, r *discoveryv3.DeltaDiscoveryRequest) error {
	if e := r.GetErrorDetail(); e != nil && s.refused == nil {
		s.refused = fmt.Errorf("the proxy refused %s: %s", r.GetTypeUrl(), e.GetMessage())
	}
	k := s.current[r.GetTypeUrl()]
	if k == nil {
		return nil
	}
	if k.wanted != nil {
		for _, n := range r.GetResourceNamesUnsubscribe() {
			delete(k.wanted, n)
		}
	}
	var fields []byte
	names := r.GetResourceNamesSubscribe()
	if len(names) == 1 && names[0] == "*" || len(names) == 0 && r.GetResponseNonce() == "" {
		k.wanted, names = nil, k.order
	}
	for _, n := range names {
		if k.wanted != nil {
			k.wanted[n] = true
		}
		fields = append(fields, k.fields[n]...)
	}
	if len(fields) == 0 {
		return nil
	}
	return c.send(k.typeURL, fields)
}

// apply makes a change, and sends it if the client wants it.
func (s *server) apply(c change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(c.typeURL, c.name, c.field)
	err := s.update(c.typeURL, c.name)
	if c.again != "" {
		err = errors.Join(err, s.update(endpointType, c.again))
	}
	return err
}

// update sends what there is by a name to a client that wants it.
func (s *server) update(typeURL, name string) error {
	k := s.current[typeURL]
	if s.c == nil || k.wanted != nil && !k.wanted[name] {
		return nil
	}
	return s.c.send(typeURL, k.fields[name])
}

// refusal is what the client has refused first, or nil.
func (s *server) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// send sends a response of such fields.
func (c *connection) send(typeURL string, fields []byte) error {
	c.nonce++
	tail := appendText(appendText(nil, 4, typeURL), 5, strconv.Itoa(c.nonce))
	n := len(fields) + len(tail)
	c.waiting = append(c.waiting, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	c.waiting = append(append(c.waiting, fields...), tail...)
	return c.flush()
}

// flush sends what waits, as far as the windows let it.
func (c *connection) flush() error {
	for c.stream != 0 && len(c.waiting) > 0 {
		n := min(int64(len(c.waiting)), maxFrame, c.conn, c.own)
		if n <= 0 {
			return nil
		}
		if err := c.framer.WriteData(c.stream, false, c.waiting[:n]); err != nil {
			return err
		}
		c.waiting, c.conn, c.own = c.waiting[n:], c.conn-n, c.own-n
	}
	if len(c.waiting) == 0 {
		c.waiting = c.waiting[:0]
	}
	return nil
}

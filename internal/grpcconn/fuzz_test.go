package grpcconn

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// canned is a socket that reads what a test has.
type canned struct {
	plain
	pieces [][]byte
}

func (c *canned) receive() ([]byte, error) {
	if len(c.pieces) == 0 {
		return nil, io.EOF
	}
	b := c.pieces[0]
	c.pieces = c.pieces[1:]
	return b, nil
}

func (c *canned) tryWrite(b []byte) (int, error) { return len(b), nil }
func (c *canned) wake()                          {}
func (c *canned) calm()                          {}
func (c *canned) close(*sync.WaitGroup)          {}

// server is what a server's codec writes.
type server struct{ http2.Handler }

func (server) OnStream(s *http2.Stream)        { s.Headers, s.Trailers = &header.Map{}, &header.Map{} }
func (server) OnHeaders(*http2.Stream, bool)   {}
func (server) OnSettings()                     {}
func (server) OnClosed(*http2.Stream)          {}
func (server) OnFull()                         {}
func (server) OnPingAck([8]byte)               {}
func (server) OnGoAway(uint32, http2.ErrCode)  {}
func (server) OnInformational(s *http2.Stream) {}

func answer(status string, trailers bool, messages ...[]byte) []byte {
	head, tail := &header.Map{}, &header.Map{}
	head.Add(":status", "200")
	head.Add("content-type", "application/grpc")
	tail.Add("grpc-status", status)
	request := &header.Map{}
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}} {
		request.Add(f[0], f[1])
	}
	var peer http2.Conn
	var in []byte
	peer.Init(http2.Client, nil, server{}, &in)
	peer.Start()
	s := &answering{head: head, tail: tail, trailers: trailers, body: framed(messages...)}
	var c http2.Conn
	var out []byte
	c.Init(http2.Server, nil, s, &out)
	c.Start()
	_, _ = peer.OpenStream(request, false, &header.Map{}, &header.Map{}, nil)
	_ = c.Feed(in)
	return out
}

type answering struct {
	server
	head, tail *header.Map
	trailers   bool
	body       []byte
}

func (a *answering) OnHeaders(s *http2.Stream, _ bool) {
	s.SendHeaders(a.head, false)
	s.SendData(a.body, false)
	if a.trailers {
		s.SendTrailers(a.tail)
	}
}

// FuzzServer feeds what a server may send: nothing panics or hangs, and what is
// held is bounded by the windows and the limit of a message.
func FuzzServer(f *testing.F) {
	f.Add(answer("0", true, []byte("one"), nil, make([]byte, 300)), uint16(7))
	f.Add(answer("5", true), uint16(1))
	f.Add(answer("0", false, make([]byte, 1000)), uint16(100))
	f.Fuzz(func(t *testing.T, data []byte, piece uint16) {
		const limit, window = 1 << 10, 1 << 16
		sock := &canned{}
		for n := int(piece) + 1; len(data) > 0; {
			n = min(n, len(data))
			sock.pieces, data = append(sock.pieces, data[:n]), data[n:]
		}
		c := newConn(sock, nil, Options{MaxMessage: limit, Window: window})
		c.h2.Start()
		head := &header.Map{}
		head.Add(":method", "POST")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, err := c.Open(ctx, head)
		if err != nil {
			t.Fatal(err)
		}
		for range len(sock.pieces) + window {
			msg, err := s.Recv()
			if err != nil {
				if _, again := s.Recv(); again == nil {
					t.Error("a message after the end")
				}
				c.Close()
				return
			}
			if len(msg) > limit || cap(s.in.behind) > 4*window || cap(c.out) > 1<<20 {
				t.Fatalf("a message of %d bytes, %d wait, %d to be sent", len(msg), cap(s.in.behind), cap(c.out))
			}
		}
		t.Fatal("more messages than bytes")
	})
}

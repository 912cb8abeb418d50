package grpcconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/testcert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bytesCodec passes messages through.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }
func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// serve runs a server of grpc-go whose streams are handled by play.
func serve(t *testing.T, play func(grpc.ServerStream) error, opts ...grpc.ServerOption) (string, *grpc.Server) {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(append(opts, grpc.ForceServerCodecV2(bytesCodec{}), grpc.MaxRecvMsgSize(64<<20), grpc.UnknownServiceHandler(
		func(_ any, st grpc.ServerStream) error { return play(st) }))...)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String(), srv
}

// echo sends each message back.
func echo(st grpc.ServerStream) error {
	for {
		var m []byte
		if err := st.RecvMsg(&m); err != nil {
			return err
		}
		if err := st.SendMsg(&m); err != nil {
			return err
		}
	}
}

// opaque hides what a connection is, so that it is used as any.
type opaque struct{ net.Conn }

// certificate is that of a server on localhost, and who has signed it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	authority, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue("server")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM())
	return pair, pool
}

// watched counts what is done with the connection that it is around.
type watched struct {
	net.Conn
	read, written atomic.Int64
	closed        atomic.Bool
}

func (w *watched) Carrier() net.Conn { return w.Conn }

func (w *watched) Note(read, written int, _ error) {
	w.read.Add(int64(read))
	w.written.Add(int64(written))
}

func (w *watched) Close() error {
	w.closed.Store(true)
	return w.Conn.Close()
}

// kind is a kind of connection.
type kind struct {
	t    *testing.T
	hide bool
	conf *tls.Config
	opts []grpc.ServerOption
}

// kinds runs a test over a socket, over what is none, and over TLS.
func kinds(t *testing.T, test func(t *testing.T, k kind)) {
	t.Helper()
	for _, hide := range []bool{false, true} {
		t.Run(fmt.Sprintf("opaque=%v", hide), func(t *testing.T) { test(t, kind{t: t, hide: hide}) })
	}
	t.Run("TLS", func(t *testing.T) {
		pair, pool := certificate(t)
		test(t, kind{
			t: t, conf: &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{Protocol}, MinVersion: tls.VersionTLS12},
			opts: []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&pair))},
		})
	})
}

func (k kind) serve(play func(grpc.ServerStream) error, opts ...grpc.ServerOption) (string, *grpc.Server) {
	k.t.Helper()
	return serve(k.t, play, append(opts, k.opts...)...)
}

func (k kind) connect(addr string) *Conn {
	t := k.t
	t.Helper()
	nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if k.hide {
		nc = opaque{nc}
	}
	if k.conf != nil {
		if nc, err = Secure(t.Context(), nc, k.conf); err != nil {
			t.Fatal(err)
		}
	}
	return connected(t, nc)
}

func connected(t *testing.T, nc net.Conn) *Conn {
	t.Helper()
	c, err := Connect(t.Context(), nc, Options{MaxMessage: 16 << 20, Window: 1 << 18, PingAfter: 5 * time.Minute, PingTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func requestTo(path string) *header.Map {
	m := &header.Map{}
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "test"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		m.Add(f[0], f[1])
	}
	return m
}

func opened(t *testing.T, c *Conn) *Stream {
	t.Helper()
	s, err := c.Open(t.Context(), requestTo("/test.Service/Method"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func message(body string) []byte { return append(make([]byte, HeadSize), body...) }

func exchange(t *testing.T, s *Stream, body string) {
	t.Helper()
	if err := s.Send(message(body[:len(body)/2]), []byte(body[len(body)/2:])); err != nil {
		t.Fatal(err)
	}
	got, err := s.Recv()
	if err != nil || string(got) != body {
		t.Fatalf("got %d bytes, %v; sent %d", len(got), err, len(body))
	}
}

// Messages of all sizes come back as they were sent, those too that are larger
// than any window.
func TestEcho(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		for _, opts := range [][]grpc.ServerOption{nil, {grpc.InitialWindowSize(8 << 20), grpc.InitialConnWindowSize(16 << 20)}} {
			addr, _ := k.serve(echo, opts...)
			c := k.connect(addr)
			s := opened(t, c)
			for _, n := range []int{0, 1, 100, 16 << 10, 100 << 10, 5 << 20, 3, 1 << 20} {
				exchange(t, s, strings.Repeat("a", n))
			}
		}
	})
}

// Somebody who looks on sees every byte, and the end, though the connection
// beneath is used.
func TestWatched(t *testing.T) {
	addr, _ := serve(t, echo)
	nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Conn: nc}
	c := connected(t, w)
	exchange(t, opened(t, c), strings.Repeat("a", 1<<20))
	c.Close()
	for what, n := range map[string]int64{"read": w.read.Load(), "written": w.written.Load()} {
		if n < 1<<20 || n > 1<<20+1<<14 {
			t.Errorf("%d bytes are %s", n, what)
		}
	}
	if !w.closed.Load() {
		t.Error("it is not closed")
	}
}

// To send over TLS does not wait either, when the server does not even read its
// socket.
func TestTLSDoesNotWait(t *testing.T) {
	pair, pool := certificate(t)
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &scripted{onRPC: func(s *http2.Stream) { accept(s) }, stop: true}
	p.h2.Init(http2.Server, &http2.Options{StreamWindow: 64 << 20, ConnWindow: 64 << 20}, p, &p.out)
	p.h2.Start()
	var group sync.WaitGroup
	group.Go(func() {
		nc, err := lis.Accept()
		if err != nil {
			return
		}
		p.nc = tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{Protocol}, MinVersion: tls.VersionTLS12})
		p.read()
		<-t.Context().Done()
		_ = nc.Close()
	})
	t.Cleanup(func() { _ = lis.Close(); group.Wait() })
	c := kind{t: t, conf: &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{Protocol}, MinVersion: tls.VersionTLS12}}.connect(lis.Addr().String())
	s := opened(t, c)
	for i := 0; s.TrySend(message(strings.Repeat("a", 64<<10)), nil); i++ {
		if i > 1000 {
			t.Fatal("everything is taken")
		}
	}
}

// Several streams in many goroutines: whoever reads, each stream gets its own.
func TestStreamsShareAConnection(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		addr, _ := k.serve(echo)
		c := k.connect(addr)
		var group sync.WaitGroup
		for g := range 6 {
			group.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(g), 1))
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					s, err := c.Open(ctx, requestTo("/test.Service/Method"))
					if err != nil {
						t.Error(err)
						cancel()
						return
					}
					for i := range 60 {
						want := bytes.Repeat([]byte{byte(g), byte(i)}, rnd.IntN(1<<rnd.IntN(15)))
						if !s.TrySend(append(make([]byte, HeadSize), want...), nil) {
							if err := s.Send(append(make([]byte, HeadSize), want...), nil); err != nil {
								t.Error(err)
							}
						}
						if got, err := s.Recv(); err != nil || !bytes.Equal(got, want) {
							t.Errorf("stream %d, message %d: got %d bytes, %v; want %d", g, i, len(got), err, len(want))
						}
					}
					cancel()
					if _, err := s.Recv(); status.Code(err) != codes.Canceled {
						t.Errorf("after the end of its context a stream has %v", err)
					}
				}
			})
		}
		group.Wait()
	})
}

func TestEndOfAStream(t *testing.T) {
	text := "50% of \u00e4 \x01"
	for name, c := range map[string]struct {
		end  error
		want error
	}{
		"OK":      {nil, io.EOF},
		"status":  {status.Error(codes.NotFound, text), status.Error(codes.NotFound, text)},
		"unnamed": {status.Error(codes.Code(77), ""), status.Error(codes.Code(77), "")},
	} {
		for _, messages := range []int{0, 3} { // without any there are trailers only
			addr, _ := serve(t, func(st grpc.ServerStream) error {
				for range messages {
					if err := st.SendMsg(&[]byte{1}); err != nil {
						return err
					}
				}
				return c.end
			})
			nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			s := opened(t, connected(t, nc))
			for range messages {
				if _, err := s.Recv(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			_, err = s.Recv()
			if !errors.Is(err, c.want) && (status.Code(err) != status.Code(c.want) || status.Convert(err).Message() != status.Convert(c.want).Message()) {
				t.Errorf("%s after %d messages: got %v", name, messages, err)
			}
			if err := s.Send(message("x"), nil); err == nil {
				t.Errorf("%s: something can be sent after the end", name)
			}
			if s.TrySend(message("x"), nil) {
				t.Errorf("%s: something is sent at once after the end", name)
			}
		}
	}
}

func TestMetadataArrives(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		got := make(chan metadata.MD, 1)
		addr, _ := k.serve(func(st grpc.ServerStream) error {
			md, _ := metadata.FromIncomingContext(st.Context())
			got <- md
			return nil
		})
		head := requestTo("/test.Service/Method")
		head.Add("x-key", "value")
		s, err := k.connect(addr).Open(t.Context(), head)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF { //nolint:errorlint // it is not wrapped
			t.Error(err)
		}
		if md := <-got; md.Get("x-key")[0] != "value" || md.Get(":authority")[0] != "test" {
			t.Errorf("got %v", md)
		}
	})
}

// A server that does not read: what cannot go out waits without growing, and who
// waits for it comes back when the context ends.
func TestServerThatDoesNotRead(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		release := make(chan struct{})
		addr, _ := k.serve(func(st grpc.ServerStream) error {
			select {
			case <-release:
			case <-st.Context().Done():
			}
			return nil
		}, grpc.InitialWindowSize(1<<17), grpc.InitialConnWindowSize(1<<18)) // else they grow
		defer close(release)
		c := k.connect(addr)
		ctx, cancel := context.WithCancel(t.Context())
		s, err := c.Open(ctx, requestTo("/test.Service/Method"))
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		for ; s.TrySend(message(strings.Repeat("a", 16<<10)), nil); sent++ {
			if sent > 1000 {
				t.Fatal("everything is taken")
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Send(message("b"), nil) }()
		select {
		case err := <-ended:
			t.Fatalf("it is taken: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("got %v", err)
		}
	})
}

// A server that is slow to read gets everything, in order, while nobody reads
// what it might send.
func TestSlowReader(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		const n = 40
		got := make(chan int, n)
		addr, _ := k.serve(func(st grpc.ServerStream) error {
			for range n {
				var m []byte
				if err := st.RecvMsg(&m); err != nil {
					return err
				}
				got <- len(m)
			}
			return nil
		})
		s := opened(t, k.connect(addr))
		for i := range n {
			if err := s.Send(message(strings.Repeat("a", 50_000+i)), nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			if m := <-got; m != 50_000+i {
				t.Errorf("message %d has %d bytes", i, m)
			}
		}
	})
}

// A message that nobody takes holds up its stream alone.
func TestUnreadStreamHoldsUpNoOther(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		addr, _ := k.serve(func(st grpc.ServerStream) error {
			if method, _ := grpc.MethodFromServerStream(st); method != "/test.Service/Talk" {
				return echo(st)
			}
			m := make([]byte, 10_000)
			for {
				if err := st.SendMsg(&m); err != nil {
					return err
				}
			}
		})
		c := k.connect(addr)
		talk, err := c.Open(t.Context(), requestTo("/test.Service/Talk"))
		if err != nil {
			t.Fatal(err)
		}
		s := opened(t, c)
		for range 200 {
			exchange(t, s, "x")
		}
		c.mu.Lock()
		held := len(talk.in.behind)
		c.mu.Unlock()
		if limit := int(c.o.Window); held == 0 || held > limit {
			t.Errorf("%d bytes wait unread; the window is %d", held, limit)
		}
		for range 200 {
			if m, err := talk.Recv(); err != nil || len(m) != 10_000 {
				t.Fatalf("got %d bytes, %v", len(m), err)
			}
		}
	})
}

// A message beyond the limit ends its stream before there is memory for it.
func TestTooLargeMessage(t *testing.T) {
	addr, _ := serve(t, echo)
	nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Connect(t.Context(), nc, Options{MaxMessage: 1000, Window: 1 << 18})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := opened(t, c)
	exchange(t, s, strings.Repeat("a", 1000))
	if err := s.Send(message(strings.Repeat("a", 1001)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "1001 bytes; at most 1000") {
		t.Errorf("got %v", err)
	}
	exchange(t, opened(t, c), "others go on")
}

// GOAWAY: streams go on, new ones are not opened, and the connection is closed
// with its last stream.
func TestGoAway(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		addr, srv := k.serve(echo)
		c := k.connect(addr)
		ctx, cancel := context.WithCancel(t.Context())
		s, err := c.Open(ctx, requestTo("/test.Service/Method"))
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, s, "before")
		stopped := make(chan struct{})
		go func() { defer close(stopped); srv.GracefulStop() }()
		for i := 0; c.Usable(); i++ {
			exchange(t, s, "meanwhile")
		}
		exchange(t, s, "after")
		if _, err := c.Open(ctx, requestTo("/test.Service/Method")); status.Code(err) != codes.Unavailable {
			t.Errorf("a stream is opened after GOAWAY: %v", err)
		}
		cancel()
		<-stopped
		if _, err := s.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("got %v", err)
		}
		for deadline := time.Now().Add(20 * time.Second); !c.Ended(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the connection goes on without streams")
			}
		}
	})
}

// A server that goes is an error of who waits, and of who comes later.
func TestServerGone(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		addr, srv := k.serve(echo)
		c := k.connect(addr)
		a, b := opened(t, c), opened(t, c)
		exchange(t, a, "x")
		ended := make(chan error, 2)
		for _, s := range []*Stream{a, b} {
			go func() { _, err := s.Recv(); ended <- err }()
		}
		srv.Stop()
		for range 2 {
			if err := <-ended; status.Code(err) != codes.Unavailable {
				t.Errorf("got %v", err)
			}
		}
		if _, err := c.Open(t.Context(), requestTo("/x")); status.Code(err) != codes.Unavailable || c.Usable() {
			t.Errorf("got %v", err)
		}
	})
}

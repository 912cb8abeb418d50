package grpcconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// scripted is a server at the other end of a pipe, in a synctest bubble.
type scripted struct {
	server
	nc net.Conn

	mu    sync.Mutex
	h2    http2.Conn
	out   []byte
	acks  int
	deaf  bool // answers nothing
	stop  bool // to read, when there is a stream
	rpcs  int
	onRPC func(s *http2.Stream)
}

func script(t *testing.T, onRPC func(s *http2.Stream)) (*scripted, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	p := &scripted{nc: theirs, onRPC: onRPC}
	p.h2.Init(http2.Server, nil, p, &p.out)
	p.h2.Start()
	var group sync.WaitGroup
	group.Go(p.read)
	t.Cleanup(func() { _ = theirs.Close(); group.Wait() })
	return p, ours
}

func (p *scripted) read() {
	p.do(func() {})
	b := make([]byte, 64<<10)
	for {
		n, err := p.nc.Read(b)
		if err != nil {
			return
		}
		p.do(func() { _ = p.h2.Feed(b[:n]) })
		if p.stop && p.rpcs > 0 {
			return
		}
	}
}

// do does something with the codec and sends what comes of it.
func (p *scripted) do(f func()) {
	p.mu.Lock()
	f()
	b := p.out
	p.out = nil
	deaf := p.deaf
	p.mu.Unlock()
	if !deaf && len(b) > 0 {
		_, _ = p.nc.Write(b)
	}
}

func (p *scripted) OnHeaders(s *http2.Stream, _ bool)                  { p.rpcs++; p.onRPC(s) }
func (p *scripted) OnData(s *http2.Stream, b []byte, _ bool)           { s.Consumed(len(b)) }
func (p *scripted) OnReset(*http2.Stream, http2.ErrCode, bool, string) {}
func (p *scripted) OnTrailers(*http2.Stream)                           {}
func (p *scripted) OnWritable(*http2.Stream)                           {}
func (p *scripted) OnPingAck([8]byte)                                  { p.acks++ }

func (p *scripted) acked() int { p.mu.Lock(); defer p.mu.Unlock(); return p.acks }

func fields(pairs ...string) *header.Map {
	m := &header.Map{}
	for i := 0; i < len(pairs); i += 2 {
		m.Add(pairs[i], pairs[i+1])
	}
	return m
}

func accept(s *http2.Stream) {
	s.SendHeaders(fields(":status", "200", "content-type", "application/grpc"), false)
}

// While nobody is in Recv, pings are answered, and what comes for others is
// taken; then whoever waits gets its message.
func TestSomebodyStandsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rpc *http2.Stream
		p, nc := script(t, func(s *http2.Stream) { accept(s); rpc = s })
		s := opened(t, connected(t, nc))
		time.Sleep(2 * time.Second) // a pipe holds nothing: somebody has to stand in
		p.do(func() { rpc.SendData(framed([]byte("one")), false) })
		if m, err := s.Recv(); string(m) != "one" || err != nil {
			t.Fatalf("got %q, %v", m, err)
		}
		for i := 1; i < 4; i++ {
			time.Sleep(time.Minute)
			p.do(func() { p.h2.Ping([8]byte{}) })
			if synctest.Wait(); p.acked() != i {
				t.Fatalf("%d of %d pings are answered", p.acked(), i)
			}
		}
		p.do(func() { rpc.SendData(framed([]byte("two"), []byte("three")), false) })
		for _, want := range []string{"two", "three"} {
			if m, err := s.Recv(); string(m) != want || err != nil {
				t.Fatalf("got %q, %v", m, err)
			}
		}
		got := make(chan string)
		go func() { m, _ := s.Recv(); got <- string(m) }()
		synctest.Wait()
		p.do(func() { rpc.SendData(framed([]byte("four")), false) })
		if m := <-got; m != "four" {
			t.Fatalf("got %q", m)
		}
	})
}

// A server that has been silent is pinged while there is a stream; if it does
// not answer, its streams end after just the time that is allowed.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, nc := script(t, accept)
		c := connected(t, nc)
		deaf := func(yes bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.deaf = yes
		}
		time.Sleep(time.Minute)
		deaf(true) // nobody asks: there is no stream
		time.Sleep(time.Hour)
		deaf(false)
		s := opened(t, c)
		start := time.Now()
		go func() {
			time.Sleep(42 * time.Minute)
			deaf(true)
		}()
		_, err := s.Recv()
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "does not answer a ping") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start).Round(time.Second); took < 42*time.Minute+20*time.Second || took > 47*time.Minute+20*time.Second {
			t.Errorf("it took %v", took)
		}
		if c.Usable() {
			t.Error("the connection can be used")
		}
	})
}

// A connection that the server is leaving is closed with its last stream.
func TestLastStreamAfterGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, nc := script(t, accept)
		c := connected(t, nc)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := c.Open(ctx, requestTo("/x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		p.do(p.h2.Shutdown)
		if synctest.Wait(); c.Usable() || c.Ended() {
			t.Errorf("usable: %v, ended: %v", c.Usable(), c.Ended())
		}
		cancel()
		if synctest.Wait(); !c.Ended() {
			t.Error("the connection goes on")
		}
	})
}

// A server that accepts a connection and says nothing is given up with the
// context; so is one that says what is not HTTP/2.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("too slow"))
		defer cancel()
		if _, err := Connect(ctx, ours, Options{MaxMessage: 1, Window: 1 << 16}); err == nil || err.Error() != "too slow" {
			t.Errorf("got %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = theirs.Close()
		}()
		if _, err := Connect(t.Context(), ours, Options{MaxMessage: 1, Window: 1 << 16}); status.Code(err) != codes.Internal {
			t.Errorf("got %v", err)
		}
	})
}

// hungUp is a connection whose other side is gone, which it notices when it is
// written to; what had been said before can be read.
type hungUp struct {
	net.Conn
	failed atomic.Bool
}

func (h *hungUp) Write(b []byte) (int, error) {
	if h.failed.Load() {
		return 0, syscall.EPIPE
	}
	return h.Conn.Write(b)
}

// What a server said before it hung up is read, also when that was noticed by a
// write: it tells why. A server that says nothing is not waited for.
func TestLastWords(t *testing.T) {
	for name, c := range map[string]struct {
		says func(p *scripted)
		want string
		code codes.Code
	}{
		"GOAWAY": {func(p *scripted) {
			p.do(func() { p.h2.GoAway(http2.EnhanceYourCalm, 0, "") })
		}, "ENHANCE_YOUR_CALM", codes.Unavailable},
		"nothing": {func(*scripted) {}, "broken pipe", codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, nc := script(t, accept)
				h := &hungUp{Conn: nc}
				conn := connected(t, h)
				s := opened(t, conn)
				time.Sleep(3 * standInAfter) // a pipe holds nothing: somebody has to stand in
				h.failed.Store(true)
				if err := s.Send(make([]byte, HeadSize), nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if conn.Usable() {
					t.Error("it can be used")
				}
				if _, err := conn.Open(t.Context(), requestTo("/x")); status.Code(err) != codes.Unavailable {
					t.Errorf("a stream: %v", err)
				}
				start := time.Now()
				c.says(p)
				var err error
				for err == nil {
					_, err = s.Recv()
				}
				if status.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took > lastWords {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

// What is no answer of gRPC ends the stream with an error that says what it is.
func TestOtherAnswers(t *testing.T) {
	end := func(head *header.Map) func(s *http2.Stream) {
		return func(s *http2.Stream) { s.SendHeaders(head, true) }
	}
	ok := fields(":status", "200", "content-type", "application/grpc")
	for name, c := range map[string]struct {
		answer func(s *http2.Stream)
		code   codes.Code
		text   string
	}{
		"proxy without a server": {end(fields(":status", "503")), codes.Unavailable, "HTTP status 503"},
		"web page": {func(s *http2.Stream) {
			s.SendHeaders(fields(":status", "200", "content-type", "text/html"), false)
			s.SendData([]byte("<html>"), true)
		}, codes.Unknown, `content-type "text/html"`},
		"status beside another": {end(fields(":status", "503", "grpc-status", "8", "grpc-message", "full")), codes.ResourceExhausted, "full"},
		"no trailers": {func(s *http2.Stream) {
			s.SendHeaders(ok, false)
			s.SendData(nil, true)
		}, codes.Internal, "without trailers"},
		"no status": {func(s *http2.Stream) {
			s.SendHeaders(ok, false)
			s.SendTrailers(fields("x", "y"))
		}, codes.Unknown, "without a grpc-status"},
		"cut off": {func(s *http2.Stream) {
			s.SendHeaders(ok, false)
			s.SendData([]byte{0, 0, 0, 0, 9, 'x'}, false)
			s.SendTrailers(fields("grpc-status", "0"))
		}, codes.Internal, "within a message"},
		"compressed": {func(s *http2.Stream) {
			s.SendHeaders(fields(":status", "200", "content-type", "application/grpc", "grpc-encoding", "gzip"), false)
			s.SendData([]byte{1, 0, 0, 0, 1, 'x'}, false)
		}, codes.Unimplemented, `compressed with "gzip"`},
		"refused": {func(s *http2.Stream) { s.Reset(http2.RefusedStream) }, codes.Unavailable, "REFUSED_STREAM"},
		"calmed":  {func(s *http2.Stream) { s.Reset(http2.EnhanceYourCalm) }, codes.ResourceExhausted, "ENHANCE_YOUR_CALM"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, nc := script(t, c.answer)
				_, err := opened(t, connected(t, nc)).Recv()
				if status.Code(err) != c.code || !strings.Contains(err.Error(), c.text) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

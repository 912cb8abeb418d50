//go:build interop

package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/internal/testpeer"
)

// peer runs a server whose connections are played by a script, until the test
// ends. It returns its port.
func peer(t testing.TB, play func(c *net.TCPConn)) int {
	t.Helper()
	return testpeer.Start(t, func(c net.Conn, _ int) {
		play(c.(*net.TCPConn)) //nolint:forcetypeassert // it listens on TCP
	}).Port()
}

// untilClosed reads until the other side closes.
func untilClosed(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }

// answers is a peer of HTTP/1 that reads a request, with its body, and then
// sends bytes. It does not close the connection.
func answers(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

// ends is answers, and then the end.
func ends(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(c, text)
	}
}

// server2 is the server's side of a connection of HTTP/2.
type server2 struct {
	c   *net.TCPConn
	f   *http2.Framer
	buf []byte // encoded fields
	enc *hpack.Encoder
}

func (s *server2) Write(b []byte) (int, error) {
	s.buf = append(s.buf, b...)
	return len(b), nil
}

// script2 is a peer of HTTP/2 that, after a request's head, plays a script for
// its stream. The script is played for each stream; what else comes is answered
// as it must be.
func script2(play func(s *server2, id uint32)) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		s := &server2{c: c, f: http2.NewFramer(c, c)}
		s.enc = hpack.NewEncoder(s)
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		if s.f.WriteSettings() != nil {
			return
		}
		for {
			f, err := s.f.ReadFrame()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					_ = s.f.WriteSettingsAck()
				}
			case *http2.PingFrame:
				if !f.IsAck() {
					_ = s.f.WritePing(true, f.Data)
				}
			case *http2.HeadersFrame:
				play(s, f.StreamID)
			}
		}
	}
}

// fields encodes a list of names and values.
func (s *server2) fields(list ...string) []byte {
	s.buf = s.buf[:0]
	for i := 0; i+1 < len(list); i += 2 {
		_ = s.enc.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	return s.buf
}

func (s *server2) headers(id uint32, end bool, list ...string) {
	_ = harness.WriteBlock(s.f, id, s.fields(list...), end)
}

func (s *server2) data(id uint32, end bool, text string) {
	s.f.AllowIllegalWrites = true
	_ = s.f.WriteData(id, end, []byte(text))
}

// echo serves the suite's well-behaved upstream server: it answers with the
// request's body, or with a short text.
func echo(t testing.TB, secure bool) int {
	t.Helper()
	return serve(t, secure, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Proto)
		if r.ContentLength == 0 {
			_, _ = io.WriteString(w, "hello")
			return
		}
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	}))
}

// serve runs a server of HTTP/1 and HTTP/2 until the test ends.
func serve(t testing.TB, secure bool, h http.Handler) int {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", secure, h)
}

// serveAt is serve at an address. It returns its port.
func serveAt(t testing.TB, address string, secure bool, h http.Handler) int {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(!secure)
	s.Protocols.SetHTTP2(secure)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if secure {
			_ = s.ServeTLS(l, certificates+"/server.pem", certificates+"/server-key.pem")
		} else {
			_ = s.Serve(l)
		}
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
}

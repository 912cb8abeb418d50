package testpeer

import (
	"fmt"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A connection ends when its play returns; the next has the next number.
func TestPlayEndsTheConnection(t *testing.T) {
	s := Start(t, func(c net.Conn, n int) { fmt.Fprintf(c, "play %d", n) })
	for n := range 3 {
		got, err := io.ReadAll(dial(t, s))
		if want := fmt.Sprintf("play %d", n); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

// A play that waits for its client is ended by HangUp and by Close; after
// HangUp the server goes on, after Close it does not.
func TestHangUpAndClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, "here")
		_, _ = io.Copy(io.Discard, c)
	})
	for _, end := range []func(){s.HangUp, s.Close} {
		c := dial(t, s)
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		end()
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d bytes after the end", n)
		}
	}
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("it accepts connections after Close")
	}
}

//go:build unix

package grpcconn

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

// beneath is what TLS is to be spoken over, and what becomes of it after the
// handshake.
func beneath(nc net.Conn) (under net.Conn, onto func(*tls.Conn) net.Conn) {
	r := newRaw(nc)
	if r == nil {
		return nc, func(t *tls.Conn) net.Conn { return t }
	}
	g := &gentle{raw: r}
	return g, func(t *tls.Conn) net.Conn {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.hasty = true
		return &secured{Conn: t, under: g, buf: make([]byte, plainBuffer)}
	}
}

// gentle is a socket whose Write does not wait once the handshake is over: what
// does not fit stays here.
type gentle struct {
	*raw

	mu       sync.Mutex
	hasty    bool
	draining bool // a goroutine writes rest
	rest     []byte
}

// maxRest is more than a Conn writes at once: what else is written is asked for
// by a server that does not read.
const maxRest = 4 << 20

var errNotRead = errors.New("the server asks for more than it reads")

// Read implements net.Conn.
func (g *gentle) Read(b []byte) (int, error) { return g.readInto(b) }

// Write implements net.Conn.
func (g *gentle) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.hasty {
		return g.Conn.Write(b) //nolint:wrapcheck // as a net.Conn
	}
	n := 0
	if len(g.rest) == 0 && !g.draining {
		var err error
		if n, err = g.raw.tryWrite(b); err != nil {
			return n, err
		}
	}
	if len(g.rest)+len(b)-n > maxRest {
		return n, errNotRead
	}
	g.rest = append(g.rest, b[n:]...)
	return len(b), nil
}

// drain waits until nothing is left.
func (g *gentle) drain() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.rest) > 0 {
		b := g.rest
		g.rest, g.draining = nil, true
		g.mu.Unlock()
		_, err := g.Conn.Write(b)
		g.mu.Lock()
		if g.draining = false; err != nil {
			return err //nolint:wrapcheck // its caller does
		}
	}
	return nil
}

func (g *gentle) left() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.rest) > 0
}

// secured is TLS over a gentle socket.
type secured struct {
	*tls.Conn
	under *gentle
	buf   []byte
}

func (s *secured) receive() ([]byte, error) {
	n, err := s.Read(s.buf)
	return s.buf[:n], err //nolint:wrapcheck // its caller does
}

func (s *secured) release() {}

func (s *secured) tryWrite(b []byte) (int, error) {
	if len(b) == 0 || s.under.left() {
		return 0, nil
	}
	return s.Write(b) //nolint:wrapcheck // its caller does
}

func (s *secured) pending() bool { return s.under.left() }

func (s *secured) write(b []byte) error {
	if err := s.under.drain(); err != nil {
		return err
	}
	if _, err := s.Write(b); err != nil {
		return err //nolint:wrapcheck // its caller does
	}
	return s.under.drain()
}

func (s *secured) wake()  { s.under.wake() }
func (s *secured) calm()  { s.under.calm() }
func (s *secured) hurry() { s.under.hurry() }

// close says goodbye as far as that needs no waiting.
func (s *secured) close(goroutines *sync.WaitGroup) {
	_ = s.CloseWrite()
	s.under.close(goroutines)
}

// Close implements net.Conn for who gives the connection up before it is used.
func (s *secured) Close() error {
	s.close(nil)
	return nil
}

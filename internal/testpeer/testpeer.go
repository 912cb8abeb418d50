// Package testpeer plays, in tests, the servers that the program under test
// connects to.
package testpeer

import (
	"net"
	"sync"
	"testing"
)

// Server accepts connections and has each played by a function. Its methods may
// be called by several goroutines.
type Server struct {
	listener net.Listener
	all      sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// Serve plays the connections of a listener; play gets each, with its number
// from 0 on, and ends it by returning. Close ends the server.
func Serve(l net.Listener, play func(c net.Conn, n int)) *Server {
	s := &Server{listener: l, open: map[net.Conn]bool{}}
	s.all.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.enter(c)
			s.all.Go(func() {
				play(c, n)
				s.leave(c)
			})
		}
	})
	return s
}

// Start serves on a free port of 127.0.0.1 until the test ends.
func Start(t testing.TB, play func(c net.Conn, n int)) *Server {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, play)
	t.Cleanup(s.Close)
	return s
}

func (s *Server) enter(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = true
	if s.closed { // it was accepted while the server was closed
		_ = c.Close()
	}
}

func (s *Server) leave(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Port is the port where the server listens, 0 if that is not TCP.
func (s *Server) Port() int {
	if a, ok := s.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// HangUp closes the connections that are open.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close()
	}
}

// Close closes the listener and every connection, and waits until the last play
// has returned.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.HangUp()
	s.all.Wait()
}

//go:build interop

package differential

import (
	"net"
	"sync"
	"time"
)

// session is what clients of every protocol have: a connection, and a reader
// that tells the one who waits what has come.
type session struct {
	x      *exchange
	rw     net.Conn
	tcp    *net.TCPConn
	events chan struct{} // has an element when something was read

	mu      sync.Mutex // for what the reader finds, here and in the client
	end     string     // why reading ended
	closing bool
}

func newSession(x *exchange, rw net.Conn, tcp *net.TCPConn) *session {
	return &session{x: x, rw: rw, tcp: tcp, events: make(chan struct{}, 1)}
}

// play reads until the connection ends, while act does what the client does;
// act reports whether it has left the connection open.
func (s *session) play(read func() error, act func() (bool, error)) (open bool, err error) {
	var wait sync.WaitGroup
	wait.Go(func() { s.ended(read()) })
	open, err = act()
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	_ = s.rw.Close()
	wait.Wait()
	return open, err
}

// steps does steps until one closes the connection.
func steps(list []step, do func(step) (bool, error)) (open bool, err error) {
	for _, s := range list {
		if open, err := do(s); err != nil || !open {
			return open, err
		}
	}
	return true, nil
}

func (s *session) ended(err error) {
	s.mu.Lock()
	s.end = reason(err)
	if s.closing {
		s.end = "still open"
	}
	s.mu.Unlock()
	s.signal()
}

func (s *session) signal() {
	select {
	case s.events <- struct{}{}:
	default:
	}
}

// until waits for a condition, the end of the connection, or long enough.
func (s *session) until(limit time.Duration, done func() bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		ok := done() || s.end != ""
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.events:
		case <-timer.C:
			return
		}
	}
}

// stay waits for the end of the connection, or long enough.
func (s *session) stay(limit time.Duration) { s.until(limit, func() bool { return false }) }

// stayOn is stay after the last response, unless the exchange says how long.
func (s *session) stayOn(limit time.Duration) {
	if s.x.Linger > 0 {
		limit = s.x.Linger
	}
	s.stay(limit)
}

// report notes how the connection ended, if it was not the client's doing.
func (s *session) report(o *observation, open bool) {
	if open {
		o.set("client.end", s.end)
	}
}

package grpcconn

import (
	"net"
	"sync"
	"time"
)

// socket is a connection as Conn uses it. One goroutine at a time reads, one
// writes.
type socket interface {
	// receive waits for bytes. They last until release.
	receive() ([]byte, error)
	release()
	// tryWrite takes what it can take without waiting, and says how much.
	tryWrite(b []byte) (int, error)
	// pending reports whether something that tryWrite took has yet to go out.
	pending() bool
	// write waits until b and what is pending has gone out.
	write(b []byte) error
	// wake ends a receive that waits, or the next one, with
	// os.ErrDeadlineExceeded; calm undoes it.
	wake()
	calm()
	// hurry ends a receive that waits for longer than lastWords.
	hurry()
	// close does not wait. What it leaves behind is among the goroutines.
	close(goroutines *sync.WaitGroup)
}

// Watched is a connection around another that may be read and written in its
// stead, if what is done there is noted. It is closed itself.
type Watched interface {
	net.Conn
	// Carrier is the other connection.
	Carrier() net.Conn
	// Note says what has been read or written, and the error.
	Note(read, written int, err error)
}

// newSocket makes the best of a connection.
func newSocket(c net.Conn) socket {
	w, ok := c.(Watched)
	if !ok {
		if s := ofSystem(c); s != nil {
			return s
		}
		return newPlain(c)
	}
	if s := ofSystem(w.Carrier()); s != nil {
		return &noted{socket: s, w: w}
	}
	return newPlain(c)
}

// noted is the socket of a Watched connection.
type noted struct {
	socket
	w Watched
}

func (n *noted) receive() ([]byte, error) {
	b, err := n.socket.receive()
	n.w.Note(len(b), 0, err)
	return b, err //nolint:wrapcheck // its caller does
}

func (n *noted) tryWrite(b []byte) (int, error) {
	k, err := n.socket.tryWrite(b)
	if k > 0 || err != nil {
		n.w.Note(0, k, err)
	}
	return k, err //nolint:wrapcheck // its caller does
}

func (n *noted) write(b []byte) error {
	err := n.socket.write(b)
	if err != nil {
		b = nil
	}
	n.w.Note(0, len(b), err)
	return err //nolint:wrapcheck // its caller does
}

// close does not wait, since that of a socket does not.
func (n *noted) close(*sync.WaitGroup) { _ = n.w.Close() }

// plain is any connection: to know that a write does not wait is not possible,
// so that all are left to the goroutine that may.
type plain struct {
	net.Conn
	buf []byte
}

// plainBuffer is as much as a record of TLS holds.
const plainBuffer = 16 << 10

func newPlain(c net.Conn) *plain { return &plain{Conn: c, buf: make([]byte, plainBuffer)} }

func (p *plain) receive() ([]byte, error) {
	n, err := p.Read(p.buf)
	return p.buf[:n], err //nolint:wrapcheck // its caller does
}

func (p *plain) release()                     {}
func (p *plain) tryWrite([]byte) (int, error) { return 0, nil }
func (p *plain) pending() bool                { return false }

func (p *plain) write(b []byte) error {
	_, err := p.Write(b)
	return err //nolint:wrapcheck // its caller does
}

func (p *plain) wake()  { _ = p.SetReadDeadline(longAgo()) } // fails if it is closed
func (p *plain) calm()  { _ = p.SetReadDeadline(time.Time{}) }
func (p *plain) hurry() { _ = p.SetReadDeadline(time.Now().Add(lastWords)) }

// close does not wait for the goodbye of TLS.
func (p *plain) close(goroutines *sync.WaitGroup) { goroutines.Go(func() { _ = p.Conn.Close() }) }

func longAgo() time.Time { return time.Unix(1, 0) }

//go:build unix

package grpcconn

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// readSize is as much as is read at a time.
const readSize = 64 << 10

// raw is a socket of the system. It is read and written without a word to the
// runtime's scheduler (rawRead, rawWrite), since neither call waits: what waits
// is the runtime's poller.
type raw struct {
	net.Conn
	rc syscall.RawConn

	// spare is the memory that is read into. None is held while nothing comes.
	spare sync.Pool
	in    *[readSize]byte
	to    []byte // where to read instead
	got   int
	inErr error
	onIn  func(fd uintptr) bool

	left   []byte
	outErr error
	onOut  func(fd uintptr) bool
}

// newRaw is nil for what is no socket of the system.
func newRaw(c net.Conn) *raw {
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return nil
	}
	rc, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil
	}
	r := &raw{Conn: c, rc: rc}
	r.onIn, r.onOut = r.readable, r.writable
	return r
}

// ofSystem is a socket that can be written without waiting, or nil.
func ofSystem(c net.Conn) socket {
	if s, ok := c.(*secured); ok {
		return s
	}
	if r := newRaw(c); r != nil {
		return r
	}
	return nil
}

func (r *raw) receive() ([]byte, error) {
	r.to = nil
	if err := r.rc.Read(r.onIn); err != nil {
		return nil, err //nolint:wrapcheck // its caller does
	}
	if r.inErr != nil || r.in == nil {
		return nil, r.inErr
	}
	return r.in[:r.got], nil
}

func (r *raw) release() {
	if r.in != nil {
		r.spare.Put(r.in)
		r.in = nil
	}
}

// readInto reads as io.Reader does.
func (r *raw) readInto(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	r.to = b
	if err := r.rc.Read(r.onIn); err != nil {
		return 0, err //nolint:wrapcheck // its caller does
	}
	return r.got, r.inErr
}

// readable tries to read; false waits until there is something.
func (r *raw) readable(fd uintptr) bool {
	b := r.to
	if b == nil {
		var ok bool
		if r.in, ok = r.spare.Get().(*[readSize]byte); !ok {
			r.in = new([readSize]byte)
		}
		b = r.in[:]
	}
	n, e := rawRead(fd, b)
	for e == syscall.EINTR {
		n, e = rawRead(fd, b)
	}
	r.got, r.inErr = max(n, 0), nil
	switch {
	case e == syscall.EAGAIN:
		r.release()
		return false
	case e != 0:
		r.inErr = os.NewSyscallError("read", e)
	case n == 0:
		r.inErr = io.EOF
	}
	return true
}

func (r *raw) tryWrite(b []byte) (int, error) {
	r.left, r.outErr = b, nil
	if err := r.rc.Write(r.onOut); err != nil {
		return 0, err //nolint:wrapcheck // its caller does
	}
	n := len(b) - len(r.left)
	r.left = nil
	return n, r.outErr
}

// writable writes what the socket takes, and never waits.
func (r *raw) writable(fd uintptr) bool {
	for len(r.left) > 0 {
		n, e := rawWrite(fd, r.left)
		switch e {
		case 0:
			r.left = r.left[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			return true
		default:
			r.outErr = os.NewSyscallError("write", e)
			return true
		}
	}
	return true
}

func (r *raw) pending() bool { return false }

func (r *raw) write(b []byte) error {
	_, err := r.Write(b)
	return err //nolint:wrapcheck // its caller does
}

func (r *raw) wake()  { _ = r.SetReadDeadline(longAgo()) } // fails if it is closed
func (r *raw) calm()  { _ = r.SetReadDeadline(time.Time{}) }
func (r *raw) hurry() { _ = r.SetReadDeadline(time.Now().Add(lastWords)) }

func (r *raw) close(*sync.WaitGroup) { _ = r.Conn.Close() }

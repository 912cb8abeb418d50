package tlsio

import (
	"io"
	"net"
	"sync"
	"time"
)

// again is what the connection below crypto/tls answers when it has nothing to
// read. Because it says it is temporary, crypto/tls does not keep it.
type again struct{}

func (again) Error() string   { return "no ciphertext to read" }
func (again) Timeout() bool   { return false }
func (again) Temporary() bool { return true }

// wire is the connection that crypto/tls believes it has. While the handshake
// runs it belongs to the handshake's goroutine and works on what it shares
// with the worker; afterwards it belongs to the worker alone.
type wire struct {
	pool          *buffers
	local, remote net.Addr

	// shared is nil unless a handshake runs.
	shared *exchange

	borrowed []byte  // received, owned by the caller until Settle
	kept     *buffer // received earlier than borrowed
	out      *buffer // to send

	records framing

	// eof: the transport has ended; eofGiven: crypto/tls was told.
	eof, eofGiven bool

	// chosen is the certificate that a server presented.
	chosen *certificate
}

func (w *wire) Read(p []byte) (int, error) {
	if w.shared != nil {
		return w.shared.read(p, &w.records)
	}
	switch {
	case w.kept != nil:
		n := w.records.take(p, w.kept.bytes())
		w.kept = w.pool.drop(w.kept, n)
		return n, nil
	case len(w.borrowed) > 0:
		n := w.records.take(p, w.borrowed)
		w.borrowed = w.borrowed[n:]
		return n, nil
	case w.eof:
		w.eofGiven = true
		return 0, io.EOF
	default:
		return 0, again{}
	}
}

func (w *wire) Write(p []byte) (int, error) {
	if w.shared != nil {
		return w.shared.write(p)
	}
	w.out = w.pool.add(w.out, p)
	return len(p), nil
}

// hungry reports whether crypto/tls has been given everything there is, and no
// part of a record.
func (w *wire) hungry() bool {
	return w.kept == nil && len(w.borrowed) == 0 && !w.eof && w.records.between()
}

// framing follows the records that go to crypto/tls, so that it is given the
// rest of one record at a time at most. It would take more, but then keep the
// beginning of the next record in a buffer that grows to several records and
// never shrinks.
type framing struct {
	head [recordHeader]byte
	have int // bytes of the header
	left int // bytes of the body still to come
}

const recordHeader = 5

// take copies from data what may be given at once.
func (f *framing) take(p, data []byte) int {
	if f.left > 0 {
		n := copy(p, data[:min(len(data), f.left)])
		f.left -= n
		return n
	}
	n := copy(p, data[:min(len(data), recordHeader-f.have)])
	f.have += copy(f.head[f.have:], data[:n])
	if f.have == recordHeader {
		f.have, f.left = 0, int(f.head[3])<<8|int(f.head[4])
	}
	return n
}

func (f *framing) between() bool { return f.have == 0 && f.left == 0 }

// Close does nothing: the worker owns the socket.
func (w *wire) Close() error                     { return nil }
func (w *wire) LocalAddr() net.Addr              { return orUnknown(w.local) }
func (w *wire) RemoteAddr() net.Addr             { return orUnknown(w.remote) }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

type unknownAddr struct{}

func (unknownAddr) Network() string { return "unknown" }
func (unknownAddr) String() string  { return "unknown" }

func orUnknown(a net.Addr) net.Addr {
	if a == nil {
		return unknownAddr{}
	}
	return a
}

// exchange is what the worker and the handshake's goroutine share. It lives as
// long as the handshake.
type exchange struct {
	mu      sync.Mutex
	arrived sync.Cond
	// Below: guarded by mu.
	in       []byte
	out      []byte
	eof      bool
	err      error // why the handshake must end
	notified bool  // the worker was told of output and has not come yet

	// notify tells the worker that there is output. It is set before the
	// goroutine starts.
	notify func()
}

func newExchange() *exchange {
	x := &exchange{}
	x.arrived.L = &x.mu
	return x
}

func (x *exchange) feed(data []byte) {
	x.mu.Lock()
	x.in = append(x.in, data...)
	x.mu.Unlock()
	x.arrived.Signal()
}

func (x *exchange) end() {
	x.mu.Lock()
	x.eof = true
	x.mu.Unlock()
	x.arrived.Signal()
}

// abort makes the handshake fail at its next read or write. The first error
// counts.
func (x *exchange) abort(err error) {
	x.mu.Lock()
	if x.err == nil {
		x.err = err
	}
	x.mu.Unlock()
	x.arrived.Signal()
}

func (x *exchange) read(p []byte, records *framing) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.in) == 0 && !x.eof && x.err == nil {
		x.arrived.Wait()
	}
	switch {
	case x.err != nil:
		return 0, x.err
	case len(x.in) > 0:
		n := records.take(p, x.in)
		x.in = x.in[n:]
		return n, nil
	default:
		return 0, errTransportEnded
	}
}

func (x *exchange) write(p []byte) (int, error) {
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		return 0, x.err
	}
	x.out = append(x.out, p...)
	tell := !x.notified
	x.notified = true
	x.mu.Unlock()
	if tell {
		x.notify()
	}
	return len(p), nil
}

// collect takes what the handshake wants to send.
func (x *exchange) collect() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.out
	x.out, x.notified = nil, false
	return out
}

// waiting is the number of bytes received and not yet looked at.
func (x *exchange) waiting() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.in)
}

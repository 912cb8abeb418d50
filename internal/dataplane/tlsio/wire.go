package tlsio

import (
	"io"
	"net"
	"time"
)

// again is what the connection below crypto/tls answers when it has nothing to
// read. Because it says it is temporary, crypto/tls does not keep it.
type again struct{}

func (again) Error() string   { return "no ciphertext to read" }
func (again) Timeout() bool   { return false }
func (again) Temporary() bool { return true }

// wire is the connection that crypto/tls believes it has. While the handshake
// runs it works on what that has; afterwards on what the worker has.
type wire struct {
	pool          *buffers
	local, remote net.Addr

	// hands is nil unless a handshake runs.
	hands *handshake

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
	if w.hands != nil {
		return w.hands.read(p, &w.records)
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
	if w.hands != nil {
		return w.hands.write(p)
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

package tlsio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
)

// ConnInfo is what a server session knows about its connection; both addresses
// may be nil.
type ConnInfo struct {
	Local, Remote net.Addr
}

// Session is the TLS of one connection. Except for the costly parts of the
// handshake, which run on goroutines of their own between Start and the call of
// done, it belongs to one worker: all methods are called there and nowhere else. It
// does no I/O.
//
// Every call may leave something to send: look at Output after Read, Write,
// CloseNotify and in the callbacks of Start.
//
// What a peer must present is checked within the handshake (TS-08…TS-11): once
// done was called with nil, it was.
type Session struct {
	conn *tls.Conn
	wire wire
	ctx  sessionContext

	state   sessionState
	shaken  bool // the handshake is over, well or not
	aborted bool
	// drained: crypto/tls holds no plaintext.
	drained bool
	readErr error
	failure *Failure
	result  outcome
	info    *Info // made when first asked for
}

// outcome is what came of a handshake.
type outcome struct {
	negotiated Negotiated
	verdict    verdict
	err        error
}

// verdict is what was found out about the peer's certificate.
type verdict struct {
	validated bool         // it was verified and found good
	tolerated FailureClass // it was found bad and let pass
}

// sessionContext is what a session asks of the context it was made from.
type sessionContext interface {
	// accept has the last word on a handshake that crypto/tls has finished, as a
	// part of it.
	accept(cs *tls.ConnectionState, n Negotiated) (verdict, error)
	// answers: the peer begins.
	answers() bool
	// asks: the peer may have to show a certificate.
	asks() bool
	// local is the certificate presented to the peer, nil if there is none.
	local(w *wire) *certificate
}

type sessionState uint8

const (
	stateNew sessionState = iota
	stateHandshaking
	stateOpen
	stateFailed
)

// Start begins the handshake. A server's takes no goroutine before something has
// been fed. The callbacks run on the worker, through post, which reports false if
// the worker is gone, or within Borrow and Feed: onOutput each time there is
// something new in Output, done once at the end, with nil or why the handshake
// failed (a [*Failure]). The end of ctx fails the handshake with its cause. After
// Abort neither is called any more.
//
// When done is called with nil, plaintext may be waiting already: Read until
// ErrAgain. When it is called with an error, Output may hold an alert that
// should be sent before closing.
func (s *Session) Start(ctx context.Context, post func(func()) bool, onOutput func(), done func(error)) {
	if s.state != stateNew {
		return
	}
	s.state = stateHandshaking
	h := &handshake{s: s, post: post, onOutput: onOutput, done: done, in: s.takeReceived(), ended: s.wire.eof}
	s.wire.hands = h
	h.forget = context.AfterFunc(ctx, func() { post(func() { h.fail(context.Cause(ctx)) }) })
	if !s.ctx.answers() || len(h.in) > 0 || h.ended {
		h.advance()
	}
}

// shake is the whole handshake.
func (s *Session) shake() outcome {
	// Not HandshakeContext: it would take one more goroutine to watch the
	// context, which Start does without.
	err := s.conn.Handshake() //nolint:noctx // see above
	cs := s.conn.ConnectionState()
	n := negotiated(&cs)
	if err != nil {
		return outcome{negotiated: n, err: err}
	}
	v, err := s.ctx.accept(&cs, n)
	return outcome{negotiated: n, verdict: v, err: err}
}

// settleHandshake takes what a handshake that is over has left.
func (s *Session) settleHandshake(h *handshake) {
	s.wire.hands = nil
	s.result, s.shaken = h.result, true
	if err := h.result.err; err != nil {
		s.state = stateFailed
		s.failure = failureOf(err)
		s.readErr = s.failure
		return
	}
	s.wire.kept = s.wire.pool.add(nil, h.in)
	s.state = stateOpen
}

// takeReceived empties what was fed before Start.
func (s *Session) takeReceived() []byte {
	var in []byte
	if s.wire.kept != nil {
		in = append(in, s.wire.kept.bytes()...)
		s.wire.pool.put(s.wire.kept)
		s.wire.kept = nil
	}
	in = append(in, s.wire.borrowed...)
	s.wire.borrowed = nil
	return in
}

// Feed hands over ciphertext that was received. It is copied: the slice may be
// used again at once. Borrow saves the copy.
func (s *Session) Feed(cipher []byte) {
	s.Borrow(cipher)
	s.Settle()
}

// Borrow hands over ciphertext that was received without copying it: Read takes it from
// where it is. The slice must stay as it is until Settle was called.
func (s *Session) Borrow(cipher []byte) {
	switch {
	case len(cipher) == 0 || s.state == stateFailed:
	case s.wire.hands != nil:
		s.wire.hands.feed(cipher)
	case s.wire.kept != nil || len(s.wire.borrowed) > 0:
		s.Settle()
		s.wire.kept = s.wire.pool.add(s.wire.kept, cipher)
	default:
		s.wire.borrowed = cipher
	}
}

// Settle ends Borrow: what Read has left of the slice is copied.
func (s *Session) Settle() {
	if len(s.wire.borrowed) > 0 {
		s.wire.kept = s.wire.pool.add(s.wire.kept, s.wire.borrowed)
	}
	s.wire.borrowed = nil
}

// FeedEOF says that the peer has closed the transport. Read reports it after
// everything before: io.EOF if the peer said close_notify first, else
// io.ErrUnexpectedEOF. A handshake fails.
func (s *Session) FeedEOF() {
	s.wire.eof = true
	if s.wire.hands != nil {
		s.wire.hands.end()
	}
}

// Buffered is the number of bytes fed and not yet taken by Read or the
// handshake. A caller that sees it grow beyond what it wants to hold (64 KB
// are ample) stops reading its socket.
func (s *Session) Buffered() int {
	if s.wire.hands != nil {
		return s.wire.hands.waiting()
	}
	n := len(s.wire.borrowed)
	if s.wire.kept != nil {
		n += len(s.wire.kept.bytes())
	}
	return n
}

// Read decrypts into dst, at most one record (16 KB) at a time. It returns
// ErrAgain when there is nothing to read before the next Feed (also while the
// handshake runs), io.EOF after the peer's close_notify,
// io.ErrUnexpectedEOF when the transport ended without one, and a [*Failure]
// for everything else; all but ErrAgain are final. It does not allocate.
func (s *Session) Read(dst []byte) (int, error) {
	if s.readErr != nil {
		return 0, s.readErr
	}
	if s.state != stateOpen {
		return 0, ErrAgain
	}
	if s.drained && s.wire.hungry() {
		return 0, ErrAgain // asking crypto/tls in vain is not free
	}
	n, err := s.conn.Read(dst)
	s.drained = n < len(dst)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, again{}):
		if n == 0 {
			return 0, ErrAgain
		}
		return n, nil
	}
	s.readErr = s.finalRead(err)
	if n > 0 {
		return n, nil
	}
	return 0, s.readErr
}

// finalRead tells how reading ended. crypto/tls reports the end of the
// transport between two records as io.EOF, like a close_notify.
func (s *Session) finalRead(err error) error {
	switch {
	case s.wire.eofGiven && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return io.EOF
	default:
		s.failure = failureOf(err)
		return s.failure
	}
}

// Write encrypts all of plain into the output, in records of up to 16 KB. It
// fails before the end of the handshake, after CloseNotify, and after Read has
// found the peer to break the protocol. It does not allocate once the output's
// buffers have the size they need.
func (s *Session) Write(plain []byte) error {
	switch s.state {
	case stateOpen:
	case stateFailed:
		return s.failure
	default:
		return errNotOpen
	}
	if len(plain) == 0 {
		return nil
	}
	if _, err := s.conn.Write(plain); err != nil {
		return fmt.Errorf("encrypting: %w", err)
	}
	return nil
}

// Output is ciphertext to send. The slice is good until the next call of any
// method.
func (s *Session) Output() []byte {
	if s.wire.out == nil {
		return nil
	}
	return s.wire.out.bytes()
}

// Consumed says that the first n bytes of Output were sent. An empty output
// holds no memory.
func (s *Session) Consumed(n int) {
	if s.wire.out != nil {
		s.wire.out = s.wire.pool.drop(s.wire.out, min(max(n, 0), len(s.wire.out.bytes())))
	}
}

// CloseNotify puts a close_notify alert into the output: no Write succeeds any
// more, Read goes on. Before the end of the handshake it does nothing.
func (s *Session) CloseNotify() {
	if s.state == stateOpen {
		_ = s.conn.CloseWrite() // the only error is that one was sent before
	}
}

// Abort ends the session: what runs of a handshake stops soon and calls nothing any
// more, what was buffered is gone. The error is what Read, Write and
// FailureReason tell from then on, unless they knew a reason already. Call it
// also when a connection is closed in an orderly way; it is then only the
// release of memory.
func (s *Session) Abort(err error) {
	if err == nil {
		err = net.ErrClosed
	}
	if s.wire.hands != nil {
		s.wire.hands.abort(err)
	}
	s.release()
	if s.failure == nil {
		s.failure = &Failure{Reason: err.Error(), Err: err}
	}
	if s.readErr == nil {
		s.readErr = s.failure
	}
	s.state, s.aborted = stateFailed, true
}

func (s *Session) release() {
	s.wire.borrowed = nil
	for _, b := range []**buffer{&s.wire.kept, &s.wire.out} {
		if *b != nil {
			s.wire.pool.put(*b)
			*b = nil
		}
	}
}

// Open reports whether the handshake has succeeded and the session was not
// aborted.
func (s *Session) Open() bool { return s.state == stateOpen }

// Negotiated is what the handshake agreed on; the zero value before its end,
// and as far as it got if it failed. Count it only after done was called with
// nil.
func (s *Session) Negotiated() Negotiated { return s.result.negotiated }

// Tolerated is the class of failure that the peer's certificate would have
// had, were it not for ACCEPT_UNTRUSTED; ClassNone if it is good. Envoy counts
// it although the handshake succeeds.
func (s *Session) Tolerated() FailureClass { return s.result.verdict.tolerated }

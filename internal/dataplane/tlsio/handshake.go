package tlsio

import (
	"iter"
)

// handshake is a session's while it shakes hands. crypto/tls does that in one call,
// which reads and writes as if it could wait. It is a coroutine: where it would wait
// it gives way, and goes on when there is more to read. So whoever has the time can
// take each of its steps: those that compute long a goroutine of their own, those
// that do not the worker, which spares it and the system two changes of threads.
//
// It belongs to the worker, but for the time of a step that runs elsewhere, in which
// the worker touches nothing but later and cause.
type handshake struct {
	s        *Session
	post     func(func()) bool
	onOutput func()
	done     func(error)
	forget   func() bool // the context

	next  func() (struct{}, bool) // takes a step; nil before the first
	stop  func()
	yield func(struct{}) bool

	in      []byte // received and not read
	out     []byte // to be sent
	ended   bool   // nothing follows in
	err     error  // why it must end
	running bool   // a step runs elsewhere
	taken   int    // what in was when that began
	later   []byte // received since then
	cause   error  // what err is to be
	light   bool   // what is left does not compute long
	over    bool
	result  outcome
}

// feed takes received bytes.
func (h *handshake) feed(data []byte) {
	if h.running {
		h.later = append(h.later, data...)
		return
	}
	h.in = append(h.in, data...)
	h.advance()
}

// end takes the end of the transport, of which there is no news before the caller
// has returned.
func (h *handshake) end() {
	h.post(func() { h.fail(nil) })
}

// fail makes the handshake fail, with an error or since the transport has ended.
func (h *handshake) fail(err error) {
	if h.s.wire.hands != h {
		return
	}
	if h.cause == nil {
		h.cause = err
	}
	h.resume()
}

// resume takes another step, if there is a reason to.
func (h *handshake) resume() {
	if h.running {
		return
	}
	h.ended, h.err = h.s.wire.eof, h.cause
	if len(h.in) > 0 || h.ended || h.err != nil {
		h.advance()
	}
}

// waiting is the number of bytes received and not yet looked at.
func (h *handshake) waiting() int {
	if h.running {
		return h.taken + len(h.later)
	}
	return len(h.in)
}

// advance takes a step, where that is best done.
func (h *handshake) advance() {
	if h.light {
		h.step()
		h.stepped()
		return
	}
	h.running, h.taken = true, len(h.in)
	go func() {
		h.step()
		if !h.post(h.stepped) {
			h.quit()
		}
	}()
}

// step runs the handshake until it has to wait, or is over.
func (h *handshake) step() {
	if h.next == nil {
		h.next, h.stop = iter.Pull(func(yield func(struct{}) bool) {
			growStack(0)
			h.yield = yield
			h.result = h.s.shake()
			h.over = true
		})
	}
	h.next()
}

// quit ends the coroutine, which fails at what it reads.
func (h *handshake) quit() {
	if h.stop != nil {
		h.stop()
	}
}

// stepped follows a step, on the worker.
func (h *handshake) stepped() {
	s := h.s
	if s.state != stateHandshaking { // given up meanwhile
		h.quit()
		s.wire.hands = nil
		return
	}
	if h.running {
		h.running = false
		h.in, h.later = append(h.in, h.later...), nil
	}
	out := h.out
	h.out = nil
	s.wire.out = s.wire.pool.add(s.wire.out, out)
	if h.over {
		h.forget()
		s.settleHandshake(h)
	} else {
		h.light = h.light || s.ctx.answers() && !s.ctx.asks() && encrypted(out)
	}
	if len(out) > 0 {
		h.onOutput()
	}
	switch {
	case s.aborted: // by onOutput
	case !h.over:
		h.resume()
	case s.failure != nil:
		h.done(s.failure)
	default:
		h.done(nil)
	}
}

// encrypted reports whether the last of some records is encrypted as in TLS 1.3.
// When a server has sent that, it has signed and agreed on keys, and has but the end
// of the client's handshake to look at.
func encrypted(records []byte) bool {
	const applicationData = 23
	var kind byte
	for len(records) >= recordHeader {
		kind = records[0]
		n := recordHeader + int(records[3])<<8 + int(records[4])
		records = records[min(n, len(records)):]
	}
	return kind == applicationData
}

// abort ends the handshake without a word.
func (h *handshake) abort(err error) {
	h.forget()
	if h.running {
		return // stepped finds it aborted
	}
	h.err = err
	h.quit()
	h.s.wire.hands = nil
}

// read is what crypto/tls reads.
func (h *handshake) read(p []byte, records *framing) (int, error) {
	for len(h.in) == 0 && !h.ended && h.err == nil {
		if !h.yield(struct{}{}) && h.err == nil {
			h.err = errTransportEnded
		}
	}
	switch {
	case h.err != nil:
		return 0, h.err
	case len(h.in) > 0:
		n := records.take(p, h.in)
		h.in = h.in[n:]
		return n, nil
	default:
		return 0, errTransportEnded
	}
}

// write takes what crypto/tls writes.
func (h *handshake) write(p []byte) (int, error) {
	if h.err != nil {
		return 0, h.err
	}
	h.out = append(h.out, p...)
	return len(p), nil
}

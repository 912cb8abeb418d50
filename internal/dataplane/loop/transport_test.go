//go:build linux

package loop

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
)

// cipher is a transport socket of our own. Both sides begin with a greeting, which
// says what they will speak, then every byte goes over the wire changed. It
// notes what it is asked to do.
type cipher struct {
	greeting string // that it sends
	calls    []string

	done    func(error)
	in, out []byte
	open    bool
	eof     bool
	spoken  string
}

var errGreeting = errors.New("no such greeting")

func (c *cipher) note(call string) {
	if !slices.Contains(c.calls, call) {
		c.calls = append(c.calls, call)
	}
}

func (c *cipher) Start(post func(func()) bool, onOutput func(), done func(error)) {
	c.note("start")
	c.done = done
	c.out = append(c.out, c.greeting+"\n"...)
	post(onOutput)
}

func (c *cipher) Borrow(received []byte) { c.in = append(c.in, received...) }

func (c *cipher) Settle() {
	if c.open {
		return
	}
	greeting, rest, ok := strings.Cut(string(c.in), "\n")
	if !ok {
		return
	}
	c.in = []byte(rest)
	protocol, known := strings.CutPrefix(greeting, "hi ")
	if !known {
		c.done(errGreeting)
		return
	}
	c.open, c.spoken = true, protocol
	c.note("connected")
	c.done(nil)
}

func (c *cipher) FeedEOF()      { c.note("eof"); c.eof = true }
func (c *cipher) Buffered() int { return len(c.in) }

func (c *cipher) Read(dst []byte) (int, error) {
	switch {
	case len(c.in) > 0:
		c.note("read")
		n := copy(dst, c.in)
		c.in = c.in[n:]
		garble(dst[:n])
		return n, nil
	case c.eof:
		return 0, io.EOF
	}
	return 0, ErrAgain
}

func (c *cipher) Write(data []byte) error {
	c.note("write")
	data = bytes.Clone(data)
	garble(data)
	c.out = append(c.out, data...)
	return nil
}

func garble(b []byte) {
	for i := range b {
		b[i] ^= 0x55
	}
}

func (c *cipher) Output() []byte   { return c.out }
func (c *cipher) Consumed(n int)   { c.out = c.out[n:] }
func (c *cipher) Protocol() string { return c.spoken }
func (c *cipher) CloseNotify()     { c.note("close") }
func (c *cipher) Abort(error)      { c.note("gone") }

// asker sends a question when the connection is open, and ends it with the answer.
type asker struct {
	c      *Conn
	opened bool
	got    string
	over   chan error
	why    Reason
}

func (a *asker) OnOpen() {
	a.opened = true
	a.c.Write([]byte("question"))
}

func (a *asker) OnData(data []byte) {
	if a.got += string(data); a.got == "question" {
		a.c.Close(0)
	}
}
func (*asker) OnEnd()     {}
func (*asker) OnBlocked() {}
func (*asker) OnDrained() {}
func (a *asker) OnClose(why Reason, err error) {
	a.why = why
	a.over <- err
}

// meet lets a connection with one socket call at one with another.
func meet(t *testing.T, o Options, up, down Transport) (*asker, error) {
	t.Helper()
	l := start(t, o)
	closed := make(chan Reason, 1)
	addr := listen(t, l, o, func(c *Conn, _ filter.Address) {
		c.SetHandler(&echo{c: c, closed: closed})
		if down != nil {
			c.SetTransport(down)
		}
	})
	a := &asker{over: make(chan error, 1)}
	l.Post(func() {
		a.c = l.Dial(filter.Address{IP: netip.MustParseAddrPort(addr)}, &DialOptions{Transport: up}, a)
	})
	err := <-a.over
	<-closed
	return a, err
}

// Proves TS-01: one interface is that of both sides' sockets, whatever they are;
// without one, bytes go as they are. Who uses the connection learns of it when the
// socket is connected, and of why it could not be.
func TestTransportSockets(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		t.Run("own", func(t *testing.T) {
			up, down := &cipher{greeting: "hi one"}, &cipher{greeting: "hi two"}
			a, err := meet(t, o, up, down)
			if err != nil || a.why != Local || a.got != "question" {
				t.Errorf("%q, %v: %v", a.got, a.why, err)
			}
			if up.Protocol() != "two" || down.Protocol() != "one" {
				t.Errorf("protocols %q, %q", up.Protocol(), down.Protocol())
			}
			if got, want := strings.Join(up.calls, " "), "start connected write read close gone"; got != want {
				t.Errorf("up: %s, not %s", got, want)
			}
			if got, want := strings.Join(down.calls, " "), "start connected read write eof gone"; got != want {
				t.Errorf("down: %s, not %s", got, want)
			}
		})
		t.Run("raw", func(t *testing.T) {
			if a, err := meet(t, o, nil, nil); err != nil || a.got != "question" {
				t.Errorf("%q: %v", a.got, err)
			}
		})
		t.Run("failure", func(t *testing.T) {
			a, err := meet(t, o, &cipher{greeting: "hi"}, &cipher{greeting: "who"})
			if a.opened || a.why != TransportFailed || !errors.Is(err, errGreeting) {
				t.Errorf("opened %v, %v: %v", a.opened, a.why, err)
			}
		})
	})
}

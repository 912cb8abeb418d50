//go:build linux

package loop

import (
	"net"
	"testing"
)

// What asks again for the end of the turn comes after what was written meanwhile
// is sent: it may wait for that.
func TestEndOfTurnAfterSending(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		l := start(t, o)
		c, err := net.Dial("tcp", listenEcho(t, l, o))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // so it is accepted
			t.Fatal(err)
		}
		rounds := make(chan int)
		l.Post(func() {
			conns := l.conns()
			conns[0].Write([]byte("hello"))
			n := 0
			var again func()
			again = func() {
				if n++; conns[0].Buffered() > 0 && n < 100 {
					l.AtEnd(again)
					return
				}
				rounds <- n
			}
			l.AtEnd(again)
			l.AtEnd(func() {})
		})
		if n := <-rounds; n > 2 {
			t.Errorf("%d rounds until five bytes are sent", n)
		}
	})
}

// What a loop keeps for later is given up when nothing needs it.
func TestTrim(t *testing.T) {
	l := &Loop{}
	a, b := l.borrow(), l.borrow()
	l.giveBack(a)
	l.giveBack(append(b, make([]byte, 1<<20)...))
	l.giveBack(make([]byte, 0, 32<<20)) // too much to be kept
	l.Trim()
	if len(l.bufs) != 2 {
		t.Fatalf("%d buffers right after their use, want 2", len(l.bufs))
	}
	l.giveBack(l.borrow())
	l.Trim()
	if len(l.bufs) != 1 || l.kept != cap(l.bufs[0]) || l.kept < 1<<20 {
		t.Fatalf("%d buffers of %d bytes are left of two, of which one is in use", len(l.bufs), l.kept)
	}
	l.Trim()
	if len(l.bufs) != 0 || l.kept != 0 {
		t.Errorf("%d unused buffers, %d bytes, are kept", len(l.bufs), l.kept)
	}
}

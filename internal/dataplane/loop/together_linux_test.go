package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// ends is a handler that notes how its connection ended, and calls a function
// then.
type ends struct {
	client
	err    error
	called func()
}

func (e *ends) OnClose(_ Reason, err error) {
	e.err = err
	if e.called != nil {
		e.called()
	}
}

// ofPairs makes connections of a loop that does not run, with their peers.
func ofPairs(t testing.TB, l *Loop, n int) (conns []*Conn, peers []*os.File) {
	t.Helper()
	p, _ := l.poll.(*epoll)
	for range n {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		c := l.newConn(&ends{})
		c.state, c.reading = established, true
		if err := p.add(c, fds[0], syscall.EPOLLIN); err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fds[1]), "peer")
		t.Cleanup(func() { _ = f.Close() })
		conns, peers = append(conns, c), append(peers, f)
	}
	return conns, peers
}

// still makes a loop that does not run.
func still(t testing.TB, o Options) *Loop {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.shut)
	return l
}

// onSockets runs a test with and without a ring.
func onSockets(t *testing.T, f func(t *testing.T, o Options)) {
	t.Helper()
	everyKind(t, func(t *testing.T, o Options) {
		if o.Portable {
			t.Skip("needs descriptors")
		}
		f(t, o)
	})
}

// What a turn has for more connections than a ring has room for is sent in it.
func TestTurnSendsForMany(t *testing.T) {
	onSockets(t, func(t *testing.T, o Options) {
		l := still(t, o)
		conns, peers := ofPairs(t, l, 2*uringSize+3)
		for round := range 2 {
			for i, c := range conns {
				c.Write(fmt.Appendf(nil, "%d/%d", round, i))
			}
			l.finish()
			for i, f := range peers {
				want := fmt.Sprintf("%d/%d", round, i)
				got := make([]byte, len(want)+1)
				if n, err := f.Read(got); err != nil || string(got[:n]) != want {
					t.Fatalf("got %q, %v; want %q", got[:n], err, want)
				}
			}
		}
		if conns[0].out != nil || len(l.slow) != 0 {
			t.Errorf("buffers are kept though everything was sent")
		}
	})
}

// One peer that has gone and one that takes little do not disturb the others,
// and what the end of one lets be written to another comes behind what it had.
func TestTurnSendsBesideFailures(t *testing.T) {
	onSockets(t, func(t *testing.T, o Options) {
		l := still(t, o)
		conns, peers := ofPairs(t, l, 4)
		gone, slow, other, aborted := conns[0], conns[1], conns[2], conns[3]
		_ = peers[0].Close()
		h := &ends{called: func() {
			other.Write([]byte(" and more"))
			aborted.Abort(false)
		}}
		gone.SetHandler(h)
		large := bytes.Repeat([]byte("0123456789"), 1<<20)
		for _, c := range conns {
			c.Write([]byte("some"))
		}
		slow.Write(large)
		l.finish()
		if !errors.Is(h.err, syscall.EPIPE) {
			t.Errorf("the connection without a peer ended with %v", h.err)
		}
		got := make([]byte, 100)
		if n, err := peers[2].Read(got); err != nil || string(got[:n]) != "some and more" {
			t.Errorf("got %q, %v", got[:n], err)
		}
		if !slow.blocked {
			t.Fatal("a socket took 10 MB")
		}
		all := make([]byte, 4+len(large))
		for n := 0; n < len(all); slow.writable() {
			k, err := peers[1].Read(all[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
		if !bytes.Equal(all[4:], large) || slow.blocked {
			t.Error("what a slow peer got is not what was written")
		}
	})
}

// A ring that the system does not serve any more costs no byte.
func TestSendingWithoutTheRing(t *testing.T) {
	needRing(t)
	l := still(t, Options{})
	conns, peers := ofPairs(t, l, 3)
	ring := l.together.(*sendRing).ring //nolint:forcetypeassert // there is one
	fd := ring.fd
	ring.fd = -1
	for _, c := range conns {
		c.Write([]byte("x"))
	}
	l.finish()
	ring.fd = fd
	for _, f := range peers {
		if _, err := io.ReadFull(f, make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}
	if n := ring.waiting(); n != 0 {
		t.Errorf("%d sends are left in the ring", n)
	}
}

// oneByOne is a sender that asks each socket.
type oneByOne struct{}

func (oneByOne) send(out []outgoing) {
	for i := range out {
		if o := &out[i]; len(o.data) > 0 {
			o.sent, o.err = o.conn.sock.send(o.data, nil)
		}
	}
}

// relay writes to another connection when its own has room again.
type relay struct {
	client
	to    *Conn
	wrote *[]byte
}

func (r *relay) OnDrained() {
	*r.wrote = append(*r.wrote, "drained"...)
	r.to.WriteBody([]byte("drained"))
}

// However little sockets take, and whatever callbacks write to others
// meanwhile, what each connection was given arrives whole and in order.
func TestTogetherInSips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Loop{together: oneByOne{}}
		const n = 3
		var conns [n]*Conn
		var socks [n]*sips
		var wrote [n][]byte
		for i := range n {
			socks[i] = &sips{}
			conns[i] = l.newConn(nil)
			conns[i].state, conns[i].sock = established, socks[i]
			conns[i].SetHigh(1 << 10)
		}
		for i, c := range conns {
			c.SetHandler(&relay{to: conns[(i+1)%n], wrote: &wrote[(i+1)%n]})
		}
		write := rapid.Custom(func(t *rapid.T) int { return rapid.IntRange(0, n-1).Draw(t, "connection") })
		for k := range rapid.IntRange(1, 30).Draw(t, "turns") {
			for range rapid.IntRange(1, 4).Draw(t, "writes") {
				i := write.Draw(t, "to")
				piece := bytes.Repeat([]byte{byte(k)}, rapid.IntRange(0, 6<<10).Draw(t, "size"))
				wrote[i] = append(wrote[i], piece...)
				conns[i].WriteBody(piece)
			}
			for i := range n {
				socks[i].atMost = rapid.IntRange(0, 5<<10).Draw(t, "at most")
				if conns[i].blocked && rapid.Bool().Draw(t, "writable") {
					conns[i].writable()
				}
			}
			l.finish()
		}
		for i := range n {
			socks[i].atMost = 1 << 30
		}
		for len(l.slow) > 0 {
			l.slow[0].conn.writable()
			l.finish()
		}
		for i := range n {
			if !bytes.Equal(socks[i].got, wrote[i]) {
				t.Fatalf("connection %d: what arrived (%d bytes) is not what was written (%d)", i, len(socks[i].got), len(wrote[i]))
			}
		}
	})
}

// BenchmarkTurnSends is what a turn with something for 32 connections costs.
func BenchmarkTurnSends(b *testing.B) {
	for name, o := range kinds() {
		if o.Portable {
			continue
		}
		b.Run(name, func(b *testing.B) {
			l := still(b, o)
			conns, peers := ofPairs(b, l, 32)
			data, got := make([]byte, 200), make([]byte, 1<<10)
			b.ReportAllocs()
			for b.Loop() {
				for _, c := range conns {
					c.Write(data)
				}
				l.finish()
				b.StopTimer()
				for _, f := range peers {
					_, _ = f.Read(got)
				}
				b.StartTimer()
			}
		})
	}
}

package loop

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// teller is a handler that tells a function what comes.
type teller struct {
	client
	data  func(data []byte)
	ended bool
	why   []Reason
}

func (h *teller) OnData(data []byte) { h.data(data) }
func (h *teller) OnEnd()             { h.ended = true }

func (h *teller) OnClose(why Reason, _ error) { h.why = append(h.why, why) }

// tellers gives connections such handlers.
func tellers(conns []*Conn, told func(i int, data []byte)) []*teller {
	out := make([]*teller, len(conns))
	for i, c := range conns {
		out[i] = &teller{data: func(data []byte) { told(i, data) }}
		c.SetHandler(out[i])
	}
	return out
}

// round handles the events that there are.
func round(l *Loop) {
	l.poll.wait(0)
	l.finish()
}

func sent(t testing.TB, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// What came in a turn is handed over whole: of the connections that this side made
// first, else in the order in which it came.
func TestHandedOverByKind(t *testing.T) {
	onSockets(t, func(t *testing.T, o Options) {
		l := still(t, o)
		conns, peers := ofPairs(t, l, 6)
		conns[2].own.dialed, conns[4].own.dialed = true, true
		var got []string
		ran := 0
		tellers(conns, func(i int, data []byte) {
			got = append(got, fmt.Sprintf("%d %s", i, data))
			if !l.Gathers() {
				t.Errorf("%d: others are not waited for", i)
			}
			l.AfterAll(func() { ran++ })
		})
		for i, f := range peers {
			sent(t, f, fmt.Sprint("from ", i))
		}
		l.AfterAll(func() {
			if len(got) != len(peers) {
				t.Errorf("run when only %q were handed over", got)
			}
			l.AfterAll(func() { ran = -ran })
		})
		round(l)
		if want := []string{"2 from 2", "4 from 4", "0 from 0", "1 from 1", "3 from 3", "5 from 5"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if ran != -6 {
			t.Errorf("of six that were to run after all, and one after these: %d", ran)
		}
		if l.Gathers() {
			t.Error("others are waited for when the turn is over")
		}
	})
}

// What may bring many messages is received last, and brings what has come by then.
func TestReceivedLate(t *testing.T) {
	onSockets(t, func(t *testing.T, o Options) {
		l := still(t, o)
		conns, peers := ofPairs(t, l, 3)
		conns[0].ReceiveLate()
		conns[1].ReceiveLate()
		var got []string
		tellers(conns, func(i int, data []byte) {
			got = append(got, fmt.Sprintf("%d %s", i, data))
			if i == 2 {
				sent(t, peers[0], " and more")
				conns[1].Pause()
			}
		})
		for i, f := range peers {
			sent(t, f, fmt.Sprint("from ", i))
		}
		round(l)
		if want := []string{"2 from 2", "0 from 0 and more"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		conns[1].Resume()
		round(l)
		if len(got) != 3 || got[2] != "1 from 1" {
			t.Errorf("got %q", got)
		}
	})
}

// One that comes alone is not said to be gathered: nobody is to wait for others.
func TestAloneIsNotGathered(t *testing.T) {
	l := still(t, Options{})
	conns, peers := ofPairs(t, l, 2)
	tellers(conns, func(int, []byte) {
		if l.Gathers() {
			t.Error("gathered")
		}
	})
	sent(t, peers[1], "x")
	round(l)
}

// pausing makes two connections, of which the first pauses the second, and what is
// told of that.
func pausing(t testing.TB, l *Loop) (conns []*Conn, peers []*os.File, got *string, hs []*teller) {
	t.Helper()
	conns, peers = ofPairs(t, l, 2)
	got = new(string)
	hs = tellers(conns, func(i int, data []byte) {
		if i == 0 {
			conns[1].Pause()
		} else {
			*got += string(data)
		}
	})
	return conns, peers, got, hs
}

// A connection that another one pauses hears nothing until it is resumed, although
// its bytes were received, and then everything in order.
func TestPausedByAnother(t *testing.T) {
	onSockets(t, func(t *testing.T, o Options) {
		l := still(t, o)
		conns, peers, got, _ := pausing(t, l)
		sent(t, peers[0], "pause")
		sent(t, peers[1], "one ")
		round(l)
		sent(t, peers[1], "two")
		round(l)
		if *got != "" || conns[1].Received() != 4 {
			t.Fatalf("a paused connection was given %q; %d bytes received", *got, conns[1].Received())
		}
		conns[1].Resume()
		if *got != "" {
			t.Fatalf("%q came within Resume", *got)
		}
		round(l)
		if *got != "one two" || len(l.withheld) != 0 {
			t.Errorf("got %q; %d connections have bytes withheld", *got, len(l.withheld))
		}
	})
}

// So it is if it is paused again before its bytes were delivered.
func TestPausedAgain(t *testing.T) {
	l := still(t, Options{})
	conns, peers, got, _ := pausing(t, l)
	sent(t, peers[0], "pause")
	sent(t, peers[1], "one ")
	round(l)
	conns[1].Resume()
	conns[1].Pause()
	round(l)
	if *got != "" {
		t.Fatalf("a paused connection was given %q", *got)
	}
	sent(t, peers[1], "two")
	conns[1].Resume()
	round(l)
	if *got != "one two" {
		t.Errorf("got %q", *got)
	}
}

// The end of a paused connection is not told before what came ahead of it.
func TestEndOfPaused(t *testing.T) {
	for name, hang := range map[string]func(f *os.File) error{
		"half": func(f *os.File) error { return unix.Shutdown(int(f.Fd()), unix.SHUT_WR) },
		"full": (*os.File).Close,
	} {
		t.Run(name, func(t *testing.T) {
			l := still(t, Options{})
			conns, peers, got, hs := pausing(t, l)
			sent(t, peers[0], "pause")
			sent(t, peers[1], "one ")
			round(l)
			sent(t, peers[1], "two")
			if err := hang(peers[1]); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				round(l)
			}
			if name == "half" && (*got != "" || hs[1].ended) {
				t.Fatalf("a paused connection was given %q, its end: %v", *got, hs[1].ended)
			}
			conns[1].Resume()
			for range 3 {
				round(l)
			}
			if *got != "one two" || !hs[1].ended {
				t.Errorf("got %q, the end: %v", *got, hs[1].ended)
			}
		})
	}
}

// An end that came in the turn in which another has paused the connection comes again.
func TestEndBesidePause(t *testing.T) {
	l := still(t, Options{})
	conns, peers := ofPairs(t, l, 2)
	hs := tellers(conns, func(int, []byte) { conns[1].Pause() })
	sent(t, peers[0], "pause")
	if err := unix.Shutdown(int(peers[1].Fd()), unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	round(l)
	if hs[1].ended {
		t.Fatal("a paused connection was told its end")
	}
	conns[1].Resume()
	round(l)
	if !hs[1].ended {
		t.Error("the end was lost")
	}
}

// Bytes of a connection that another one closes are nobody's, not even if its
// descriptor is another connection's by then.
func TestClosedByAnother(t *testing.T) {
	l := still(t, Options{})
	conns, peers := ofPairs(t, l, 2)
	var next *Conn
	hs := tellers(conns, func(i int, data []byte) {
		if i != 0 {
			t.Errorf("a closed connection was given %q", data)
			return
		}
		fd := conns[1].Descriptor()
		conns[1].Abort(false)
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		if fds[0] != fd {
			fds[0], fds[1] = fds[1], fds[0]
		}
		if fds[0] != fd {
			t.Skip("the descriptor was not used again")
		}
		t.Cleanup(func() { _ = unix.Close(fds[1]) })
		next = l.newConn(&teller{data: func(data []byte) { t.Errorf("another connection was given %q", data) }})
		next.state, next.reading = established, true
		if err := l.poll.(*epoll).add(next, fd, syscall.EPOLLIN); err != nil { //nolint:forcetypeassert // it is one here
			t.Fatal(err)
		}
	})
	sent(t, peers[0], "close")
	sent(t, peers[1], "lost")
	round(l)
	round(l)
	if len(hs[1].why) != 1 || len(l.withheld) != 0 {
		t.Errorf("closed %d times; %d connections have bytes withheld", len(hs[1].why), len(l.withheld))
	}
}

// What is withheld of a connection that closes goes with it.
func TestWithheldGoes(t *testing.T) {
	l := still(t, Options{})
	conns, peers := ofPairs(t, l, 2)
	tellers(conns, func(i int, data []byte) {
		if i == 1 {
			t.Errorf("got %q", data)
		}
		conns[1].Pause()
	})
	sent(t, peers[0], "pause")
	sent(t, peers[1], "lost")
	round(l)
	if len(l.withheld) != 1 {
		t.Fatalf("%d connections have bytes withheld", len(l.withheld))
	}
	conns[1].Resume()
	conns[1].Abort(false)
	round(l)
	if len(l.withheld) != 0 {
		t.Error("they stay")
	}
}

// However much comes of however many, and whoever pauses whom, each connection is
// given what its peer has sent, whole and in order, and nothing while it is paused.
func TestReceivedAheadInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, err := New(Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer l.shut()
		const n = 5
		conns, peers := ofPairs(t, l, n)
		defer func() {
			for _, f := range peers {
				_ = f.Close()
			}
		}()
		got, want := make([][]byte, n), make([][]byte, n)
		connection := rapid.IntRange(0, n-1)
		// Whom those who are told something pause or resume.
		toggles := rapid.SliceOfN(rapid.SliceOfN(connection, 0, 2), 0, 60).Draw(rt, "toggles")
		toggle := func(i int) {
			if conns[i].Paused() {
				conns[i].Resume()
			} else {
				conns[i].Pause()
			}
		}
		tellers(conns, func(i int, data []byte) {
			if conns[i].Paused() {
				rt.Errorf("%d was given %d bytes while it was paused", i, len(data))
			}
			got[i] = append(got[i], data...)
			if len(toggles) > 0 {
				for _, other := range toggles[0] {
					toggle(other)
				}
				toggles = toggles[1:]
			}
		})
		for i, c := range conns {
			c.own.dialed, c.late = rapid.Bool().Draw(rt, "dialed"), rapid.Bool().Draw(rt, "late")
			c.SetHigh(rapid.SampledFrom([]int{1, 1 << 20}).Draw(rt, fmt.Sprint("high of ", i)))
		}
		for k := range rapid.IntRange(1, 20).Draw(rt, "turns") {
			for _, i := range rapid.SliceOfN(connection, 0, 8).Draw(rt, "senders") {
				piece := bytes.Repeat([]byte{byte(k), byte(i)}, rapid.IntRange(1, 40<<10).Draw(rt, "size"))
				m, err := unix.SendmsgN(int(peers[i].Fd()), piece, nil, nil, unix.MSG_DONTWAIT)
				if err != nil && err != unix.EAGAIN {
					rt.Fatal(err)
				}
				want[i] = append(want[i], piece[:max(m, 0)]...)
			}
			round(l)
		}
		toggles = nil
		for _, c := range conns {
			if c.Paused() {
				c.Resume()
			}
		}
		for range 200 {
			round(l)
		}
		for i := range n {
			if !bytes.Equal(got[i], want[i]) {
				rt.Fatalf("%d was given %d bytes, which are not the %d that were sent", i, len(got[i]), len(want[i]))
			}
		}
	})
}

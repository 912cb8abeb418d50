package loop

import (
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// dozing waits until the test's loop has given its processor up. To look
// interrupts the loop, which then watches anew: so it does that seldom.
func dozing(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(4 * watchful) {
		for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(g, "(*doze).wait") && strings.Contains(g, "[IO wait") {
				return
			}
		}
	}
	t.Fatal("the loop keeps its processor")
}

// A loop that has nothing to do waits in the runtime's poller, from where a
// connection, data, Post and a timer fetch it.
func TestIdleLoopDozes(t *testing.T) {
	o := Options{}
	l := start(t, o)
	l.Post(func() { l.idle = time.Hour })
	dozing(t)
	c, err := net.Dial("tcp", listenEcho(t, l, o))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	for range 3 {
		dozing(t)
		b := make([]byte, 4)
		if _, err := c.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond} {
		dozing(t)
		fired := make(chan time.Duration)
		l.Post(func() {
			timer := new(Timer)
			set := l.Now()
			timer.Init(l, func() { fired <- l.Now() - set })
			timer.Set(d)
		})
		select {
		case took := <-fired:
			if took < d {
				t.Errorf("a timer of %v fired after %v", d, took)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("a timer of %v did not fire", d)
		}
	}
}

// What is not urgent does not wake a loop, but is done before the next event,
// or when much of it waits.
func TestPostUnhurried(t *testing.T) {
	o := Options{}
	l := start(t, o)
	var ran atomic.Bool
	came := make(chan bool, 1)
	addr := listen(t, l, o, func(c *Conn, _ filter.Address) {
		c.SetHandler(&echo{c: c})
		came <- ran.Load()
	})
	l.Post(func() { l.idle = time.Hour })
	dozing(t)
	l.PostUnhurried(func() { ran.Store(true) })
	time.Sleep(20 * time.Millisecond)
	if ran.Load() {
		t.Fatal("the loop was woken")
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if !<-came {
		t.Fatal("the event came first")
	}
	dozing(t)
	done := make(chan struct{})
	for range mostUnhurried {
		l.PostUnhurried(func() {})
	}
	l.PostUnhurried(func() { close(done) })
	<-done
}

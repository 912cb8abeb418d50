//go:build linux

package loop

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/xebec-proxy/xebec/filter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo sends back what it gets.
type echo struct {
	c      *Conn
	closed chan Reason
}

func (e *echo) OnOpen()            {}
func (e *echo) OnData(data []byte) { e.c.WriteBody(data) }
func (e *echo) OnEnd()             { e.c.Close(0) }
func (e *echo) OnBlocked()         { e.c.Pause() }
func (e *echo) OnDrained()         { e.c.Resume() }
func (e *echo) OnClose(why Reason, _ error) {
	if e.closed != nil {
		e.closed <- why
	}
}

// start runs a loop until the test ends.
func start(t *testing.T, o Options) *Loop {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(l.Run)
	t.Cleanup(func() {
		l.Post(l.Stop)
		wg.Wait()
	})
	return l
}

// listenEcho makes the loop serve echo and returns its address.
func listenEcho(t *testing.T, l *Loop, o Options) string {
	t.Helper()
	return listen(t, l, o, func(c *Conn, _ filter.Address) { c.SetHandler(&echo{c: c}) })
}

// listen makes the loop accept connections and returns the address.
func listen(t *testing.T, l *Loop, o Options, accept Accept) string {
	t.Helper()
	_, address := listener(t, l, o, accept)
	return address
}

// listener is listen that returns the listener too, which is the loop's.
func listener(t *testing.T, l *Loop, o Options, accept Accept) (out *Listener, address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	if o.Portable {
		l.Post(func() {
			var err error
			out, err = l.ListenOn(ln, accept)
			done <- err
		})
	} else {
		f, err := ln.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
		fd, err := dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		l.Post(func() {
			var err error
			out, err = l.Listen(fd, accept)
			done <- err
		})
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return out, ln.Addr().String()
}

// everyKind runs a test with every kind of loop that this system has.
func everyKind(t *testing.T, f func(t *testing.T, o Options)) {
	t.Helper()
	for name, o := range kinds() {
		t.Run(name, func(t *testing.T) {
			if name == withRing {
				needRing(t)
			}
			f(t, o)
		})
	}
}

const withRing = "io_uring"

func kinds() map[string]Options {
	return map[string]Options{"epoll": {NoRing: true}, withRing: {}, "portable": {Portable: true}}
}

// needRing skips a test where io_uring is not to be had.
func needRing(t *testing.T) {
	t.Helper()
	r, err := newSendRing()
	if err != nil {
		t.Skip(err)
	}
	r.close()
}

// Everything comes back in order, however much it is and however slowly it is
// read, and the half-closed side still gets it all.
func TestEcho(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		l := start(t, o)
		addr := listenEcho(t, l, o)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = c.Close() }()
				sent := bytes.Repeat([]byte{byte('a' + i)}, 1<<20<<i)
				wg.Go(func() {
					_, _ = c.Write(sent)
					_ = c.(*net.TCPConn).CloseWrite()
				})
				got, err := io.ReadAll(c)
				if err != nil || !bytes.Equal(got, sent) {
					t.Errorf("got %d of %d bytes, %v", len(got), len(sent), err)
				}
			})
		}
		wg.Wait()
	})
}

// A client that reads nothing makes the loop stop reading it: what waits stays
// near the watermark.
func TestBackPressure(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		l := start(t, o)
		c, err := net.Dial("tcp", listenEcho(t, l, o))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		chunk := make([]byte, 1<<20)
		total := 0
		for total < 256<<20 {
			_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			n, err := c.Write(chunk)
			total += n
			if err != nil {
				break
			}
		}
		if total >= 256<<20 {
			t.Fatal("the loop took 256 MB that nobody read")
		}
		held := make(chan int)
		l.Post(func() {
			n := 0
			for _, c := range l.conns() {
				n += c.Buffered()
			}
			held <- n
		})
		if n := <-held; n > DefaultHigh+scratchSize+netBuffer {
			t.Errorf("%d bytes wait", n)
		}
	})
}

// client collects what happens to a dialled connection.
type client struct {
	c    *Conn
	open chan struct{}
	data chan string
	end  chan Reason
}

func (h *client) OnOpen()                     { close(h.open) }
func (h *client) OnData(data []byte)          { h.data <- string(data) }
func (h *client) OnEnd()                      { h.c.Close(0) }
func (h *client) OnBlocked()                  {}
func (h *client) OnDrained()                  {}
func (h *client) OnClose(why Reason, _ error) { h.end <- why }

func TestDial(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		l := start(t, o)
		addr := listenEcho(t, l, o)
		h := &client{open: make(chan struct{}), data: make(chan string, 1), end: make(chan Reason, 1)}
		l.Post(func() {
			h.c = l.Dial(mustAddr(addr), &DialOptions{Timeout: time.Minute}, h)
		})
		<-h.open
		l.Post(func() { h.c.Write([]byte("hello")) })
		if got := <-h.data; got != "hello" {
			t.Errorf("got %q", got)
		}
		l.Post(func() { h.c.Abort(false) })
		if why := <-h.end; why != Local {
			t.Errorf("closed for %v", why)
		}
		dead := &client{end: make(chan Reason, 1)}
		l.Post(func() {
			dead.c = l.Dial(mustAddr("127.0.0.1:1"), &DialOptions{Timeout: time.Minute}, dead)
		})
		if why := <-dead.end; why != ConnectFailed {
			t.Errorf("connecting to nobody ended with %v", why)
		}
	})
}

// Proves CM-09 in part: of several addresses the first that answers is used,
// and a dead one holds nobody up.
func TestDialAny(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		l := start(t, o)
		addr := mustAddr(listenEcho(t, l, o))
		dead, silent := mustAddr("127.0.0.1:1"), mustAddr("192.0.2.1:9")
		for name, to := range map[string][]filter.Address{
			"dead first": {dead, addr}, "alive first": {addr, dead}, "silent first": {silent, dead, addr},
		} {
			h := &client{open: make(chan struct{}), data: make(chan string, 1), end: make(chan Reason, 1)}
			l.Post(func() { h.c = l.DialAny(to, &DialOptions{Timeout: time.Minute}, h) })
			<-h.open
			l.Post(func() { h.c.Write([]byte("hello")) })
			if got := <-h.data; got != "hello" {
				t.Errorf("%s: got %q", name, got)
			}
			l.Post(func() { h.c.Abort(false) })
			<-h.end
		}
		none := &client{end: make(chan Reason, 1)}
		l.Post(func() { none.c = l.DialAny([]filter.Address{dead, dead}, &DialOptions{Timeout: time.Minute}, none) })
		if why := <-none.end; why != ConnectFailed {
			t.Errorf("nobody answered, and it ended with %v", why)
		}
		gone := &client{end: make(chan Reason, 1)}
		l.Post(func() {
			gone.c = l.DialAny([]filter.Address{silent, silent}, &DialOptions{Timeout: 50 * time.Millisecond}, gone)
		})
		if why := <-gone.end; why != ConnectFailed {
			t.Errorf("the timeout ended it with %v", why)
		}
		left := make(chan int)
		l.Post(func() { left <- l.Open() })
		if n := <-left; n > 3 { // echo's ends of what was closed may be open still
			t.Errorf("%d connections are left", n)
		}
	})
}

// A delayed close waits for the peer, then cuts it off.
func TestDelayedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Options{Portable: true})
		if err != nil {
			t.Fatal(err)
		}
		go l.Run()
		ours, theirs := net.Pipe()
		ended := make(chan error, 1)
		l.Post(func() {
			h := &closing{ended: ended}
			c, err := l.Adopt(ours, h)
			if err != nil {
				t.Error(err)
				return
			}
			h.c = c
			c.Write([]byte("bye"))
			c.Close(time.Second)
		})
		buf := make([]byte, 16)
		n, _ := theirs.Read(buf)
		if string(buf[:n]) != "bye" {
			t.Errorf("got %q", buf[:n])
		}
		began := time.Now()
		if err := <-ended; !IsDelayedClose(err) {
			t.Errorf("ended with %v", err)
		}
		if d := time.Since(began); d < time.Second || d > 2*time.Second {
			t.Errorf("it took %v", d)
		}
		l.Post(l.Stop)
		_ = theirs.Close()
		synctest.Wait()
	})
}

// Partly proves HC-25: a peer that reads nothing of what is left cannot keep a closing connection,
// and what it sends meanwhile goes nowhere.
func TestCloseBesideAPeerThatDoesNotRead(t *testing.T) {
	l := start(t, Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	h := &deaf{closing: closing{ended: make(chan error, 1)}}
	l.Post(func() {
		h.c = l.Dial(mustAddr(ln.Addr().String()), &DialOptions{Timeout: time.Minute}, h)
	})
	theirs, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = theirs.Close() }()
	l.Post(func() {
		h.c.SetFlushTimeout(100 * time.Millisecond)
		h.c.Write(make([]byte, 16<<20))
		h.c.Close(0)
	})
	for err == nil {
		_, err = theirs.Write(make([]byte, 4096))
	}
	if err := <-h.ended; !IsDelayedClose(err) {
		t.Errorf("ended with %v", err)
	}
	if n := h.got.Load(); n > 0 {
		t.Errorf("%d bytes were taken after the close", n)
	}
}

// deaf counts what it gets while it closes.
type deaf struct {
	closing
	got atomic.Int64
}

func (h *deaf) OnData(data []byte) {
	if h.c.Closed() {
		h.got.Add(int64(len(data)))
	}
}

type closing struct {
	c     *Conn
	ended chan error
}

func (h *closing) OnOpen()                     {}
func (h *closing) OnData([]byte)               {}
func (h *closing) OnEnd()                      {}
func (h *closing) OnBlocked()                  {}
func (h *closing) OnDrained()                  {}
func (h *closing) OnClose(_ Reason, err error) { h.ended <- err }

// An idle loop keeps its processor in a system call; the collector must get it
// all the same. This loop would wait for an hour: if collections had to wait
// for it, the test would not end.
func TestIdleLoopDoesNotDelayTheCollector(t *testing.T) {
	collect := sleepingLoop(t)
	for range 20 {
		collect()
	}
}

// sleepingLoop runs a loop that sleeps for an hour, and gives a function that
// collects while it does.
func sleepingLoop(t testing.TB) (collect func()) {
	t.Helper()
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.idle = time.Hour
	var wg sync.WaitGroup
	wg.Go(l.Run)
	t.Cleanup(func() {
		l.Post(l.Stop)
		wg.Wait()
	})
	return func() {
		asleep := make(chan struct{})
		l.Post(func() { close(asleep) })
		<-asleep
		runtime.GC()
	}
}

// A collection beside a sleeping loop: a millisecond, most of it the
// collector's own.
func BenchmarkCollectorBesideIdleLoop(b *testing.B) {
	collect := sleepingLoop(b)
	for b.Loop() {
		collect()
	}
}

func TestPostAfterStop(t *testing.T) {
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	l.Post(func() { close(ran); l.Stop() })
	l.Run()
	<-ran
	if l.Post(func() { t.Error("ran after the end") }) {
		t.Error("a stopped loop took work")
	}
}

// Posting from many goroutines loses nothing and keeps each one's order.
func TestPost(t *testing.T) {
	l := start(t, Options{})
	const senders, each = 8, 1000
	last := make([]int, senders)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := 1; i <= each; i++ {
				l.Post(func() {
					if last[s] != i-1 {
						t.Errorf("sender %d: %d after %d", s, i, last[s])
					}
					last[s] = i
				})
			}
		})
	}
	wg.Wait()
	done := make(chan struct{})
	l.Post(func() { close(done) })
	<-done
	for s, n := range last {
		if n != each {
			t.Errorf("sender %d: %d of %d ran", s, n, each)
		}
	}
}

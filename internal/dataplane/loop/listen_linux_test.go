package loop

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// connect connects to an address and sends a byte.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	return c
}

// on runs a function on a loop and waits for its end.
func on(l *Loop, f func()) {
	done := make(chan struct{})
	l.Post(func() {
		defer close(done)
		f()
	})
	<-done
}

// A listener that is closed takes those who are connected and were not accepted yet, more
// than it takes at once: the system would reset them, and their requests would be lost.
// What it was told to leave with the system it leaves.
func TestCloseTakesWhoWaits(t *testing.T) {
	for name, o := range kinds() {
		if o.Portable {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if name == withRing {
				needRing(t)
			}
			l := start(t, o)
			for _, paused := range []bool{false, true} {
				ln, address := listener(t, l, o, func(c *Conn, _ filter.Address) { c.SetHandler(&echo{c: c}) })
				var clients []net.Conn
				on(l, func() {
					ln.Pause(paused)
					for range acceptBurst + 10 {
						clients = append(clients, connect(t, address))
					}
					ln.Close()
				})
				for i, c := range clients {
					var b [1]byte
					if _, err := io.ReadFull(c, b[:]); err == nil && b[0] != 'x' || (err != nil) != paused {
						t.Fatalf("paused %t, client %d: %q, %v", paused, i, b, err)
					}
				}
				if c, err := net.Dial("tcp", address); err == nil {
					_ = c.Close()
					t.Error("it still listens")
				}
			}
		})
	}
}

//go:build linux

package loop

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Partly proves HC-25: without descriptors, too, a peer that reads nothing cannot
// keep a closed connection, and with it the loop.
func TestPortableCloseIsBounded(t *testing.T) {
	for name, patience := range map[string]time.Duration{"flush timeout": 100 * time.Millisecond, "no timeout": 0} {
		for what, size := range map[string]int{"a little": 10, "more than is buffered": 4 * netBuffer} {
			if patience == 0 && size > netBuffer {
				continue // without end, as it is meant
			}
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { closeBesideDeafPeer(t, patience, size) })
			})
		}
	}
}

func closeBesideDeafPeer(t *testing.T, patience time.Duration, size int) {
	t.Helper()
	l, err := New(Options{Portable: true})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		l.Run()
		close(stopped)
	}()
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	ended := make(chan error, 1)
	l.Post(func() {
		c, err := l.Adopt(ours, &closing{ended: ended})
		if err != nil {
			t.Error(err)
			return
		}
		c.SetFlushTimeout(patience)
		c.Write(make([]byte, size))
		c.Close(0)
	})
	if err := <-ended; IsDelayedClose(err) != (size > netBuffer) {
		t.Errorf("ended with %v", err)
	}
	l.Post(l.Stop)
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("the loop does not end")
		_ = theirs.Close()
		<-stopped
	}
}

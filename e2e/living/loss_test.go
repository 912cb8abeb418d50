//go:build interop

package living

import (
	"testing"
	"time"
)

// run makes changes, some of which it waits for.
func (s *scene) run(n int) {
	s.t.Helper()
	for i := range n {
		s.change()
		switch s.w.random.IntN(4) {
		case 0:
			s.converge()
		case 1: // back to back
		default:
			time.Sleep(time.Duration(s.w.random.IntN(80)) * time.Millisecond)
		}
		if s.t.Failed() && s.load.failed.Load() > 10 {
			s.t.Fatalf("given up after %d changes", i+1)
		}
	}
}

// Changes of every kind in random order lose nothing, whatever brings them: no
// request fails, and no connection of a listener that stays is broken.
func TestNothingIsLost(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			s := setScene(t, v)
			s.begin()
			n := changes(t, 40)
			s.run(n)
			s.finish(n)
		})
	}
}

// The same while the server is killed again and again.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	for _, v := range variants()[:5] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := setScene(t, v)
			s.restarts = true
			s.begin()
			n := changes(t, 40)
			killed, last := 0, time.Now()
			for range n {
				if time.Since(last) > time.Second {
					s.server.Kill()
					time.Sleep(time.Duration(s.w.random.IntN(300)) * time.Millisecond)
					s.server.start(t)
					killed, last = killed+1, time.Now()
				}
				s.change()
				time.Sleep(time.Duration(s.w.random.IntN(200)) * time.Millisecond)
			}
			s.finish(n)
			t.Logf("the server was killed %d times", killed)
		})
	}
}

package discovery

import (
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What a server does not have when its stream begins anew is removed when routes
// have come, or late, and not if it is back before; later on a stream at once.
func TestParting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // the time that has come removes on another goroutine
		var removed []string
		p := &parting{remove: func(name string) {
			mu.Lock()
			defer mu.Unlock()
			removed = append(removed, name)
		}}
		want := func(when string, names ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(removed)
			if !slices.Equal(removed, names) {
				t.Errorf("%s: removed are %q, want %q", when, removed, names)
			}
			removed = nil
		}
		p.gone("a")
		want("on a stream", "a")
		p.begin()
		p.gone("b")
		p.gone("c")
		p.clustersCame()
		p.gone("d")
		if err := p.back("c", func() error { return nil }); err != nil {
			t.Error(err)
		}
		if err := p.back("b", func() error { return io.EOF }); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		want("before the routes", "d")
		p.routesCame()
		want("after the routes", "b") // what has come again was refused
		p.begin()
		p.gone("e")
		time.Sleep(partingTime - 1)
		want("without routes")
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		want("in the end", "e")
		p.gone("f")
		p.stop()
		time.Sleep(2 * partingTime)
		want("after the end")
	})
}

package xdsclient_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// Many goroutines watch, cancel, fetch and look while the server changes and the
// source is closed in the end; the race detector looks on. Callbacks never
// overlap, and versions never go back.
func TestConcurrentUse(t *testing.T) { transports(t, concurrentUse) }

func concurrentUse(t *testing.T, dial dialer) {
	m := serve(t)
	m.set(cluster(t, "c0", "0"), cluster(t, "c1", "0"))
	s := source(t, xdsclient.Config{Servers: []xdsclient.Server{to("main", dial.to(m.addr))}, Delta: true})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	var inside int // without a lock on purpose: callbacks never overlap
	for g := range 8 {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				last := -1
				name := fmt.Sprint("c", (g+i)%3)
				stop := xdsclient.Watch(s, xdsclient.Clusters(), name, xdsclient.Funcs[*clusterv3.Cluster]{
					Change: func(u xdsclient.Update[*clusterv3.Cluster]) {
						inside++
						if inside != 1 {
							t.Error("two callbacks at once")
						}
						var n int
						if _, err := fmt.Sscan(u.Value.GetAltStatName(), &n); err != nil || n < last {
							t.Errorf("%s is %d after %d (%v)", u.Name, n, last, err)
						}
						last = n
						inside--
					},
				})
				switch i % 4 {
				case 0:
					time.Sleep(time.Millisecond)
				case 1:
					_, _ = xdsclient.Fetch(ctx, s, xdsclient.Clusters(), name)
				case 2:
					_, _ = s.Resources(), s.Servers()
				}
				stop()
			}
		})
	}
	for i := 1; ctx.Err() == nil; i++ {
		m.set(cluster(t, fmt.Sprint("c", i%2), fmt.Sprint(i)))
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil { // while others still watch
		t.Error(err)
	}
	group.Wait()
}

//go:build interop

package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Partly proves HR-03: a proxy that is told to end under load finishes what is
// under way and fails no request of clients that heed `connection: close` and
// GOAWAY; it says that it is not ready, and ends in time.
func TestGracefulStop(t *testing.T) {
	work := serve(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "one ")
		_ = http.NewResponseController(w).Flush()
		if strings.HasSuffix(r.URL.Path, "/slow") {
			time.Sleep(time.Second)
		}
		_, _ = io.WriteString(w, "two")
	}))
	b := (&bootstrap{clusters: []cluster{{name: "one", ports: []int{work}}, {name: "two", ports: []int{work}, http2: true}}}).ports(t)
	s := xebec().start(t, b.yaml(), "--drain-time-s", "10")
	// Each has connections of its own, with a request under way on each of them when
	// the proxy is told: one at rest could be closed just as it is used again.
	kinds := []func() *soakClient{
		func() *soakClient { return newSoakClient(t, "h1", fmt.Sprintf("http://127.0.0.1:%d", b.h1), false) },
		func() *soakClient { return newSoakClient(t, "h2", fmt.Sprintf("http://127.0.0.1:%d", b.h2), true) },
		func() *soakClient { return newSoakClient(t, "tls", fmt.Sprintf("https://127.0.0.1:%d", b.tls), false) },
		func() *soakClient { return newSoakClient(t, "tls", fmt.Sprintf("https://127.0.0.1:%d", b.tls), true) },
	}
	var served, afterwards, refused atomic.Int64
	var told atomic.Bool
	var all sync.WaitGroup
	for i := range 16 {
		c := kinds[i%len(kinds)]()
		all.Go(func() {
			path := []string{"/one", "/two", "/one/slow", "/two/slow"}[i/4]
			for {
				err := fetch(t.Context(), c, path)
				switch {
				case err == nil:
					served.Add(1)
					if told.Load() {
						afterwards.Add(1)
					}
				case told.Load() && strings.Contains(err.Error(), "connection refused"):
					refused.Add(1)
					return // it listens no more: the next instance's business
				default:
					t.Errorf("%s%s: %v", c.base, path, err)
					return
				}
			}
		})
	}
	time.Sleep(1500 * time.Millisecond)
	told.Store(true)
	began := time.Now()
	s.Signal(syscall.SIGTERM)
	all.Wait()
	err := s.Await()
	// A client of HTTP/2 that was at rest keeps its connection until the second GOAWAY,
	// 5 s after the first (drain_timeout); the drain time would be 10 s.
	if took := time.Since(began); err != nil || took > 8*time.Second {
		t.Errorf("it ended after %v with %v", took, err)
	}
	t.Logf("%d requests served, %d of them after SIGTERM, %d clients turned away", served.Load(), afterwards.Load(), refused.Load())
	if served.Load() < 100 || afterwards.Load() < 4 || refused.Load() != 16 {
		t.Error("that was no load")
	}
}

// fetch makes a request whose response must be complete.
func fetch(ctx context.Context, c *soakClient, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, strings.NewReader("body"))
	if err != nil {
		return err
	}
	req.GetBody = nil // so that net/http does not repeat what fails
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || string(body) != "one two") {
		err = fmt.Errorf("%s: %q", resp.Status, body)
	}
	return err
}

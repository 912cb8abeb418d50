package stats

import (
	"context"
	"strings"
	"testing"
	"time"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry makes a registry from a StatsConfig in JSON.
func registry(t testing.TB, config string) *Registry {
	t.Helper()
	cfg := &metricsv3.StatsConfig{}
	if err := protojson.Unmarshal([]byte(config), cfg); err != nil {
		t.Fatal(err)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func snapshot(t testing.TB, r *Registry) *Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := r.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func render(t testing.TB, s *Snapshot, query string) string {
	t.Helper()
	var b strings.Builder
	if err := Render(&b, s, options(t, query)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// worker runs posted functions on one goroutine.
type worker struct {
	queue chan func()
	stop  chan struct{}
	done  chan struct{}
}

func newWorker() *worker {
	w := &worker{queue: make(chan func(), 64), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			select {
			case f := <-w.queue:
				f()
			case <-w.stop:
				return
			}
		}
	}()
	return w
}

func (w *worker) post(f func()) bool {
	select {
	case <-w.done:
		return false
	case w.queue <- f:
		return true
	}
}

// do runs f on the worker and waits.
func (w *worker) do(f func()) {
	ran := make(chan struct{})
	w.post(func() { f(); close(ran) })
	<-ran
}

func (w *worker) close() {
	close(w.stop)
	<-w.done
}

package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/demand"
	"github.com/xebec-proxy/xebec/internal/dataplane/hcm"
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// running is a worker at work.
type running struct {
	ctx  context.Context //nolint:containedctx // the worker's life
	w    *listener.Worker
	http *hcm.Server
	set  pool.Set
	done chan struct{}
	log  loop.Timer
	trim loop.Timer
}

// trimInterval is how often a worker gives up memory that it does not use.
const trimInterval = time.Second

// HTTP implements hcm.ServerOf.
func (r *running) HTTP() *hcm.Server { return r.http }

// Clusters is the worker's clusters.
func (r *running) Clusters() *pool.Set { return &r.set }

// Waits is what the worker's requests and connections wait for.
func (r *running) Waits() *demand.Waits { return r.http.Waits }

// newWorker makes a worker; it runs when its loop does.
func (p *Proxy) newWorker(ctx context.Context, id int) (*running, error) {
	l, err := loop.New(loop.Options{Logger: p.log, Start: p.epoch, NoRing: p.o.NoIOURing})
	if err != nil {
		return nil, fmt.Errorf("worker %d: %w", id, err)
	}
	shard := p.stat.NewShard(l.Post)
	w := worker.New(id, l, shard, &p.ids)
	shard.Before(w.CountBuffered)
	r := &running{ctx: ctx, done: make(chan struct{})}
	r.w = listener.NewWorker(ctx, w)
	r.w.User = r
	if p.overload != nil {
		w.Timeouts = p.overload.Timeouts()
	}
	r.log.Init(l, func() { w.Log.Flush() })
	w.Log = p.files.NewWorker(func(after time.Duration) { r.log.Set(after) })
	r.trim.Init(l, func() {
		l.Trim()
		w.Streams.Trim()
		r.trim.Set(trimInterval)
	})
	r.trim.Set(trimInterval)
	r.http = hcm.NewServer(ctx, w, &r.set)
	r.http.Waits = demand.New(func(k demand.Key) { p.res.asks.add(asker{worker: id, key: k}) },
		func(k demand.Key) { p.res.asks.add(asker{worker: id, key: k, gone: true}) })
	return r, nil
}

// run runs the worker's loop until it is stopped.
func (r *running) run() {
	defer close(r.done)
	l := r.w.Loop
	l.OnStop(func() {
		r.w.Log.Flush()
		r.w.Stats.Close()
	})
	l.Run()
}

// drain ends the worker's connections in order and calls done when none is left.
func (r *running) drain(done func()) {
	r.w.StopAccepting()
	r.w.Drain()
	var t loop.Timer
	look := func() {
		if r.w.Open() == 0 {
			done()
			return
		}
		t.Set(20 * time.Millisecond)
	}
	t.Init(r.w.Loop, look)
	look()
}

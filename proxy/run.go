package proxy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// serverState is the state that /ready and /server_info tell (AD-02).
type serverState int32

const (
	statePreInitializing serverState = iota // clusters are waited for
	stateInitializing                       // what listeners need is
	stateLive
	stateDraining
)

func (s serverState) String() string {
	return [...]string{"PRE_INITIALIZING", "INITIALIZING", "LIVE", "DRAINING"}[s]
}

type stateBox struct{ v atomic.Int32 }

func (b *stateBox) get() serverState  { return serverState(b.v.Load()) }
func (b *stateBox) set(s serverState) { b.v.Store(int32(s)) }

// Run serves until ctx ends or Quit is called, then stops in order (HR-03): not
// ready, no new connections, what is under way is finished within DrainTime,
// statistics and logs are flushed. It returns after everything it started. An
// error before it serves leaves nothing bound.
func (p *Proxy) Run(ctx context.Context) error {
	p.started = time.Now()
	raiseProcs(p.o.Workers)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := p.open(ctx); err != nil {
		return errors.Join(err, p.files.Close(work))
	}
	defer p.closeListeners()
	if err := p.startWorkers(work); err != nil {
		p.admin.close()
		return errors.Join(err, p.stopWorkers(), p.files.Close(work))
	}
	var background errgroup.Group
	bg, stopBackground := context.WithCancel(work)
	defer stopBackground()
	background.Go(func() error { return p.flusher.Run(bg) })
	background.Go(func() error { return tidy(bg) })
	background.Go(func() error { return p.admin.run(bg) })
	background.Go(func() error { return p.reclaim(bg) })
	background.Go(func() error { return p.runOverload(bg) })
	err := p.res.begin(bg)
	if err == nil {
		err = p.serve(ctx)
	}
	stopBackground()
	err = errors.Join(err, background.Wait())
	p.res.end()
	err = errors.Join(err, p.stopWorkers())
	stop()
	return errors.Join(err, p.files.Close(context.WithoutCancel(ctx)))
}

// raiseProcs lets the runtime run something besides the workers, which keep
// their processors while they wait.
func raiseProcs(workers int) {
	if n := workers + 1; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
}

// open binds every socket, or none.
func (p *Proxy) open(ctx context.Context) error {
	listeners := p.res.activeListeners()
	for i, l := range listeners {
		if err := l.Bind(p.o.Workers); err != nil {
			for _, o := range listeners[:i] {
				o.Close()
			}
			return fmt.Errorf("error adding listener '%s': %w", l.Name, err)
		}
	}
	if err := p.admin.listen(ctx); err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return err
	}
	return nil
}

// closeListeners closes the sockets that no worker has taken, since Run ended
// before it served.
func (p *Proxy) closeListeners() {
	p.res.mu.Lock()
	defer p.res.mu.Unlock()
	for _, s := range p.res.listeners {
		for _, l := range []*listenerEntry{s.active, s.warming} {
			if l != nil {
				l.Close()
			}
		}
	}
}

func (p *Proxy) startWorkers(ctx context.Context) error {
	for i := range p.o.Workers {
		r, err := p.newWorker(ctx, i)
		if err != nil {
			return err
		}
		p.res.mu.Lock()
		for _, s := range p.res.clusterSlots() {
			if s.active != nil {
				r.install(s.active)
			}
		}
		p.workers = append(p.workers, r)
		p.res.mu.Unlock()
		go r.run()
	}
	p.tellSending()
	return nil
}

// tellSending logs how the workers send: they are all alike.
func (p *Proxy) tellSending() {
	log := p.component("main")
	switch together, why := p.workers[0].w.Loop.SendsTogether(); {
	case together:
		log.Info("sending by io_uring, a turn of a worker at a time")
	case why != nil:
		log.Info("sending for each connection by itself", "reason", why)
	}
}

// reclaimInterval is how often what hosts counted by is made available again.
const reclaimInterval = time.Second

// reclaim makes counters of hosts that are gone available again.
func (p *Proxy) reclaim(ctx context.Context) error {
	t := time.NewTicker(reclaimInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if err := p.stat.Hidden().Reclaim(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("counters of hosts are lost to use", "error", err)
		}
	}
}

// serve accepts connections when every cluster is ready, until the end.
func (p *Proxy) serve(ctx context.Context) error {
	if !p.initialize(ctx) {
		return nil
	}
	if err := p.accept(); err != nil {
		return err
	}
	p.state.set(stateLive)
	p.server.live(p)
	close(p.ready)
	select {
	case <-ctx.Done():
	case <-p.quit:
	}
	p.state.set(stateDraining)
	p.res.lock()
	p.res.serving = false // nothing new begins
	p.res.unlock()
	p.drain()
	return nil
}

// initialize waits for what has to be there before connections are accepted
// (BS-24); false if the proxy is to end before.
func (p *Proxy) initialize(ctx context.Context) bool {
	warm := func() bool {
		for _, s := range p.res.clusters {
			if s.active != nil && !s.active.warm() || s.warming != nil {
				return false
			}
		}
		return true
	}
	if !p.res.await(ctx, p.res.hasRuntime) || !p.res.await(ctx, warm) {
		return false
	}
	d := p.o.Discovery
	if d != nil && (!p.await(ctx, d.Clusters) || !p.res.await(ctx, warm)) {
		return false
	}
	p.state.set(stateInitializing)
	if d != nil && !p.await(ctx, d.Listeners) {
		return false
	}
	p.res.beginListeners() //nolint:contextcheck // what it starts lives as long as Run
	return p.res.await(ctx, func() bool {
		for _, s := range p.res.listeners {
			for _, l := range []*listenerEntry{s.active, s.warming} {
				if l != nil && !l.deps.ready() {
					return false
				}
			}
		}
		return true
	})
}

// await runs a step of the beginning; false if the proxy is to end before.
func (p *Proxy) await(ctx context.Context, step func(context.Context)) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-p.quit:
			cancel()
		case <-stop:
		}
	}()
	step(ctx)
	return ctx.Err() == nil
}

// accept makes every worker accept.
func (p *Proxy) accept() error {
	errs := make([]error, len(p.workers))
	listeners := p.res.activeListeners()
	for _, l := range listeners {
		if err := l.Listen(); err != nil {
			return fmt.Errorf("error adding listener '%s': %w", l.Name, err)
		}
	}
	var wg sync.WaitGroup
	for i, r := range p.workers {
		wg.Add(1)
		r.w.Loop.Post(func() {
			defer wg.Done()
			for _, l := range listeners {
				errs[i] = errors.Join(errs[i], l.Start(r.w))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.res.lock()
	p.res.serving = true
	p.res.leaving.again(p.res)
	p.res.settleListeners()
	p.res.unlock()
	for name, addresses := range p.Listeners() {
		p.component("main").Info("listening", "listener", name, "addresses", addresses)
	}
	return nil
}

// drain ends connections in order, for DrainTime at most.
func (p *Proxy) drain() {
	var wg sync.WaitGroup
	for _, r := range p.workers {
		wg.Add(1)
		if !r.w.Loop.Post(func() { r.drain(wg.Done) }) {
			wg.Done()
		}
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	t := time.NewTimer(p.o.DrainTime)
	defer t.Stop()
	select {
	case <-all:
	case <-t.C:
	}
	for _, r := range p.workers {
		r.w.Loop.Post(func() { r.w.CloseAll() })
	}
	<-all
}

// stopWorkers ends the loops and waits for them.
func (p *Proxy) stopWorkers() error {
	for _, r := range p.workers {
		r.w.Loop.Post(r.w.Loop.Stop)
	}
	for _, r := range p.workers {
		<-r.done
	}
	return nil
}

package proxy

import (
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
)

// drainGroup is a listener, or filter chains of one, whose connections end in
// order.
type drainGroup struct {
	whole  *listenerEntry // or nil
	chains []*listener.Chain
	deps   []*chainDeps
	told   atomic.Int64 // workers that know: until then there may be new connections
}

// open is how many connections there still are.
func (g *drainGroup) open() int64 {
	if g.whole != nil {
		return g.whole.Connections()
	}
	var n int64
	for _, c := range g.chains {
		n += c.Connections()
	}
	return n
}

// chainsOf are all filter chains of a listener.
func chainsOf(l *listener.Listener) []*listener.Chain {
	out := append([]*listener.Chain(nil), l.Chains...)
	if l.Default != nil {
		out = append(out, l.Default)
	}
	return out
}

// retireListener ends a listener in order: all of it, or, if after replaces it
// in place, the filter chains that this one does not have.
func (r *Resources) retireListener(l, after *listenerEntry) {
	g := &drainGroup{}
	d := r.newDraining()
	m := r.p.stat.Main()
	if after != nil && after.inPlace {
		m.Inc(r.p.server.InPlace)
	} else {
		g.whole = l
		l.Retire(d)
		r.drainingListeners[l] = struct{}{}
	}
	for _, c := range chainsOf(l.Listener) {
		if g.whole == nil && after.deps[c] != nil {
			continue
		}
		c.Retire(d)
		g.chains, g.deps = append(g.chains, c), append(g.deps, l.deps[c])
	}
	if own := l.deps[nil]; own != nil {
		g.deps = append(g.deps, own)
	}
	if g.whole == nil {
		r.drainingChains += int64(len(g.chains))
	}
	r.post(func(w *running) {
		if g.whole != nil {
			w.w.Forget(l.Listener)
		}
		w.w.RetireConnections()
		g.told.Add(1)
	})
	if r.ctx == nil {
		r.drained(g)
		return
	}
	r.tasks.Go(func() { r.watchDrain(g) })
}

// Bounds of how often it is looked whether connections have ended.
const (
	firstDrainLook = 10 * time.Millisecond
	lastDrainLook  = time.Second
)

// watchDrain waits until the connections of a group have ended, and closes what
// is left after the drain time.
func (r *Resources) watchDrain(g *drainGroup) {
	pause, end := firstDrainLook, time.Now().Add(r.p.o.ListenerDrainTime)
	t := time.NewTimer(pause)
	defer t.Stop()
	for g.told.Load() < int64(r.p.o.Workers) || g.open() > 0 {
		if !time.Now().Before(end) {
			r.mu.Lock()
			r.post(func(w *running) { w.w.CloseRetired(g.chains) })
			r.mu.Unlock()
			end = time.Now().Add(lastDrainLook)
		}
		select {
		case <-r.ctx.Done():
			return
		case <-t.C:
		}
		pause = min(2*pause, lastDrainLook, max(time.Until(end), firstDrainLook))
		t.Reset(pause)
	}
	r.lock()
	defer r.unlock()
	if !r.stopped {
		r.drained(g)
	}
}

// drained is the end of a group: nothing needs what it had by discovery.
func (r *Resources) drained(g *drainGroup) {
	for _, d := range g.deps {
		r.detachChain(d)
	}
	if g.whole != nil {
		delete(r.drainingListeners, g.whole)
	} else {
		r.drainingChains -= int64(len(g.chains))
	}
	r.countListeners()
}

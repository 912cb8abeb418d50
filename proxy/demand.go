package proxy

import (
	"context"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/demand"
)

// asker is a worker that waits, and what for.
type asker struct {
	worker int
	key    demand.Key
	// gone says that it does not wait any more.
	gone bool
}

// answer tells a worker, after everything that was posted to it before.
func (r *Resources) answer(a asker) {
	w := r.p.workers[a.worker]
	w.w.Loop.Post(func() { w.http.Waits.Answer(a.key) })
}

// asks is where workers, which must not wait for the configuration, leave what
// they ask for.
type asks struct {
	mu   sync.Mutex
	list []asker
	wake chan struct{}
}

func newAsks() *asks { return &asks{wake: make(chan struct{}, 1)} }

func (a *asks) add(w asker) {
	a.mu.Lock()
	a.list = append(a.list, w)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *asks) take() []asker {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = nil
	return list
}

// serveAsks sees to what workers ask for, until ctx ends.
func (r *Resources) serveAsks(ctx context.Context) {
	for {
		select {
		case <-r.asks.wake:
		case <-ctx.Done():
			return
		}
		r.lock()
		for _, a := range r.asks.take() {
			switch {
			case r.stopped:
			case a.gone:
				r.leaveAsked(a)
			case a.key.Kind == demand.Cluster:
				r.askCluster(a)
			case a.key.Kind == demand.Scope:
				r.askScope(a)
			default:
				r.askHost(a)
			}
		}
		r.unlock()
	}
}

// tableOf is the route configuration that a virtual host's name begins with
// (XN-21).
func tableOf(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// askHost asks for a virtual host. A host that was found is not asked for again:
// what it has, the tables have.
func (r *Resources) askHost(w asker) {
	s := r.hostSetOf(tableOf(w.key.Name), w.key.Source)
	if s == nil { // the route configuration has changed meanwhile
		r.answer(w)
		return
	}
	a := s.asked.find(r, w.key.Name)
	if a == nil || a.found {
		r.answer(w)
		return
	}
	s.each(func(st *vhdsStats) { r.p.stat.Main().Inc(st.UpdateAttempt) })
	s.asked.await(a, w)
}

// askCluster asks for a cluster (CM-33). It stays subscribed to if there is one.
func (r *Resources) askCluster(w asker) {
	slot := r.clusters[w.key.Name]
	if slot != nil && slot.active != nil {
		r.answer(w)
		return
	}
	s := r.demandedOf(w.key.Source)
	if s == nil {
		s = newAskedSet(ClusterType, w.key.Source)
		r.demanded = append(r.demanded, s)
	}
	a := s.find(r, w.key.Name)
	if a == nil { // there is none
		r.answer(w)
		return
	}
	s.await(a, w)
}

// demandedOf is what was asked for of a source of clusters, or nil.
func (r *Resources) demandedOf(source *corev3.ConfigSource) *askedSet {
	return oneOfSource(r.demanded, source)
}

// leaveAsked notes that nobody on a worker waits for something any more. Routes
// of scopes are the configuration's: those that were asked for come anyway.
func (r *Resources) leaveAsked(w asker) {
	switch w.key.Kind {
	case demand.Cluster:
		if s := r.demandedOf(w.key.Source); s != nil {
			s.leave(w)
		}
	case demand.VirtualHost:
		if s := r.hostSetOf(tableOf(w.key.Name), w.key.Source); s != nil {
			s.asked.leave(w)
		}
	case demand.Scope:
		r.leaveScope(w)
	}
}

// clusterComes says that a cluster that did not exist is on its way.
func (r *Resources) clusterComes(name string) {
	for _, s := range r.demanded {
		s.comes(name)
	}
}

// clusterCame lets those go on who wait for a cluster: workers have it.
func (r *Resources) clusterCame(name string) {
	for _, s := range r.demanded {
		s.came(r, name)
	}
}

// Resolved says that what was asked for on demand has come and was set: a
// virtual host, by the name under which it was asked for. A nil source is any.
func (r *Resources) Resolved(source *corev3.ConfigSource, typeURL, name string) {
	r.lock()
	defer r.unlock()
	if typeURL == VirtualHostType && !r.stopped {
		r.hostAnswered(source, name, true)
	}
}

// hostAnswered lets those go on who wait for a virtual host, which was found or
// is not to be had.
func (r *Resources) hostAnswered(source *corev3.ConfigSource, name string, found bool) {
	for _, s := range r.hosts[tableOf(name)] {
		switch {
		case !sameSource(s.source, source):
		case found:
			s.asked.came(r, name)
		default:
			s.asked.none(r, name)
		}
	}
}

// noCluster lets those go on who wait for a cluster that does not exist.
func (r *Resources) noCluster(source *corev3.ConfigSource, name string) {
	for _, s := range ofSource(r.demanded, source) {
		s.none(r, name)
	}
}

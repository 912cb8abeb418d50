package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/healthcheck"
	"github.com/xebec-proxy/xebec/internal/dataplane/lb"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// clusterSlot is what there is under a cluster's name.
type clusterSlot struct {
	name     string
	seq      uint64 // of its making, for a stable order
	static   bool
	active   *clusterEntry // that workers have; nil while the first one warms
	warming  *clusterEntry // that takes its place when it is ready, or nil
	rejected *failure      // since the last success, or nil
}

// clusterEntry is a cluster with what workers need to open its pools.
type clusterEntry struct {
	*cluster.Cluster
	origin
	viaAPI bool // not of the bootstrap
	opt    *pool.Options
	tls    []*clientTLS // of the cluster's transport sockets
	// sockets are the same by the number of the match that selects them, plus 1;
	// nil where bytes are raw. Empty without TLS.
	sockets     []*clientTLS
	secrets     []*secretUser
	checker     *healthcheck.Checker // nil without health checks
	checks      context.CancelFunc   // ends it; nil before it runs
	eds         *edsState
	again       bool               // the assignment is to be sent again
	fetch       *time.Timer        // ends waiting for the assignment
	ask         *time.Timer        // asks for it again
	stop        context.CancelFunc // of Run
	lease       *stats.Lease       // of the statistics
	versionText *stats.Text        // of the assignment; nil without EDS
}

// warm reports whether everything the cluster waits for has come.
func (e *clusterEntry) warm() bool {
	return e.hasSecrets() && e.hasHosts() && !e.again && !e.eds.incomplete()
}

// hasSecrets reports whether the secrets have come, or are not waited for any more.
func (e *clusterEntry) hasSecrets() bool {
	for _, u := range e.secrets {
		if !u.over {
			return false
		}
	}
	return true
}

// hasHosts reports whether the first hosts were found, and checked if they are.
func (e *clusterEntry) hasHosts() bool {
	select {
	case <-e.Ready():
		return true
	default:
		return false
	}
}

// halt stops what keeps the cluster up to date.
func (e *clusterEntry) halt() {
	for _, stop := range []context.CancelFunc{e.stop, e.checks} {
		if stop != nil {
			stop()
		}
	}
	e.stopWaiting()
	e.Halt()
	for _, u := range e.secrets {
		u.halt()
	}
}

// stopWaiting ends the waiting for the assignment.
func (e *clusterEntry) stopWaiting() {
	e.again = false
	for _, t := range []*time.Timer{e.fetch, e.ask} {
		if t != nil {
			t.Stop()
		}
	}
	e.fetch, e.ask = nil, nil
}

// SetCluster adds a cluster, or replaces the one of its name (CM-04, CM-05). A
// cluster of the bootstrap is not replaced: that is ignored, with a warning. A
// new cluster serves when its first hosts have come; until then there is none of
// its name, or the former one.
func (r *Resources) SetCluster(c *clusterv3.Cluster, version string) error {
	r.lock()
	defer r.unlock()
	if r.stopped {
		return ErrStopped
	}
	s := r.clusters[c.GetName()]
	if s != nil && s.static {
		r.p.component("upstream").Warn("a cluster of the bootstrap is not replaced by a discovered one", "cluster", c.GetName())
		return nil
	}
	from, err := newOrigin(c, version)
	if err != nil {
		return fmt.Errorf("cluster %q: %w", c.GetName(), err)
	}
	if s != nil && s.keeps(r, &from) {
		return nil
	}
	e, err := r.buildCluster(c)
	if s == nil {
		s = r.addSlot(c.GetName())
	}
	if err != nil {
		s.rejected = &failure{c, version, time.Now(), err}
		return err
	}
	s.rejected, e.origin, e.viaAPI = nil, from, true
	m := r.p.stat.Main()
	if s.active != nil || s.warming != nil {
		m.Inc(r.p.server.ClusterModified)
	} else {
		m.Inc(r.p.server.ClusterAdded)
	}
	r.dropWarming(s)
	r.setWarming(s, e)
	r.clusterComes(s.name)
	r.attachCluster(e)
	if r.ctx != nil {
		r.startCluster(e)
	}
	r.settle(s)
	r.countClusters()
	return nil
}

// keeps reports whether a cluster of this content is there already. One that
// was to replace it is given up.
func (s *clusterSlot) keeps(r *Resources, from *origin) bool {
	switch {
	case s.warming != nil && s.warming.same(from):
	case s.active != nil && s.active.same(from):
		r.dropWarming(s)
		r.countClusters()
	default:
		return false
	}
	s.rejected = nil
	return true
}

// RemoveCluster removes a cluster; requests under way end. Clusters of the
// bootstrap stay.
func (r *Resources) RemoveCluster(name string) {
	r.lock()
	defer r.unlock()
	s := r.clusters[name]
	if s == nil || s.static || r.stopped {
		return
	}
	r.dropWarming(s)
	if s.active != nil {
		r.p.stat.Main().Inc(r.p.server.ClusterRemoved)
		r.release(s.active)
		r.setActive(s, nil)
		r.postUnhurried(func(w *running) {
			if old := w.set.Remove(name); old != nil {
				old.Retire()
			}
		})
	}
	delete(r.clusters, name)
	r.countClusters()
	r.note()
}

func (r *Resources) addSlot(name string) *clusterSlot {
	r.seq++
	s := &clusterSlot{name: name, seq: r.seq}
	r.clusters[name] = s
	return s
}

// buildCluster makes a cluster, of which nothing runs yet.
func (r *Resources) buildCluster(c *clusterv3.Cluster) (*clusterEntry, error) {
	checked, err := checkAs(r, c)
	if err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.GetName(), err)
	}
	return r.p.newCluster(checked)
}

// attachCluster makes the cluster known to what it gets its hosts of.
func (r *Resources) attachCluster(e *clusterEntry) {
	e.ApplyRuntime(r.p.rt.Load())
	for _, u := range e.secrets {
		r.attachSecrets(u)
	}
	r.attachEDS(e)
}

// startCluster begins to find the cluster's hosts. r.ctx is set.
func (r *Resources) startCluster(e *clusterEntry) {
	for _, u := range e.secrets {
		r.startSecrets(u)
	}
	r.startChecks(e)
	if name, source, ok := e.EDS(); ok {
		if e.again {
			r.waitAgain(e, name, source)
		} else if d := fetchTimeout(source); d > 0 && !e.Known() && !e.eds.incomplete() {
			e.fetch = r.after(d, func() {
				r.p.component("upstream").Warn("no endpoints came within initial_fetch_timeout", "cluster", e.Name(), "service", name)
				e.GiveUp()
				r.settleNamed(e.Name())
			})
		}
		return
	}
	if e.Known() {
		return // STATIC: nothing to run
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(r.ctx)
	r.tasks.Go(func() { _ = e.Run(ctx) })
	r.settleWhenReady(ctx.Done(), e)
}

// settleWhenReady looks after a cluster that gets ready on another goroutine.
func (r *Resources) settleWhenReady(over <-chan struct{}, e *clusterEntry) {
	r.tasks.Go(func() {
		select {
		case <-e.Ready():
			r.lock()
			defer r.unlock()
			r.settleNamed(e.Name())
		case <-over:
		}
	})
}

// dropWarming gives up a cluster that has not come to serve.
func (r *Resources) dropWarming(s *clusterSlot) {
	if s.warming != nil {
		r.release(s.warming)
		r.setWarming(s, nil)
	}
}

// release ends what keeps a cluster up to date.
func (r *Resources) release(e *clusterEntry) {
	e.halt()
	e.Ended()
	e.lease.End()
	r.detachEDS(e)
	for _, u := range e.secrets {
		r.detachSecrets(u)
	}
}

func (r *Resources) settleNamed(name string) {
	if s := r.clusters[name]; s != nil && !r.stopped {
		r.settle(s)
		r.note()
	}
}

// settle puts a cluster that has become warm in force.
func (r *Resources) settle(s *clusterSlot) {
	for _, e := range []*clusterEntry{s.active, s.warming} {
		if e != nil {
			r.startChecks(e) // if it waited for secrets
		}
	}
	e := s.warming
	if e == nil || !e.warm() {
		return
	}
	if s.active != nil {
		r.release(s.active)
	}
	e.ApplyRuntime(r.p.rt.Load()) // which may have changed meanwhile
	r.setActive(s, e)
	r.setWarming(s, nil)
	r.postUnhurried(func(w *running) { w.install(e) })
	r.clusterCame(s.name)
	r.countClusters()
	r.note()
}

// post runs something on each worker. r.mu is held.
func (r *Resources) post(f func(*running)) {
	for _, w := range r.p.workers {
		w.w.Loop.Post(func() { f(w) })
	}
}

// postUnhurried is post for what matters to a worker no earlier than its next event.
func (r *Resources) postUnhurried(f func(*running)) {
	for _, w := range r.p.workers {
		w.w.Loop.PostUnhurried(func() { f(w) })
	}
}

// install makes the worker use a cluster, in place of the one of its name.
func (w *running) install(e *clusterEntry) {
	c := pool.NewCluster(w.ctx, w.w.Worker, e.Cluster, lb.NewPicker(e.Cluster, w.w.Loop, w.w.Stats), e.opt)
	if old := w.set.Add(c); old != nil {
		old.Retire()
	}
}

// countClusters sets the gauges of the cluster manager.
func (r *Resources) countClusters() {
	if !r.live {
		return
	}
	m := r.p.stat.Main()
	m.GaugeSet(r.p.server.ClustersActive, r.active)
	m.GaugeSet(r.p.server.ClustersWarming, r.warming)
	if w, ok := r.p.o.Discovery.(warmingWatcher); ok {
		w.Warming(r.warming > 0)
	}
}

func (r *Resources) setActive(s *clusterSlot, e *clusterEntry) {
	r.active += change(s.active, e)
	s.active = e
}

func (r *Resources) setWarming(s *clusterSlot, e *clusterEntry) {
	r.warming += change(s.warming, e)
	s.warming = e
}

// change is how many more there are.
func change(before, after *clusterEntry) (n int64) {
	if before != nil {
		n--
	}
	if after != nil {
		n++
	}
	return n
}

// clusterSlots are the slots in the order in which they were made. r.mu is held.
func (r *Resources) clusterSlots() []*clusterSlot {
	out := make([]*clusterSlot, 0, len(r.clusters))
	for _, s := range r.clusters {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *clusterSlot) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// cluster is the cluster in force of a name, or nil.
func (r *Resources) cluster(name string) *clusterEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.clusters[name]; s != nil {
		return s.active
	}
	return nil
}

// activeClusters are the clusters that workers have.
func (r *Resources) activeClusters() []*clusterEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*clusterEntry
	for _, s := range r.clusterSlots() {
		if s.active != nil {
			out = append(out, s.active)
		}
	}
	return out
}

// hasCluster reports whether there is a cluster of a name, in force or about to
// be. r.mu is held.
func (r *Resources) hasCluster(name string) bool {
	s := r.clusters[name]
	return s != nil && (s.active != nil || s.warming != nil)
}

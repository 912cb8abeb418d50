package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
)

// listenerSlot is what there is under a listener's name.
type listenerSlot struct {
	name     string
	seq      uint64
	static   bool
	active   *listenerEntry // that accepts connections, or nil
	warming  *listenerEntry // that takes its place when it is ready, or nil
	rejected *failure       // since the last success, or nil
}

// listenerEntry is a listener with what it gets by discovery.
type listenerEntry struct {
	*listener.Listener
	origin
	deps  deps
	fresh []*chainDeps // those that another version does not have
	// inPlace says that only filter chains differ from the version in force.
	inPlace bool
}

// SetListener adds a listener, or replaces the one of its name (LM-03, LM-04).
// If only filter chains differ, connections of the others are untouched (LM-05);
// else the new listener takes the sockets over and the connections of the old
// one end in order. Addresses are bound at once, and connections accepted when
// routes and secrets have come. A listener of the bootstrap cannot be replaced.
func (r *Resources) SetListener(c *listenerv3.Listener, version string) error {
	r.lock()
	defer r.unlock()
	if r.stopped {
		return ErrStopped
	}
	from, err := newOrigin(c, version)
	if err != nil {
		return fmt.Errorf("listener %q: %w", c.GetName(), err)
	}
	s := r.listeners[c.GetName()]
	if s != nil && s.keeps(r, &from) {
		return nil
	}
	if r.leaving.stops(c) {
		r.p.component("main").Debug("a listener is not added or changed", "listener", c.GetName(), "reason", whyNotAdded)
		return nil
	}
	var l *listenerEntry
	if err = refuseListener(c, s); err == nil {
		l, err = r.prepareListener(c, s)
	}
	if s == nil {
		s = r.addListenerSlot(c.GetName())
	}
	if err != nil {
		err = fmt.Errorf("error adding listener '%s': %w", c.GetName(), err)
		s.rejected = &failure{c, version, time.Now(), err}
		return err
	}
	l.origin, s.rejected = from, nil
	r.leaving.put(l)
	m := r.p.stat.Main()
	if s.active != nil || s.warming != nil {
		m.Inc(r.p.server.ListenerModified)
	} else {
		m.Inc(r.p.server.ListenerAdded)
	}
	r.dropWarmingListener(s)
	s.warming = l
	for _, d := range l.fresh {
		r.attachChain(d)
	}
	return r.settleListener(s)
}

// keeps reports whether a listener of this content is there already. One that
// was to replace it is given up.
func (s *listenerSlot) keeps(r *Resources, from *origin) bool {
	switch {
	case s.warming != nil && s.warming.same(from):
	case s.active != nil && s.active.same(from):
		r.dropWarmingListener(s)
	default:
		return false
	}
	s.rejected = nil
	return true
}

func refuseListener(c *listenerv3.Listener, s *listenerSlot) error {
	switch {
	case c.GetName() == "":
		return errors.New("name: a listener that is discovered needs a name")
	case s != nil && s.static:
		return errors.New("name: a listener of the bootstrap has this name, and cannot be replaced")
	}
	return nil
}

// prepareListener builds and binds a listener. Of what is in force it takes
// chains and sockets.
func (r *Resources) prepareListener(c *listenerv3.Listener, s *listenerSlot) (*listenerEntry, error) {
	checked, err := checkAs(r, c)
	if err != nil {
		return nil, err
	}
	var before *listenerEntry
	if s != nil {
		before = s.active
	}
	inPlace := before != nil && r.serving && onlyChains(before.Config, checked)
	var reuse *listenerEntry
	if inPlace {
		reuse = before
	}
	l, err := r.p.newListener(checked, reuse)
	if err != nil {
		return nil, err
	}
	if l.inPlace = inPlace; inPlace {
		l.Inherit(before.Listener)
	}
	if err := r.bind(l, s); err != nil {
		r.freePorts(l)
		return nil, err
	}
	return l, nil
}

// bind gives a listener its ports: those of the other versions, or new ones.
func (r *Resources) bind(l *listenerEntry, s *listenerSlot) error {
	for _, o := range r.listeners {
		for _, e := range []*listenerEntry{o.active, o.warming} {
			if o == s || e == nil {
				continue
			}
			if !o.static && slices.Contains(r.leavers, o.name) {
				l.Share(e.Listener)
				continue
			}
			if address, ok := l.Conflict(e.Listener); ok {
				return fmt.Errorf("has duplicate address '%s' as existing listener '%s'", address, o.name)
			}
		}
	}
	if s != nil {
		for _, e := range []*listenerEntry{s.active, s.warming} {
			if e == nil {
				continue
			}
			if !l.SameReuse(e.Listener) {
				return errors.New("enable_reuse_port: reuse port cannot be changed during an update")
			}
			l.Share(e.Listener)
		}
	}
	err := l.Bind(r.p.o.Workers)
	if err != nil {
		r.p.stat.Main().Inc(r.p.server.ListenerFailure)
	}
	return err //nolint:wrapcheck // Envoy's text
}

// onlyChains reports whether two versions of a listener differ in their filter
// chains at most.
func onlyChains(a, b *listenerv3.Listener) bool {
	a, b = proto.CloneOf(a), proto.CloneOf(b)
	for _, l := range []*listenerv3.Listener{a, b} {
		l.FilterChains, l.DefaultFilterChain, l.FilterChainMatcher = nil, nil, nil
	}
	return proto.Equal(a, b)
}

// Leaving says which listeners are going to be removed, by calls of RemoveListener that
// follow those of SetListener: until the next call of Leaving, listeners may have their
// addresses. They take the sockets over, so that no connection is refused meanwhile.
func (r *Resources) Leaving(listeners []string) {
	r.lock()
	defer r.unlock()
	r.leavers = listeners
}

// RemoveListener removes a listener: it accepts no more connections, and those
// it has end in order within the drain time (LM-06). Listeners of the bootstrap
// stay.
func (r *Resources) RemoveListener(name string) {
	r.lock()
	defer r.unlock()
	s := r.listeners[name]
	if s == nil || s.static || r.stopped {
		return
	}
	r.dropWarmingListener(s)
	if s.active != nil {
		r.p.stat.Main().Inc(r.p.server.ListenerRemoved)
		r.freePorts(s.active)
		l := s.active
		r.post(func(w *running) { l.Hush(w.w) })
		r.retireListener(l, nil)
	}
	delete(r.listeners, name)
	r.countListeners()
	r.note()
}

// dropWarmingListener gives up a listener that has not come to serve.
func (r *Resources) dropWarmingListener(s *listenerSlot) {
	l := s.warming
	if l == nil {
		return
	}
	s.warming = nil
	for _, d := range l.fresh {
		r.detachChain(d)
	}
	r.freePorts(l)
}

// freePorts closes the ports that no listener has any more.
func (r *Resources) freePorts(l *listenerEntry) {
	for _, p := range l.Release() {
		if len(r.p.workers) == 0 {
			p.Close()
			continue
		}
		r.post(func(w *running) { p.Stop(w.w) })
	}
}

// settleListeners looks whether listeners have become warm.
func (r *Resources) settleListeners() {
	for _, s := range r.listeners {
		if s.warming == nil {
			continue
		}
		if err := r.settleListener(s); err != nil {
			r.p.component("main").Error("a listener cannot begin", "listener", s.name, "error", err)
		}
	}
	r.note()
}

// settleListener puts a listener that has become warm in force.
func (r *Resources) settleListener(s *listenerSlot) error {
	l := s.warming
	if l == nil || !r.serving || !l.deps.ready() {
		r.countListeners()
		return nil
	}
	if err := l.Listen(); err != nil {
		r.dropWarmingListener(s)
		r.p.stat.Main().Inc(r.p.server.ListenerFailure)
		err = fmt.Errorf("error adding listener '%s': %w", s.name, err)
		s.rejected = &failure{l.Config, l.version, time.Now(), err}
		r.countListeners()
		return err
	}
	before := s.active
	s.active, s.warming = l, nil
	r.post(func(w *running) {
		if err := l.Start(w.w); err != nil {
			r.p.component("main").Error("a worker does not accept", "listener", l.Name, "error", err)
			return
		}
		w.w.Stats.Inc(r.p.server.ListenerSuccess)
		if before != nil && l.inPlace {
			w.w.Move(before.Listener, l.Listener)
		}
	})
	if before != nil {
		r.freePorts(before)
		r.retireListener(before, l)
	}
	l.fresh = nil
	r.countListeners()
	r.note()
	return nil
}

// countListeners sets the gauges of the listener manager.
func (r *Resources) countListeners() {
	if !r.live {
		return
	}
	active, warming := int64(0), int64(0)
	for _, s := range r.listeners {
		if s.active != nil {
			active++
		}
		if s.warming != nil {
			warming++
		}
	}
	m := r.p.stat.Main()
	m.GaugeSet(r.p.server.ListenersActive, active)
	m.GaugeSet(r.p.server.ListenersWarming, warming)
	m.GaugeSet(r.p.server.ListenersDrain, int64(len(r.drainingListeners)))
	m.GaugeSet(r.p.server.ChainsDraining, r.drainingChains)
}

func (r *Resources) addListenerSlot(name string) *listenerSlot {
	r.seq++
	s := &listenerSlot{name: name, seq: r.seq}
	r.listeners[name] = s
	return s
}

// listenerSlots are the slots in the order in which they were made. r.mu is held.
func (r *Resources) listenerSlots() []*listenerSlot {
	out := make([]*listenerSlot, 0, len(r.listeners))
	for _, s := range r.listeners {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *listenerSlot) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// activeListeners are the listeners that accept connections.
func (r *Resources) activeListeners() []*listenerEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*listenerEntry
	for _, s := range r.listenerSlots() {
		if s.active != nil {
			out = append(out, s.active)
		}
	}
	return out
}

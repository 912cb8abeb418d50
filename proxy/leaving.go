package proxy

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/admin"
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
)

// leaving is how all listeners leave, as the admin endpoints were asked to let
// them (AD-13, AD-14, HR-01). What becomes a listener later does as they do.
type leaving struct {
	failed   bool               // /healthcheck/fail
	draining *listener.Draining // /drain_listeners?graceful, or nil
	inbound  bool               // that is for inbound listeners only
	timer    *time.Timer        // ends it
	// stopped and stoppedInbound say which listeners accept no more.
	stopped, stoppedInbound bool
}

func isInbound(c *listenerv3.Listener) bool {
	return c.GetTrafficDirection() == corev3.TrafficDirection_INBOUND
}

// stops reports whether a listener accepts no more.
func (v *leaving) stops(c *listenerv3.Listener) bool {
	return v.stopped || v.stoppedInbound && isInbound(c)
}

// put makes a listener leave as all do.
func (v *leaving) put(l *listenerEntry) {
	l.EndWithResponses(v.failed && l.Config.GetDrainType() == listenerv3.Listener_DEFAULT)
	if v.draining != nil && (!v.inbound || isInbound(l.Config)) {
		l.Leave(v.draining)
	}
}

// eachListener calls do for every listener, also those that wait and those that
// are gone and have connections. r.mu is held.
func (r *Resources) eachListener(do func(l *listenerEntry)) {
	for _, s := range r.listeners {
		for _, l := range []*listenerEntry{s.active, s.warming} {
			if l != nil {
				do(l)
			}
		}
	}
	for l := range r.drainingListeners {
		do(l)
	}
}

// failHealthCheck lets the proxy say that it leaves, or not any more: the state is
// DRAINING, and connections of HTTP end with their next response, except with
// drain_type MODIFY_ONLY (AD-13).
func (r *Resources) failHealthCheck(fail bool) {
	r.lock()
	defer r.unlock()
	r.leaving.failed = fail
	r.p.failed.Store(fail)
	live := int64(1)
	if fail {
		live = 0
	}
	r.p.stat.Main().GaugeSet(r.p.server.Live, live)
	r.eachListener(r.leaving.put)
}

// drainListeners ends what listeners do (AD-14): they accept no more at once, or,
// if it is to be graceful, after the drain time. Their connections are asked to end
// as those of a listener that was removed, from now on. A second graceful one
// changes nothing.
func (r *Resources) drainListeners(o admin.Drain) {
	r.lock()
	defer r.unlock()
	v := &r.leaving
	switch {
	case r.stopped, o.Graceful && v.draining != nil:
	case !o.Graceful:
		r.stopListeners(o.InboundOnly)
	default:
		v.draining, v.inbound = r.newDraining(), o.InboundOnly
		r.eachListener(v.put)
		r.post(func(w *running) { w.w.RetireConnections() })
		v.timer = r.after(r.p.o.ListenerDrainTime, func() {
			if !o.SkipExit {
				r.stopListeners(o.InboundOnly)
			}
		})
	}
}

func (r *Resources) newDraining() *listener.Draining {
	return &listener.Draining{Since: time.Since(r.p.epoch), Time: r.p.o.ListenerDrainTime, Immediate: r.p.o.DrainImmediately}
}

// stopListeners closes the sockets of listeners for good. Their connections are
// asked to end, and none is cut.
func (r *Resources) stopListeners(inboundOnly bool) {
	v, before := &r.leaving, r.leaving
	if inboundOnly {
		v.stoppedInbound = true
	} else {
		v.stopped = true
	}
	for _, s := range r.listeners {
		if s.warming != nil && v.stops(s.warming.Config) {
			r.dropWarmingListener(s)
		}
		if l := s.active; l != nil && v.stops(l.Config) && !before.stops(l.Config) {
			l.Leave(r.newDraining())
			r.post(func(w *running) {
				l.StopAccepting(w.w)
				w.w.RetireConnections()
				w.w.Stats.Inc(r.p.server.ListenerStopped)
			})
		}
	}
	r.countListeners()
	r.note()
}

// again stops what has begun although it was stopped before. r.mu is held.
func (v *leaving) again(r *Resources) {
	all, inbound := v.stopped, v.stoppedInbound
	v.stopped, v.stoppedInbound = false, false
	if all || inbound {
		r.stopListeners(!all)
	}
}

// halt ends the drain time.
func (v *leaving) halt() {
	if v.timer != nil {
		v.timer.Stop()
	}
}

// whyNotAdded is why a listener is not added.
const whyNotAdded = "listeners of its direction were stopped by /drain_listeners"

// FailHealthCheck implements admin.View.
func (v view) FailHealthCheck(fail bool) { v.p.res.failHealthCheck(fail) }

// DrainListeners implements admin.View.
func (v view) DrainListeners(o admin.Drain) { v.p.res.drainListeners(o) }

package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
)

// overload reads what the overload manager is to the listener.
func (l *Listener) overload(cfg *listenerv3.Listener, env *Env) {
	l.all = env.Connections
	if l.all == nil {
		l.all = overload.NewConnections()
	}
	bypass := cfg.GetBypassOverloadManager()
	l.exempt = bypass || cfg.GetIgnoreGlobalConnLimit()
	if !bypass {
		l.Overload = env.Overload
	}
}

// admit decides whether a connection that was accepted is served, and counts it: by
// the limit of all connections (OV-02), by the overload manager
// (reject_incoming_connections, OV-03), and by the listener's limit (LM-19).
func (l *Listener) admit(w *Worker) bool {
	if !l.all.Enter(l.exempt) {
		w.Stats.Inc(l.Stats.GlobalOverflow)
		return false
	}
	if o := l.Overload; o != nil && o.RejectConnections.Takes(w.Loop) {
		l.all.Leave(l.exempt)
		w.Stats.Inc(l.Stats.CxOverload)
		return false
	}
	if n := l.opened.Add(1); l.full(n) {
		l.opened.Add(-1)
		l.all.Leave(l.exempt)
		w.Stats.Inc(l.Stats.CxOverflow)
		return false
	}
	return true
}

// full reports whether n open connections are more than the runtime allows
// now (LM-19).
func (l *Listener) full(n int64) bool {
	most, ok := l.limit()
	return ok && uint64(n) > most //nolint:gosec // not negative
}

// refused is the handler of a connection that is not served.
type refused struct{}

func (refused) OnOpen()                    {}
func (refused) OnData([]byte)              {}
func (refused) OnEnd()                     {}
func (refused) OnBlocked()                 {}
func (refused) OnDrained()                 {}
func (refused) OnClose(loop.Reason, error) {}

// Deafen makes the worker leave connections with the system that are for listeners of
// the overload manager (stop_accepting_connections), or accept them again. It is
// called on the worker.
func (w *Worker) Deafen(deaf bool) {
	w.deaf = deaf
	for p := range w.ports {
		p.turns[w.ID].hear(w)
	}
}

// hear makes a port accept or not, as the worker does for its listener.
func (t *turn) hear(w *Worker) { t.ln.Pause(t.hushed || w.deaf && t.l.Overload != nil) }

// Rewaiter is a Session with timers that the overload manager makes shorter. Rewait
// is called in [overload.Timeouts.Change].
type Rewaiter interface{ Rewait() }

// Rewait puts levels of the actions in force that make timers shorter. It is called
// on the worker, if that has Timeouts.
func (w *Worker) Rewait(to overload.Factors) {
	w.Timeouts.Change(to, func() {
		for c := range w.each() {
			c.rewait()
		}
	})
}

func (c *Connection) rewait() {
	if c.l.Overload == nil {
		return
	}
	if r, ok := c.session.(Rewaiter); ok {
		r.Rewait()
	}
	if c.tls != nil && c.session == nil && c.timer != nil {
		c.timer.Set(c.w.Timeouts.Left(overload.Handshake, c.chain.HandshakeTimeout, c.timer.Left()))
	}
}

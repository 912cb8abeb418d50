package listener

import (
	"slices"
	"time"
)

// Draining is how connections end in order that have a while for it: those of a
// listener or a filter chain that is gone (--drain-time-s, --drain-strategy). It
// never changes.
type Draining struct {
	// Since is when it began, on the clock of the loops, and Time how long it
	// lasts.
	Since, Time time.Duration
	// Immediate is the strategy that ends each connection at the first occasion;
	// the other does so by and by.
	Immediate bool
}

// Over reports whether every occasion to end a connection is to be taken.
func (d *Draining) Over(now time.Duration) bool { return d.Immediate || now-d.Since >= d.Time }

// Ends reports whether a connection ends with the response that is sent now: of
// the gradual strategy with a probability that grows from 0 to 1 in the time there
// is (LM-07). random decides.
func (d *Draining) Ends(now time.Duration, random uint64) bool {
	return d.Over(now) || time.Duration(random%uint64(d.Time)) < now-d.Since //nolint:gosec // Time is positive, or it is over
}

// Retirer is a Session that can end in order, in its own time: with the last
// thing that is under way, or when its client leaves.
type Retirer interface{ Retire(d *Draining) }

// Retire marks a listener of which another version took its place, or that was
// removed: what its connections become from now on is to end in order.
func (l *Listener) Retire(d *Draining) { l.retired.Store(d) }

// Retire marks a filter chain that is in no listener any more.
func (c *Chain) Retire(d *Draining) { c.retired.Store(d) }

// Connections is the number of the chain's connections, over all workers. Safe for
// concurrent use.
func (c *Chain) Connections() int64 { return c.open.Load() }

// Connections is the number of the connections of the listener and of those versions
// of it that it replaced in place. Safe for concurrent use.
func (l *Listener) Connections() int64 { return l.opened.Load() }

// Inherit makes the listener one with the version that it replaces in place:
// limits count the connections of both.
func (l *Listener) Inherit(from *Listener) { l.opened = from.opened }

// Leave lets the connections of a listener end in order while it accepts others,
// which end so too (AD-14).
func (l *Listener) Leave(d *Draining) { l.leaves.Store(d) }

// EndWithResponses makes each response the last of its connection, or does not any
// more (AD-13).
func (l *Listener) EndWithResponses(yes bool) { l.ending.Store(yes) }

// EndsWithResponse reports whether the connection is to end with the response that
// is sent now, whatever its session was asked for.
func (c *Connection) EndsWithResponse() bool { return c.l.ending.Load() }

// leaving is how the connection is to end in order; nil if it is not to.
func (c *Connection) leaving() *Draining {
	if d := c.l.retired.Load(); d != nil {
		return d
	}
	if c.chain != nil {
		if d := c.chain.retired.Load(); d != nil {
			return d
		}
	}
	return c.l.leaves.Load()
}

// RetireConnections asks the connections of retired listeners and chains to end
// in order. It is called on the worker.
func (w *Worker) RetireConnections() {
	for c := range w.each() {
		c.retire()
	}
}

// begun is to be called when the connection has got its session, which may be to end
// from the start.
func (c *Connection) begun() {
	c.retire()
	if d, ok := c.session.(Drainer); ok && c.w.draining {
		d.Drain()
	}
}

// retire asks the session to end in order, if it is to.
func (c *Connection) retire() {
	if d := c.leaving(); d != nil {
		if r, ok := c.session.(Retirer); ok {
			r.Retire(d)
		}
	}
}

// Move makes connections that have not come to a filter chain those of the
// listener that took over in place. It is called on the worker.
func (w *Worker) Move(from, to *Listener) {
	for c := range w.each() {
		if c.l == from && c.chain == nil {
			c.l = to
		}
	}
}

// CloseRetired closes the connections of retired chains that have had their
// time, and those of retired listeners that have not come to one. It is called on
// the worker.
func (w *Worker) CloseRetired(chains []*Chain) {
	for c := range w.each() {
		if c.chain == nil && c.l.retired.Load() != nil || slices.Contains(chains, c.chain) {
			c.conn.Abort(false)
		}
	}
}

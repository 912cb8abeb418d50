package listener

import "slices"

// Retirer is a Session that can end in order, in its own time: with the last
// thing that is under way, or when its client leaves.
type Retirer interface{ Retire() }

// Retire marks a listener of which another version took its place, or that was
// removed: what its connections become from now on is to end in order.
func (l *Listener) Retire() { l.retired.Store(true) }

// Retire marks a filter chain that is in no listener any more.
func (c *Chain) Retire() { c.retired.Store(true) }

// Connections is the number of the chain's connections, over all workers. Safe for
// concurrent use.
func (c *Chain) Connections() int64 { return c.open.Load() }

// Connections is the number of the connections of the listener and of those versions
// of it that it replaced in place. Safe for concurrent use.
func (l *Listener) Connections() int64 { return l.opened.Load() }

// Inherit makes the listener one with the version that it replaces in place:
// limits count the connections of both.
func (l *Listener) Inherit(from *Listener) { l.opened = from.opened }

// leaving reports whether the connection is to end in order.
func (c *Connection) leaving() bool {
	return c.l.retired.Load() || c.chain != nil && c.chain.retired.Load()
}

// RetireConnections asks the connections of retired listeners and chains to end
// in order. It is called on the worker.
func (w *Worker) RetireConnections() {
	for c := range w.conns {
		if c.leaving() {
			c.retire()
		}
	}
}

func (c *Connection) retire() {
	if r, ok := c.session.(Retirer); ok {
		r.Retire()
	}
}

// Move makes connections that have not come to a filter chain those of the
// listener that took over in place. It is called on the worker.
func (w *Worker) Move(from, to *Listener) {
	for c := range w.conns {
		if c.l == from && c.chain == nil {
			c.l = to
		}
	}
}

// CloseRetired closes the connections of retired chains that have had their
// time, and those of retired listeners that have not come to one. It is called on
// the worker.
func (w *Worker) CloseRetired(chains []*Chain) {
	for c := range w.conns {
		if c.chain == nil && c.l.retired.Load() || slices.Contains(chains, c.chain) {
			c.conn.Abort(false)
		}
	}
}

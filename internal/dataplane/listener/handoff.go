package listener

import (
	"net/netip"

	"github.com/xebec-proxy/xebec/filter"
)

// place is an address of a listener in force.
type place struct {
	l *Listener
	s *Socket
}

// claim makes the worker find the listener by its addresses, bound or not.
func (w *Worker) claim(l *Listener) {
	for _, s := range l.Sockets {
		w.places[s.Address] = place{l, s}
	}
}

// Forget makes the worker find a listener no more that is gone. It is called on
// the worker.
func (w *Worker) Forget(l *Listener) {
	for a, p := range w.places {
		if p.l == l {
			delete(w.places, a)
		}
	}
}

// find is the listener of an address: that of the address itself, or else that of
// all addresses with the port (LM-12).
func (w *Worker) find(a filter.Address) (place, bool) {
	if p, ok := w.places[a]; ok || !a.IP.IsValid() {
		return p, ok
	}
	all, port := netip.IPv6Unspecified(), a.IP.Port()
	if a.IP.Addr().Is4() {
		all = netip.IPv4Unspecified()
	}
	p, ok := w.places[filter.IPAddress(netip.AddrPortFrom(all, port))]
	if !ok && a.IP.Addr().Is4() {
		p, ok = w.places[filter.IPAddress(netip.AddrPortFrom(netip.IPv6Unspecified(), port))]
		ok = ok && p.s.Compat
	}
	return p, ok
}

// restore finds out where the client wanted to go before the system redirected it
// (use_original_dst). A transparent socket has connections of any address, which
// is the one that was wanted.
func (c *Connection) restore() {
	if !c.l.UseOriginal || c.moved {
		return
	}
	if to, ok := c.OriginalDestination(); ok && to != *c.Info.DirectLocal() {
		c.Info.KeepDirect()
		c.Info.Local, c.redirected = to, true
	}
	c.redirected = c.redirected || c.sock.options.transparent
}

// OriginalDestination implements filter.Socket.
func (c *Connection) OriginalDestination() (filter.Address, bool) {
	return originalDestination(c.conn, c.Info.DirectLocal())
}

// handOff gives the connection to the listener of the address that was wanted, if
// this listener does so and there is another one, with what was peeked. It does so
// once.
func (c *Connection) handOff(peeked []byte) (gone bool) {
	if !c.l.UseOriginal || c.moved || !c.redirected && c.Info.Local == *c.Info.DirectLocal() {
		return false
	}
	c.moved = true
	p, ok := c.w.find(c.Info.Local)
	if !ok || p.l == c.l {
		return false
	}
	c.l.opened.Add(-1)
	c.l, c.sock = p.l, p.s
	c.l.opened.Add(1) // its limit is for what it accepts itself, as in Envoy
	c.conn.SetHigh(c.l.BufferLimit)
	c.Info.ListenerMetadata = c.l.Config.GetMetadata()
	c.unread = len(peeked) > 0
	c.look()
	c.unread = false
	if len(peeked) > 0 && !c.conn.Closed() {
		c.conn.Redeliver(peeked)
	}
	return true
}

package hcm

import (
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// drainGrace is how long a draining connection of HTTP/1 without a request is
// kept: one that is on its way is answered, and told that it is the last.
const drainGrace = time.Second

// Drain lets the connection end: HTTP/1 with the current response or the next,
// or after a while without one; HTTP/2 by two GOAWAYs with drain_timeout between
// them (LM-07).
func (c *Conn) Drain() {
	if c.draining || c.closed {
		return
	}
	c.draining = true
	switch {
	case c.h2 != nil:
		c.h2.drain()
	case c.active == 0:
		c.aging(0).Set(min(drainGrace, c.cfg.DrainTimeout))
	}
}

// parting is the end of a connection by and by.
type parting struct {
	d *listener.Draining
	// last is when HTTP/2 is drained that no response has ended.
	last loop.Timer
}

// Of the time that there is to drain, as much is left to responses to end their
// connections; in the rest HTTP/2 is drained without one, each connection at a
// moment of its own. As in Envoy: the shares were measured.
const lastShare, shares = 3, 10

// Retire implements listener.Retirer: HTTP/1 ends with a response, HTTP/2 by two
// GOAWAYs with drain_timeout between them, that begin with one. With which, d says
// (LM-07). A connection of HTTP/1 without a request stays as long as it may.
func (c *Conn) Retire(d *listener.Draining) {
	l := c.sv.W.Loop
	switch {
	case c.draining || c.closed || c.part != nil:
	case d.Over(l.Now()) && c.h2 != nil:
		c.retire()
	default:
		c.part = &parting{d: d}
		c.part.last.Init(l, func() {
			if c.h2 != nil && !c.closed {
				c.retire()
			}
		})
		// Both GOAWAYs are to be sent before the time is over.
		whole := max(d.Time-c.cfg.DrainTimeout, 0)
		share := whole * lastShare / shares
		at := d.Since + whole - share + time.Duration(float64(share)*float64(l.Random()>>11)/(1<<53))
		c.part.last.Set(max(at-l.Now(), 0))
	}
}

// retire lets the connection end with the response under way or the next.
func (c *Conn) retire() {
	if c.draining {
		return
	}
	c.draining = true
	if c.h2 != nil {
		c.h2.drain()
	}
}

// parts is asked before each response's head whether the connection is to end
// with it.
func (c *Conn) parts() {
	if c.draining {
		return
	}
	if o := c.cfg.Overload; o != nil && o.DisableKeepalive.Takes(c.sv.W.Loop) {
		c.sv.W.Stats.Inc(c.cfg.Stats.CxOverload)
		c.sv.W.Stats.Inc(c.cfg.Stats.CxDrainClose)
		c.retire()
		return
	}
	l := c.sv.W.Loop
	if c.below != nil && c.below.EndsWithResponse() || c.part != nil && c.part.d.Ends(l.Now(), l.Random()) {
		c.sv.W.Stats.Inc(c.cfg.Stats.CxDrainClose)
		c.retire()
	}
}

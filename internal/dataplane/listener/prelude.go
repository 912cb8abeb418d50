package listener

import (
	"github.com/xebec-proxy/xebec/filter"
)

// prelude is a connection whose listener filters have not decided yet.
type prelude struct {
	acc     filter.Accepted
	filters []preludeFilter
	at      int
	asked   bool // the filter at `at` was told of the connection
	peeked  []byte
}

// preludeFilter is a listener filter of one connection.
type preludeFilter struct {
	filter.ListenerFilter
	name string
}

// maxPeek bounds what listener filters may wait for.
const maxPeek = 64 << 10

// begin runs the listener filters (LF-01).
func (c *Connection) begin() {
	p := &prelude{acc: filter.Accepted{Info: c.Stream(), Stats: c.w.Counts, Logger: c.w.Loop.Logger(), Socket: c}}
	c.pre = p
	c.Info.KeepDirect()
	c.w.Stats.GaugeAdd(c.l.Stats.PreCxActive, 1)
	for i := range c.l.Filters {
		f := &c.l.Filters[i]
		if f.Disabled != nil && f.Disabled(&c.Info) {
			continue
		}
		factory := f.New
		if f.Discovered != nil {
			var ok bool
			if factory, ok = f.Discovered.Get(c.w.ID); !ok {
				c.w.Stats.Inc(c.l.Stats.ExtensionMissing)
				c.drop()
				return
			}
		}
		p.filters = append(p.filters, preludeFilter{c.newPreludeFilter(f.Name, factory), f.Name})
		if c.gone {
			return
		}
	}
	if d := c.l.FilterTimeout; d > 0 {
		c.setTimer(d)
	}
	c.advance()
}

// peek gives the filters more bytes.
func (c *Connection) peek(data []byte) {
	c.pre.peeked = append(c.pre.peeked, data...)
	c.advance()
	if c.pre != nil && len(c.pre.peeked) > maxPeek {
		c.w.Stats.Inc(c.l.Stats.ListenerFilter)
		c.drop()
	}
}

// advance runs filters as far as the bytes go.
func (c *Connection) advance() {
	p := c.pre
	for p.at < len(p.filters) {
		switch c.ask(p) {
		case filter.ListenerWait:
			return
		case filter.ListenerReject:
			c.conn.Abort(true)
			return
		}
		p.at++
		p.asked = false
	}
	c.finishPrelude()
}

// drop closes a connection that comes to nothing. The client gets a reset if it
// sent what nobody has taken, as if that were still in the socket.
func (c *Connection) drop() {
	c.conn.Abort(c.unread || c.pre != nil && len(c.pre.peeked) > 0)
}

// finishPrelude goes on to the filter chain with the bytes that were peeked.
func (c *Connection) finishPrelude() {
	p := c.pre
	c.pre, c.unread = nil, len(p.peeked) > 0
	c.stopTimer()
	c.w.Stats.GaugeAdd(c.l.Stats.PreCxActive, -1)
	if c.handOff(p.peeked) {
		return
	}
	c.choose(p.acc.TransportProtocol, p.acc.ApplicationProtocols)
	c.unread = false
	if len(p.peeked) > 0 && !c.conn.Closed() {
		c.conn.Redeliver(p.peeked)
	}
}

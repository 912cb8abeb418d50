package listener

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/xebec-proxy/xebec/filter"
)

// A filter that panics ends its connection alone (OV-09): every call of a
// filter is one of this file's, which recovers. Connections without filters
// before a built-in one never come here.

// filterPanicked ends the connection of a filter that panicked with a value.
func (c *Connection) filterPanicked(name string, v any, stack []byte) {
	c.w.Stats.Inc(c.l.Scope.Counter("filter_panic")) // not one of Envoy's: it is there once it has happened
	c.w.Loop.Logger().Error("a filter panicked; its connection is closed", "listener", c.l.Name,
		"filter_chain", c.Info.FilterChain, "filter", name, "panic", fmt.Sprint(v), "stack", string(stack))
	if c.gone {
		return
	}
	c.closes("filter_panic", "filter_panic")
	c.conn.Abort(true)
}

// fail ends the filter's connection; nothing more is asked of the filter.
func (e *netEntry) fail(v any, stack []byte) {
	e.f = filter.NetworkFilter{}
	e.n.c.filterPanicked(e.n.c.chain.Filters[e.i].Name, v, stack)
}

// rescue, deferred, makes a panic of the filter the end of its connection.
func (e *netEntry) rescue() {
	if v := recover(); v != nil {
		e.fail(v, debug.Stack())
	}
}

func (e *netEntry) open(factory filter.NetworkFactory) {
	defer e.rescue()
	e.f = factory(e)
}

func (e *netEntry) onNewConnection() (st filter.NetworkStatus) {
	st = filter.NetworkStop
	defer e.rescue()
	return e.f.Read.OnNewConnection()
}

func (e *netEntry) onData(b *filter.Buffer, end bool) (st filter.NetworkStatus) {
	st = filter.NetworkStop
	defer e.rescue()
	return e.f.Read.OnData(b, end)
}

func (e *netEntry) onWrite(b *filter.Buffer, end bool) (st filter.NetworkStatus) {
	st = filter.NetworkStop
	defer e.rescue()
	return e.f.Write.OnWrite(b, end)
}

func (e *netEntry) onWatermark(w filter.ConnectionWatcher, above bool) {
	defer e.rescue()
	if above {
		w.OnAboveHighWatermark()
	} else {
		w.OnBelowLowWatermark()
	}
}

func (e *netEntry) onClose(w filter.ConnectionWatcher, remote bool) {
	defer e.rescue()
	w.OnClose(remote)
}

// call runs a function of the filter unless the connection is closed.
func (e *netEntry) call(f func()) {
	if e.n.closedUp() {
		return
	}
	defer e.rescue()
	f()
}

// do runs the filter's work on a goroutine of its own.
func (e *netEntry) do(ctx context.Context, work func(ctx context.Context) (done func())) {
	defer func() {
		if v := recover(); v != nil {
			stack := debug.Stack()
			e.n.c.w.Loop.Post(func() { e.fail(v, stack) })
		}
	}()
	if done := work(ctx); done != nil {
		e.Post(done)
	}
}

// rescuePrelude is rescue for the listener filter of a name.
func (c *Connection) rescuePrelude(name string) {
	if v := recover(); v != nil {
		c.filterPanicked(name, v, debug.Stack())
	}
}

// newPreludeFilter makes a listener filter; nil if that panics.
func (c *Connection) newPreludeFilter(name string, factory filter.ListenerFactory) filter.ListenerFilter {
	defer c.rescuePrelude(name)
	return factory()
}

// ask asks the filter whose turn it is, as far as the bytes go. It answers
// ListenerWait, and the connection is closed, if the filter panics or consumes
// what is not there.
func (c *Connection) ask(p *prelude) (st filter.ListenerStatus) {
	st = filter.ListenerWait
	f := &p.filters[p.at]
	defer c.rescuePrelude(f.name)
	if !p.asked {
		p.asked = true
		if s := f.OnAccept(&p.acc); s != filter.ListenerWait {
			return s
		}
	}
	if len(p.peeked) == 0 {
		return filter.ListenerWait
	}
	s, used := f.OnData(&p.acc, p.peeked)
	p.peeked = p.peeked[:copy(p.peeked, p.peeked[used:])]
	return s
}

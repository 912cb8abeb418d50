package listener

import (
	"context"
	"log/slog"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// netChain runs the network filters of a connection (NF-01): read filters in
// configured order, write filters in reverse. The last one may be built in; it
// is then the connection's session.
type netChain struct {
	c       *Connection
	entries []netEntry
	last    Terminal // or nil
	client  source
	paused  bool            // the client, since filters hold too much
	ctx     context.Context //nolint:containedctx // of the filters' own work
	cancel  context.CancelFunc
}

// source is what read filters have not taken yet, of the client or of a filter
// that injects.
type source struct {
	buf filter.Buffer
	end bool // there will be no more
}

// keep makes what is left the source's own, so that it survives the callback.
func (s *source) keep() {
	if s.buf.Len() > 0 {
		s.buf.Own()
	}
}

// netEntry is one filter; it is the filter's Connection.
type netEntry struct {
	n        *netChain
	i        int
	f        filter.NetworkFilter
	injected source  // for the filters behind this one
	from     *source // what the filter was offered last
	started  bool
	// stopped: OnNewConnection stopped, and nothing has continued since.
	stopped bool
}

func (c *Connection) openNet() {
	specs := c.chain.Filters
	found, last, ok := c.discovered(specs)
	if !ok {
		c.w.Stats.Inc(c.l.Stats.NetworkMissing)
		c.CloseReason("no_filters")
		c.drop()
		return
	}
	c.Info.KeepDirect()
	n := &netChain{c: c, last: last}
	c.net = n
	n.entries = make([]netEntry, len(specs))
	if last != c.chain.Terminal {
		n.entries = n.entries[:len(specs)-1]
	}
	for i := range n.entries {
		e := &n.entries[i]
		e.n, e.i, e.from = n, i, &n.client
		factory := specs[i].New
		if factory == nil {
			factory = found[i].New
		}
		if e.open(factory); c.gone {
			return
		}
	}
	n.run(0, &n.client)
}

// discovered takes what is in force of filters that are discovered, by their
// place, and the last one if that is built in; ok is false if nothing came for
// one. It gives the chain's own last one, and nothing else, if none is discovered.
func (c *Connection) discovered(specs []NetworkSpec) (found map[int]Network, last Terminal, ok bool) {
	last = c.chain.Terminal
	for i := range specs {
		slot := specs[i].Discovered
		if slot == nil {
			continue
		}
		n, ok := slot.Get(c.w.ID)
		if !ok {
			return nil, nil, false
		}
		if n.Terminal != nil {
			last = n.Terminal
			continue
		}
		if found == nil {
			found = map[int]Network{}
		}
		found[i] = n
	}
	return found, last, true
}

// received takes bytes of the client.
func (n *netChain) received(data []byte) {
	if n.client.buf.Len() == 0 {
		n.client.buf.View(data)
	} else {
		n.client.buf.Append(data)
	}
	n.run(0, &n.client)
	n.client.keep()
	n.limit()
}

// limit stops reading from the client while filters hold more than the
// connection's limit, until they hold half of it (LM-13).
func (n *netChain) limit() {
	if n.closedUp() {
		return
	}
	held := n.client.buf.Len()
	for i := range n.entries {
		held += n.entries[i].injected.buf.Len()
	}
	switch {
	case !n.paused && held > n.c.l.BufferLimit:
		n.paused = true
		n.c.fill(holding, true)
		n.c.conn.Pause()
	case n.paused && held <= n.c.l.BufferLimit/2:
		n.paused = false
		n.c.fill(holding, false)
		n.c.conn.Resume()
	}
}

func (n *netChain) closedUp() bool { return n.c.conn.Closed() }

// run offers a source's bytes to the read filters from one on.
func (n *netChain) run(from int, src *source) {
	for i := from; i < len(n.entries); i++ {
		e := &n.entries[i]
		if e.f.Read == nil {
			continue
		}
		e.from = src
		if !e.started && !e.start() || n.closedUp() {
			return
		}
		if src.buf.Len() == 0 && !src.end {
			if e.stopped {
				return
			}
			continue
		}
		if e.onData(&src.buf, src.end) == filter.NetworkStop || e.stopped || n.closedUp() {
			return
		}
	}
	n.terminal(src)
}

// start tells a filter of the connection. It is false if the filter has let the
// later ones go on by itself meanwhile.
func (e *netEntry) start() bool {
	e.started, e.stopped = true, true
	if e.onNewConnection() == filter.NetworkContinue {
		e.stopped = false
		return true
	}
	return e.stopped
}

// terminal gives what passed every filter to the built-in last one.
func (n *netChain) terminal(src *source) {
	c := n.c
	if n.last == nil {
		return
	}
	if c.session == nil {
		c.session = n.last.Open(c.w, c)
		if c.session == nil {
			c.conn.Abort(false)
			return
		}
		c.begun()
	}
	if src.buf.Len() > 0 {
		c.session.OnData(src.buf.Bytes())
		src.buf.Drain(src.buf.Len())
	}
	if src.end && !c.ended && !n.closedUp() {
		c.ended = true
		c.session.OnEnd()
	}
}

func (n *netChain) endOf() {
	n.client.end = true
	n.run(0, &n.client)
	n.limit()
}

// watcher is the filter as a ConnectionWatcher, or nil.
func (e *netEntry) watcher() filter.ConnectionWatcher {
	if w, ok := e.f.Read.(filter.ConnectionWatcher); ok {
		return w
	}
	w, _ := e.f.Write.(filter.ConnectionWatcher)
	return w
}

func (n *netChain) watermark(above bool) {
	for i := range n.entries {
		e := &n.entries[i]
		if w := e.watcher(); w != nil && !n.c.gone {
			e.onWatermark(w, above)
		}
	}
}

func (n *netChain) closed(why loop.Reason, _ error) {
	if n.cancel != nil {
		n.cancel()
	}
	for i := range n.entries {
		e := &n.entries[i]
		if w := e.watcher(); w != nil {
			e.onClose(w, why != loop.Local)
		}
	}
}

// hasWriters reports whether what is sent passes write filters.
func (n *netChain) hasWriters() bool {
	for i := range n.entries {
		if n.entries[i].f.Write != nil {
			return true
		}
	}
	return false
}

// write sends data through the write filters before an index.
func (n *netChain) write(before int, data []byte, end bool) {
	if n.c.gone {
		return
	}
	var b filter.Buffer
	b.View(data)
	for i := before - 1; i >= 0; i-- {
		e := &n.entries[i]
		if e.f.Write != nil && (e.onWrite(&b, end) == filter.NetworkStop || n.c.gone) {
			return
		}
	}
	n.c.conn.Write(b.Bytes())
	if end {
		n.c.conn.CloseWrite()
	}
}

var _ filter.Connection = (*netEntry)(nil)

// ContinueReading implements filter.Connection.
func (e *netEntry) ContinueReading() {
	e.stopped = false
	if e.n.closedUp() {
		return
	}
	src := e.from
	e.n.run(e.i+1, src)
	src.keep()
	e.n.limit()
}

// InjectRead implements filter.Connection.
func (e *netEntry) InjectRead(data []byte, end bool) {
	if e.n.closedUp() {
		return
	}
	s := &e.injected
	if s.buf.Len() == 0 {
		s.buf.View(data)
	} else {
		s.buf.Append(data)
	}
	s.end = s.end || end
	e.n.run(e.i+1, s)
	s.keep()
	e.n.limit()
}

// InjectWrite implements filter.Connection.
func (e *netEntry) InjectWrite(data []byte, end bool) { e.n.write(e.i, data, end) }

// Write implements filter.Connection.
func (e *netEntry) Write(data []byte, end bool) { e.n.write(len(e.n.entries), data, end) }

// closeDelay is how long FlushWriteAndDelay waits.
const closeDelay = time.Second

// Close implements filter.Connection.
func (e *netEntry) Close(how filter.CloseType, details string) {
	c := e.n.c
	if details != "" {
		c.closes(details, details)
	}
	switch how {
	case filter.FlushWrite:
		c.conn.Close(0)
	case filter.FlushWriteAndDelay:
		c.conn.Close(closeDelay)
	case filter.NoFlush:
		c.conn.Abort(false)
	case filter.Abort:
		c.conn.Abort(true)
	}
}

// ReadDisable implements filter.Connection.
func (e *netEntry) ReadDisable(disable bool) {
	if disable {
		e.n.c.conn.Pause()
	} else {
		e.n.c.conn.Resume()
	}
}

// BufferLimit implements filter.Connection.
func (e *netEntry) BufferLimit() int { return e.n.c.l.BufferLimit }

// Info implements filter.Connection.
func (e *netEntry) Info() *filter.StreamInfo { return e.n.c.Stream() }

// Post implements filter.Connection.
func (e *netEntry) Post(f func()) {
	e.n.c.w.Loop.Post(func() { e.call(f) })
}

// Go implements filter.Connection.
func (e *netEntry) Go(work func(ctx context.Context) (done func())) {
	n := e.n
	if n.ctx == nil {
		n.ctx, n.cancel = context.WithCancel(n.c.w.Context)
	}
	go e.do(n.ctx, work)
}

// netTimer is a timer of a network filter.
type netTimer struct{ t loop.Timer }

// Stop implements filter.Timer.
func (t *netTimer) Stop() { t.t.Unlink() } // it is not set again

// After implements filter.Connection.
func (e *netEntry) After(d time.Duration, f func()) filter.Timer {
	t := &netTimer{}
	t.t.Init(e.n.c.w.Loop, func() { e.call(f) })
	t.t.Set(d)
	return t
}

// Now implements filter.Connection.
func (e *netEntry) Now() time.Duration { return e.n.c.w.Loop.Now() }

// Random implements filter.Connection.
func (e *netEntry) Random() uint64 { return e.n.c.w.Loop.Random() }

// Stats implements filter.Connection.
func (e *netEntry) Stats() filter.Stats { return e.n.c.w.Counts }

// Logger implements filter.Connection.
func (e *netEntry) Logger() *slog.Logger { return e.n.c.w.Loop.Logger() }

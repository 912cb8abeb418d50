package chain

import (
	"context"
	"log/slog"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

var _ filter.Callbacks = (*entry)(nil)

// DecodingBuffer implements filter.Callbacks.
func (e *entry) DecodingBuffer() *filter.Buffer { return e.chain.req.buffer(&e.dec) }

// EncodingBuffer implements filter.Callbacks.
func (e *entry) EncodingBuffer() *filter.Buffer { return e.chain.resp.buffer(&e.enc) }

// AddDecodedData implements filter.Callbacks.
func (e *entry) AddDecodedData(data []byte) {
	if c := e.chain; !c.aborted() {
		c.add(&c.req, &e.dec, data)
		c.limitRequest()
	}
}

// AddEncodedData implements filter.Callbacks.
func (e *entry) AddEncodedData(data []byte) {
	if c := e.chain; !c.closed() {
		c.add(&c.resp, &e.enc, data)
		c.limitResponse()
	}
}

// InjectDecodedData implements filter.Callbacks.
func (e *entry) InjectDecodedData(data []byte, end bool) {
	c := e.chain
	defer c.rescue(anyone)
	if c.aborted() {
		return
	}
	if !e.dec.passed {
		e.dec.passed = true
		c.decodeHeaders(e.index+1, c.owner.RequestHeaders(), false)
	}
	if end {
		e.dec.open = false
	}
	e.dec.inject.View(data)
	c.decodeData(e.index+1, &e.dec.inject, end)
	c.requestDrained()
}

// InjectEncodedData implements filter.Callbacks.
func (e *entry) InjectEncodedData(data []byte, end bool) {
	c := e.chain
	defer c.rescue(anyone)
	if c.closed() || c.respHeaders == nil {
		return
	}
	if !e.enc.passed {
		e.enc.passed = true
		c.encodeHeaders(e.index-1, c.respHeaders, false)
	}
	if end {
		e.enc.open = false
	}
	e.enc.inject.View(data)
	c.encodeData(e.index-1, &e.enc.inject, end)
	c.responseDrained()
}

// AddDecodedTrailers implements filter.Callbacks.
func (e *entry) AddDecodedTrailers() *header.Map { return e.chain.req.addTrailers(&e.dec) }

// AddEncodedTrailers implements filter.Callbacks.
func (e *entry) AddEncodedTrailers() *header.Map { return e.chain.resp.addTrailers(&e.enc) }

func (e *entry) RequestHeaders() *header.Map  { return e.chain.owner.RequestHeaders() }
func (e *entry) ResponseHeaders() *header.Map { return e.chain.respHeaders }

func (e *entry) SendLocalReply(r filter.LocalReply) { e.chain.LocalReply(&r) }

func (e *entry) ResetStream(details string) { e.chain.owner.Reset(details) }

func (e *entry) FilterName() string       { return e.name }
func (e *entry) Info() *filter.StreamInfo { return e.chain.owner.Info() }
func (e *entry) Route() filter.Route      { return e.chain.owner.Route() }
func (e *entry) ClearRouteCache()         { e.chain.owner.ClearRouteCache() }
func (e *entry) RouteConfig() any         { return e.chain.owner.RouteConfig(e.name) }
func (e *entry) RouteConfigs(yield func(cfg any) bool) {
	e.chain.owner.RouteConfigs(e.name, yield)
}

func (e *entry) BufferLimit() int { return e.chain.req.limit }
func (e *entry) SetBufferLimit(n int) {
	e.chain.req.limit = n
}

// Post implements filter.Callbacks.
func (e *entry) Post(f func()) { e.chain.owner.Post(e.guarded(f)) }

// After implements filter.Callbacks.
func (e *entry) After(d time.Duration, f func()) filter.Timer {
	return e.chain.owner.After(d, e.guarded(f))
}

// Go implements filter.Callbacks. A panic of the work fails the stream, too.
func (e *entry) Go(work func(ctx context.Context) (done func())) {
	c := e.chain
	c.owner.Go(func(ctx context.Context) (done func()) {
		defer func() {
			if v := recover(); v != nil {
				done = func() { c.owner.Panicked(e.name, v) }
			}
		}()
		if done = work(ctx); done != nil {
			done = e.guarded(done)
		}
		return done
	})
}

// guarded is a function of a filter whose panic fails the stream.
func (e *entry) guarded(f func()) func() {
	c, index := e.chain, e.index
	return func() {
		defer c.rescue(index)
		f()
	}
}

func (e *entry) Now() time.Duration   { return e.chain.owner.Now() }
func (e *entry) Random() uint64       { return e.chain.owner.Random() }
func (e *entry) Stats() filter.Stats  { return e.chain.owner.Stats() }
func (e *entry) Logger() *slog.Logger { return e.chain.owner.Logger() }

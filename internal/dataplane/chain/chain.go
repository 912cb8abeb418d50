// Package chain runs the HTTP filters of a stream: decoders in configured
// order, encoders in reverse, with the statuses, buffers and watermarks of
// Envoy's filter manager (source/common/http/filter_manager.cc). It does no I/O:
// the stream that owns the chain supplies what is decoded and takes what is
// encoded.
package chain

import (
	"context"
	"log/slog"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
)

// Owner is the stream a chain belongs to. Its methods are called on the worker.
type Owner interface {
	// Encoded1xx, EncodedHeaders, EncodedData and EncodedTrailers take what has
	// passed every encoder.
	Encoded1xx(h *header.Map)
	EncodedHeaders(h *header.Map, end bool)
	EncodedData(data []byte, end bool)
	EncodedTrailers(t *header.Map)
	// Reset ends the stream without (more of) an answer.
	Reset(details string)
	// Panicked ends the stream of a filter that panicked with a value; the name is
	// the filter's, or "" if that is not known. It is called while the panic is
	// being recovered from.
	Panicked(name string, v any)
	// FillLocalReply makes the head and the body of a local reply.
	FillLocalReply(r *filter.LocalReply, h *header.Map) (body string)
	// PauseRequest and PauseResponse stop the sender of either direction, or let
	// it go on: a filter holds more than the limit.
	PauseRequest(pause bool)
	PauseResponse(pause bool)

	RequestHeaders() *header.Map
	RequestTrailers() *header.Map
	Info() *filter.StreamInfo
	Route() filter.Route
	ClearRouteCache()
	// RouteConfig is a filter's most specific per-route configuration.
	RouteConfig(filterName string) any
	RouteConfigs(filterName string, yield func(cfg any) bool)

	Post(f func())
	Go(work func(ctx context.Context) (done func()))
	After(d time.Duration, f func()) filter.Timer
	Now() time.Duration
	Random() uint64
	Stats() filter.Stats
	Logger() *slog.Logger
}

// Spec is a configured filter of a chain.
type Spec struct {
	// Name is the filter's configured name.
	Name string
	New  filter.HTTPFactory
	// Discovered is where New is found instead, of a filter whose configuration is
	// discovered; nil for others.
	Discovered *extension.Slot[filter.HTTPFactory]
	// Disabled filters are left out unless a route turns them on.
	Disabled bool
}

// Factory is what makes the filter on a worker; nil if it is discovered and
// nothing came for it.
func (s *Spec) Factory(worker int) filter.HTTPFactory {
	if s.Discovered == nil {
		return s.New
	}
	f, _ := s.Discovered.Get(worker)
	return f
}

// Chain is the running filters of one stream, the last of which is a decoder
// that ends the request's way. The zero value must be set up with Reset; it may
// be used again for the next stream. Confined to the worker.
//
// A filter that panics fails its stream alone: every way into the chain
// recovers and tells the owner.
type Chain struct {
	owner   Owner
	entries []entry
	free    []*filter.Buffer // for what filters hold
	used    int

	req, resp   lane
	respHeaders *header.Map

	pending     filter.LocalReply // to be sent when the decoder returns
	hasPending  bool
	replied     bool // a local reply was made: no decoder is called any more
	headersSeen bool // encoders have begun to see a response head
	headersSent bool // the owner has it
	respDone    bool // the owner has the response's end
	dead        bool
	bypassed    bool // a local reply went past the encoders
	localResp   header.Map
	directResp  header.Map
}

// Reset prepares the chain for a stream. Filters are added with Add.
func (c *Chain) Reset(o Owner, limit int) {
	c.owner, c.used, c.respHeaders = o, 0, nil
	c.req.reset(limit)
	c.resp.reset(limit)
	c.pending, c.hasPending, c.replied = filter.LocalReply{}, false, false
	c.headersSeen, c.headersSent, c.respDone, c.dead, c.bypassed = false, false, false, false, false
}

// Grow makes room for n filters, so that the addresses of entries stay.
func (c *Chain) Grow(n int) {
	if n > len(c.entries) {
		c.entries = make([]entry, n)
	}
}

// Add makes the next filter. Grow must have made room.
func (c *Chain) Add(name string, f filter.HTTPFactory) {
	defer c.rescue(c.used)
	e := &c.entries[c.used]
	*e = entry{}
	e.chain, e.index, e.name = c, c.used, name
	c.used++
	e.f = f(e)
}

// Len is the number of filters.
func (c *Chain) Len() int { return c.used }

// Replied reports whether a local reply was made.
func (c *Chain) Replied() bool { return c.replied }

// HeadersSent reports whether the response's head has left the chain.
func (c *Chain) HeadersSent() bool { return c.headersSent }

// Dead says that the stream has ended: nothing is called any more.
func (c *Chain) Dead() { c.dead = true }

// ResponseHeaders is the response's head once encoders have begun to see it.
func (c *Chain) ResponseHeaders() *header.Map { return c.respHeaders }

// ResponseTrailers are the response's trailers, or nil.
func (c *Chain) ResponseTrailers() *header.Map { return c.resp.trailers }

// RequestTrailers are the request's trailers, or nil.
func (c *Chain) RequestTrailers() *header.Map { return c.req.trailers }

// Limit is how many bytes of the request may be buffered; 0 is no limit.
func (c *Chain) Limit() int { return c.req.limit }

// SetLimit changes Limit.
func (c *Chain) SetLimit(n int) { c.req.limit = n }

// Complete tells every filter that the stream has ended (RQ-01).
func (c *Chain) Complete() {
	for i := range c.entries[:c.used] {
		if completes(&c.entries[i].f) {
			c.each(i, func(f any) {
				if w, ok := f.(filter.Completer); ok {
					w.OnStreamComplete()
				}
			})
		}
	}
}

// completes reports whether a filter is to be told of the end: those that are not
// cost no call that is safe from panics.
func completes(f *filter.HTTPFilter) bool {
	_, decoder := f.Decoder.(filter.Completer)
	if f.Encoder == nil || decoder {
		return decoder
	}
	_, encoder := f.Encoder.(filter.Completer)
	return encoder
}

// destroys is completes for being gone.
func destroys(f *filter.HTTPFilter) bool {
	_, decoder := f.Decoder.(filter.Destroyer)
	if f.Encoder == nil || decoder {
		return decoder
	}
	_, encoder := f.Encoder.(filter.Destroyer)
	return encoder
}

// Destroy tells every filter, once, that its stream is gone, and forgets them.
func (c *Chain) Destroy() {
	c.dead = true
	for i := range c.entries[:c.used] {
		e := &c.entries[i]
		if destroys(&e.f) {
			c.each(i, func(f any) {
				if w, ok := f.(filter.Destroyer); ok {
					w.OnDestroy()
				}
			})
		}
		e.f = filter.HTTPFilter{}
		c.letGo(&e.dec)
		c.letGo(&e.enc)
	}
	c.used = 0
}

// Downstream tells the filters whether the client keeps up.
func (c *Chain) Downstream(above bool) {
	for i := range c.entries[:c.used] {
		c.each(i, func(f any) {
			w, ok := f.(filter.DownstreamWatermarks)
			switch {
			case !ok:
			case above:
				w.OnAboveHighWatermark()
			default:
				w.OnBelowLowWatermark()
			}
		})
	}
}

// each calls do for a filter's values, once if both are the same. A panic does
// not keep it from other filters.
func (c *Chain) each(i int, do func(f any)) {
	defer c.rescue(i)
	f := c.entries[i].f
	if f.Decoder != nil {
		do(f.Decoder)
	}
	if f.Encoder != nil && (f.Decoder == nil || !same(f.Decoder, f.Encoder)) {
		do(f.Encoder)
	}
}

// same compares two filters; values that cannot be compared differ.
func same(a, b any) (eq bool) {
	defer func() {
		if recover() != nil {
			eq = false
		}
	}()
	return a == b
}

// anyone stands for the filter that is called by then.
const anyone = -1

// rescue, deferred, makes a panic of a filter, of this index or anyone's, the
// end of its stream.
func (c *Chain) rescue(index int) {
	if v := recover(); v != nil {
		c.owner.Panicked(c.nameOf(index), v)
	}
}

// nameOf is the name of the filter of an index, or of the one that is called.
func (c *Chain) nameOf(index int) string {
	switch {
	case index != anyone:
	case c.resp.calling.kind != noCall: // decoders may have led to it
		index = c.resp.calling.index
	case c.req.calling.kind != noCall:
		index = c.req.calling.index
	default:
		return ""
	}
	return c.entries[index].name
}

// entry is one filter of the chain; it is the filter's Callbacks.
type entry struct {
	chain *Chain
	index int
	name  string
	f     filter.HTTPFilter
	dec   side
	enc   side
}

// Owner is the stream the chain belongs to.
func (e *entry) Owner() Owner { return e.chain.owner }

// afterHeaders applies what a filter answered to headers; it reports whether
// to go on with the next.
func (s *side) afterHeaders(st filter.HeadersStatus, end *bool) bool {
	switch st {
	case filter.StopIteration:
		s.state = stopped
	case filter.StopAllIterationAndBuffer:
		s.state = stoppedAll
	case filter.StopAllIterationAndWatermark:
		s.state = stoppedMark
	case filter.ContinueAndDontEndStream:
		s.open, *end = *end, false
		s.passed = true
	default:
		s.passed = true
	}
	return s.state == going
}

// Package buffer is the HTTP filter envoy.filters.http.buffer: it waits for the
// whole request before it lets it go on.
package buffer

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// Type is the kind of filter
// (envoy/extensions/filters/http/buffer/v3/buffer.proto; spec HF-30). A request
// of more than max_request_bytes is answered 413; one without a length gets one.
// CONNECT and upgrades, whose requests do not end, pass.
func Type() filter.HTTPType {
	return filter.HTTPType{
		Config: (*bufferv3.Buffer)(nil), New: build,
		RouteConfig: (*bufferv3.BufferPerRoute)(nil), ParseRoute: parseRoute,
	}
}

// settings are the filter's, or a route's.
type settings struct {
	max      int
	disabled bool
}

func build(cfg proto.Message, _ *filter.Env) (filter.HTTPFactory, error) {
	c, ok := cfg.(*bufferv3.Buffer)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a Buffer", cfg)
	}
	if err := c.ValidateAll(); err != nil {
		return nil, fmt.Errorf("buffer: %w", err)
	}
	s := &settings{max: int(c.GetMaxRequestBytes().GetValue())}
	pool := &sync.Pool{New: func() any { return new(stream) }}
	return func(cb filter.Callbacks) filter.HTTPFilter {
		f, _ := pool.Get().(*stream)
		*f = stream{pool: pool, cb: cb, settings: s}
		return filter.HTTPFilter{Decoder: f}
	}, nil
}

func parseRoute(cfg proto.Message, _ *filter.Env) (any, error) {
	c, ok := cfg.(*bufferv3.BufferPerRoute)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a BufferPerRoute", cfg)
	}
	if err := c.ValidateAll(); err != nil {
		return nil, fmt.Errorf("buffer: %w", err)
	}
	return &settings{disabled: c.GetDisabled(), max: int(c.GetBuffer().GetMaxRequestBytes().GetValue())}, nil
}

// stream is the filter of one stream.
type stream struct {
	pool     *sync.Pool
	cb       filter.Callbacks
	settings *settings
	active   bool
	length   int
}

// DecodeHeaders implements filter.Decoder.
func (f *stream) DecodeHeaders(h *header.Map, end bool) filter.HeadersStatus {
	if end || endless(h) {
		return filter.Continue
	}
	if s, ok := f.cb.RouteConfig().(*settings); ok {
		f.settings = s
	}
	if f.settings.disabled {
		return filter.Continue
	}
	f.active = true
	f.cb.SetBufferLimit(f.settings.max)
	return filter.StopIteration
}

// endless tells whether a request ends only with its connection.
func endless(h *header.Map) bool {
	return strings.EqualFold(h.Method(), "CONNECT") || h.HasID(header.Upgrade)
}

// DecodeData implements filter.Decoder.
func (f *stream) DecodeData(data *filter.Buffer, end bool) filter.DataStatus {
	if !f.active {
		return filter.DataContinue
	}
	f.length += data.Len()
	if f.length > f.settings.max {
		// The last part would pass the chain's limit if a filter before this one
		// holds data at its own pace.
		f.cb.SendLocalReply(filter.LocalReply{Status: 413, Body: "Payload Too Large", Details: "request_payload_too_large"})
		return filter.DataStopIterationNoBuffer
	}
	if end {
		f.complete()
		return filter.DataContinue
	}
	return filter.DataStopIterationAndBuffer
}

// DecodeTrailers implements filter.Decoder.
func (f *stream) DecodeTrailers(*header.Map) filter.TrailersStatus {
	if f.active {
		f.complete()
	}
	return filter.TrailersContinue
}

// complete gives the request its length.
func (f *stream) complete() {
	h := f.cb.RequestHeaders()
	if h.HasID(header.ContentLength) {
		return
	}
	var digits [20]byte
	h.SetIDBytes(header.ContentLength, strconv.AppendInt(digits[:0], int64(f.length), 10))
}

// OnDestroy implements filter.Destroyer.
func (f *stream) OnDestroy() {
	p := f.pool
	*f = stream{}
	p.Put(f)
}

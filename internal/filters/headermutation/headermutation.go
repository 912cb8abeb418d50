// Package headermutation is the HTTP filter envoy.filters.http.header_mutation:
// it changes headers and trailers of requests and responses, and query
// parameters.
package headermutation

import (
	"errors"
	"fmt"
	"sync"

	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// Type is the kind of filter
// (envoy/extensions/filters/http/header_mutation/v3/header_mutation.proto; spec
// HF-32). The filter's own mutations come first, then those of all levels of
// the route: the most specific first, or last if it is to win.
func Type() filter.HTTPType {
	return filter.HTTPType{
		Config: (*headermutationv3.HeaderMutation)(nil), New: build,
		RouteConfig: (*headermutationv3.HeaderMutationPerRoute)(nil), ParseRoute: parseRoute,
		Upstream: true,
	}
}

// kind is a configured filter.
type kind struct {
	*mutations
	specificWins bool
	pool         sync.Pool
}

func build(cfg proto.Message, _ *filter.Env) (filter.HTTPFactory, error) {
	c, ok := cfg.(*headermutationv3.HeaderMutation)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a HeaderMutation", cfg)
	}
	if err := c.ValidateAll(); err != nil {
		return nil, fmt.Errorf("header_mutation: %w", err)
	}
	m, err := parse(c.GetMutations())
	if err != nil {
		return nil, err
	}
	k := &kind{mutations: m, specificWins: c.GetMostSpecificHeaderMutationsWins()}
	return func(cb filter.Callbacks) filter.HTTPFilter {
		f, ok := k.pool.Get().(*stream)
		if !ok {
			f = &stream{kind: k}
			f.collect = f.level
		}
		f.cb = cb
		return filter.HTTPFilter{Decoder: f, Encoder: f}
	}, nil
}

func parseRoute(cfg proto.Message, _ *filter.Env) (any, error) {
	c, ok := cfg.(*headermutationv3.HeaderMutationPerRoute)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a HeaderMutationPerRoute", cfg)
	}
	if err := c.ValidateAll(); err != nil {
		return nil, fmt.Errorf("header_mutation: %w", err)
	}
	return parse(c.GetMutations())
}

// mutations are those of the filter or of a level of the route; immutable.
type mutations struct {
	request, response, requestTrailers, responseTrailers []mutation
	query                                                []parameter
}

func parse(c *headermutationv3.Mutations) (*mutations, error) {
	if len(c.GetFormatters()) > 0 {
		return nil, errors.New("mutations.formatters: not implemented: only the built-in operators are: remove it")
	}
	m := &mutations{}
	var errs [5]error
	m.request, errs[0] = parseList("mutations.request_mutations", inRequest, c.GetRequestMutations())
	m.response, errs[1] = parseList("mutations.response_mutations", inResponse, c.GetResponseMutations())
	m.requestTrailers, errs[2] = parseList("mutations.request_trailers_mutations", inTrailers, c.GetRequestTrailersMutations())
	m.responseTrailers, errs[3] = parseList("mutations.response_trailers_mutations", inTrailers, c.GetResponseTrailersMutations())
	m.query, errs[4] = parseQuery("mutations.query_parameter_mutations", c.GetQueryParameterMutations())
	return m, errors.Join(errs[:]...)
}

// stream is the filter of one stream.
type stream struct {
	kind    *kind
	cb      filter.Callbacks
	levels  []*mutations // of the route, in the order in which they apply
	known   bool         // levels has been filled
	collect func(cfg any) bool
	work    scratch
}

// scratch is memory that mutations work in.
type scratch struct {
	text   []byte
	params []string
}

// level notes the configuration of a level; the most general comes first.
func (f *stream) level(cfg any) bool {
	if m, ok := cfg.(*mutations); ok {
		f.levels = append(f.levels, m)
	}
	return true
}

// route is what the levels of the route have.
func (f *stream) route() []*mutations {
	if f.known {
		return f.levels
	}
	f.known = true
	f.cb.RouteConfigs(f.collect)
	if l := f.levels; !f.kind.specificWins {
		for i, j := 0, len(l)-1; i < j; i, j = i+1, j-1 {
			l[i], l[j] = l[j], l[i]
		}
	}
	return f.levels
}

// DecodeHeaders implements filter.Decoder.
func (f *stream) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	f.request(f.kind.mutations, h)
	for _, m := range f.route() {
		f.request(m, h)
	}
	return filter.Continue
}

func (f *stream) request(m *mutations, h *header.Map) {
	f.apply(m.request, h)
	if len(m.query) > 0 {
		f.mutateQuery(m.query, h)
	}
}

// DecodeData implements filter.Decoder.
func (*stream) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

// DecodeTrailers implements filter.Decoder.
func (f *stream) DecodeTrailers(t *header.Map) filter.TrailersStatus {
	f.apply(f.kind.requestTrailers, t)
	for _, m := range f.route() {
		f.apply(m.requestTrailers, t)
	}
	return filter.TrailersContinue
}

// Encode1xx implements filter.Encoder.
func (*stream) Encode1xx(*header.Map) {}

// EncodeHeaders implements filter.Encoder.
func (f *stream) EncodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	f.apply(f.kind.response, h)
	for _, m := range f.route() {
		f.apply(m.response, h)
	}
	return filter.Continue
}

// EncodeData implements filter.Encoder.
func (*stream) EncodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

// EncodeTrailers implements filter.Encoder.
func (f *stream) EncodeTrailers(t *header.Map) filter.TrailersStatus {
	f.apply(f.kind.responseTrailers, t)
	for _, m := range f.route() {
		f.apply(m.responseTrailers, t)
	}
	return filter.TrailersContinue
}

// apply changes headers, one mutation after the other.
func (f *stream) apply(list []mutation, h *header.Map) {
	for i := range list {
		list[i].apply(f, h)
	}
}

// OnDestroy implements filter.Destroyer.
func (f *stream) OnDestroy() {
	clear(f.levels)
	f.cb, f.levels, f.known = nil, f.levels[:0], false
	f.kind.pool.Put(f)
}

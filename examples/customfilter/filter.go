package main

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// customers is the kind of filter of this example: it lets the requests of known
// customers in and counts them. Its configuration is a google.protobuf.Struct:
//
//	header: the header that names the customer, x-customer if absent
//	customers: the names of those who may come in
//
// Statistics are customer.<name>.requests and customer.refused, under
// http.<stat_prefix>.
func customers() filter.HTTPType {
	return filter.HTTPType{Config: (*structpb.Struct)(nil), New: newCustomers}
}

// gate is a configured filter. Workers share it, so it is not changed.
type gate struct {
	header  string
	known   map[string]uint32 // the counter of each customer
	refused uint32
}

// newCustomers checks a configuration. It runs once, when the proxy is built.
func newCustomers(cfg proto.Message, env *filter.Env) (filter.HTTPFactory, error) {
	c, ok := cfg.(*structpb.Struct)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a Struct", cfg)
	}
	g := &gate{header: "x-customer", known: map[string]uint32{}, refused: env.Stats.Counter("customer.refused")}
	for name, v := range c.GetFields() {
		switch name {
		case "header":
			g.header = strings.ToLower(v.GetStringValue())
		case "customers":
			for _, who := range v.GetListValue().GetValues() {
				g.known[who.GetStringValue()] = env.Stats.Counter("customer." + who.GetStringValue() + ".requests")
			}
		default:
			return nil, fmt.Errorf("value.%s: unknown field: there are header and customers", name)
		}
	}
	if g.header == "" {
		return nil, errors.New("value.header: the header has no name")
	}
	if len(g.known) == 0 {
		return nil, errors.New("value.customers: nobody could come in: write at least one name")
	}
	return func(cb filter.Callbacks) filter.HTTPFilter {
		v := &visit{gate: g, cb: cb}
		return filter.HTTPFilter{Decoder: v, Encoder: v}
	}, nil
}

// visit is the filter of one request.
type visit struct {
	gate *gate
	cb   filter.Callbacks
	who  string
}

// DecodeHeaders lets a customer in, or answers 403.
func (v *visit) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	v.who = h.Get(v.gate.header)
	counter, known := v.gate.known[v.who]
	if !known {
		v.who = ""
		v.cb.Stats().Inc(v.gate.refused)
		v.cb.SendLocalReply(filter.LocalReply{Status: 403, Body: "unknown customer\n", Details: "customer_unknown"})
		return filter.StopIteration
	}
	v.cb.Stats().Inc(counter)
	return filter.Continue
}

// DecodeData lets the body pass.
func (*visit) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

// DecodeTrailers lets trailers pass.
func (*visit) DecodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

// Encode1xx lets informational heads pass.
func (*visit) Encode1xx(*header.Map) {}

// EncodeHeaders tells for whom the response is.
func (v *visit) EncodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	if v.who != "" {
		h.Set("x-served-for", v.who)
	}
	return filter.Continue
}

// EncodeData lets the body pass.
func (*visit) EncodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

// EncodeTrailers lets trailers pass.
func (*visit) EncodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

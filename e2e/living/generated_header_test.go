//go:build interop

package living

import (
	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// changed are headers that configurations add, change and remove.
var changed = []string{"x-a", "x-b", "x-new", "x-answered", "x-list"}

func (g *generator) value() string {
	return pick(g, "fixed", "", "100%%", "%REQ(x-a)%", "%PROTOCOL%", "%UPSTREAM_CLUSTER%", "%ROUTE_NAME%", "%REQ(:path):6%", "%REQ(none?x-b)%",
		"%METADATA(ROUTE:test:text)%", "%METADATA(CLUSTER:test:number)%", "%REQ(x-a)%-%REQ(:authority)%", "%RESP(x-host)%", "%VIRTUAL_CLUSTER_NAME%", "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%")
}

// headers are one or two mutations in one of so many cases.
func (g *generator) headers(one int) []*corev3.HeaderValueOption {
	if !g.chance(one) {
		return nil
	}
	var out []*corev3.HeaderValueOption
	for range g.between(1, 2) {
		o := &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: pick(g, changed...), Value: g.value()}, KeepEmptyValue: g.chance(3)}
		if g.chance(2) {
			o.AppendAction = corev3.HeaderValueOption_HeaderAppendAction(int32(g.random.IntN(4))) //nolint:gosec // one of the enum
		} else if g.chance(3) {
			o.Append = wrapperspb.Bool(g.chance(2)) //nolint:staticcheck // still accepted
		}
		out = append(out, o)
	}
	return out
}

func (g *generator) removed(one int) []string {
	if !g.chance(one) {
		return nil
	}
	return []string{pick(g, changed...)}
}

// perFilter is configuration of filters for a part of the table.
func (g *generator) perFilter(one int) map[string]*anypb.Any {
	if !g.chance(one) {
		return nil
	}
	switch g.random.IntN(5) {
	case 0:
		return map[string]*anypb.Any{"fault": packed(&faultv3.HTTPFault{Abort: &faultv3.FaultAbort{
			ErrorType: &faultv3.FaultAbort_HttpStatus{HttpStatus: pick[uint32](g, 418, 503)}, Percentage: g.percent(),
		}})}
	case 1:
		return map[string]*anypb.Any{"buffer": packed(&bufferv3.BufferPerRoute{Override: &bufferv3.BufferPerRoute_Disabled{Disabled: true}})}
	case 2:
		return map[string]*anypb.Any{"buffer": packed(&bufferv3.BufferPerRoute{Override: &bufferv3.BufferPerRoute_Buffer{
			Buffer: &bufferv3.Buffer{MaxRequestBytes: g.u32(5000, 100000)},
		}})}
	case 3:
		return map[string]*anypb.Any{pick(g, "fault", "mutate", "buffer"): packed(&routev3.FilterConfig{Disabled: true, Config: packed(&faultv3.HTTPFault{})})}
	default:
		return map[string]*anypb.Any{"mutate": packed(&mutationv3.HeaderMutationPerRoute{Mutations: &mutationv3.Mutations{
			RequestMutations: g.mutations(), ResponseMutations: g.mutations(),
		}})}
	}
}

func (g *generator) mutations() []*mutationrulesv3.HeaderMutation {
	var out []*mutationrulesv3.HeaderMutation
	for range g.between(0, 3) {
		m := &mutationrulesv3.HeaderMutation{Action: &mutationrulesv3.HeaderMutation_Remove{Remove: pick(g, changed...)}}
		if g.chance(2) {
			m.Action = &mutationrulesv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: pick(g, changed...), Value: pick(g, "fixed", "%REQ(x-a)%", "%PROTOCOL%")},
				AppendAction: corev3.HeaderValueOption_HeaderAppendAction(int32(g.random.IntN(4))), //nolint:gosec // one of the enum
			}}
		}
		out = append(out, m)
	}
	return out
}

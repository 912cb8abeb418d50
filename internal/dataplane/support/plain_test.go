package support_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/support"
)

// Everything that is plain is fine with who would look at it otherwise.
func TestPlainAssignmentsAreInOrder(t *testing.T) {
	c := newCatalog(t, support.Options{})
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	plain, others := 0, 0
	for range 20_000 {
		la := &endpointv3.ClusterLoadAssignment{}
		scatter(r, la.ProtoReflect(), 0)
		if !support.Plain(la) {
			others++
			continue
		}
		plain++
		if err := la.ValidateAll(); err != nil {
			t.Errorf("%v is plain, but %v", la, err)
		}
		if r := c.Check(la, nil, nil); len(r.Findings)+len(r.Unknown)+len(r.Skipped)+r.Deprecated > 0 {
			t.Errorf("%v is plain, but %+v", la, r)
		}
	}
	if min(plain, others) < 2000 {
		t.Errorf("%d were plain and %d not", plain, others)
	}
}

// usual are the fields of plain assignments, which are set most often.
func usual() []protoreflect.Name {
	return []protoreflect.Name{
		"cluster_name", "endpoints", "locality", "region", "lb_endpoints", "endpoint", "address", "socket_address", "port_value", "health_status", "value",
	}
}

// scatter sets fields of a message at random.
func scatter(r *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		share := 0.01
		if slices.Contains(usual(), f.Name()) {
			share = 0.98
		} else if f.Name() == "load_balancing_weight" || f.Name() == "priority" {
			share = 0.3
		}
		if depth > 8 || f.IsMap() || r.Float64() > share {
			continue
		}
		if f.IsList() {
			l := m.Mutable(f).List()
			for range 1 + r.IntN(2) {
				l.Append(value(r, f, l.NewElement, depth))
			}
			continue
		}
		m.Set(f, value(r, f, func() protoreflect.Value { return m.NewField(f) }, depth))
	}
	if r.IntN(150) == 0 {
		m.SetUnknown([]byte{0xf8, 0x3f, 1})
	}
}

func value(r *rand.Rand, f protoreflect.FieldDescriptor, empty func() protoreflect.Value, depth int) protoreflect.Value {
	text := []string{"a", "127.0.0.1", "b", "c", "::1", "d", "e", ""}
	numbers := []uint32{1, 80, 128, 7, 8, 9, 10, 11, 0, 129, 65535, 65536}
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text[r.IntN(len(text))])
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(numbers[r.IntN(len(numbers))])
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.Int32N(8)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.MessageKind:
		v := empty()
		scatter(r, v.Message(), depth+1)
		return v
	default:
		return empty()
	}
}

// Of each message that is looked at, all fields are: one that the API gets needs a look.
func TestPlainKnowsAllFields(t *testing.T) {
	for m, want := range map[proto.Message]int{
		&endpointv3.ClusterLoadAssignment{}: 4, &endpointv3.LocalityLbEndpoints{}: 8, &endpointv3.LbEndpoint{}: 5, &endpointv3.Endpoint{}: 5,
		&corev3.Address{}: 3, &corev3.SocketAddress{}: 7, &corev3.Locality{}: 3, &wrapperspb.UInt32Value{}: 1,
	} {
		if n := m.ProtoReflect().Descriptor().Fields().Len(); n != want {
			t.Errorf("%s has %d fields, and had %d when Plain was written", m.ProtoReflect().Descriptor().FullName(), n, want)
		}
	}
}

func TestPlain(t *testing.T) {
	la := func() *endpointv3.ClusterLoadAssignment {
		return &endpointv3.ClusterLoadAssignment{ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{{
			Locality: &corev3.Locality{Zone: "z"}, Priority: 1, LoadBalancingWeight: wrapperspb.UInt32(3),
			LbEndpoints: []*endpointv3.LbEndpoint{{
				HealthStatus: corev3.HealthStatus_DEGRADED, LoadBalancingWeight: wrapperspb.UInt32(2),
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Hostname: "h", Address: &corev3.Address{
					Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "1.2.3.4", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}}},
				}}},
			}},
		}}}
	}
	if !support.Plain(la()) {
		t.Error("an ordinary assignment is not plain")
	}
	one := la()
	if n := testing.AllocsPerRun(100, func() { support.Plain(one) }); n > 0 {
		t.Errorf("to look takes %v allocations", n)
	}
	first := func(la *endpointv3.ClusterLoadAssignment) *endpointv3.LbEndpoint {
		return la.GetEndpoints()[0].GetLbEndpoints()[0]
	}
	for what, change := range map[string]func(*endpointv3.ClusterLoadAssignment){
		"no name":      func(la *endpointv3.ClusterLoadAssignment) { la.ClusterName = "" },
		"a policy":     func(la *endpointv3.ClusterLoadAssignment) { la.Policy = &endpointv3.ClusterLoadAssignment_Policy{} },
		"proximity":    func(la *endpointv3.ClusterLoadAssignment) { la.Endpoints[0].Proximity = wrapperspb.UInt32(1) },
		"priority 129": func(la *endpointv3.ClusterLoadAssignment) { la.Endpoints[0].Priority = 129 },
		"weight 0":     func(la *endpointv3.ClusterLoadAssignment) { first(la).LoadBalancingWeight = wrapperspb.UInt32(0) },
		"metadata":     func(la *endpointv3.ClusterLoadAssignment) { first(la).Metadata = &corev3.Metadata{} },
		"a name instead": func(la *endpointv3.ClusterLoadAssignment) {
			first(la).HostIdentifier = &endpointv3.LbEndpoint_EndpointName{EndpointName: "x"}
		},
		"no address": func(la *endpointv3.ClusterLoadAssignment) { first(la).GetEndpoint().Address = nil },
		"UDP": func(la *endpointv3.ClusterLoadAssignment) {
			first(la).GetEndpoint().GetAddress().GetSocketAddress().Protocol = corev3.SocketAddress_UDP
		},
		"port 65536": func(la *endpointv3.ClusterLoadAssignment) {
			first(la).GetEndpoint().GetAddress().GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: 65536}
		},
		"what nobody knows": func(la *endpointv3.ClusterLoadAssignment) {
			first(la).GetEndpoint().ProtoReflect().SetUnknown([]byte{0xf8, 0x3f, 1})
		},
	} {
		a := la()
		if change(a); support.Plain(a) {
			t.Errorf("an assignment with %s is plain", what)
		}
	}
}

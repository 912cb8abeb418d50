package discovery

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func endpointAt(address string, port uint32) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{
		Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}},
	}}}}
}

func encoded(t testing.TB, la *endpointv3.ClusterLoadAssignment) []byte {
	t.Helper()
	b, err := proto.Marshal(la)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plainOnes are assignments that are plain.
func plainOnes() []*endpointv3.ClusterLoadAssignment {
	full := endpointAt("1.2.3.4", 0)
	full.HealthStatus, full.LoadBalancingWeight = corev3.HealthStatus_DRAINING, wrapperspb.UInt32(7)
	full.GetEndpoint().Hostname = "host"
	full.GetEndpoint().GetAddress().GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	many := &endpointv3.ClusterLoadAssignment{ClusterName: "many"}
	for i := range 3 {
		l := &endpointv3.LocalityLbEndpoints{Locality: &corev3.Locality{Region: "r", Zone: fmt.Sprint(i), SubZone: "s"}, Priority: uint32(i), LoadBalancingWeight: wrapperspb.UInt32(0)}
		for j := range 5 {
			l.LbEndpoints = append(l.LbEndpoints, endpointAt(fmt.Sprintf("10.0.%d.%d", i, j), 8080))
		}
		many.Endpoints = append(many.Endpoints, l)
	}
	return []*endpointv3.ClusterLoadAssignment{
		{},
		{ClusterName: "a"},
		many,
		{ClusterName: "a", Endpoints: []*endpointv3.LocalityLbEndpoints{{}, {LbEndpoints: []*endpointv3.LbEndpoint{{}, full}}}},
	}
}

func TestPlainAssignments(t *testing.T) {
	for _, want := range plainOnes() {
		got := plainAssignment(encoded(t, want))
		if got == nil || !proto.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if again := encoded(t, got); string(again) != string(encoded(t, want)) {
			t.Errorf("%v is encoded otherwise", got)
		}
	}
	whole := encoded(t, plainOnes()[2])
	for n := range whole {
		if la := plainAssignment(whole[:n]); la != nil && proto.Unmarshal(whole[:n], &endpointv3.ClusterLoadAssignment{}) != nil {
			t.Fatalf("%d bytes of %d are %v", n, len(whole), la)
		}
	}
}

func TestAssignmentsThatAreNotPlain(t *testing.T) {
	with := func(change func(*endpointv3.LocalityLbEndpoints, *endpointv3.LbEndpoint)) []byte {
		e := endpointAt("1.2.3.4", 1)
		l := &endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{e}}
		change(l, e)
		return encoded(t, &endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{l}})
	}
	for what, b := range map[string][]byte{
		"policy":    encoded(t, &endpointv3.ClusterLoadAssignment{Policy: &endpointv3.ClusterLoadAssignment_Policy{}}),
		"metadata":  with(func(_ *endpointv3.LocalityLbEndpoints, e *endpointv3.LbEndpoint) { e.Metadata = &corev3.Metadata{} }),
		"proximity": with(func(l *endpointv3.LocalityLbEndpoints, _ *endpointv3.LbEndpoint) { l.Proximity = wrapperspb.UInt32(1) }),
		"LEDS": with(func(l *endpointv3.LocalityLbEndpoints, _ *endpointv3.LbEndpoint) {
			l.LbConfig = &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{}}
		}),
		"pipe": with(func(_ *endpointv3.LocalityLbEndpoints, e *endpointv3.LbEndpoint) {
			e.GetEndpoint().Address.Address = &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/a"}}
		}),
		"two localities in one, to be merged": {2<<3 | 2, 6, 1<<3 | 2, 1, 0, 1<<3 | 2, 1, 0},
		"a text that is none":                 {1<<3 | 2, 1, 0xff},
		"an unknown field":                    {15 << 3, 1},
		"another kind of field":               {1 << 3, 1},
	} {
		if la := plainAssignment(b); la != nil {
			t.Errorf("%s: %v is plain", what, la)
		}
	}
}

// What is read is what protobuf reads.
func FuzzPlainAssignment(f *testing.F) {
	for _, la := range plainOnes() {
		f.Add(encoded(f, la))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := plainAssignment(b)
		if got == nil {
			return
		}
		want := &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(b, want); err != nil || !proto.Equal(got, want) {
			t.Errorf("got %v, want %v (%v)", got, want, err)
		}
	})
}

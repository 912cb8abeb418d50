package message_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient/internal/message"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Proves XC-09: a NACK has the code INVALID_ARGUMENT, the version before, the
// nonce and the text.
func TestRequests(t *testing.T) {
	n := &corev3.Node{Id: "n", Cluster: "c"}
	nack := &client.Request{
		TypeURL: xds.ClusterType, WithNode: true, Version: "1", Names: []string{"x", "", "y"}, Nonce: "A", Error: "bad",
		Subscribe: []string{"s"}, Unsubscribe: []string{"u", "v"}, Held: map[string]string{"h": "1", "i": ""},
	}
	detail := &status.Status{Code: 3, Message: "bad"}
	var sotw discoveryv3.DiscoveryRequest
	if err := proto.Unmarshal(message.AppendNames(message.AppendSotw(nil, nack, marshal(t, n)), nack.Names), &sotw); err != nil {
		t.Fatal(err)
	}
	want := &discoveryv3.DiscoveryRequest{
		VersionInfo: "1", Node: n, ResourceNames: []string{"x", "", "y"}, TypeUrl: xds.ClusterType, ResponseNonce: "A", ErrorDetail: detail,
	}
	if diff := cmp.Diff(want, &sotw, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	var delta discoveryv3.DeltaDiscoveryRequest
	if err := proto.Unmarshal(message.AppendDelta(nil, nack, marshal(t, n)), &delta); err != nil {
		t.Fatal(err)
	}
	wantDelta := &discoveryv3.DeltaDiscoveryRequest{
		Node: n, TypeUrl: xds.ClusterType, ResourceNamesSubscribe: []string{"s"}, ResourceNamesUnsubscribe: []string{"u", "v"},
		InitialResourceVersions: map[string]string{"h": "1", "i": ""}, ResponseNonce: "A", ErrorDetail: detail,
	}
	if diff := cmp.Diff(wantDelta, &delta, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	ack := &client.Request{TypeURL: xds.ClusterType, Version: "1", Nonce: "A"}
	sotw.Reset()
	if err := proto.Unmarshal(message.AppendSotw(nil, ack, marshal(t, n)), &sotw); err != nil {
		t.Fatal(err)
	}
	if sotw.GetNode() != nil || sotw.GetErrorDetail() != nil {
		t.Errorf("an ACK is %v", &sotw)
	}
}

func errorsOf() []*discoveryv3.ResourceError {
	return []*discoveryv3.ResourceError{{
		ResourceName: &discoveryv3.ResourceName{Name: "e"}, ErrorDetail: &status.Status{Code: 5, Message: "none"},
	}}
}

// Proves GC-59: a resource in a Resource message is unwrapped in SotW.
func TestSotw(t *testing.T) {
	x, y := pack(t, &clusterv3.Cluster{Name: "x"}), pack(t, &clusterv3.Cluster{Name: "y"})
	got, err := message.Sotw(marshal(t, &discoveryv3.DiscoveryResponse{
		VersionInfo: "1", Nonce: "A", TypeUrl: xds.ClusterType, Canary: true, ControlPlane: &corev3.ControlPlane{Identifier: "cp"},
		Resources: []*anypb.Any{
			x, pack(t, &discoveryv3.Resource{Name: "y", Version: "2", Resource: y, Ttl: durationpb.New(1500 * time.Millisecond), Aliases: []string{"z"}}),
			pack(t, &discoveryv3.Resource{Name: "heartbeat"}),
		},
		ResourceErrors: errorsOf(),
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Response{
		TypeURL: xds.ClusterType, Version: "1", Nonce: "A",
		Resources: []client.Raw{
			{TypeURL: xds.ClusterType, Body: x.GetValue(), HasBody: true},
			{Name: "y", Version: "2", TypeURL: xds.ClusterType, Body: y.GetValue(), HasBody: true, TTL: 1500 * time.Millisecond, Aliases: []string{"z"}},
			{Name: "heartbeat"},
		},
		Errors: []client.ResourceError{{Name: "e", Status: client.Status{Code: 5, Message: "none"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDelta(t *testing.T) {
	x := pack(t, &clusterv3.Cluster{Name: "x"})
	got, err := message.Delta(marshal(t, &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "1", Nonce: "A", TypeUrl: xds.ClusterType,
		Resources: []*discoveryv3.Resource{
			{Name: "x", Version: "2", Resource: x, Ttl: durationpb.New(-time.Second)},
			{ResourceName: &discoveryv3.ResourceName{Name: "by resource_name"}, Version: "3", Resource: &anypb.Any{TypeUrl: xds.ClusterType}},
		},
		RemovedResources: []string{"r"}, RemovedResourceNames: []*discoveryv3.ResourceName{{Name: "s"}}, ResourceErrors: errorsOf(),
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Response{
		TypeURL: xds.ClusterType, Version: "1", Nonce: "A", Removed: []string{"r", "s"},
		Resources: []client.Raw{
			{Name: "x", Version: "2", TypeURL: xds.ClusterType, Body: x.GetValue(), HasBody: true},
			{Name: "by resource_name", Version: "3", TypeURL: xds.ClusterType, HasBody: true},
		},
		Errors: []client.ResourceError{{Name: "e", Status: client.Status{Code: 5, Message: "none"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What cannot be read is an error that says where.
func TestGarbage(t *testing.T) {
	for want, data := range map[string]string{
		"DiscoveryResponse":   "\xff",
		"resources[1]":        "\x12\x00\x12\x01\xff",
		"not UTF-8":           "\x0a\x01\xff",
		"resource_errors[0]":  "\x3a\x01\xff",
		"more than 1048576 r": strings.Repeat("\x12\x00", message.MaxResources+1),
	} {
		if _, err := message.Sotw([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestName(t *testing.T) {
	if n, err := message.Name(marshal(t, &clusterv3.Cluster{AltStatName: "a", Name: "x"})); n != "x" || err != nil {
		t.Errorf("got %q, %v", n, err)
	}
	for _, body := range []string{"", "\x0a\x01\xff", "\xff"} {
		if n, err := message.Name([]byte(body)); err == nil {
			t.Errorf("%q has the name %q", body, n)
		}
	}
}

// FuzzResponses compares with the generated messages: what they accept is read
// alike, and nothing panics.
func FuzzResponses(f *testing.F) {
	f.Add(marshal(f, &discoveryv3.DiscoveryResponse{VersionInfo: "1", Resources: []*anypb.Any{pack(f, &clusterv3.Cluster{Name: "x"})}}))
	f.Add(marshal(f, &discoveryv3.DeltaDiscoveryResponse{Nonce: "1", RemovedResources: []string{"r"}, ResourceErrors: errorsOf()}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var sotw discoveryv3.DiscoveryResponse
		r, err := message.Sotw(data)
		if proto.Unmarshal(data, &sotw) == nil && err == nil {
			if r.Version != sotw.GetVersionInfo() || r.Nonce != sotw.GetNonce() || len(r.Resources) != len(sotw.GetResources()) {
				t.Errorf("got %+v, want %v", r, &sotw)
			}
		}
		var delta discoveryv3.DeltaDiscoveryResponse
		d, err := message.Delta(data)
		if proto.Unmarshal(data, &delta) != nil || err != nil {
			return
		}
		if d.Version != delta.GetSystemVersionInfo() || d.Nonce != delta.GetNonce() || len(d.Resources) != len(delta.GetResources()) {
			t.Fatalf("got %+v, want %v", d, &delta)
		}
		for i, want := range delta.GetResources() {
			got := d.Resources[i]
			if want.GetResourceName() == nil && got.Name != want.GetName() || got.Version != want.GetVersion() || got.HasBody != (want.GetResource() != nil) {
				t.Errorf("resource %d: got %+v, want %v", i, got, want)
			}
		}
	})
}

// A request with many names is written into memory of the right size at once;
// the race detector sees two allocations where there is one.
func TestRequestIsAllocatedOnce(t *testing.T) {
	r := &client.Request{TypeURL: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Version: "1", Nonce: "1", WithNode: true}
	held := map[string]string{}
	for i := range 2000 {
		name := fmt.Sprintf("outbound|8080||svc-%05d.default.svc.cluster.local", i)
		r.Names, r.Subscribe = append(r.Names, name), append(r.Subscribe, name)
		held[name] = "1"
	}
	node := make([]byte, 1000)
	if n := testing.AllocsPerRun(20, func() { message.AppendSotw(nil, r, node) }); n > 2 {
		t.Errorf("%v allocations for a request", n)
	}
	if n := testing.AllocsPerRun(20, func() { message.AppendNames(nil, r.Names) }); n > 2 {
		t.Errorf("%v allocations for names", n)
	}
	if n := testing.AllocsPerRun(20, func() { message.AppendDelta(nil, r, node) }); n > 2 {
		t.Errorf("%v allocations for a request of delta", n)
	}
	r.Held = held
	if b := message.AppendDelta(nil, r, node); cap(b) > 2*len(b) {
		t.Errorf("%d bytes are taken for %d", cap(b), len(b))
	}
}

// A reader uses its memory again: nothing of a response is left in the next.
func TestReader(t *testing.T) {
	x := pack(t, &clusterv3.Cluster{Name: "x"})
	first := marshal(t, &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "1", Nonce: "A", TypeUrl: xds.ClusterType, RemovedResources: []string{"r", "s"}, ResourceErrors: errorsOf(),
		Resources: []*discoveryv3.Resource{{Name: "x", Version: "2", Resource: x, Aliases: []string{"z"}, Ttl: durationpb.New(time.Second)}, {Name: "y"}},
	})
	second := marshal(t, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: xds.EndpointType, RemovedResources: []string{"t"}, Resources: []*discoveryv3.Resource{{Name: "w", Resource: x}},
	})
	var rd message.Reader
	for _, data := range [][]byte{first, second, first} {
		want, err := message.Delta(data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rd.Delta(data)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
}

// What most resources have in common, and the room for them, is not allocated
// again for each response; the race detector sees more.
func TestReaderDoesNotAllocateForEachResource(t *testing.T) {
	r := &discoveryv3.DiscoveryResponse{VersionInfo: "1", Nonce: "A", TypeUrl: xds.ClusterType}
	for i := range 1000 {
		r.Resources = append(r.Resources, pack(t, &clusterv3.Cluster{Name: fmt.Sprintf("cluster-%d", i)}))
	}
	data := marshal(t, r)
	var rd message.Reader
	if n := testing.AllocsPerRun(20, func() { _, _ = rd.Sotw(data) }); n > 20 {
		t.Errorf("%v allocations for a response", n)
	}
}

func BenchmarkReader(b *testing.B) {
	r := &discoveryv3.DiscoveryResponse{VersionInfo: "1", Nonce: "A", TypeUrl: xds.ClusterType}
	for i := range 2000 {
		r.Resources = append(r.Resources, pack(b, &clusterv3.Cluster{Name: fmt.Sprintf("cluster-%d", i)}))
	}
	data := marshal(b, r)
	var rd message.Reader
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rd.Sotw(data); err != nil {
			b.Fatal(err)
		}
	}
}

package filter_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
)

func TestRegistry(t *testing.T) {
	var r filter.Registry
	if len(r.Names()) != 0 {
		t.Errorf("an empty registry has %v", r.Names())
	}
	add := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add(r.AddHTTP(filter.HTTPType{Config: &structpb.Struct{}, RouteConfig: &wrapperspb.BoolValue{}, Upstream: true}))
	add(r.AddHTTP(filter.HTTPType{Config: &emptypb.Empty{}, Terminal: true}))
	add(r.AddNetwork(filter.NetworkType{Config: &durationpb.Duration{}, Terminal: true}))
	add(r.AddListener(filter.ListenerType{Config: &timestamppb.Timestamp{}}))
	if h, ok := r.HTTP("google.protobuf.Struct"); !ok || !h.Upstream {
		t.Errorf("HTTP filter %t %+v", ok, h)
	}
	if h, ok := r.HTTPByRoute("google.protobuf.BoolValue"); !ok || !h.Upstream {
		t.Errorf("HTTP filter of a route %t %+v", ok, h)
	}
	for _, name := range []string{"google.protobuf.Struct", "google.protobuf.Empty", ""} {
		if _, ok := r.HTTPByRoute(name); ok {
			t.Errorf("%q is a route's", name)
		}
	}
	if n, ok := r.Network("google.protobuf.Duration"); !ok || !n.Terminal {
		t.Errorf("network filter %t %+v", ok, n)
	}
	if _, ok := r.Listener("google.protobuf.Timestamp"); !ok {
		t.Error("no listener filter")
	}
	if _, ok := r.Network("google.protobuf.Struct"); ok {
		t.Error("an HTTP filter is a network filter")
	}
	const names = "google.protobuf.BoolValue google.protobuf.Duration google.protobuf.Empty google.protobuf.Struct google.protobuf.Timestamp"
	if got := strings.Join(r.Names(), " "); got != names {
		t.Errorf("names %s", got)
	}
	for kind, err := range map[string]error{
		"HTTP":     r.AddHTTP(filter.HTTPType{Config: &structpb.Struct{}}),
		"network":  r.AddNetwork(filter.NetworkType{Config: &durationpb.Duration{}}),
		"listener": r.AddListener(filter.ListenerType{Config: &timestamppb.Timestamp{}}),
	} {
		if err == nil || !strings.Contains(err.Error(), kind) || !strings.Contains(err.Error(), "registered already") {
			t.Errorf("a second %s filter of a type: %v", kind, err)
		}
	}
}

// A per-route message stands for one filter only.
func TestRegistryRouteTwice(t *testing.T) {
	var r filter.Registry
	if err := r.AddHTTP(filter.HTTPType{Config: &structpb.Struct{}, RouteConfig: &wrapperspb.BoolValue{}}); err != nil {
		t.Fatal(err)
	}
	err := r.AddHTTP(filter.HTTPType{Config: &emptypb.Empty{}, RouteConfig: &wrapperspb.BoolValue{}})
	if err == nil || !strings.Contains(err.Error(), "google.protobuf.BoolValue") {
		t.Errorf("a second filter for a route's message: %v", err)
	}
	if _, ok := r.HTTP("google.protobuf.Empty"); ok {
		t.Error("the refused filter is registered all the same")
	}
}

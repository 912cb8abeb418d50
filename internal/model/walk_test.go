package model_test

import (
	"errors"
	"fmt"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/xds"
)

func TestWalkOrderAndPaths(t *testing.T) {
	m := parse(t, xds.RouteType, `
		name: "r"
		virtual_hosts { name: "v"
			routes { match { prefix: "/" } typed_per_filter_config { key: "b" value { [type.googleapis.com/google.protobuf.Empty] {} } }
				typed_per_filter_config { key: "a\"." value { [type.googleapis.com/google.protobuf.Duration] {} } } } }`)
	var got []string
	var w model.Walker
	w.Message = func(m protoreflect.Message) {
		got = append(got, fmt.Sprintf("%s|%s", w.Path(), m.Descriptor().Name()))
	}
	var whole []string
	w.Whole = func(m protoreflect.Message) { whole = append(whole, string(m.Descriptor().Name())) }
	w.Walk(m)
	if d := cmp.Diff([]string{"RouteConfiguration", "Duration", "Empty"}, whole); d != "" {
		t.Errorf("whole messages (-want +got):\n%s", d)
	}
	want := []string{
		"|RouteConfiguration",
		"virtual_hosts[0]|VirtualHost",
		"virtual_hosts[0].routes[0]|Route",
		"virtual_hosts[0].routes[0].match|RouteMatch",
		`virtual_hosts[0].routes[0].typed_per_filter_config["a\"."]|Duration`,
		`virtual_hosts[0].routes[0].typed_per_filter_config["b"]|Empty`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("visits (-want +got):\n%s", d)
	}
}

func TestWalkReportsWhatCannotBeDecoded(t *testing.T) {
	filter := func(a *anypb.Any) *listenerv3.Filter {
		return &listenerv3.Filter{Name: "f", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: a}}
	}
	nested := &anypb.Any{TypeUrl: xds.ClusterType}
	for range 40 {
		nested = mustAny(t, nested)
	}
	l := &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{
		filter(&anypb.Any{TypeUrl: "type.googleapis.com/no.Such"}),
		filter(&anypb.Any{}),
		filter(&anypb.Any{TypeUrl: xds.ClusterType, Value: []byte{0xff}}),
		filter(nested),
		filter(&anypb.Any{TypeUrl: xds.ClusterType}),
	}}}}
	var got []error
	w := model.Walker{Any: func(parent protoreflect.Message, _ *anypb.Any, err error) {
		got = append(got, err)
		if len(got) <= 3 && parent.Descriptor().Name() != "Filter" {
			t.Errorf("parent is a %s", parent.Descriptor().Name())
		}
	}}
	w.Walk(l)
	if len(got) != 4 {
		t.Fatalf("%d errors, want 4: %v", len(got), got)
	}
	for i, want := range []error{model.ErrUnknownType, model.ErrUnknownType, nil, model.ErrTooDeep} {
		if want != nil && !errors.Is(got[i], want) {
			t.Errorf("error %d is %v, want %v", i, got[i], want)
		}
	}
	if errors.Is(got[2], model.ErrUnknownType) || got[2] == nil {
		t.Errorf("broken bytes give %v", got[2])
	}
}

func mustAny(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Any cluster that EDS defines over xDS refers to the assignment its client
// would ask for, and any other cluster to none (XS-76 asks for that name).
func TestEndpointReferenceProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "name")
		service := rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "service")
		kind := rapid.SampledFrom([]clusterv3.Cluster_DiscoveryType{
			clusterv3.Cluster_EDS, clusterv3.Cluster_STATIC,
			clusterv3.Cluster_STRICT_DNS,
		}).Draw(t, "type")
		ads := rapid.Bool().Draw(t, "ads")
		source := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{}}
		if ads {
			source.ConfigSourceSpecifier = &corev3.ConfigSource_Ads{}
		}
		c := &clusterv3.Cluster{
			Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: kind},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: service, EdsConfig: source},
		}
		refs := model.References(c)
		if kind != clusterv3.Cluster_EDS || !ads {
			if len(refs) != 0 {
				t.Fatalf("%v refers to %v", c, refs)
			}
			return
		}
		want := name
		if service != "" {
			want = service
		}
		if len(refs) != 1 || refs[0].Key != (xds.Key{Type: xds.EndpointType, Name: want}) {
			t.Fatalf("%v refers to %v, want %q", c, refs, want)
		}
	})
}

func FuzzReferences(f *testing.F) {
	for _, tc := range append(listenerCases(), otherCases()...) {
		b, err := proto.Marshal(parse(f, tc.typeURL, tc.text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{
			&listenerv3.Listener{}, &routev3.RouteConfiguration{}, &clusterv3.Cluster{}, &endpointv3.ClusterLoadAssignment{},
		} {
			if proto.Unmarshal(b, m) != nil {
				continue
			}
			seen := map[xds.Key]bool{}
			for _, r := range model.References(m) {
				if r.Type == "" || r.Name == "" || r.Path == "" || seen[r.Key] {
					t.Fatalf("reference %+v is incomplete or listed twice", r)
				}
				seen[r.Key] = true
			}
		}
	})
}

func routeTable(hosts, routes int) *routev3.RouteConfiguration {
	rc := &routev3.RouteConfiguration{Name: "r"}
	for h := range hosts {
		vh := &routev3.VirtualHost{Name: fmt.Sprint(h), Domains: []string{fmt.Sprintf("h%d.example", h)}}
		for r := range routes {
			vh.Routes = append(vh.Routes, &routev3.Route{
				Match: &routev3.RouteMatch{
					PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: fmt.Sprintf("/%d", r)},
					Headers:       []*routev3.HeaderMatcher{{Name: "x"}, {Name: "y"}},
				},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: fmt.Sprint(h % 100)},
				}},
			})
		}
		rc.VirtualHosts = append(rc.VirtualHosts, vh)
	}
	return rc
}

// BenchmarkReferences10kRoutes reads a table of 10,000 routes to 100 clusters.
func BenchmarkReferences10kRoutes(b *testing.B) {
	rc := routeTable(1000, 10)
	b.ReportAllocs()
	for b.Loop() {
		if len(model.References(rc)) != 100 {
			b.Fatal("wrong references")
		}
	}
}

// BenchmarkReferences1kEndpoints shows that endpoints are not entered.
func BenchmarkReferences1kEndpoints(b *testing.B) {
	cla := &endpointv3.ClusterLoadAssignment{ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{{}}}
	for range 1000 {
		cla.Endpoints[0].LbEndpoints = append(cla.Endpoints[0].LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{}}},
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if model.References(cla) != nil {
			b.Fatal("an assignment without LEDS refers to something")
		}
	}
}

// BenchmarkReferencesCluster is the cost of a small resource.
func BenchmarkReferencesCluster(b *testing.B) {
	c := &clusterv3.Cluster{
		Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{},
		}},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{},
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(model.References(c)) != 1 {
			b.Fatal("wrong references")
		}
	}
}

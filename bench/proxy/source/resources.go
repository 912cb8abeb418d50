package main

import (
	"fmt"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const prefix = "type.googleapis.com/envoy.config."

// The types of resources.
const (
	listenerType = prefix + "listener.v3.Listener"
	routeType    = prefix + "route.v3.RouteConfiguration"
	clusterType  = prefix + "cluster.v3.Cluster"
	endpointType = prefix + "endpoint.v3.ClusterLoadAssignment"
)

// world is what the proxy is configured with: as many route tables, clusters and
// assignments as listeners.
type world struct {
	listeners []netip.AddrPort
	upstreams []netip.AddrPort
}

// mark is what the nth change leaves in its resource.
func mark(n int) string { return fmt.Sprintf("change-%d", n) }

// first sets what there is before anything changes.
func (w *world) first(s *server) error {
	for i, at := range w.listeners {
		l, err := w.listener(i, at)
		if err != nil {
			return err
		}
		for _, r := range []resource{l, w.routes(i, 0), w.cluster(i, 0), w.assignment(i, 0)} {
			field, err := r.encode(0)
			if err != nil {
				return err
			}
			s.set(r.typeURL, r.name, field)
		}
	}
	return nil
}

// change is the nth change, of a table, an assignment and a cluster in turn. With a
// cluster its assignment is sent again, which it begins with.
func (w *world) change(n int) (change, error) {
	i := (n - 1) / 3 % len(w.listeners)
	r, again := w.cluster(i, n), ""
	switch n % 3 {
	case 1:
		r = w.routes(i, n)
	case 2:
		r = w.assignment(i, n)
	default:
		again = assignmentName(i)
	}
	field, err := r.encode(n)
	return change{r.typeURL, r.name, field, again}, err
}

// change is a resource that is to be sent, and the name of an assignment that is to be
// sent again, if there is one.
type change struct {
	typeURL, name string
	field         []byte
	again         string
}

type resource struct {
	typeURL, name string
	content       proto.Message
}

func (r resource) encode(version int) ([]byte, error) {
	return resourceField(r.typeURL, r.name, fmt.Sprint(version), r.content)
}

func clusterName(i int) string    { return fmt.Sprintf("c%d", i) }
func assignmentName(i int) string { return fmt.Sprintf("e%d", i) }

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
}

func address(a netip.AddrPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port())},
	}}}
}

func (w *world) listener(i int, at netip.AddrPort) (resource, error) {
	router, err := anypb.New(&routerv3.Router{})
	if err != nil {
		return resource{}, err
	}
	manager, err := anypb.New(&hcmv3.HttpConnectionManager{
		StatPrefix: fmt.Sprintf("l%d", i), UseRemoteAddress: wrapperspb.Bool(true),
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: fmt.Sprintf("r%d", i), ConfigSource: ads()}},
		HttpFilters:    []*hcmv3.HttpFilter{{Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router}}},
	})
	name := fmt.Sprintf("l%d", i)
	return resource{listenerType, name, &listenerv3.Listener{Name: name, Address: address(at), FilterChains: []*listenerv3.FilterChain{{
		Filters: []*listenerv3.Filter{{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager}}},
	}}}}, err
}

// routes are a table that leads to all clusters alike. The table is another after each
// change.
func (w *world) routes(i, n int) resource {
	weighted := &routev3.WeightedCluster{}
	for c := range w.listeners {
		weighted.Clusters = append(weighted.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: clusterName(c), Weight: wrapperspb.UInt32(5)})
	}
	below := func(p string) *routev3.RouteMatch {
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: p}}
	}
	name := fmt.Sprintf("r%d", i)
	return resource{routeType, name, &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
		Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{
			{Match: below("/" + mark(n)), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 404}}},
			{Match: below("/"), Name: mark(n), Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted},
			}}},
		},
	}}}}
}

// metadata bear the mark.
func metadata(n int) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"bench": {Fields: map[string]*structpb.Value{"change": structpb.NewStringValue(mark(n))}},
	}}
}

func (w *world) cluster(i, n int) resource {
	return resource{clusterType, clusterName(i), &clusterv3.Cluster{
		Name: clusterName(i), ConnectTimeout: durationpb.New(5 * time.Second), Metadata: metadata(n),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads(), ServiceName: assignmentName(i)},
	}}
}

// assignment has both upstreams, with other weights after each change.
func (w *world) assignment(i, n int) resource {
	endpoint := func(at netip.AddrPort, weight int) *endpointv3.LbEndpoint {
		return &endpointv3.LbEndpoint{
			LoadBalancingWeight: wrapperspb.UInt32(uint32(weight)),
			HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(at)}},
		}
	}
	list := []*endpointv3.LbEndpoint{endpoint(w.upstreams[0], 1+n%5), endpoint(w.upstreams[1], 1+n%3)}
	list[0].Metadata = metadata(n)
	return resource{endpointType, assignmentName(i), &endpointv3.ClusterLoadAssignment{
		ClusterName: assignmentName(i), Endpoints: []*endpointv3.LocalityLbEndpoints{{Locality: &corev3.Locality{Region: "here"}, LbEndpoints: list}},
	}}
}

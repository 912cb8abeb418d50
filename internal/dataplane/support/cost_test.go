package support_test

import (
	"fmt"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/support"
)

// BenchmarkCheck is what a resource that is in order costs: each update pays it.
func BenchmarkCheck(b *testing.B) {
	c, err := support.New(support.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, m := range map[string]proto.Message{"cluster": ordinaryCluster(), "assignment": ordinaryAssignment(), "routes": ordinaryRoutes()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := c.Check(m, nil, nil); len(r.Findings) > 0 {
					b.Fatal(r.Findings)
				}
			}
		})
	}
}

func ordinaryCluster() proto.Message {
	ads := &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
	return &clusterv3.Cluster{
		Name: "c", ConnectTimeout: durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads},
	}
}

func ordinaryAssignment() proto.Message {
	group := &endpointv3.LocalityLbEndpoints{LoadBalancingWeight: wrapperspb.UInt32(1)}
	for i := range 5 {
		group.LbEndpoints = append(group.LbEndpoints, &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
			Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: "10.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(1000 + i)},
			}}}},
		}})
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{group}}
}

func ordinaryRoutes() proto.Message {
	c := &routev3.RouteConfiguration{Name: "r"}
	for i := range 20 {
		c.VirtualHosts = append(c.VirtualHosts, &routev3.VirtualHost{
			Name: fmt.Sprint("host-", i), Domains: []string{fmt.Sprintf("host-%d.example.com", i)},
			Routes: []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "c"}}},
			}},
		})
	}
	return c
}

package validate_test

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// A finding names the resource, the field, what is wrong and what to do.
func ExampleMessage() {
	c := &clusterv3.Cluster{
		Name:                 "backend",
		ConnectTimeout:       durationpb.New(0),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
	}
	for _, f := range validate.Message(c, "", nil) {
		fmt.Println(f.Code, "at", f.Path)
	}
	// Output:
	// constraint at connect_timeout
	// eds-without-config at eds_cluster_config.eds_config
}

// A graph is told what changes and then knows what is wrong now.
func ExampleGraph() {
	route := xds.NewResource(xds.RouteType, "r", nil, xds.WithReferences([]xds.Reference{
		{Key: xds.Key{Type: xds.ClusterType, Name: "backend"}, Path: "virtual_hosts[0].routes[0].route.cluster"},
	}))
	g := validate.NewGraph(validate.Strict())
	g.Update([]*xds.Resource{route}, nil)
	for _, f := range g.Findings() {
		fmt.Println(f.Severity, f.Code, "at", f.Path)
	}
	g.Update([]*xds.Resource{xds.NewResource(xds.ClusterType, "backend", nil)}, nil)
	fmt.Println(len(g.Findings()), "findings")
	// Output:
	// error missing-cluster at virtual_hosts[0].routes[0].route.cluster
	// 0 findings
}

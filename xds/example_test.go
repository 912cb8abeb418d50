package xds_test

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xebec-proxy/xebec/xds"
)

// A resource is encoded once; equal content has an equal version everywhere.
func ExampleMarshal() {
	cluster := &clusterv3.Cluster{Name: "web"}
	a, err := xds.Marshal(cluster.GetName(), cluster)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := xds.Marshal(cluster.GetName(), cluster)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(xds.Kind(a.TypeURL()), a.Name(), a.Version() == b.Version())
	// Output: Cluster web true
}

// Types can be found by the words people use.
func ExampleLookupType() {
	t, ok := xds.LookupType("eds")
	fmt.Println(t.Kind, ok)
	// Output: ClusterLoadAssignment true
}

package healthdiscovery_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/xdsserver/healthdiscovery"
)

// A server has clients in one zone check one cluster.
func Example() {
	server, err := healthdiscovery.New(healthdiscovery.WithProvider(
		func(_ context.Context, c healthdiscovery.Checker) (*healthv3.HealthCheckSpecifier, error) {
			if c.Node.Zone != "zone-a" {
				return nil, nil
			}
			return &healthv3.HealthCheckSpecifier{
				ClusterHealthChecks: []*healthv3.ClusterHealthCheck{{ClusterName: "shop"}},
			}, nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	cancel := server.Subscribe(func(h healthdiscovery.NodeHealth) {
		for _, e := range h.Endpoints {
			fmt.Println(h.Node.ID, "says", e.Address, "is", e.Status)
		}
	})
	defer cancel()

	g := grpc.NewServer()
	server.Register(g)
	for _, name := range slices.Sorted(maps.Keys(g.GetServiceInfo())) {
		fmt.Println("serving", name)
	}
	// Output:
	// serving envoy.service.discovery.v2.HealthDiscoveryService
	// serving envoy.service.health.v3.HealthDiscoveryService
}

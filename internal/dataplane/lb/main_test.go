package lb

import (
	"fmt"
	"math/rand/v2"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	leastrequestv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// group is the hosts of one locality and priority.
type group struct {
	priority, weight uint32 // weight of the locality
	zone             string
	healthy          int
	degraded         int
	down             int
	draining         int
	weights          []uint32 // of the hosts in that order; 1 beyond
}

// endpoints makes the load_assignment of groups.
func endpoints(groups ...group) *endpointv3.ClusterLoadAssignment {
	la := &endpointv3.ClusterLoadAssignment{ClusterName: "c"}
	for g, gr := range groups {
		l := &endpointv3.LocalityLbEndpoints{Priority: gr.priority, Locality: &corev3.Locality{Zone: gr.zone}}
		if gr.weight > 0 {
			l.LoadBalancingWeight = wrapperspb.UInt32(gr.weight)
		}
		n := 0
		add := func(count int, status corev3.HealthStatus) {
			for range count {
				e := &endpointv3.LbEndpoint{HealthStatus: status, HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
					Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
						Address: fmt.Sprintf("10.%d.%d.%d", g, n>>8, n&255), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
					}}},
				}}}
				if n < len(gr.weights) {
					e.LoadBalancingWeight = wrapperspb.UInt32(gr.weights[n])
				}
				l.LbEndpoints = append(l.LbEndpoints, e)
				n++
			}
		}
		add(gr.healthy, corev3.HealthStatus_HEALTHY)
		add(gr.degraded, corev3.HealthStatus_DEGRADED)
		add(gr.down, corev3.HealthStatus_UNHEALTHY)
		add(gr.draining, corev3.HealthStatus_DRAINING)
		la.Endpoints = append(la.Endpoints, l)
	}
	return la
}

// made builds a cluster of groups.
func made(t testing.TB, change func(*clusterv3.Cluster), groups ...group) (*cluster.Cluster, *stats.Registry) {
	t.Helper()
	reg, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	conf := &clusterv3.Cluster{Name: "c", LoadAssignment: endpoints(groups...)}
	if change != nil {
		change(conf)
	}
	c, err := cluster.New(conf, cluster.Options{Registry: reg.Scope("cluster.c"), Hosts: reg.Hidden(), Sink: reg.Main()})
	if err != nil {
		t.Fatal(err)
	}
	return c, reg
}

func policy(p clusterv3.Cluster_LbPolicy) func(*clusterv3.Cluster) {
	return func(c *clusterv3.Cluster) { c.LbPolicy = p }
}

// picking makes a picker with a fixed seed.
func picking(c *cluster.Cluster, reg *stats.Registry, seed uint64) Picker {
	return NewPicker(c, rand.New(rand.NewPCG(seed, 42)), reg.NewShard(func(f func()) bool { f(); return true }))
}

// counted picks n times and counts the hosts.
func counted(p Picker, n int) map[*cluster.Host]int {
	m := make(map[*cluster.Host]int)
	for range n {
		m[p.Pick(nil)]++
	}
	return m
}

// fullScan is least request with FULL_SCAN, which only the typed form has.
func fullScan(t testing.TB) func(*clusterv3.Cluster) {
	t.Helper()
	config, err := anypb.New(&leastrequestv3.LeastRequest{SelectionMethod: leastrequestv3.LeastRequest_FULL_SCAN})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *clusterv3.Cluster) {
		c.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
			TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: "lr", TypedConfig: config},
		}}}
	}
}

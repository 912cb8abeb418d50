//go:build interop

package living

import (
	"fmt"
	"slices"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lbcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/common/v3"
	leastv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	randomv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/random/v3"
	roundv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/xds"
)

// generatedClusters are the names of clusters that may exist; routes lead to all
// of them, and to one that never does.
var generatedClusters = []string{"c0", "c1", "c2", "c3", "c4"}

// generator makes configurations at random. Ports are those of the backends,
// dead one where nobody listens.
type generator struct {
	*world
	dead   int
	marked int // names given to what must be unique
	probes []probe
}

func pick[T any](g *generator, from ...T) T { return from[g.random.IntN(len(from))] }

func (g *generator) unique(prefix string) string {
	g.marked++
	return fmt.Sprint(prefix, g.marked)
}

func (g *generator) u32(from ...uint32) *wrapperspb.UInt32Value {
	return wrapperspb.UInt32(pick(g, from...))
}

// maybe is a message in one of so many cases, else none.
func maybe[T any](g *generator, one int, f func() *T) *T {
	if g.chance(one) {
		return f()
	}
	return nil
}

func (g *generator) duration(from ...time.Duration) *durationpb.Duration {
	return durationpb.New(pick(g, from...))
}

// allClusters makes each cluster new, removes it, or leaves it.
func (g *generator) allClusters() {
	for _, name := range generatedClusters {
		switch g.random.IntN(8) {
		case 0:
			g.remove(xds.ClusterType, name)
			g.remove(xds.EndpointType, "svc-"+name)
		case 1, 2:
		case 3:
			if g.held[xds.Key{Type: xds.EndpointType, Name: "svc-" + name}] != nil {
				g.set(g.endpoints("svc-" + name))
			}
		default:
			g.set(g.endpoints("svc-" + name))
			g.set(g.newCluster(name))
		}
	}
}

func (g *generator) newCluster(name string) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name: name, ConnectTimeout: g.duration(time.Second, 5*time.Second, 7500*time.Millisecond),
		PerConnectionBufferLimitBytes: maybe(g, 5, func() *wrapperspb.UInt32Value { return g.u32(1024, 32768, 1<<20) }),
		CircuitBreakers:               maybe(g, 2, g.breakers),
		CommonLbConfig:                maybe(g, 2, g.commonBalancing),
		Metadata:                      maybe(g, 4, g.metadata),
		UpstreamConnectionOptions:     maybe(g, 5, keepalive),
	}
	if g.chance(4) {
		c.AltStatName = g.unique("alt")
	}
	g.whereHostsAre(c)
	g.balancing(c)
	if g.chance(2) {
		c.TypedExtensionProtocolOptions = g.upstreamProtocol()
	}
	return c
}

func keepalive() *clusterv3.UpstreamConnectionOptions {
	return &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{KeepaliveProbes: wrapperspb.UInt32(3), KeepaliveTime: wrapperspb.UInt32(60)}}
}

func (g *generator) metadata() *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"test": {Fields: map[string]*structpb.Value{
		"text": structpb.NewStringValue(pick(g, "one", "two")), "number": structpb.NewNumberValue(float64(g.random.IntN(10))),
	}}}}
}

func (g *generator) whereHostsAre(c *clusterv3.Cluster) {
	switch g.random.IntN(6) {
	case 0:
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		c.LoadAssignment = g.endpoints(c.GetName())
	case 1:
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
		c.DnsLookupFamily = pick(g, clusterv3.Cluster_V4_ONLY, clusterv3.Cluster_AUTO)
		c.LoadAssignment = once(g.endpoints(c.GetName()))
	case 2:
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_LOGICAL_DNS}
		c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: c.GetName(), Endpoints: []*endpointv3.LocalityLbEndpoints{
			{LbEndpoints: []*endpointv3.LbEndpoint{g.endpoint(corev3.HealthStatus_UNKNOWN)}},
		}}
	default:
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{
			ServiceName: "svc-" + c.GetName(), EdsConfig: g.variant.source(g.dir, xds.EndpointType, "svc-"+c.GetName()),
		}
	}
}

// balancing chooses a policy, in the old way or the new.
func (g *generator) balancing(c *clusterv3.Cluster) {
	switch g.random.IntN(6) {
	case 0:
		c.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
	case 1:
		c.LbPolicy = clusterv3.Cluster_RANDOM
	case 2:
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{
			ChoiceCount:       maybe(g, 2, func() *wrapperspb.UInt32Value { return g.u32(2, 3, 10) }),
			ActiveRequestBias: maybe(g, 2, func() *corev3.RuntimeDouble { return &corev3.RuntimeDouble{DefaultValue: 0.5, RuntimeKey: "bias"} }),
		}}
	default:
		if g.chance(2) {
			return
		}
		by := maybe(g, 2, func() *lbcommonv3.LocalityLbConfig {
			return &lbcommonv3.LocalityLbConfig{LocalityConfigSpecifier: &lbcommonv3.LocalityLbConfig_LocalityWeightedLbConfig_{
				LocalityWeightedLbConfig: &lbcommonv3.LocalityLbConfig_LocalityWeightedLbConfig{},
			}}
		})
		p := pick[proto.Message](g, &roundv3.RoundRobin{LocalityLbConfig: by}, &randomv3.Random{LocalityLbConfig: by},
			&leastv3.LeastRequest{LocalityLbConfig: by, ChoiceCount: g.u32(2, 4)})
		c.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{
			{TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: "policy", TypedConfig: packed(p)}},
		}}
		c.CommonLbConfig = nil
	}
}

func (g *generator) commonBalancing() *clusterv3.Cluster_CommonLbConfig {
	c := &clusterv3.Cluster_CommonLbConfig{CloseConnectionsOnHostSetChange: g.chance(5)}
	if g.chance(2) {
		c.HealthyPanicThreshold = &typev3.Percent{Value: pick(g, 0., 1, 30, 70, 100)}
	}
	if g.chance(2) {
		c.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}
	}
	return c
}

func (g *generator) breakers() *clusterv3.CircuitBreakers {
	out := &clusterv3.CircuitBreakers{}
	for _, p := range []corev3.RoutingPriority{corev3.RoutingPriority_DEFAULT, corev3.RoutingPriority_HIGH} {
		if g.chance(2) {
			continue
		}
		th := &clusterv3.CircuitBreakers_Thresholds{Priority: p, TrackRemaining: g.chance(2)}
		for _, to := range []**wrapperspb.UInt32Value{&th.MaxConnections, &th.MaxPendingRequests, &th.MaxRequests, &th.MaxRetries} {
			if g.chance(2) {
				*to = g.u32(100, 1000, 5000)
			}
		}
		switch g.random.IntN(8) {
		case 0:
			th.MaxRequests = wrapperspb.UInt32(0)
		case 1:
			th.MaxRetries = wrapperspb.UInt32(0)
		case 2:
			th.RetryBudget = &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
				BudgetPercent: &typev3.Percent{Value: pick(g, 20., 100)}, MinRetryConcurrency: g.u32(3, 10),
			}
		}
		out.Thresholds = append(out.Thresholds, th)
	}
	return out
}

// upstreamProtocol is HTTP/1, HTTP/2 or that of the client, with options.
func (g *generator) upstreamProtocol() map[string]*anypb.Any {
	o := &upstreamv3.HttpProtocolOptions{}
	one, two := &corev3.Http1ProtocolOptions{EnableTrailers: g.chance(2)}, &corev3.Http2ProtocolOptions{
		MaxConcurrentStreams:    maybe(g, 2, func() *wrapperspb.UInt32Value { return g.u32(1, 10, 100) }),
		InitialStreamWindowSize: maybe(g, 3, func() *wrapperspb.UInt32Value { return g.u32(65535, 1<<20) }),
	}
	explicit := &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: one},
	}
	o.UpstreamProtocolOptions = &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: explicit}
	switch g.random.IntN(3) {
	case 0:
		explicit.ProtocolConfig = &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: two}
	case 1:
		o.UpstreamProtocolOptions = &upstreamv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &upstreamv3.HttpProtocolOptions_UseDownstreamHttpConfig{HttpProtocolOptions: one, Http2ProtocolOptions: two},
		}
	}
	if g.chance(2) {
		o.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{
			IdleTimeout:              g.duration(30*time.Second, time.Minute),
			MaxRequestsPerConnection: maybe(g, 2, func() *wrapperspb.UInt32Value { return g.u32(1, 5, 100) }),
			MaxConnectionDuration:    maybe(g, 4, func() *durationpb.Duration { return g.duration(time.Minute) }),
			MaxHeadersCount:          maybe(g, 4, func() *wrapperspb.UInt32Value { return g.u32(60, 200) }),
		}
	}
	return map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed(o)}
}

// endpoints is an assignment: localities in priorities without gaps, hosts in
// all states of health, or none at all.
func (g *generator) endpoints(name string) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: name, Policy: maybe(g, 3, g.endpointPolicy)}
	if g.chance(12) {
		return out
	}
	priority, last := uint32(0), g.between(1, 3)
	for n := range last {
		if n > 0 && g.chance(2) {
			priority++
		}
		l := &endpointv3.LocalityLbEndpoints{
			Locality: &corev3.Locality{Region: "r", Zone: string(rune('a' + n)), SubZone: pick(g, "", "s")}, Priority: priority,
		}
		if g.chance(2) {
			l.LoadBalancingWeight = g.u32(1, 2, 3)
		}
		for range g.between(1, 3) {
			l.LbEndpoints = append(l.LbEndpoints, g.endpoint(g.health()))
		}
		out.Endpoints = append(out.Endpoints, l)
	}
	return out
}

// once takes out what has the address of another endpoint. When several names
// lead to one address, what Envoy makes of it depends on the order in which they
// are resolved.
func once(a *endpointv3.ClusterLoadAssignment) *endpointv3.ClusterLoadAssignment {
	seen := map[uint32]bool{}
	for _, l := range a.GetEndpoints() {
		l.LbEndpoints = slices.DeleteFunc(l.GetLbEndpoints(), func(e *endpointv3.LbEndpoint) bool {
			port := e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue()
			was := seen[port]
			seen[port] = true
			return was
		})
	}
	return a
}

func (g *generator) health() corev3.HealthStatus {
	if g.chance(2) {
		return corev3.HealthStatus_UNKNOWN
	}
	return corev3.HealthStatus(int32(g.random.IntN(6))) //nolint:gosec // one of the enum
}

func (g *generator) endpoint(health corev3.HealthStatus) *endpointv3.LbEndpoint {
	port := pick(g, g.hosts...)
	if g.chance(15) {
		port = g.dead
	}
	e := &endpointv3.LbEndpoint{
		HealthStatus:   health,
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(port)}},
		Metadata:       maybe(g, 5, g.metadata),
	}
	if g.chance(2) {
		e.LoadBalancingWeight = g.u32(1, 2, 4)
	}
	if g.chance(4) {
		e.GetEndpoint().Hostname = pick(g, "one.test", "two.test")
	}
	return e
}

func (g *generator) endpointPolicy() *endpointv3.ClusterLoadAssignment_Policy {
	p := &endpointv3.ClusterLoadAssignment_Policy{
		OverprovisioningFactor: maybe(g, 2, func() *wrapperspb.UInt32Value { return g.u32(100, 140, 200) }),
		WeightedPriorityHealth: g.chance(3),
	}
	if g.chance(4) {
		p.DropOverloads = []*endpointv3.ClusterLoadAssignment_Policy_DropOverload{{
			Category: "test", DropPercentage: &typev3.FractionalPercent{Numerator: pick[uint32](g, 0, 50, 100)},
		}}
	}
	return p
}

//go:build interop

package living

import (
	"maps"
	"math/rand/v2"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/xds"
)

// world is what the proxy is to have. wrong is what is written besides, or in
// the place of something, and is to be refused.
type world struct {
	variant variant
	dir     string // where files are
	random  *rand.Rand
	hosts   []int // ports of the backends
	held    map[xds.Key]proto.Message
	wrong   map[xds.Key]proto.Message
}

func key(m proto.Message) xds.Key {
	k := xds.Key{Type: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())}
	switch m := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		k.Name = m.GetClusterName()
	case interface{ GetName() string }:
		k.Name = m.GetName()
	}
	return k
}

func (w *world) set(m proto.Message)      { w.held[key(m)] = m }
func (w *world) setWrong(m proto.Message) { w.wrong[key(m)] = m }
func (w *world) remove(typ, name string)  { delete(w.held, xds.Key{Type: typ, Name: name}) }
func (w *world) chance(one int) bool      { return w.random.IntN(one) == 0 }
func (w *world) between(least, n int) int { return least + w.random.IntN(n) }
func (w *world) listener(n string) *listenerv3.Listener {
	return proto.CloneOf(w.held[xds.Key{Type: xds.ListenerType, Name: n}].(*listenerv3.Listener)) //nolint:forcetypeassert // of its key
}

func (w *world) cluster(n string) *clusterv3.Cluster {
	return proto.CloneOf(w.held[xds.Key{Type: xds.ClusterType, Name: n}].(*clusterv3.Cluster)) //nolint:forcetypeassert // of its key
}

// written is what goes to the files.
func (w *world) written() map[xds.Key]proto.Message {
	out := maps.Clone(w.held)
	maps.Copy(out, w.wrong)
	return out
}

func packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err) // only if a message of the test is not valid
	}
	return a
}

func address(port int) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)}, //nolint:gosec // a port
	}}}
}

// some are at least one of the backends.
func (w *world) some() []int {
	list := append([]int(nil), w.hosts...)
	w.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:w.between(1, len(list))]
}

// assignment is backends with weights, in localities and priorities.
func (w *world) assignment(name string) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	var l *endpointv3.LocalityLbEndpoints
	for _, port := range w.some() {
		if l == nil || w.chance(3) {
			n := uint32(len(out.GetEndpoints())) //nolint:gosec // few
			l = &endpointv3.LocalityLbEndpoints{
				Locality: &corev3.Locality{Region: "here", Zone: string(rune('a' + n))}, LoadBalancingWeight: wrapperspb.UInt32(1 + n),
			}
			if w.chance(2) {
				l.Priority = n
				if n > 0 {
					l.Priority = out.GetEndpoints()[n-1].GetPriority() + 1
				}
			} else if n > 0 {
				l.Priority = out.GetEndpoints()[n-1].GetPriority()
			}
			if n == 0 {
				l.Priority = 0
			}
			out.Endpoints = append(out.Endpoints, l)
		}
		l.LbEndpoints = append(l.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(port)}},
			LoadBalancingWeight: wrapperspb.UInt32(uint32(w.between(1, 5))), //nolint:gosec // small
		})
	}
	return out
}

// protocol is what a cluster's backends are spoken to in.
type protocol int

const (
	anyProtocol protocol = iota
	http1
	http2
)

// makeCluster is a cluster of a random discovery type and random limits. Its
// assignment is there whether it uses it or not.
func (w *world) makeCluster(name string, p protocol) *clusterv3.Cluster {
	c := &clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(time.Duration(w.between(5000, 1000)) * time.Millisecond)}
	switch w.random.IntN(4) {
	case 0:
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		c.LoadAssignment = w.assignment(name)
	case 1:
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
		c.LoadAssignment = w.assignment(name)
	default:
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: "svc-" + name, EdsConfig: w.variant.source(w.dir, xds.EndpointType, "svc-"+name)}
	}
	c.LbPolicy = []clusterv3.Cluster_LbPolicy{clusterv3.Cluster_ROUND_ROBIN, clusterv3.Cluster_LEAST_REQUEST, clusterv3.Cluster_RANDOM}[w.random.IntN(3)]
	limit := func() *wrapperspb.UInt32Value { return wrapperspb.UInt32(uint32(w.between(500, 1000))) } //nolint:gosec // small
	if w.chance(2) {
		c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
			{MaxConnections: limit(), MaxPendingRequests: limit(), MaxRequests: limit()},
		}}
	}
	c.TypedExtensionProtocolOptions = w.speaking(p)
	return c
}

func (w *world) speaking(p protocol) map[string]*anypb.Any {
	if p == anyProtocol {
		p = protocol(w.between(1, 2))
	}
	explicit := &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}},
	}
	if p == http2 {
		explicit.ProtocolConfig = &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}}
	}
	return map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed(&upstreamv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: explicit},
	})}
}

// targets are the clusters that a table leads to.
type targets struct {
	plain, rpc [2]string
	ws, long   string
}

// makeRoutes leads each kind of request to its cluster or two.
func (w *world) makeRoutes(name string, to *targets) *routev3.RouteConfiguration {
	forever := durationpb.New(0)
	one := func(prefix, cluster string) *routev3.Route {
		return &routev3.Route{Match: prefixed(prefix), Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}, Timeout: forever,
		}}}
	}
	table := &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
		Name: "v" + string(rune('a'+w.random.IntN(26))), Domains: []string{"*"},
		Routes: []*routev3.Route{one("/ws", to.ws), one("/long", to.long), w.toEither("/grpc.", to.rpc), w.toEither("/", to.plain)},
	}}}
	if w.chance(2) {
		table.ResponseHeadersToRemove = []string{"x-nothing"}
	}
	return table
}

func prefixed(prefix string) *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: prefix}}
}

// toEither leads to one of two clusters, or to both by weight.
func (w *world) toEither(prefix string, to [2]string) *routev3.Route {
	a := &routev3.RouteAction{Timeout: durationpb.New(time.Duration(w.between(30, 30)) * time.Second)}
	if n := w.random.IntN(3); n < 2 {
		a.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: to[n]}
	} else {
		first := uint32(w.between(1, 98)) //nolint:gosec // small
		a.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: &routev3.WeightedCluster{Clusters: []*routev3.WeightedCluster_ClusterWeight{
			{Name: to[0], Weight: wrapperspb.UInt32(first)}, {Name: to[1], Weight: wrapperspb.UInt32(100 - first)},
		}}}
	}
	return &routev3.Route{Match: prefixed(prefix), Action: &routev3.Route_Route{Route: a}}
}

// secret is a certificate with its key.
func secret(name string, certificate, key []byte) *tlsv3.Secret {
	inline := func(b []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: string(b)}}
	}
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(certificate), PrivateKey: inline(key),
	}}}
}

package healthdiscovery_test

import (
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"go.uber.org/goleak"

	"github.com/xebec-proxy/xebec/xdsserver/healthdiscovery"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting/reportingtest"
)

type message = healthv3.HealthCheckRequestOrEndpointHealthResponse

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a server and a connection to it inside a synctest bubble.
type bench struct {
	*testing.T
	server *healthdiscovery.Server
	client healthv3.HealthDiscoveryServiceClient
}

// inBubble runs a test against a new server; everything it started has ended
// when it returns, or the bubble fails.
func inBubble(t *testing.T, test func(*bench), opts ...healthdiscovery.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := healthdiscovery.New(opts...)
		if err != nil {
			t.Fatal(err)
		}
		conn := reportingtest.Serve(t, s)
		test(&bench{t, s, healthv3.NewHealthDiscoveryServiceClient(conn)})
	})
}

type clientStream struct {
	*reportingtest.Stream[message, healthv3.HealthCheckSpecifier]
}

// open starts a stream without sending.
func (b *bench) open() *clientStream {
	b.Helper()
	return &clientStream{reportingtest.Open(b.Context(), b.T, b.client.StreamHealthCheck)}
}

// join starts a stream, introduces the node and returns the first specifier.
func (b *bench) join(id string) (*clientStream, *healthv3.HealthCheckSpecifier) {
	b.Helper()
	c := b.open()
	c.Send(hello(id))
	return c, c.Answer()
}

// report sends results and waits until the server has dealt with them.
func (c *clientStream) report(r *healthv3.EndpointHealthResponse) {
	c.Send(results(r))
	synctest.Wait()
}

func hello(id string, protocols ...healthv3.Capability_Protocol) *message {
	return &message{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
		HealthCheckRequest: &healthv3.HealthCheckRequest{
			Node:       &corev3.Node{Id: id, Cluster: "edge"},
			Capability: &healthv3.Capability{HealthCheckProtocols: protocols},
		},
	}}
}

func results(r *healthv3.EndpointHealthResponse) *message {
	return &message{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{
		EndpointHealthResponse: r,
	}}
}

func health(ip string, s corev3.HealthStatus) *healthv3.EndpointHealth {
	return &healthv3.EndpointHealth{
		Endpoint: &endpointv3.Endpoint{Hostname: "host-" + ip, Address: &corev3.Address{
			Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
			}},
		}},
		HealthStatus: s,
	}
}

// inCluster is a report of one cluster with one locality.
func inCluster(name string, list ...*healthv3.EndpointHealth) *healthv3.EndpointHealthResponse {
	return &healthv3.EndpointHealthResponse{ClusterEndpointsHealth: []*healthv3.ClusterEndpointsHealth{{
		ClusterName: name,
		LocalityEndpointsHealth: []*healthv3.LocalityEndpointsHealth{{
			Locality: &corev3.Locality{Region: "r", Zone: "z"}, EndpointsHealth: list,
		}},
	}}}
}

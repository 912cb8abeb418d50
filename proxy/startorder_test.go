package proxy_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/proxy"
	"github.com/xebec-proxy/xebec/xds"
)

// slowServer is a management server that answers when it is told to.
type slowServer struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	asked  chan string // "<kind> [<names>]", when these are others than before or it says nothing else
	stream chan discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
	to     discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
	sent   int
}

func (s *slowServer) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	s.stream <- stream
	before, answered := map[string]string{}, map[string]string{}
	for {
		r, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the end
		}
		names := slices.Sorted(slices.Values(r.GetResourceNames()))
		what := fmt.Sprint(xds.Kind(r.GetTypeUrl()), " ", names)
		switch {
		case before[r.GetTypeUrl()] != what:
			s.asked <- what
		case answered[r.GetTypeUrl()] == r.GetResponseNonce():
			s.asked <- what + " again"
		}
		before[r.GetTypeUrl()], answered[r.GetTypeUrl()] = what, r.GetResponseNonce()
	}
}

// next waits for a request, after which the proxy has to wait for its answer.
func (s *slowServer) next(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-s.asked:
		if got != want {
			t.Fatalf("the proxy asks for %s, want %s", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("the proxy does not ask for %s", want)
	}
	select {
	case got := <-s.asked:
		t.Fatalf("the proxy does not wait for %s but asks for %s", want, got)
	case <-time.After(30 * time.Millisecond):
	}
}

func (s *slowServer) answer(t *testing.T, typeURL string, list ...proto.Message) {
	t.Helper()
	if s.to == nil {
		s.to = <-s.stream
	}
	s.sent++
	r := &discoveryv3.DiscoveryResponse{VersionInfo: fmt.Sprint(s.sent), TypeUrl: typeURL, Nonce: fmt.Sprint(s.sent)}
	for _, m := range list {
		r.Resources = append(r.Resources, packed(m))
	}
	must(t, s.to.Send(r))
}

// slowly begins a proxy that has its configuration from such a server.
func slowly(t *testing.T, bootstrap string) (*running, *slowServer) {
	t.Helper()
	s := &slowServer{asked: make(chan string, 100), stream: make(chan discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer, 1)}
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	done := make(chan error, 1)
	go func() { done <- g.Serve(lis) }()
	t.Cleanup(func() {
		g.Stop()
		must(t, <-done)
	})
	_, port, err := net.SplitHostPort(lis.Addr().String())
	must(t, err)
	return begin(t, strings.Replace(bootstrap, "  - name: none", `  - {name: e, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}
  - name: xds
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: xds
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: `+port+`}}}}]}]
  - name: none`, 1)+`
dynamic_resources:
  ads_config: {api_type: GRPC, transport_api_version: V3, set_node_on_first_message_only: true, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
`), s
}

// Proves XC-26 and BS-24: the endpoints of static clusters are asked for and waited
// for, then clusters, then what those need, then listeners, and only then routes,
// also those of a static listener; then connections are accepted.
func TestStartOrder(t *testing.T) {
	r, s := slowly(t, discovered)
	s.next(t, "ClusterLoadAssignment [e]")
	s.answer(t, xds.EndpointType, assignment("e", "127.0.0.1:1"))
	s.next(t, "Cluster []")
	secure := edsCluster("dyn", "")
	secure.TransportSocket = socketOf(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: secretFrom("ca", 0)},
	}})
	s.answer(t, xds.ClusterType, secure)
	needs := []string{<-s.asked}
	s.next(t, map[bool]string{true: "Secret [ca]", false: "ClusterLoadAssignment [dyn e]"}[strings.HasPrefix(needs[0], "Cluster")])
	s.answer(t, xds.EndpointType, assignment("e", "127.0.0.1:1"), assignment("dyn", "127.0.0.1:1"))
	select {
	case got := <-s.asked:
		t.Fatalf("the proxy asks for %s while the cluster has no secret", got)
	case <-time.After(30 * time.Millisecond):
	}
	a, err := testcert.NewAuthority("test")
	must(t, err)
	s.answer(t, xds.SecretType, trust(a, "ca"))
	s.next(t, "Listener []")
	s.answer(t, xds.ListenerType, listenerAt("more", freeAddress(t), chainOf(manager(byRDS("r")))))
	s.next(t, "RouteConfiguration [r rc]")
	select {
	case <-r.Ready():
		t.Fatal("ready without routes")
	default:
	}
	s.answer(t, xds.RouteType, saying("rc", "static"), saying("r", "discovered"))
	<-r.Ready()
	r.expect(t, "", "200 static")
}

// Partly proves XC-26: a wildcard subscription's first answer goes on to the next
// step though there is nothing in it.
func TestStartOrderOfNothing(t *testing.T) {
	r, s := slowly(t, small)
	s.next(t, "ClusterLoadAssignment [e]")
	s.answer(t, xds.EndpointType, assignment("e", "127.0.0.1:1"))
	s.next(t, "Cluster []")
	s.answer(t, xds.ClusterType)
	s.next(t, "Listener []")
	s.answer(t, xds.ListenerType)
	<-r.Ready()
}

// A secret that a listener of the bootstrap needs is asked for at once if a
// cluster needs it as well: else the two would wait for each other.
func TestSharedSecretDoesNotWaitForListeners(t *testing.T) {
	a, err := testcert.NewAuthority("test")
	must(t, err)
	s := newSource()
	s.first = func(r *proxy.Resources) {
		c := staticCluster("x", "127.0.0.1:1")
		c.TransportSocket = socketOf(&tlsv3.UpstreamTlsContext{CommonTlsContext: downstream("cert").GetCommonTlsContext()})
		must(t, r.SetCluster(c, "1"))
	}
	s.answer = func(r *proxy.Resources, _, name string) { _ = r.SetSecret(nil, certificate(t, a, name), "1") }
	start(t, strings.Replace(small, "    filter_chains:\n    -", `    filter_chains:
    - transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context: {tls_certificate_sds_secret_configs: [{name: cert, sds_config: {ads: {}, initial_fetch_timeout: 0s}}]}
     `, 1), s.by)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := fmt.Sprint(s.events); got != "[+Secret cert]" {
		t.Errorf("asked for %s", got)
	}
}

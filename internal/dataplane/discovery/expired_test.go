package discovery

import (
	"net"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xds"
)

// shortLived is a server that sends one resource of a type, which expires.
type shortLived struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (shortLived) DeltaAggregatedResources(s grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has gone
		}
		var m proto.Message = &clusterv3.Cluster{Name: "own"}
		name := "res"
		switch r.GetTypeUrl() {
		case xds.ListenerType:
			m = &listenerv3.Listener{Name: "own"}
		case xds.ExtensionConfigType:
			m, name = &corev3.TypedExtensionConfig{Name: "own"}, "own"
		case xds.VirtualHostType:
			m, name = &routev3.VirtualHost{Name: "own", Domains: []string{"own"}}, "table/own"
		}
		if r.GetResponseNonce() != "" {
			continue
		}
		body, err := anypb.New(m)
		if err != nil {
			return err //nolint:wrapcheck // it does not happen
		}
		err = s.Send(&discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: r.GetTypeUrl(), Nonce: "1",
			Resources: []*discoveryv3.Resource{{Name: name, Version: "1", Resource: body, Ttl: durationpb.New(100 * time.Millisecond)}},
		})
		if err != nil {
			return nil //nolint:nilerr // the client has gone
		}
	}
}

// Clusters and listeners whose time to live ends are removed, by their own
// names, as are virtual hosts, and what is wanted by its name is missing then. Proves XT-04 of the proxy.
func TestExpired(t *testing.T) {
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(srv, shortLived{})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	g := &target{}
	d := start(t, bootstrap(t, dynamic("DELTA_GRPC", `{"ads": {}}`)), lis.Addr().String(), g)
	d.Clusters(t.Context())
	d.Listeners(t.Context())
	ads := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	d.Want(xds.ExtensionConfigType, "own", ads)
	d.Want(xds.VirtualHostType, "table/", ads)
	for _, line := range []string{
		"set cluster own", "remove cluster own", "set listener own", "remove listener own", "set extension own", "missing " + xds.Kind(xds.ExtensionConfigType) + " own",
		"hosts of table: +table/own", "hosts of table: -table/own",
	} {
		g.until(t, line)
	}
}

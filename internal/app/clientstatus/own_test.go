package clientstatus

import (
	"context"
	"net"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/xds"
	csds "github.com/xebec-proxy/xebec/xdsclient/clientstatus"
)

func generic(name string, s adminv3.ClientResourceStatus) *statusv3.ClientConfig_GenericXdsConfig {
	return &statusv3.ClientConfig_GenericXdsConfig{TypeUrl: xds.ClusterType, Name: name, ClientStatus: s}
}

// What a client says of itself: states in its words, the worst first, and where
// its resources are from, by the scope of a proxy or of any other client.
func TestReadOwn(t *testing.T) {
	static := generic("s", 0)
	static.IsStaticResource = true
	for scope, want := range map[string]Client{
		"source=a b variant=delta ads=true": {Own: true, Source: "a b", Variant: "delta", Aggregated: true},
		"source=bootstrap":                  {Own: true, Source: "bootstrap"},
		"xds:///greeter":                    {Own: true, Source: "xds:///greeter"},
		"":                                  {Own: true},
	} {
		c := read(&statusv3.ClientConfig{ClientScope: scope, GenericXdsConfigs: []*statusv3.ClientConfig_GenericXdsConfig{
			generic("a", adminv3.ClientResourceStatus_ACKED), generic("b", adminv3.ClientResourceStatus_NACKED), static,
		}})
		if len(c.Types) != 1 || c.Types[0].State != Nacked || c.Types[0].Counts[Acked] != 1 || c.Types[0].Resources[2].State != Static {
			t.Errorf("%v", c.Types)
		}
		if c.Own != want.Own || c.Source != want.Source || c.Variant != want.Variant || c.Aggregated != want.Aggregated || c.Group+c.Stream != "" {
			t.Errorf("%q: %+v", scope, c)
		}
	}
}

// A client refuses node matchers; one node is found in its answer all the same.
func TestFetchOwn(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	statusv3.RegisterClientStatusDiscoveryServiceServer(srv, csds.New(func(context.Context, csds.Options) ([]*statusv3.ClientConfig, error) {
		return []*statusv3.ClientConfig{{Node: &corev3.Node{Id: "me"}, ClientScope: "source=bootstrap"}}, nil
	}))
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	defer func() {
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for node, want := range map[string]int{"": 1, "me": 1, "other": 0} {
		list, err := Fetch(t.Context(), conn, node)
		if err != nil || len(list) != want {
			t.Errorf("%q: %v, %v", node, list, err)
		}
	}
}

// Waiting works with a client's own words.
func TestMissingOwn(t *testing.T) {
	for state, want := range map[string]struct{ accepted, rejected bool }{
		Acked: {true, false}, Static: {true, false}, Nacked: {false, true}, Requested: {}, DoesNotExist: {},
	} {
		for _, reject := range []bool{false, true} {
			c := Condition{TypeURL: xds.ClusterType, Name: "a", Clients: 1, Rejected: reject}
			met := len(c.Missing([]Client{client("n", state)})) == 0
			if met != (reject && want.rejected || !reject && want.accepted) {
				t.Errorf("%s, rejected %t: met is %t", state, reject, met)
			}
		}
	}
}

package proxy_test

import (
	"net"
	"os"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// clusterServer is a management server that has one cluster.
func clusterServer(t *testing.T) (port string) {
	t.Helper()
	srv, port := managementServer(t)
	dyn, err := xds.Marshal("dyn", &clusterv3.Cluster{Name: "dyn"})
	must(t, err)
	must(t, srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: {Set: []*xds.Resource{dyn}}}}))
	return port
}

// managementServer is one without resources.
func managementServer(t *testing.T) (srv *xdsserver.Server, port string) {
	t.Helper()
	srv, err := xdsserver.New()
	must(t, err)
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	g := grpc.NewServer(srv.GRPCOptions()...)
	srv.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(lis) }()
	t.Cleanup(func() {
		g.Stop()
		must(t, <-done)
	})
	_, port, err = net.SplitHostPort(lis.Addr().String())
	must(t, err)
	return srv, port
}

// The minimal ADS bootstraps of the xDS documents load as they are written, but
// for the server's address, which is this test's, and open a stream that brings
// what the server has. Proves BS-06. Proves BS-07 with v2.txtar of proxyrun: the
// v2 field hosts is shown as a load_assignment, and counted.
func TestMinimalBootstraps(t *testing.T) {
	for _, name := range []string{"ads-minimal.yaml", "ads-keepalive.yaml"} {
		t.Run(name, func(t *testing.T) {
			port := clusterServer(t)
			text, err := os.ReadFile("../internal/app/proxyrun/testdata/bootstrap/" + name)
			must(t, err)
			here := strings.NewReplacer("xds.internal", "127.0.0.1", "port_value: 18000", "port_value: "+port, "port_value: 15010", "port_value: "+port)
			r := start(t, here.Replace(string(text))+adminHere)
			r.becomesStat(t, "cluster_manager.cds.update_success", "1")
			if got := r.get(t, "/clusters"); !strings.Contains(got, "dyn::") {
				t.Errorf("the cluster of the server is not there:\n%s", got)
			}
			if got := r.get(t, "/config_dump"); !strings.Contains(got, `"load_assignment"`) || strings.Contains(got, `"hosts"`) {
				t.Errorf("the dump:\n%s", got)
			}
			if got := r.get(t, "/stats?filter=runtime.deprecated_feature_use"); got == "runtime.deprecated_feature_use: 0\n" {
				t.Error("deprecated fields are not counted")
			}
		})
	}
}

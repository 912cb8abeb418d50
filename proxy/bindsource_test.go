package proxy_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/proxy"
)

// callerBackend answers with the address that it is called from, without the port.
func callerBackend(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprint(w, host)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func bindTo(address string) *corev3.BindConfig {
	return &corev3.BindConfig{SourceAddress: &corev3.SocketAddress{Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{}}}
}

const fromNine = "cluster_manager: {upstream_bind_config: {source_address: {address: 127.0.0.9, port_value: 0}}}\n"

// Partly proves BS-40: what the backend sees is the source address of
// cluster_manager, or the cluster's own; a cluster's own that is empty leaves it to
// the system, as in Envoy, and one that cannot be used fails the connection.
func TestSourceAddress(t *testing.T) {
	r := start(t, fromNine+byHeader, newSource().by)
	res, at := r.Resources(), callerBackend(t)
	for name, c := range map[string]*clusterv3.Cluster{
		"default": {}, "own": {UpstreamBindConfig: bindTo("127.0.0.10")}, "system": {UpstreamBindConfig: &corev3.BindConfig{}},
		"foreign": {UpstreamBindConfig: bindTo("192.0.2.1")}, "six": {UpstreamBindConfig: bindTo("::1")},
	} {
		s := staticCluster(name, at)
		s.UpstreamBindConfig = c.GetUpstreamBindConfig()
		must(t, res.SetCluster(s, "1"))
	}
	for name, want := range map[string]string{"default": "200 127.0.0.9", "own": "200 127.0.0.10", "system": "200 127.0.0.1"} {
		r.expect(t, name, want)
	}
	for _, name := range []string{"foreign", "six"} {
		if got := r.to(t, name); !strings.HasSuffix(got, "reset reason: local connection failure") {
			t.Errorf("%s: %s", name, got)
		}
		if got := r.get(t, "/stats?filter=^cluster."+name+".bind_errors$"); got != "cluster."+name+".bind_errors: 1\n" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for field, b := range map[string]*corev3.BindConfig{
		"freebind":                     {Freebind: wrapperspb.Bool(true)},
		"socket_options":               {SocketOptions: []*corev3.SocketOption{{State: 0, Value: &corev3.SocketOption_IntValue{}}}},
		"extra_source_addresses":       {ExtraSourceAddresses: []*corev3.ExtraSourceAddress{{Address: bindTo("::1").GetSourceAddress()}}},
		"malformed IP address: here":   bindTo("here"),
		"local_address_selector":       {LocalAddressSelector: &corev3.TypedExtensionConfig{Name: "x", TypedConfig: &anypb.Any{TypeUrl: "x"}}},
		"source_address.named_port":    {SourceAddress: &corev3.SocketAddress{Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_NamedPort{NamedPort: "x"}}},
		"source_address.resolver_name": {SourceAddress: &corev3.SocketAddress{Address: "127.0.0.1", ResolverName: "other", PortSpecifier: &corev3.SocketAddress_PortValue{}}},
	} {
		s := staticCluster("refused", at)
		s.UpstreamBindConfig = b
		if err := res.SetCluster(s, "1"); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Partly proves BS-40: a local cluster has to be one of the bootstrap's, and clusters
// whose load balancing would follow from it are refused.
func TestLocalCluster(t *testing.T) {
	const (
		weighted = "{name: us, common_lb_config: {locality_weighted_lb_config: {}}}"
		refused  = "zone aware routing (cluster_manager.local_cluster_name is set) is known but not built"
	)
	for _, tt := range []struct{ name, clusters, want string }{
		{"nope", weighted, "cluster_manager.local_cluster_name: local cluster 'nope' must be defined"},
		{"us", "{name: us}", refused},
		{"us", weighted + ", {name: other}", refused},
		{"us", weighted, ""},
	} {
		loaded, o, _ := load(t, "cluster_manager: {local_cluster_name: "+tt.name+"}\nstatic_resources: {clusters: ["+tt.clusters+"]}\n")
		_, err := proxy.New(loaded.Bootstrap, o)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

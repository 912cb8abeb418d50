package discovery

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3" // in an Any
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"                   // in an Any
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// Partly proves XC-01, BS-26: "self" in the proxy: wherever it stands in a resource,
// however deep, it becomes the source that the resource came from, with what else
// was said of the source; nothing else changes.
func TestSelf(t *testing.T) {
	const (
		api = `{"apiConfigSource": {"apiType": "DELTA_GRPC", "transportApiVersion": "V3", "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}}`
		ads = `{"ads": {}}`
	)
	for _, from := range []string{api, ads} {
		inner := strings.TrimSuffix(from, "}")
		for _, self := range []string{`"self": {}`, `"self": {"transportApiVersion": "V3"}`} {
			source := &corev3.ConfigSource{}
			parsed(t, from, source)
			// Other sources than "self" are left alone.
			cluster := `{"name": "a", "edsClusterConfig": {"edsConfig": {SELF, "resourceApiVersion": "V3", "initialFetchTimeout": "3s"}}, "transportSocketMatches": [
				{"name": "m", "transportSocket": {"name": "tls", "typedConfig": {
					"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
					"commonTlsContext": {"tlsCertificateSdsSecretConfigs": [{"name": "s", "sdsConfig": {SELF}}, {"name": "p", "sdsConfig": {"path": "*"}}]}}}}]}`
			same(t, xdsclient.Clusters(), source, strings.ReplaceAll(cluster, "SELF", self), strings.ReplaceAll(cluster, "{SELF", inner))
			listener := `{"name": "l", "filterChains": [{"filters": [{"name": "h", "typedConfig": {
				"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
				"rds": {"routeConfigName": "r", "configSource": {SELF}}}}]}]}`
			same(t, xdsclient.Listeners(), source, strings.ReplaceAll(listener, "SELF", self), strings.ReplaceAll(listener, "{SELF", inner))
		}
	}
}

func parsed(t *testing.T, text string, m proto.Message) {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// same decodes a resource, which is to be like another.
func same[T proto.Message](t *testing.T, typ xdsclient.Type[T], from *corev3.ConfigSource, text, want string) {
	t.Helper()
	m, w := typ.Kind, proto.Message(&clusterv3.Cluster{})
	in := proto.Message(&clusterv3.Cluster{})
	if m == "Listener" {
		in, w = &listenerv3.Listener{}, &listenerv3.Listener{}
	}
	parsed(t, text, in)
	parsed(t, want, w)
	body, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := resolving(typ, from).Decode("a", body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, proto.Message(got), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What has no "self" is not searched, and decoding fails as before.
func TestNoSelf(t *testing.T) {
	typ := resolving(xdsclient.Clusters(), &corev3.ConfigSource{})
	if _, err := typ.Decode("a", []byte{1}); err == nil {
		t.Error("no error")
	}
	body, err := proto.Marshal(&clusterv3.Cluster{Name: "*", EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if mayHaveSelf(body) {
		t.Errorf("%x", body)
	}
}

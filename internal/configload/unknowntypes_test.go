package configload_test

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"

	"github.com/xebec-proxy/xebec/internal/configload"
)

// An unknown type is kept by its URL in every format if the caller wants it, but
// not one of v2.
func TestKeepUnknownTypes(t *testing.T) {
	const url = "type.googleapis.com/acme.Socket"
	loader := &configload.Loader{KeepUnknownTypes: true}
	for name, text := range map[string]string{
		"b.yaml":    `static_resources: {clusters: [{name: a, transport_socket: {name: x, typed_config: {"@type": ` + url + `, a: 1}}}]}`,
		"b.json":    `{"static_resources": {"clusters": [{"name": "a", "transport_socket": {"name": "x", "typed_config": {"@type": "` + url + `"}}}]}}`,
		"b.pb_text": `static_resources { clusters { name: "a" transport_socket { name: "x" typed_config { [` + url + `] { a: 1 } } } } }`,
	} {
		var b bootstrapv3.Bootstrap
		at, problems := loader.Message(name, []byte(text), &b)
		if len(problems) != 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		got := b.GetStaticResources().GetClusters()[0].GetTransportSocket()
		if got.GetTypedConfig().GetTypeUrl() != url || got.GetName() != "x" {
			t.Errorf("%s: %v", name, got)
		}
		if pos := at.Position("static_resources.clusters[0].transport_socket.typed_config"); pos.Line != 1 || pos.Column == 1 {
			t.Errorf("%s: at %v", name, pos)
		}
		if _, problems := configload.Message(name, []byte(text), &b); len(problems) != 1 {
			t.Errorf("%s: by default %v", name, problems)
		}
	}
	var b bootstrapv3.Bootstrap
	old := `static_resources: {clusters: [{transport_socket: {typed_config: {"@type": type.googleapis.com/envoy.api.v2.auth.Old}}}]}`
	if _, problems := loader.Message("b.yaml", []byte(old), &b); len(problems) != 1 {
		t.Errorf("a type of v2: %v", problems)
	}
	if near, ok := loader.Nearest(url[:len(url)-len("acme.Socket")] + "envoy.config.cluster.v3.Clustr"); !ok || near != "envoy.config.cluster.v3.Cluster" {
		t.Errorf("near is %q", near)
	}
}

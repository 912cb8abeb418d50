package configload_test

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/configload"
)

// TestSpellings compares odd but valid, and nearly valid, spellings of scalars
// with what the protobuf library makes of them.
func TestSpellings(t *testing.T) {
	for _, c := range []struct {
		file, text string
		message    proto.Message
	}{
		{"f.json", `{"id": "\u0041\ud83d\ude00\n\/\b\f\t\r\"\\"}`, &corev3.Node{}},
		{"f.json", `{"id": "\ud83d"}`, &corev3.Node{}},
		{"f.json", `{"id": "\ude00\ud83d"}`, &corev3.Node{}},
		{"f.json", `{"id": "\u00g0"}`, &corev3.Node{}},
		{"f.json", `{"id": "\x41"}`, &corev3.Node{}},
		{"f.json", "{\"id\": \"\xff\"}", &corev3.Node{}},
		{"f.json", `{"id": "a"`, &corev3.Node{}},
		{"f.json", `{id: "a"}`, &corev3.Node{}},
		{"f.json", `{"id" "a"}`, &corev3.Node{}},
		{"f.json", `{"id": 'a'}`, &corev3.Node{}},
		{"f.json", `{"name":"a","metadata":{"filterMetadata":{"x":{"y":-1.5e-3}}}}`, &clusterv3.Cluster{}},
		{"f.json", `{"name":"a","metadata":{"filterMetadata":{"x":{"y":1.}}}}`, &clusterv3.Cluster{}},
		{"f.json", `{"name":"a","metadata":{"filterMetadata":{"x":{"y":1e400}}}}`, &clusterv3.Cluster{}},
		{"f.json", `{"dnsRefreshRate":"1.0000000001s"}`, &clusterv3.Cluster{}},
		{"f.pb_text", `id: "a" 'b' "\101\x42\u00e9\U0001F600\ud83d\ude00\?\a\v"`, &corev3.Node{}},
		{"f.pb_text", `id: "\xff"`, &corev3.Node{}},
		{"f.pb_text", `id: "\ud83d"`, &corev3.Node{}},
		{"f.pb_text", `id: "\400"`, &corev3.Node{}},
		{"f.pb_text", `id: "\q"`, &corev3.Node{}},
		{"f.pb_text", `id: "a`, &corev3.Node{}},
		{"f.pb_text", `user_agent_build_version { version { major_number: 0x1F, minor_number: 017; patch: 3 } }`, &corev3.Node{}},
		{"f.pb_text", `user_agent_build_version { version { major_number: 08 } }`, &corev3.Node{}},
		{"f.pb_text", `user_agent_build_version { version { major_number: -1 } }`, &corev3.Node{}},
		{"f.pb_text", `user_agent_build_version { version { major_number: 1.0 } }`, &corev3.Node{}},
		{"f.pb_text", `client_features: ["a", "b"] client_features: "c"`, &corev3.Node{}},
		{"f.pb_text", `client_features: ["a" "b",]`, &corev3.Node{}},
		{"f.pb_text", `extensions [{name: "a"}, <name: "b">]`, &corev3.Node{}},
		{"f.pb_text", `extensions: [{name: "a"}] extensions { disabled: t } extensions { disabled: False } extensions { disabled: 1 }`, &corev3.Node{}},
		{"f.pb_text", `extensions { disabled: "true" }`, &corev3.Node{}},
		{"f.pb_text", `extensions { disabled: TRUE }`, &corev3.Node{}},
		{"f.pb_text", `number_value: -inf`, &structpb.Value{}},
		{"f.pb_text", `number_value: nan`, &structpb.Value{}},
		{"f.pb_text", `number_value: 1.5e+3f`, &structpb.Value{}},
		{"f.pb_text", `number_value: .5`, &structpb.Value{}},
		{"f.pb_text", `number_value: "1"`, &structpb.Value{}},
		{"f.pb_text", `value: -Infinity`, &wrapperspb.FloatValue{}},
		{"f.pb_text", `dynamic_parameters { key: "a" value { params { key: "k" value: "v" } params { key: "z" } params { } } } dynamic_parameters { value { } }`, &corev3.Node{}},
		{"f.pb_text", `dynamic_parameters { key: "a" key: "b" }`, &corev3.Node{}},
		{"f.pb_text", `dynamic_parameters { kee: "a" }`, &corev3.Node{}},
		{"f.pb_text", `metadata { fields { key: "x" value { bool_value: true } } }`, &corev3.Node{}},
		{"f.pb_text", `id "a"`, &corev3.Node{}},
		{"f.pb_text", `id: { }`, &corev3.Node{}},
	} {
		want := c.message.ProtoReflect().New().Interface()
		unmarshal := prototext.Unmarshal
		if c.file == "f.json" {
			unmarshal = protojson.Unmarshal
		}
		err := unmarshal([]byte(c.text), want)
		got := c.message.ProtoReflect().New().Interface()
		_, errs := configload.Message(c.file, []byte(c.text), got)
		switch {
		case (err != nil) != (len(errs) > 0):
			t.Errorf("%s: problems %v, the library says %v", c.text, errs, err)
		case err == nil && !proto.Equal(want, got):
			t.Errorf("%s: got %v, want %v", c.text, got, want)
		}
	}
}

// TestMessageChecksItsFile covers files that are not one message.
func TestMessageChecksItsFile(t *testing.T) {
	const typed = `{"@type": "type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap", "node": {"id": "a"}}`
	for _, c := range []struct {
		file, text string
		problems   int
	}{
		{"f.yaml", "", 0},
		{"f.yaml", "node: {id: a}\n---\n# nothing more\n", 0},
		{"f.yaml", "node: {id: a}\n---\nnode: {id: b}\n", 1},
		{"f.yaml", "- node: {id: a}\n", 1},
		{"f.json", typed, 0},
		{"f.json", `{"@type": "type.googleapis.com/envoy.config.core.v3.Node"}`, 1},
		{"f.pb", marshal(t, &bootstrapv3.Bootstrap{Node: &corev3.Node{Id: "a"}}), 0},
		{"f.pb", marshal(t, &bootstrapv3.Bootstrap{NodeContextParams: []string{"x"}}) + "\xfa\xff\x01\x00", 1},
		{"f.pb", "\xff", 1},
		{"f", "", 1},
	} {
		got := &bootstrapv3.Bootstrap{Node: &corev3.Node{Cluster: "left over"}}
		ps, errs := configload.Message(c.file, []byte(c.text), got)
		if len(errs) != c.problems || ps == nil || got.GetNode().GetCluster() != "" {
			t.Errorf("%s %q: problems %v, want %d; message %v", c.file, c.text, errs, c.problems, got)
		}
	}
}

// only is a resolver that knows one message less.
type only struct {
	*protoregistry.Types
}

// TestResolver injects a set of types that lacks all but the clusters.
func TestResolver(t *testing.T) {
	types := new(protoregistry.Types)
	if err := types.RegisterMessage((&clusterv3.Cluster{}).ProtoReflect().Type()); err != nil {
		t.Fatal(err)
	}
	l := configload.Loader{Types: only{types}}
	rs, errs := l.File("f.yaml", []byte(`resources:
- {"@type": `+cds+`, name: a}
- {"@type": `+cds+`, name: b, typed_extension_protocol_options: {x: {"@type": type.googleapis.com/google.protobuf.Empty}}}
`))
	if names(rs) != "Cluster/a" || len(errs) != 1 || problemOf(t, errs[0]).Code != configload.CodeUnknownType {
		t.Errorf("got %s, problems %v", names(rs), errs)
	}
}

// TestBinaryContainers reads the containers of resources from an Any.
func TestBinaryContainers(t *testing.T) {
	bs := &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{{Name: "a"}}}}
	rs, errs := configload.File("f.pb", []byte(marshal(t, mustAny(t, bs))))
	if names(rs) != "Cluster/a" || len(errs) > 0 {
		t.Errorf("bootstrap in an Any: got %s, problems %v", names(rs), errs)
	}
	bad := &anypb.Any{TypeUrl: "type.googleapis.com/envoy.service.discovery.v3.Resource", Value: []byte{0xff}}
	if _, errs := configload.File("f.pb", []byte(marshal(t, bad))); len(errs) != 1 {
		t.Errorf("broken Resource: %v", errs)
	}
}

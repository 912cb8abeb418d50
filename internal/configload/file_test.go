package configload_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/xds"
)

// decode reads the text format (or JSON) with the protobuf library itself.
func decode(t *testing.T, text string, m proto.Message, json bool) proto.Message {
	t.Helper()
	unmarshal := prototext.Unmarshal
	if json {
		unmarshal = protojson.Unmarshal
	}
	if err := unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// mustAny packs a message.
func mustAny(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func marshal(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names lists resources as "Kind/name".
func names(rs []*configload.Resource) string {
	var s []string
	for _, r := range rs {
		s = append(s, xds.Kind(r.TypeURL)+"/"+r.Name)
	}
	return strings.Join(s, " ")
}

const (
	cds = xds.ClusterType
	eds = xds.EndpointType
)

// TestDocuments lists the documents a file may hold.
func TestDocuments(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"bare resource", "f.yaml", "\"@type\": " + cds + "\nname: a\n", "Cluster/a"},
		{
			"several documents, empty ones between", "f.yml",
			"---\n# nothing\n---\n{\"@type\": " + cds + ", name: a}\n--- \n~\n---\n\"@type\": " + eds + "\ncluster_name: b\n...\n", "Cluster/a ClusterLoadAssignment/b",
		},
		{"directive before a document", "f.yaml", "%YAML 1.1\n# c\n---\n{\"@type\": " + cds + ", name: a}\n", "Cluster/a"},
		{"list of resources", "f.yaml", "version_info: '1'\nnonce: n1\ntype_url: " + cds + "\nresources:\n- {\"@type\": " + cds + ", name: a}\n- {\"@type\": " + cds + ", name: b}\n", "Cluster/a Cluster/b"},
		{"one resource in place of the list", "f.yaml", "resources: {\"@type\": " + cds + ", name: a}\n", "Cluster/a"},
		{"static resources", "f.yaml", "static_resources:\n  clusters: [{name: a}]\n  listeners: {name: l}\n  secrets: [{name: s}]\n", "Cluster/a Listener/l Secret/s"},
		{"static resources in camelCase", "f.json", `{"staticResources": {"clusters": [{"name": "a"}]}}`, "Cluster/a"},
		{"array of documents", "f.json", `[{"@type": "` + cds + `", "name": "a"}, {"resources": [{"@type": "` + eds + `", "clusterName": "b"}]}]`, "Cluster/a ClusterLoadAssignment/b"},
		{"response with a type", "f.json", `{"@type": "type.googleapis.com/envoy.service.discovery.v3.DiscoveryResponse", "resources": [{"@type": "` + cds + `", "name": "a"}]}`, "Cluster/a"},
		{"empty files", "f.yaml", "", ""},
		{"empty JSON", "f.json", " \n", ""},
		{"empty text", "f.pb_text", "# nothing\n", ""},
		{"empty binary", "f.pb", "", ""},
		{"empty list", "f.yaml", "resources: []\n", ""},
		{"text Any", "f.pb_text", `[` + cds + `] { name: "a" }`, "Cluster/a"},
		{"text response", "f.pb_text", `version_info: "1" resources { [` + cds + `] { name: "a" } } resources: < [` + cds + `]: <name: 'b'> >`, "Cluster/a Cluster/b"},
		{"text bootstrap", "f.pb_text", `static_resources { clusters { name: "a" } clusters { name: "b" } }`, "Cluster/a Cluster/b"},
		{"text Any with encoded content", "f.pb_text", `resources { type_url: "` + cds + `" value: "\n\x01a" }`, "Cluster/a"},
		{"byte order mark", "f.json", "\ufeff{\"@type\": \"" + cds + "\", \"name\": \"a\"}", "Cluster/a"},
		{"byte order mark in YAML", "f.yaml", "\ufeff\"@type\": " + cds + "\nname: a\n", "Cluster/a"},
		{"carriage returns", "f.yaml", "---\r\n\"@type\": " + cds + "\r\nname: a\r\n---\r\n\"@type\": " + cds + "\r\nname: b\r\n", "Cluster/a Cluster/b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rs, errs := configload.File(c.file, []byte(c.text))
			if len(errs) > 0 {
				t.Fatalf("problems: %v", errs)
			}
			if got := names(rs); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestFourFormats loads one DiscoveryResponse from the four formats, which the
// suffix picks in any case, and gets the same resources.
//
// Partly proves XF-01 and BS-01.
func TestFourFormats(t *testing.T) {
	response := &discoveryv3.DiscoveryResponse{VersionInfo: "1", TypeUrl: cds, Resources: []*anypb.Any{
		mustAny(t, &clusterv3.Cluster{Name: "a", ConnectTimeout: durationpb.New(time.Second)}),
		mustAny(t, &clusterv3.Cluster{Name: "b"}),
	}}
	asJSON := protojson.Format(response)
	for file, text := range map[string]string{
		"f.yaml": asJSON, "f.YML": asJSON, "f.Json": asJSON, "f.PB_text": prototext.Format(response), "f.pb": marshal(t, response),
	} {
		rs, errs := configload.File(file, []byte(text))
		if len(errs) > 0 || len(rs) != 2 {
			t.Fatalf("%s: %d resources, problems %v", file, len(rs), errs)
		}
		for i, r := range rs {
			want, err := response.GetResources()[i].UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, r.Message, protocmp.Transform()); d != "" {
				t.Errorf("%s: %s", file, d)
			}
		}
	}
}

func TestWrapper(t *testing.T) {
	const fields = `name: n7, version: v7, aliases: [x, z]`
	wrapped := &discoveryv3.Resource{
		Name: "n7", Version: "v7", Aliases: []string{"x", "z"},
		Resource: mustAny(t, &clusterv3.Cluster{Name: "inner"}),
	}
	for file, text := range map[string]string{
		"typed.yaml":   `resources: [{"@type": type.googleapis.com/envoy.service.discovery.v3.Resource, ` + fields + `, resource: {"@type": ` + cds + `, name: inner}}]`,
		"untyped.yaml": `resources: [{` + fields + `, resource: {"@type": ` + cds + `, name: inner}}]`,
		"bare.yaml":    `{"@type": type.googleapis.com/envoy.service.discovery.v3.Resource, ` + fields + `, resource: {"@type": ` + cds + `, name: inner}}`,
		"text.pb_text": "resources {" + prototext.Format(mustAny(t, wrapped)) + "}",
		"binary.pb":    marshal(t, &discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{mustAny(t, wrapped)}}),
		"any.pb":       marshal(t, mustAny(t, wrapped)),
	} {
		rs, errs := configload.File(file, []byte(text))
		if len(errs) > 0 || len(rs) != 1 {
			t.Fatalf("%s: %d resources, problems %v", file, len(rs), errs)
		}
		got := fmt.Sprint(rs[0].Name, rs[0].Version, rs[0].Aliases, rs[0].Message.(*clusterv3.Cluster).GetName())
		if want := "n7v7[x z]inner"; got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}

func TestBootstrapBinary(t *testing.T) {
	bs := &bootstrapv3.Bootstrap{StatsFlushInterval: durationpb.New(time.Second), StaticResources: &bootstrapv3.Bootstrap_StaticResources{
		Clusters: []*clusterv3.Cluster{{Name: "a"}, {Name: "b"}},
	}}
	rs, errs := configload.File("f.pb", []byte(marshal(t, bs)))
	if len(errs) > 0 || names(rs) != "Cluster/a Cluster/b" {
		t.Fatalf("got %s, problems %v", names(rs), errs)
	}
	if w := rs[0].Warnings; len(w) != 1 || !strings.Contains(w[0].Error(), "stats_flush_interval") {
		t.Errorf("warnings %v", w)
	}
}

// Partly proves BS-16: the option that allows unknown fields.
func TestUnknownFieldsAllowed(t *testing.T) {
	l := configload.Loader{AllowUnknownFields: true}
	rs, errs := l.File("f.yaml", []byte("static_resources:\n  clusters:\n  - name: a\n    conect_timeout: 1s\n"))
	if len(errs) > 0 || len(rs) != 1 {
		t.Fatalf("%d resources, problems %v", len(rs), errs)
	}
	if w := rs[0].Warnings; len(w) != 1 || w[0].Path != "conect_timeout" || w[0].Pos.Line != 4 {
		t.Errorf("warnings %v", w)
	}
}

func TestPositions(t *testing.T) {
	const text = `static_resources:
  listeners:
  - name: l
    metadata:
      filter_metadata:
        envoy.lb: {a: 1}
    filter_chains:
    - filters:
      - name: f
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: p
          cluster: c
`
	rs, errs := configload.File("dir/f.yaml", []byte(text))
	if len(errs) > 0 || len(rs) != 1 {
		t.Fatalf("problems %v", errs)
	}
	var p interface {
		Position(path string) xds.Position
	} = rs[0].Positions
	for path, want := range map[string]string{
		"":                                       "dir/f.yaml:3:5",
		"name":                                   "dir/f.yaml:3:5",
		`metadata.filter_metadata["envoy.lb"]`:   "dir/f.yaml:6:9",
		`metadata.filter_metadata[envoy.lb]`:     "dir/f.yaml:6:9",
		`metadata.filter_metadata["no"]`:         "dir/f.yaml:5:7",
		"filter_chains":                          "dir/f.yaml:7:5",
		"filter_chains[0]":                       "dir/f.yaml:8:7",
		"filter_chains[0].filters[0].name":       "dir/f.yaml:9:9",
		"filter_chains[0].filters[1].name":       "dir/f.yaml:8:7",
		"filter_chains[0].transport_socket.name": "dir/f.yaml:8:7",
		"filter_chains[0].filters[0].typed_config.stat_prefix": "dir/f.yaml:12:11",
		"filter_chains[0].filters[0].typed_config.max":         "dir/f.yaml:10:9",
		"no.such[1].field": "dir/f.yaml:3:5",
		"[[[":              "dir/f.yaml:3:5",
	} {
		if got := p.Position(path).String(); got != want {
			t.Errorf("%q is at %s, want %s", path, got, want)
		}
	}
	if got := (*configload.Positions)(nil).Position("x"); !got.IsZero() {
		t.Errorf("nil Positions: %v", got)
	}
}

// TestSamples loads whole files; the messages are compared in other tests.
func TestSamples(t *testing.T) {
	want := map[string]string{
		"ads-minimal.yaml":    "Cluster/xds_cluster",
		"ads-keepalive.yaml":  "Cluster/xds_cluster",
		"https-frontend.yaml": "Listener/https Cluster/backend Cluster/statsd",
	}
	files, err := filepath.Glob("testdata/samples/*")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d samples, want %d (%v)", len(files), len(want), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		rs, errs := configload.File(f, data)
		if len(errs) > 0 || names(rs) != want[filepath.Base(f)] {
			t.Errorf("%s: got %s, problems %v", f, names(rs), errs)
		}
		if _, errs := configload.Message(f, data, &bootstrapv3.Bootstrap{}); len(errs) > 0 {
			t.Errorf("%s as a bootstrap: %v", f, errs)
		}
	}
}

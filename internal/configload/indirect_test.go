package configload_test

import (
	"fmt"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/xds"
)

const wrapped = `"@type": type.googleapis.com/envoy.service.discovery.v3.Resource
name: %s
version: "7"
resource: {"@type": type.googleapis.com/%s, %s}
`

const (
	listName    = "xdstp://a/envoy.config.cluster.v3.ClusterCollection/l"
	clusterName = "xdstp://a/envoy.config.cluster.v3.Cluster/x"
	inlineEntry = `entries: [{inline_entry: {name: in, resource: {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: in}}}, {locator: {resource_type: envoy.config.cluster.v3.Cluster, id: other}}]`
)

// Partly proves XN-08, XN-10: list collections, of which the generated message has room for
// one entry, and redirects are read in every format as resources of the type they stand for.
func TestIndirect(t *testing.T) {
	for _, tt := range []struct{ name, typ, body string }{
		{listName, "envoy.config.cluster.v3.ClusterCollection", inlineEntry},
		{clusterName, "xds.core.v3.ResourceLocator", "resource_type: envoy.config.cluster.v3.Cluster, id: other"},
		{"plain", "xds.core.v3.ResourceLocator", "resource_type: envoy.config.cluster.v3.Cluster, id: other"},
		{listName, "xds.core.v3.ResourceLocator", "resource_type: envoy.config.cluster.v3.ClusterCollection, id: m"},
	} {
		text := fmt.Sprintf(wrapped, tt.name, tt.typ, tt.body)
		list, problems := configload.File("a.yaml", []byte(text))
		if len(problems) > 0 || len(list) != 1 {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		r, err := list[0].Build()
		if err != nil || r.TypeURL() != xds.ClusterType || r.BodyType() != xds.TypePrefix+tt.typ || r.Name() != tt.name || r.Version() != "7" || !r.Indirect() {
			t.Errorf("%s: %s %s %s, %v", text, r.TypeURL(), r.BodyType(), r.Name(), err)
		}
		outer, err := anypb.New(&discoveryv3.Resource{Name: tt.name, Version: "7", Resource: r.Any()})
		if err != nil {
			t.Fatal(err)
		}
		m := &discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{outer}}
		binary, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"a.pb": binary, "a.pb_text": []byte(prototext.Format(m))} {
			if name == "a.pb_text" && tt.body == inlineEntry {
				continue // what writes it knows only the generated message
			}
			again, problems := configload.File(name, data)
			if len(problems) > 0 || len(again) != 1 {
				t.Errorf("%s: %v", name, problems)
				continue
			}
			if b, err := again[0].Build(); err != nil || !b.Equal(r) {
				t.Errorf("%s differs: %v", name, err)
			}
		}
	}
}

// What cannot stand for resources is refused, with its place.
func TestIndirectRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{fmt.Sprintf(wrapped, clusterName, "envoy.config.cluster.v3.ClusterCollection", inlineEntry), "a.yaml:4:11: "},
		{fmt.Sprintf(wrapped, clusterName, "envoy.config.cluster.v3.ClusterCollection", inlineEntry), "is no list collection's name"},
		{fmt.Sprintf(wrapped, listName, "envoy.config.listener.v3.ListenerCollection", inlineEntry), "has type envoy.config.cluster.v3.ClusterCollection, but was asked for as envoy.config.listener.v3.Listener"},
		{fmt.Sprintf(wrapped, listName, "envoy.config.cluster.v3.ClusterCollection", "entries: {inline_entry: {name: in, resource: {\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener}}}"), "entries[0]: inline_entry.resource: type"},
		{fmt.Sprintf(wrapped, listName, "envoy.config.cluster.v3.ClusterCollection", "members: []"), "members"},
		{fmt.Sprintf(wrapped, clusterName, "xds.core.v3.ResourceLocator", "resource_type: envoy.config.listener.v3.Listener, id: other"), "has type envoy.config.cluster.v3.Cluster, but"},
		{fmt.Sprintf(wrapped, clusterName, "xds.core.v3.ResourceLocator", "resource_type: envoy.config.cluster.v3.Cluster, id: '*'"), "a glob collection"},
		{fmt.Sprintf(wrapped, clusterName, "xds.core.v3.ResourceLocator", "resource_type: envoy.config.cluster.v3.Cluster"), "has no id"},
		{fmt.Sprintf(wrapped, `""`, "xds.core.v3.ResourceLocator", "resource_type: envoy.config.cluster.v3.Cluster, id: other"), "the resource has no name"},
		{"\"@type\": type.googleapis.com/envoy.config.cluster.v3.ClusterCollection\n" + strings.ReplaceAll(inlineEntry, "entries: ", "entries:\n  "), "the resource has no name"},
		{"type_url: type.googleapis.com/envoy.config.listener.v3.Listener\nresources:\n- {\"@type\": type.googleapis.com/envoy.service.discovery.v3.Resource, name: " + listName + ", resource: {\"@type\": type.googleapis.com/envoy.config.cluster.v3.ClusterCollection}}", "in a list of type_url"},
	} {
		list, problems := configload.File("a.yaml", []byte(tt.text))
		said := make([]string, 0, len(problems))
		for _, p := range problems {
			said = append(said, p.Error())
		}
		if len(list) > 0 || !strings.Contains(strings.Join(said, "\n"), tt.want) {
			t.Errorf("%s\n%q, want %s", tt.text, said, tt.want)
		}
	}
}

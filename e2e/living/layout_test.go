//go:build interop

package living

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
)

// directory is where resources are written as files.
type directory struct {
	path string
	temp string // beside it, on the same disk
	has  map[string][]byte
}

func newDirectory(t testing.TB) *directory {
	t.Helper()
	d := &directory{path: t.TempDir(), temp: t.TempDir(), has: map[string][]byte{}}
	return d
}

// sync makes files what the directory holds. New and changed ones are moved into
// place in the order of their names.
func (d *directory) sync(t testing.TB, files map[string][]byte) {
	t.Helper()
	for _, name := range sortedNames(files) {
		if data := files[name]; !bytes.Equal(d.has[name], data) {
			d.put(t, name, data)
		}
	}
	for _, name := range sortedNames(d.has) {
		if _, ok := files[name]; !ok {
			if err := os.Remove(filepath.Join(d.path, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.has = files
}

func (d *directory) put(t testing.TB, name string, data []byte) {
	t.Helper()
	temp := filepath.Join(d.temp, "next")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(d.path, name)); err != nil {
		t.Fatal(err)
	}
}

func sortedNames(files map[string][]byte) []string {
	var out []string
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// rank orders types so that what is referred to comes before what refers to it.
func rank(typeURL string) int {
	return slices.Index([]string{xds.SecretType, xds.EndpointType, xds.ClusterType, xds.RouteType, xds.ScopedRouteType, xds.ListenerType}, typeURL)
}

func sortedKeys(resources map[xds.Key]proto.Message) []xds.Key {
	var out []xds.Key
	for k := range resources {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b xds.Key) int {
		return cmp.Or(cmp.Compare(rank(a.Type), rank(b.Type)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// encode is a resource as JSON, with its type.
func encode(m proto.Message) []byte {
	text, err := protojson.Marshal(packed(m))
	if err != nil {
		panic(err) // only if a message of the test is not valid
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil { // protojson puts spaces in at random
		panic(err)
	}
	return out.Bytes()
}

// files are the resources as a directory has them: for a server that keeps order
// one file, and so one change set; for another a file each; and without a server,
// responses.
func (v variant) layout(resources map[xds.Key]proto.Message) map[string][]byte {
	switch {
	case v.files:
		return responses(resources)
	case v.ordered:
		var list [][]byte
		for _, k := range sortedKeys(resources) {
			list = append(list, encode(resources[k]))
		}
		return map[string][]byte{"world.json": fmt.Appendf(nil, `{"resources": [%s]}`, bytes.Join(list, []byte(",\n")))}
	}
	out := map[string][]byte{}
	for _, k := range sortedKeys(resources) {
		out[fmt.Sprintf("%d-%s-%s.json", rank(k.Type), strings.ToLower(xds.Kind(k.Type)), k.Name)] = encode(resources[k])
	}
	return out
}

// responses are files that a path_config_source names.
func responses(resources map[xds.Key]proto.Message) map[string][]byte {
	content := map[string]*discoveryv3.DiscoveryResponse{}
	for _, k := range sortedKeys(resources) {
		name := filepath.Base(responseFile("", k.Type, k.Name))
		r := content[name]
		if r == nil {
			r = &discoveryv3.DiscoveryResponse{TypeUrl: k.Type}
			content[name] = r
		}
		r.Resources = append(r.Resources, packed(resources[k]))
	}
	out := map[string][]byte{}
	for name, r := range content {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
		if err != nil {
			panic(err) // only if a message of the test is not valid
		}
		var b bytes.Buffer
		if err := json.Compact(&b, text); err != nil {
			panic(err)
		}
		out[name] = b.Bytes()
	}
	return out
}

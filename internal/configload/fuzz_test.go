package configload_test

import (
	"os"
	"path/filepath"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/xds"
)

// seed adds the files of testdata with the suffix of a fuzz target.
func seed(f *testing.F, suffix string) {
	f.Helper()
	for _, dir := range []string{"samples", "errors"} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*"+suffix))
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
}

// load checks what holds of every file: each resource is whole and has a place,
// each problem says something.
func load(t *testing.T, name, text string) {
	rs, errs := configload.File(name, []byte(text))
	for _, r := range rs {
		if r.Message == nil || r.Name == "" || r.TypeURL == "" || r.Pos.File != name || r.Positions == nil {
			t.Errorf("incomplete resource %+v", r)
		}
		if _, err := proto.Marshal(r.Message); err != nil {
			t.Errorf("%s cannot be encoded: %v", r.Name, err)
		}
	}
	for _, e := range errs {
		if e.Err == nil || e.Error() == "" || e.Pos.File != name {
			t.Errorf("incomplete problem %+v", e)
		}
	}
}

func FuzzFileYAML(f *testing.F) {
	seed(f, ".yaml")
	f.Add("a: &a [x]\nb: {<<: *a}\n---\n!ignore k: &k {y: *k}\n? *a\n: 0x1F\n")
	f.Fuzz(func(t *testing.T, text string) { load(t, "f.yaml", text) })
}

// FuzzFileJSON also checks that whatever the protobuf library reads as a
// cluster is read here, as the same message.
func FuzzFileJSON(f *testing.F) {
	seed(f, ".json")
	f.Add(`{"name":"a","connectTimeout":"1.5s","metadata":{"filterMetadata":{"x":{"y":[1e3,null,true]}}},"type":"EDS"}`)
	f.Fuzz(func(t *testing.T, text string) {
		load(t, "f.json", text)
		want := &clusterv3.Cluster{}
		if protojson.Unmarshal([]byte(text), want) == nil {
			sameAsLibrary(t, "f.json", text, want)
		}
	})
}

// FuzzFileText does the same for the text format.
func FuzzFileText(f *testing.F) {
	seed(f, ".pb_text")
	f.Add(`name: "a" 'b\x41\101\u00e9' connect_timeout <seconds: 0x10, nanos: 010; > type: 3 filters: [{name: "x"}, {}] # c`)
	f.Add(`resources { type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster" value: "\n\001a" }`)
	f.Fuzz(func(t *testing.T, text string) {
		load(t, "f.pb_text", text)
		want := &clusterv3.Cluster{}
		if prototext.Unmarshal([]byte(text), want) == nil {
			sameAsLibrary(t, "f.pb_text", text, want)
		}
	})
}

// FuzzFileBinary seeds from encoded messages.
func FuzzFileBinary(f *testing.F) {
	b, err := proto.Marshal(&clusterv3.Cluster{Name: "a"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Add("\x12\x34\x0a\x2f" + "type.googleapis.com/envoy.config.cluster.v3.Cluster")
	f.Fuzz(func(t *testing.T, text string) { load(t, "f.pb", text) })
}

func sameAsLibrary(t *testing.T, name, text string, want proto.Message) {
	t.Helper()
	got := &clusterv3.Cluster{}
	if _, errs := configload.Message(name, []byte(text), got); len(errs) > 0 {
		if !stricter(t, errs) {
			t.Fatalf("problems %v", errs)
		}
		return
	}
	if !proto.Equal(want, got) {
		t.Fatalf("got %v\nwant %v", got, want)
	}
}

// stricter reports whether the problems are ones the library does not see on
// purpose: an Any without a type, an encoded Any whose type or content is
// unknown, and the limits.
func stricter(t *testing.T, errs []*xds.ResourceError) bool {
	for _, e := range errs {
		switch problemOf(t, e).Code {
		case configload.CodeMissingType, configload.CodeUnknownType, configload.CodeV2, configload.CodeTooLarge:
		default:
			return false
		}
	}
	return true
}

package apiv2_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	xdstype "github.com/cncf/xds/go/xds/type/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	_ "github.com/xebec-proxy/xebec/internal/alltypes"
	"github.com/xebec-proxy/xebec/internal/apiv2"
	"github.com/xebec-proxy/xebec/internal/configload"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestPairs writes resources of v3 as those of v2; each file of testdata has them in
// pairs. Partly proves XV-04.
func TestPairs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	c := apiv2.New()
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(archive.Files); i += 2 {
			in, want := archive.Files[i], &archive.Files[i+1]
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+in.Name, func(t *testing.T) {
				got := convert(t, c, in)
				if *update {
					want.Data = []byte(got)
					return
				}
				if diff := cmp.Diff(string(want.Data), got); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// convert is what becomes of a file with one resource of v3.
func convert(t *testing.T, c *apiv2.Converter, f txtar.File) string {
	t.Helper()
	resources, problems := configload.File(f.Name, f.Data)
	if len(problems) > 0 || len(resources) != 1 {
		t.Fatal(problems, len(resources))
	}
	a, err := anypb.New(resources[0].Message)
	if err != nil {
		t.Fatal(err)
	}
	v2, err := c.ToV2(a)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	m, err := v2.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	noneUnknown(t, m.ProtoReflect())
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(v2)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

// noneUnknown decodes a message of v2 with all that is in it.
func noneUnknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s: unknown fields %x", m.Descriptor().FullName(), m.GetUnknown())
	}
	if a, ok := m.Interface().(*anypb.Any); ok {
		if apiv2.IsV3(string(a.MessageName())) {
			t.Errorf("a message of v3 inside: %s", a.GetTypeUrl())
		}
		if inner, err := a.UnmarshalNew(); err == nil {
			noneUnknown(t, inner.ProtoReflect())
		}
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { noneUnknown(t, v.Message()); return true })
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				noneUnknown(t, v.List().Get(i).Message())
			}
		case fd.Message() != nil && !fd.IsMap():
			noneUnknown(t, v.Message())
		}
		return true
	})
}

// A TypedStruct has had another name, and what is in it stays.
func TestTypedStruct(t *testing.T) {
	c := apiv2.New()
	of := func(url string) *anypb.Any {
		a, err := anypb.New(&xdstype.TypedStruct{TypeUrl: url})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	custom := of("type.googleapis.com/acme.Filter")
	if to, err := c.ToV2(custom); err != nil || to.GetTypeUrl() != "type.googleapis.com/udpa.type.v1.TypedStruct" || !bytes.Equal(to.GetValue(), custom.GetValue()) {
		t.Errorf("got %v, %v", to, err)
	}
	if _, err := c.ToV2(of("type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua")); err == nil || !strings.Contains(err.Error(), "type_url") {
		t.Errorf("v3 inside: %v", err)
	}
}

// What is no message of v3 stays what it is, and nesting has an end.
func TestOthers(t *testing.T) {
	c := apiv2.New()
	for _, url := range []string{"", "type.googleapis.com/google.protobuf.Duration", "type.googleapis.com/acme.Filter"} {
		a := &anypb.Any{TypeUrl: url, Value: []byte("x")}
		if to, err := c.ToV2(a); err != nil || !proto.Equal(to, a) {
			t.Errorf("%s: %v, %v", url, to, err)
		}
	}
	for url, why := range map[string]string{
		"envoy.config.core.v3.TypedExtensionConfig": "does not exist in v2",
		"envoy.acme.v3.New":                         "does not exist in v2",
		"xds.type.matcher.v3.Matcher":               "does not exist in v2",
		"xds.type.v3.TypedStruct":                   "proto:",
		"envoy.config.cluster.v3.Cluster":           "proto:",
	} {
		if _, err := c.ToV2(&anypb.Any{TypeUrl: "type.googleapis.com/" + url, Value: []byte{1}}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want an error that says %q", url, err, why)
		}
	}
}

package configload_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/xds"
)

var update = flag.Bool("update", false, "rewrite the .want files")

// TestErrors loads each file of testdata/errors and compares what was loaded
// and every problem with the .want file beside it.
//
// Proves BS-21 (v2.yaml). Partly proves, where they ask for refusals, BS-01
// (suffix.toml), BS-07 (hosts.yaml), BS-16 (unknown_*.yaml) and BS-18 (syntax.*).
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, f := range files {
		if filepath.Ext(f) == ".want" {
			continue
		}
		ran++
		t.Run(filepath.Base(f), func(t *testing.T) {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := report(filepath.Base(f), data)
			if *update {
				if err := os.WriteFile(f+".want", []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(f + ".want")
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
			if !strings.Contains(got, "error: ") {
				t.Error("no problem was found")
			}
			if strings.Contains(got, "hunter2") {
				t.Error("a secret value is quoted")
			}
		})
	}
	if ran == 0 {
		t.Error("no files")
	}
}

// problemOf is the Problem inside an error of this package.
func problemOf(t *testing.T, e *xds.ResourceError) *configload.Problem {
	t.Helper()
	var p *configload.Problem
	if !errors.As(e, &p) {
		t.Fatalf("%v holds no Problem", e)
	}
	return p
}

// report is what loading a file says, a line each.
func report(name string, data []byte) string {
	var b strings.Builder
	rs, errs := configload.File(name, data)
	for _, r := range rs {
		fmt.Fprintf(&b, "loaded: %s %s\n", names([]*configload.Resource{r}), r.Pos)
		for _, w := range r.Warnings {
			fmt.Fprintf(&b, "warning: %s\n", w)
		}
	}
	for _, e := range errs {
		fmt.Fprintf(&b, "error: %s\n", e)
	}
	return b.String()
}

// TestBinaryErrors refuses in binary files what TestErrors does in the others.
//
// Partly proves BS-16 and BS-21.
func TestBinaryErrors(t *testing.T) {
	unknown := marshal(t, &clusterv3.Cluster{Name: "a"}) + string(protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 1))
	resource := func(url, body string) *anypb.Any {
		return &anypb.Any{TypeUrl: "type.googleapis.com/" + url, Value: []byte(body)}
	}
	response := marshal(t, &discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{
		resource("envoy.config.cluster.v3.Cluster", unknown),
		resource("envoy.config.cluster.v3.Cluster", "\xff"),
		resource("envoy.api.v2.Cluster", ""),
		resource("envoy.config.cluster.v3.Cluster", marshal(t, &clusterv3.Cluster{
			Name:                          "b",
			TypedExtensionProtocolOptions: map[string]*anypb.Any{"x": resource("acme.Options", "")},
		})),
		resource("envoy.config.cluster.v3.Cluster", marshal(t, &clusterv3.Cluster{Name: "good"})),
	}})
	rs, errs := configload.File("f.pb", []byte(response))
	if names(rs) != "Cluster/good" {
		t.Errorf("loaded %q", names(rs))
	}
	for i, want := range []string{"number 9999", "decoding", "v2 API", `typed_extension_protocol_options["x"]: unknown type "type.googleapis.com/acme.Options"`} {
		if len(errs) != 4 || !strings.Contains(errs[i].Error(), want) {
			t.Errorf("problems %v, want %q at %d", errs, want, i)
		}
	}
	if _, errs := configload.File("f.pb", []byte("\xff\xff")); len(errs) != 1 {
		t.Errorf("garbage gives %v", errs)
	}
}

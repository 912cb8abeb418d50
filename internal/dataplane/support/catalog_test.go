package support_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/xebec-proxy/xebec/internal/alltypes"
	"github.com/xebec-proxy/xebec/internal/dataplane/support"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func newCatalog(t testing.TB, o support.Options) *support.Catalog {
	t.Helper()
	c, err := support.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// golden compares got with a file, or rewrites the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (run with -update if that is right):\n%s", file, diff)
	}
}

// Proves HF-17: every message of the API has a class, and the list of the
// extensions with theirs is kept, so that a new release of the API shows.
func TestEveryTypeIsClassified(t *testing.T) {
	c := newCatalog(t, support.Options{})
	var lines []string
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		name := string(mt.Descriptor().FullName())
		if !strings.HasPrefix(name, "envoy.") && !strings.HasPrefix(name, "xds.") {
			return true
		}
		switch c.Classify("type.googleapis.com/" + name) {
		case support.Built:
			lines = append(lines, "built "+name)
		case support.Known:
			lines = append(lines, "known "+name)
		case support.Message:
		default:
			t.Errorf("%s has no class", name)
		}
		return true
	})
	slices.Sort(lines)
	golden(t, "testdata/extensions.txt", strings.Join(lines, "\n")+"\n")
	if got := c.Classify("type.googleapis.com/acme.Audit"); got != support.Unknown {
		t.Errorf("a message that is not there has class %v", got)
	}
}

// Every name in the tables is one of the API, and every message that a built
// field leads to is in the tables too.
func TestTablesAreWhole(t *testing.T) {
	for _, problem := range support.Holes(newCatalog(t, support.Options{})) {
		t.Error(problem)
	}
}

func TestExtensionsForTheNode(t *testing.T) {
	var got []string
	for _, e := range newCatalog(t, support.Options{Disabled: []string{"envoy.filters.http.fault", "envoy.transport_sockets.upstream/envoy.transport_sockets.tls"}}).Extensions() {
		got = append(got, fmt.Sprintf("%s/%s %d", e.Category, e.Name, len(e.Types)))
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"envoy.filters.http/envoy.filters.http.router 1", "envoy.clusters/envoy.cluster.static 0", "envoy.transport_sockets.downstream/envoy.transport_sockets.tls 1"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	for _, gone := range []string{"envoy.filters.http.fault", "envoy.transport_sockets.upstream/envoy.transport_sockets.tls"} {
		if strings.Contains(all, gone) {
			t.Errorf("%q is still there", gone)
		}
	}
	c := newCatalog(t, support.Options{Disabled: []string{"envoy.filters.http.lua"}})
	if diff := cmp.Diff([]string{"envoy.filters.http.lua"}, c.Undisabled()); diff != "" {
		t.Error(diff)
	}
}

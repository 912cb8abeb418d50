package configload_test

import (
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/xds"
)

// limited checks that a hostile file is refused for its size. Without the
// limits it would not end before the test's time is over.
func limited(t *testing.T, name, text string) {
	t.Helper()
	_, errs := configload.File(name, []byte(text))
	for _, e := range errs {
		if p := problemOf(t, e); p.Code == configload.CodeTooLarge || strings.Contains(p.Text, "levels deep") || strings.Contains(p.Text, "more than") {
			return
		}
	}
	t.Errorf("not refused: %.500v", errs)
}

// TestAliasBomb expands to 10^9 values by aliases of aliases.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("!ignore a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		refs := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ",")
		fmt.Fprintf(&b, "!ignore a%d: &a%d [%s]\n", i, i, refs)
	}
	b.WriteString("static_resources: {clusters: [{name: c, metadata: {filter_metadata: {x: {y: *a8}}}}]}\n")
	limited(t, "f.yaml", b.String())
}

// TestMergeBomb merges ever longer mappings, 10^8 entries in all.
func TestMergeBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("!ignore a0: &a0 {k: 1}\n")
	for i := 1; i < 15000; i++ {
		fmt.Fprintf(&b, "!ignore a%d: &a%d {<<: *a%d, k%d: 1}\n", i, i, i-1, i)
	}
	b.WriteString("static_resources: {clusters: [{name: c, metadata: {filter_metadata: {x: *a200, y: *a14999}}}]}\n")
	limited(t, "f.yaml", b.String())
}

func TestDepth(t *testing.T) {
	const n = 5000
	cluster := func(value string) string {
		return `{"@type": "` + xds.ClusterType + `", "name": "c", "metadata": {"filter_metadata": {"x": {"y": ` + value + `}}}}`
	}
	deep := cluster(strings.Repeat("[", n) + strings.Repeat("]", n))
	limited(t, "f.json", deep)
	limited(t, "f.yaml", deep)
	limited(t, "f.pb_text", strings.Repeat("a { ", n)+strings.Repeat("}", n))

	body := &anypb.Any{TypeUrl: xds.ClusterType}
	for range 400 {
		body = mustAny(t, body)
	}
	limited(t, "f.pb", marshal(t, mustAny(t, &clusterv3.Cluster{
		Name: "c", TypedExtensionProtocolOptions: map[string]*anypb.Any{"x": body},
	})))
}

// TestManyProblems keeps the list of problems short.
func TestManyProblems(t *testing.T) {
	text := "static_resources:\n  clusters:\n" + strings.Repeat("  - {name: a, nme: b}\n", 5000)
	_, errs := configload.File("f.yaml", []byte(text))
	if len(errs) > 1001 || !strings.Contains(errs[len(errs)-1].Error(), "4000 more problems") {
		t.Errorf("%d problems, the last is %v", len(errs), errs[len(errs)-1])
	}
}

// TestSharedAnchorsAreAllowed keeps the limits from hitting honest files: one
// anchor of a hundred values in each of 5,000 clusters.
func TestSharedAnchorsAreAllowed(t *testing.T) {
	var b strings.Builder
	b.WriteString("!ignore big: &big {")
	for i := range 100 {
		fmt.Fprintf(&b, "k%d: %d, ", i, i)
	}
	b.WriteString("}\nstatic_resources:\n  clusters:\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "  - {name: c%d, metadata: {filter_metadata: {x: *big}}}\n", i)
	}
	rs, errs := configload.File("f.yaml", []byte(b.String()))
	if len(errs) > 0 || len(rs) != 5000 {
		t.Errorf("%d resources, problems %v", len(rs), errs)
	}
}

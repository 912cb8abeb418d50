package validate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// resources reads one resource a line: "Kind text-format | alias alias".
func resources(t testing.TB, text string) []*xds.Resource {
	t.Helper()
	var out []*xds.Resource
	for i, l := range strings.Split(strings.TrimSpace(text), "\n") {
		kind, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		body, aliases, _ := strings.Cut(rest, "|")
		r, err := model.Resource(parse(t, typeURL(kind), shorthands().Replace(body)),
			xds.WithOrigin(xds.Position{File: "set", Line: i + 1}), xds.WithAliases(strings.Fields(aliases)...))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// TestReferences runs the scripts in testdata/references: a group, one resource
// a line, and its findings, which "strict" and "known=KIND/NAME" change; "set"
// and "remove" change the group of the last "group" and print all findings.
func TestReferences(t *testing.T) {
	met := map[string]bool{}
	datadriven.Walk(t, "testdata/references", func(t *testing.T, path string) {
		var g *validate.Graph
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var found []validate.Finding
			switch d.Cmd {
			case "group":
				opts := groupOptions(t, d)
				set := resources(t, d.Input)
				found = validate.References(set, opts...)
				g = validate.NewGraph(opts...)
				g.Update(set, nil)
			case "set":
				g.Update(resources(t, d.Input), nil)
				found = g.Findings()
			case "remove":
				var gone []xds.Key
				for l := range strings.Lines(d.Input) {
					kind, name, _ := strings.Cut(strings.TrimSpace(l), " ")
					gone = append(gone, xds.Key{Type: typeURL(kind), Name: name})
				}
				g.Update(nil, gone)
				found = g.Findings()
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			return report(found, met)
		})
	})
	for _, c := range validate.Codes() {
		if c.Tier == validate.Reference && !met[c.Code] {
			t.Errorf("no script has a finding %q", c.Code)
		}
	}
}

func groupOptions(t *testing.T, d *datadriven.TestData) []validate.Option {
	var opts []validate.Option
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "strict":
			opts = append(opts, validate.Strict())
		case "known":
			kind, name, _ := strings.Cut(a.Vals[0], "/")
			opts = append(opts, validate.Known(xds.Key{Type: typeURL(kind), Name: name}))
		default:
			d.Fatalf(t, "unknown option %q", a.Key)
		}
	}
	return opts
}

func report(found []validate.Finding, met map[string]bool) string {
	if len(found) == 0 {
		return "ok\n"
	}
	var b strings.Builder
	for _, f := range found {
		met[f.Code] = true
		fmt.Fprintf(&b, "[%s] %s\n", f.Code, f)
	}
	return b.String()
}

func TestReferencesPositions(t *testing.T) {
	set := resources(t, `RouteConfiguration name: "r" virtual_hosts { name: "v" domains: "*" routes { match { prefix: "/" } route { cluster: "c" } } }`)
	got := validate.References(set, validate.Positions(func(k xds.Key, path string) xds.Position {
		return xds.Position{File: k.Name, Line: len(path)}
	}))
	const path = "virtual_hosts[0].routes[0].route.cluster"
	if len(got) != 1 || got[0].Path != path || got[0].Pos != (xds.Position{File: "r", Line: len(path)}) {
		t.Errorf("findings %+v", got)
	}
}

// resource builds a resource of drawn references, small enough to collide.
func drawResource(t *rapid.T) *xds.Resource {
	types := []string{xds.ListenerType, xds.RouteType, xds.ClusterType, xds.EndpointType, xds.SecretType}
	key := rapid.Custom(func(t *rapid.T) xds.Key {
		return xds.Key{Type: rapid.SampledFrom(types).Draw(t, "type"), Name: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")}
	})
	own := key.Draw(t, "key")
	var refs []xds.Reference
	for _, k := range rapid.SliceOfNDistinct(key, 0, 4, rapid.ID).Draw(t, "references") {
		refs = append(refs, xds.Reference{Key: k, Path: "to." + k.Name})
	}
	aliases := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "x"}), 0, 2, rapid.ID).Draw(t, "aliases")
	body := []byte(nil)
	if rapid.Bool().Draw(t, "endpoints") {
		body = []byte{0x12, 0x02, 0x12, 0x00}
	}
	return xds.NewResource(own.Type, own.Name, body, xds.WithReferences(refs), xds.WithAliases(aliases...))
}

// After any changes a graph finds what a check of the whole set finds.
func TestGraphEqualsFullCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := validate.NewGraph()
		set := map[xds.Key]*xds.Resource{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			var changed []*xds.Resource
			var removed []xds.Key
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				changed = append(changed, drawResource(t))
			}
			for k := range set {
				if rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
					removed = append(removed, k)
					delete(set, k)
				}
			}
			for _, r := range changed {
				set[r.Key()] = r
			}
			g.Update(changed, removed)
			if rapid.Bool().Draw(t, "look") {
				compare(t, g, set)
			}
		}
		compare(t, g, set)
	})
}

func compare(t *rapid.T, g *validate.Graph, set map[xds.Key]*xds.Resource) {
	var all []*xds.Resource
	for _, r := range set {
		all = append(all, r)
	}
	if d := cmp.Diff(validate.References(all), g.Findings()); d != "" {
		t.Fatalf("full check and graph differ (-full +graph):\n%s", d)
	}
}

// largeGroup is n clusters with an assignment each, one of them missing.
func largeGroup(n int) []*xds.Resource {
	group := make([]*xds.Resource, 0, 2*n)
	for i := range n {
		name := fmt.Sprintf("cluster-%06d", i)
		group = append(group, xds.NewResource(xds.ClusterType, name, nil, xds.WithReferences([]xds.Reference{
			{Key: xds.Key{Type: xds.EndpointType, Name: name}, Path: "name"},
			{Key: xds.Key{Type: xds.SecretType, Name: "ca"}, Path: "transport_socket"},
		})))
		if i > 0 {
			group = append(group, xds.NewResource(xds.EndpointType, name, []byte{0x12, 0x02, 0x12, 0x00}))
		}
	}
	return append(group, xds.NewResource(xds.SecretType, "ca", nil))
}

// BenchmarkReferences50k checks 50,000 clusters and their assignments at once.
func BenchmarkReferences50k(b *testing.B) {
	group := largeGroup(50_000)
	b.ReportAllocs()
	for b.Loop() {
		if got := validate.References(group); len(got) != 1 {
			b.Fatalf("%d findings", len(got))
		}
	}
}

// BenchmarkGraphChangeIn50k is the check after one assignment changed.
func BenchmarkGraphChangeIn50k(b *testing.B) {
	group := largeGroup(50_000)
	g := validate.NewGraph()
	g.Update(group, nil)
	g.Findings()
	one := group[101:102]
	b.ReportAllocs()
	for b.Loop() {
		g.Update(one, nil)
		if got := g.Findings(); len(got) != 1 {
			b.Fatalf("%d findings", len(got))
		}
	}
}

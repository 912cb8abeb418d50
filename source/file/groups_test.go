package file

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/xds"
)

const sampleGroups = `groups:
  - name: edge
    match:
      - id: {prefix: edge-}
      - cluster: {glob: "*-edge"}
        locality: {region: eu, zone: {regex: "[ab]"}}
    folders: [common, edge]
  - name: canary
    match:
      metadata: {labels.app: shop, weight: 3, on: true, tags: {prefix: blue}, 'a\.b': x}
    folders: common
  - name: rest
    default: true
    folders: ["."]
`

func mustGroups(t testing.TB, text string) *groups {
	t.Helper()
	g, findings := parseGroups("groups.yaml", []byte(text))
	if g == nil {
		t.Fatalf("the groups are refused: %v", findings)
	}
	return g
}

func metadata(t *testing.T, m map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(m)
	must(t, err)
	return s
}

// Proves XS-36: what a node gets is decided by the group function.
func TestGroupOf(t *testing.T) {
	full := map[string]any{
		"labels": map[string]any{"app": "shop"}, "weight": 3, "on": true, "tags": []any{"red", "blue-1"}, "a.b": "x",
	}
	without := func(k string) map[string]any {
		m := map[string]any{}
		for key, v := range full {
			if key != k {
				m[key] = v
			}
		}
		return m
	}
	tests := map[string]struct {
		node         *xds.Node
		want, reason string
	}{
		"by prefix":              {&xds.Node{ID: "edge-1"}, "edge", `groups.yaml:4:9: id "edge-1" is prefix "edge-"`},
		"prefix is no substring": {&xds.Node{ID: "an-edge-1"}, "rest", "no group matches"},
		"glob and locality": {
			&xds.Node{Cluster: "west-edge", Region: "eu", Zone: "b"}, "edge",
			`cluster "west-edge" is glob "*-edge", locality.region "eu" is "eu", locality.zone "b" is regex "[ab]"`,
		},
		"all conditions must hold": {&xds.Node{Cluster: "west-edge", Region: "us", Zone: "b"}, "rest", ""},
		"a regex matches whole":    {&xds.Node{Cluster: "west-edge", Region: "eu", Zone: "ab"}, "rest", ""},
		"the first group wins":     {&xds.Node{ID: "edge-1", Metadata: metadata(t, full)}, "edge", ""},
		"metadata":                 {&xds.Node{Metadata: metadata(t, full)}, "canary", `metadata labels.app "shop" is "shop"`},
		"metadata without a key":   {&xds.Node{Metadata: metadata(t, without("weight"))}, "rest", ""},
		"metadata without a list":  {&xds.Node{Metadata: metadata(t, without("tags"))}, "rest", ""},
		"empty node":               {&xds.Node{}, "rest", "says neither id, cluster nor metadata"},
		"no node":                  {nil, "rest", "says neither id, cluster nor metadata"},
	}
	g := mustGroups(t, sampleGroups)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := g.groupOf(tt.node); got != tt.want {
				t.Errorf("the group is %q, want %q", got, tt.want)
			}
			got, reason := g.explain(tt.node)
			if got != tt.want || !strings.Contains(reason, tt.reason) {
				t.Errorf("explained as %q because %s", got, reason)
			}
		})
	}
}

func TestGroupWithoutDefault(t *testing.T) {
	g := mustGroups(t, "groups:\n- {name: a, match: {id: x}, folders: a}\n")
	name, reason := g.explain(&xds.Node{ID: "y"})
	if name != UnmatchedGroup || !strings.Contains(reason, "receives nothing") {
		t.Errorf("explained as %q because %s", name, reason)
	}
	if !slices.Equal(g.names(), []string{"a", UnmatchedGroup}) {
		t.Errorf("the groups are %v", g.names())
	}
	var none *groups
	if name, reason := none.explain(&xds.Node{}); name != DefaultGroup || !strings.Contains(reason, "no groups.yaml") {
		t.Errorf("explained as %q because %s", name, reason)
	}
}

func TestFolders(t *testing.T) {
	g := mustGroups(t, sampleGroups)
	tests := map[string][]string{
		"common/a.yaml":      {"edge", "canary", "rest"},
		"common/deep/a.yaml": {"edge", "canary", "rest"},
		"edge/a.yaml":        {"edge", "rest"},
		"edges/a.yaml":       {"rest"},
		"a.yaml":             {"rest"},
	}
	for file, want := range tests {
		if got := g.of(file); !slices.Equal(got, want) {
			t.Errorf("%s is in %v, want %v", file, got, want)
		}
	}
}

func TestGroupErrors(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string // "line:column code path", each with a part of the message
	}{
		"empty":             {"", []string{"0:0 empty  the file is empty"}},
		"syntax":            {"groups: [", []string{"1:0 syntax  did not find"}},
		"two documents":     {"groups: []\n---\n{}\n", []string{"0:0 syntax  more than one document"}},
		"no mapping":        {"- a\n", []string{"1:1 wrong-type  a mapping is expected here, not a list"}},
		"no groups":         {"{}\n", []string{"1:1 missing-field groups no list"}},
		"unknown field":     {"group: []\n", []string{"1:1 unknown-field group unknown field", "1:1 missing-field groups no list"}},
		"groups no list":    {"groups: 3\n", []string{`1:9 wrong-type groups a list is expected here, not "3"`}},
		"nothing in group":  {"groups:\n- {}\n", []string{"2:3 missing-field groups[0].name", "2:3 missing-field groups[0].folders", "2:3 missing-field groups[0].match"}},
		"key twice":         {"groups:\n- name: a\n  name: b\n  default: true\n  folders: .\n", []string{"3:3 duplicate-key groups[0].name"}},
		"name twice":        {"groups:\n- {name: a, default: true, folders: .}\n- {name: a, match: {id: x}, folders: .}\n", []string{"3:10 duplicate groups[1].name"}},
		"two defaults":      {"groups:\n- {name: a, default: true, folders: .}\n- {name: b, default: true, folders: .}\n", []string{"3:3 duplicate groups[1].default"}},
		"reserved name":     {"groups:\n- {name: unmatched, default: true, folders: .}\n", []string{"2:10 invalid-value groups[0].name"}},
		"absolute folder":   {"groups:\n- {name: a, default: true, folders: [/etc]}\n", []string{"2:38 invalid-value groups[0].folders[0] absolute"}},
		"folder outside":    {"groups:\n- {name: a, default: true, folders: [a/../../b]}\n", []string{"2:38 invalid-value groups[0].folders[0] outside"}},
		"empty rule":        {"groups:\n- {name: a, match: [{}], folders: .}\n", []string{"2:21 empty groups[0].match[0] compares nothing"}},
		"empty match":       {"groups:\n- {name: a, match: [], folders: .}\n", []string{"2:20 empty groups[0].match matches no node"}},
		"bad regex":         {"groups:\n- {name: a, match: {id: {regex: '['}}, folders: .}\n", []string{"2:25 invalid-value groups[0].match.id regular expression"}},
		"two forms":         {"groups:\n- {name: a, match: {id: {exact: a, glob: b}}, folders: .}\n", []string{"2:25 invalid-value groups[0].match.id exactly one"}},
		"nested metadata":   {"groups:\n- {name: a, match: {metadata: {labels: {app: x}}}, folders: .}\n", []string{"2:41 unknown-field groups[0].match.metadata.labels.app", "2:40 invalid-value groups[0].match.metadata.labels exactly one"}},
		"no text":           {"groups:\n- {name: a, match: {id: [x]}, folders: .}\n", []string{"2:25 wrong-type groups[0].match.id text is expected"}},
		"null":              {"groups:\n- {name: a, match: {cluster: }, folders: .}\n", []string{"2:30 wrong-type groups[0].match.cluster text is expected here, not nothing"}},
		"default no bool":   {"groups:\n- {name: a, default: maybe, match: {id: x}, folders: .}\n", []string{`2:22 wrong-type groups[0].default true or false is expected here, not "maybe"`}},
		"unknown locality":  {"groups:\n- {name: a, match: {locality: {subzone: x}}, folders: .}\n", []string{"2:32 unknown-field groups[0].match.locality.subzone", "2:20 empty groups[0].match"}},
		"empty path part":   {"groups:\n- {name: a, match: {metadata: {a..b: x}}, folders: .}\n", []string{"2:32 invalid-value groups[0].match.metadata.a..b empty part"}},
		"every error shows": {"groups:\n- {name: [], folders: 7}\n- 5\n", []string{"2:10 wrong-type", "2:3 missing-field", "2:3 missing-field", "3:3 wrong-type"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, findings := parseGroups("groups.yaml", []byte(tt.text))
			if g != nil {
				t.Error("the file is accepted")
			}
			if len(findings) != len(tt.want) {
				t.Fatalf("the findings are %v", findings)
			}
			for i, f := range findings {
				head, rest, _ := strings.Cut(tt.want[i], " ")
				code, rest, _ := strings.Cut(rest, " ")
				path, msg, _ := strings.Cut(rest, " ")
				at := fmt.Sprintf("%d:%d", f.Pos.Line, f.Pos.Column)
				if at != head || f.Code != code || rest != "" && f.Path != path || !strings.Contains(f.Message, msg) {
					t.Errorf("finding %d is %s %s %q %s, want %s", i, at, f.Code, f.Path, f.Message, tt.want[i])
				}
			}
		})
	}
}

func TestAnchorsInGroups(t *testing.T) {
	g := mustGroups(t, "groups:\n- {name: a, match: [{id: &x one}], folders: &f [c]}\n- {name: b, match: {cluster: *x}, folders: *f}\n")
	if got := g.groupOf(&xds.Node{Cluster: "one"}); got != "b" {
		t.Errorf("the group is %q", got)
	}
	if got := g.of("c/x.yaml"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the folder is in %v", got)
	}
}

// A glob equals a slow matcher that tries everything.
func globMatches(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	p, ps := []rune(pattern), []rune(s)
	switch p[0] {
	case '*':
		for i := range len(ps) + 1 {
			if globMatches(string(p[1:]), string(ps[i:])) {
				return true
			}
		}
		return false
	case '?':
		return len(ps) > 0 && globMatches(string(p[1:]), string(ps[1:]))
	}
	return len(ps) > 0 && ps[0] == p[0] && globMatches(string(p[1:]), string(ps[1:]))
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{{"a*", "abc"}, {"*", ""}, {"?.?", "a.b"}, {`\*[`, `\x[`}, {"a**b", "ab"}, {"*\n", "x\n"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 8 || len(s) > 12 || strings.ToValidUTF8(pattern, "") != pattern || strings.ToValidUTF8(s, "") != s {
			return
		}
		m, err := newMatcher("glob", pattern)
		if err != nil {
			t.Fatalf("the glob %q is refused: %v", pattern, err)
		}
		if got, want := m.matches(s), globMatches(pattern, s); got != want {
			t.Errorf("glob %q on %q is %v, want %v", pattern, s, got, want)
		}
	})
}

func FuzzGroups(f *testing.F) {
	f.Add([]byte(sampleGroups))
	f.Add([]byte("groups: &a [*a]"))
	f.Add([]byte("groups:\n- &g {name: a, match: {<<: *g}, folders: ../x}"))
	f.Add([]byte("? {a: b}\n: c\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, findings := parseGroups("groups.yaml", data)
		if (g == nil) != (len(findings) > 0) {
			t.Fatalf("groups %v with findings %v", g, findings)
		}
		for _, f := range findings {
			if f.Message == "" || f.Code == "" || f.Pos.File == "" {
				t.Errorf("a finding says too little: %+v", f)
			}
		}
		if g == nil {
			return
		}
		for _, n := range []*xds.Node{nil, {}, {ID: "edge-1", Cluster: "c", Region: "eu"}} {
			name, reason := g.explain(n)
			if name != g.groupOf(n) || !slices.Contains(g.names(), name) || reason == "" {
				t.Errorf("node %v is in %q because %q", n, name, reason)
			}
		}
		for _, n := range g.of("common/a.yaml") {
			if !slices.Contains(g.names(), n) {
				t.Errorf("a file is in the unknown group %q", n)
			}
		}
	})
}

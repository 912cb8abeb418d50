//go:build interop

package differential

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestADifferenceIsFoundAndMustBeListed(t *testing.T) {
	envoy, other := newObservation(), newObservation()
	for name, value := range map[string]string{"client.1.start": "200", "log.1.code": "200", "client.1.header.server": "envoy"} {
		envoy.set(name, value)
	}
	other.set("client.1.start", "404")
	other.set("client.1.header.server", "envoy")
	other.set("upstream.1.end", "closed")
	diffs := compare("group/case", envoy, other, []string{"log.*"})
	want := []difference{
		{"group/case", "client.1.start", "200", "404"},
		{"group/case", "upstream.1.end", "(absent)", "closed"},
	}
	if d := cmp.Diff(want, diffs); d != "" {
		t.Error(d)
	}
	entries := []*entry{
		{cases: []string{"group/*"}, fields: []string{"client.*"}},
		{cases: []string{"other/*"}, fields: []string{"*"}},
	}
	if d := cmp.Diff(want[1:], unlisted(diffs, entries)); d != "" {
		t.Error(d)
	}
	if !entries[0].used || entries[1].used {
		t.Errorf("used: %v and %v, want the first only", entries[0].used, entries[1].used)
	}
}

func TestReadDifferences(t *testing.T) {
	read := func(text string) ([]*entry, error) {
		file := filepath.Join(t.TempDir(), "differences.md")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readDifferences(file)
	}
	const head = "| other | table | here |\n|---|---|---|\n| no | no | no |\n\n| Cases | Fields | Reason |\n|---|---|---|\n"
	list, err := read(head + "| `a/*`, `b/c` | `client.*` | because |\n\ntext | `x` | `y` | z |\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].line != 7 {
		t.Fatalf("%d rows, want the one of line 7", len(list))
	}
	if d := cmp.Diff([]string{"a/*", "b/c"}, list[0].cases); d != "" {
		t.Error(d)
	}
	for _, row := range []string{"| `a` | `b` | |\n", "| a | `b` | why |\n", "| `a` | `[` | why |\n"} {
		if _, err := read(head + row); err == nil || !strings.Contains(err.Error(), "differences.md:7:") {
			t.Errorf("%q: %v, want an error with the line", row, err)
		}
	}
}

func TestExpand(t *testing.T) {
	var node yaml.Node
	text := "{name: 'x/${a}-${n}', for: {a: [p, q], n: [1, 2]}, client: '${a}', upstream: [{status: '${n}'}]}"
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		t.Fatal(err)
	}
	cases, err := expand(node.Content[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
	}
	if d := cmp.Diff([]string{"x/p-1", "x/p-2", "x/q-1", "x/q-2"}, names); d != "" {
		t.Error(d)
	}
	if last := cases[3]; last.Client != "q" || last.Upstream[0].Status != 2 || last.Listener != "main" {
		t.Errorf("the last case is %+v", last)
	}
	if err := yaml.Unmarshal([]byte("{name: x, clinet: h1}"), &node); err != nil {
		t.Fatal(err)
	}
	if _, err := expand(node.Content[0]); err == nil {
		t.Error("a misspelt field is accepted")
	}
}

func TestNeutral(t *testing.T) {
	o := newObservation()
	o.port(4000, "listener main")
	got := o.neutral("127.0.0.1:4000 127.0.0.1:4001 3f6a2a2c-6b7e-4d0e-9a3b-000000000001")
	if want := "127.0.0.1:<listener main> 127.0.0.1:<port> <uuid>"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := maskHeader("Date", "Sun, 06 Nov 1994 08:49:37 GMT"); !strings.Contains(got, "1994") {
		t.Errorf("the date of an upstream became %q", got)
	}
}

package support_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/dataplane/support"
)

const page = "../../../docs/proxy.md"

// The page for users lists what is built as the tables have it, and `make
// golden` brings it up to date.
func TestThePageListsWhatIsBuilt(t *testing.T) {
	c := newCatalog(t, support.Options{})
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	want = replaceBlock(t, want, "extensions", extensionTable(c))
	want = replaceBlock(t, want, "noops", noopList(c))
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), want); diff != "" {
		t.Errorf("docs/proxy.md is out of date; run `make golden`:\n%s", diff)
	}
}

// replaceBlock puts text between the two marks of a name.
func replaceBlock(t *testing.T, in, name, text string) string {
	t.Helper()
	begin, end := "<!-- "+name+": written by `make golden` -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(in, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("docs/proxy.md has no block %q", name)
	}
	return before + begin + "\n" + text + "\n" + end + after
}

func extensionTable(c *support.Catalog) string {
	var b strings.Builder
	b.WriteString("| kind | extension | configured by |\n|---|---|---|\n")
	before := ""
	for _, e := range c.Extensions() {
		kind := ""
		if e.Category != before {
			kind, before = "`"+e.Category+"`", e.Category
		}
		by := "its name alone"
		if len(e.Types) > 0 {
			by = "`" + strings.Join(e.Types, "`<br>`") + "`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", kind, e.Name, by)
	}
	return b.String()
}

func noopList(c *support.Catalog) string {
	var b strings.Builder
	for _, f := range support.Noops(c) {
		fmt.Fprintf(&b, "- `%s`\n", f)
	}
	return b.String()
}

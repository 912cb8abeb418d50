package proxy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page for users names every admin endpoint, those that are not built too,
// and none that is not there.
func TestThePageListsTheEndpoints(t *testing.T) {
	text, err := os.ReadFile("../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Admin endpoints")
	section, _, _ = strings.Cut(section, "## Statistics")
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(/[a-z_/]*)`").FindAllStringSubmatch(section, -1) {
		named[m[1]] = true
	}
	r := start(t, small+adminHere)
	for _, m := range regexp.MustCompile(`(?m)^  (/\S*)(?: \(POST\))?: `).FindAllStringSubmatch(r.get(t, "/help"), -1) {
		if !named[m[1]] {
			t.Errorf("docs/proxy.md does not name %s", m[1])
		}
	}
	for path := range named {
		if path == "/quitquitquit" {
			continue
		}
		if a := r.ask(t, "POST", path, ""); a.status == 404 {
			t.Errorf("docs/proxy.md names %s, which is not there", path)
		}
	}
}

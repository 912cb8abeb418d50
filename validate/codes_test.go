package validate_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/validate"
)

// Every code has its line in docs/findings.md, and every line its code.
func TestCodesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for l := range strings.Lines(string(doc)) {
		if strings.HasPrefix(l, "| `") {
			rows++
		}
	}
	codes := validate.Codes()
	if rows != len(codes) {
		t.Errorf("docs/findings.md lists %d codes, there are %d", rows, len(codes))
	}
	seen := map[string]bool{}
	for _, c := range codes {
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", c.Code, c.Severity, c.Meaning); !strings.Contains(string(doc), row) {
			t.Errorf("docs/findings.md lacks the line\n%s", row)
		}
		if seen[c.Code] {
			t.Errorf("the code %q is listed twice", c.Code)
		}
		seen[c.Code] = true
	}
}

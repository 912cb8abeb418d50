package filter_test

import (
	"os"
	"strings"
	"testing"
)

// The guide shows code that is compiled and run: its Go is a part of the example.
func TestTheGuideShowsTheExample(t *testing.T) {
	guide, err := os.ReadFile("../docs/filters.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(guide), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("docs/filters.md shows no code")
	}
	for _, b := range blocks {
		b, _, _ = strings.Cut(b, "```")
		if !strings.Contains(string(code), b) {
			t.Errorf("docs/filters.md shows code that is not in example_test.go:\n%s", b)
		}
	}
}

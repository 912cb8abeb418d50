// Package scripttest runs the scripts that drive a protocol machine, for tests.
package scripttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Begin is when every script begins.
func Begin() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// Run runs each script in testdata as a subtest, with the commands that start
// makes for it.
func Run(t *testing.T, start func() func(*testing.T, *datadriven.TestData) string) {
	t.Helper()
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue // a fuzz target's
		}
		t.Run(f.Name(), func(t *testing.T) {
			datadriven.RunTest(t, filepath.Join("testdata", f.Name()), start())
		})
	}
}

// Said is the output of a command that has written out, "silence" if that is
// nothing.
func Said(out *strings.Builder) string {
	if out.Len() == 0 {
		return "silence\n"
	}
	return out.String()
}

// Duration reads an argument such as 5s.
func Duration(t *testing.T, word string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(word)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sampleTree has a claim of every kind, and things that are none.
var sampleTree = map[string]string{
	"wire/wire_test.go": `package wire

// TestNack rejects. Proves QA-01.
func TestNack(t *testing.T) {
	t.Run("QB-100 silence", nil)
	t.Run("plain", nil)
	for range []int{
		1, // Partly proves QA-02.
	} {
	}
}

func TestQA02Again(t *testing.T) {}

// helper mentions QA-01 and claims nothing.
func helper() {}
`,
	"wire/wire.go":               "package wire\n\n// Proves QA-01, says code that is no test.\n",
	"wire/testdata/ack":          "# Proves QA-01,\n# QA-02.\nrequest\n----\n",
	"wire/testdata/notes.md":     "# Proves QB-100.\n",
	"docs/plan.txt":              "# Proves QB-100.\n",
	"e2e/grpc/client.py":         "#!/usr/bin/env python3\n# Partly proves QB-100.\n",
	"e2e/node_modules/x.js":      "// Proves QB-100.\n",
	".git/e2e/testdata/hook.txt": "# Proves QB-100.\n",
}

func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func TestScan(t *testing.T) {
	got, err := sample(t).Scan(tree(sampleTree))
	if err != nil {
		t.Fatal(err)
	}
	want := Proofs{
		"QA-01": {
			{ID: "QA-01", File: "wire/testdata/ack"},
			{ID: "QA-01", File: "wire/wire_test.go", Test: "TestNack"},
		},
		"QA-02": {
			{ID: "QA-02", File: "wire/testdata/ack"},
			{ID: "QA-02", File: "wire/wire_test.go", Test: "TestQA02Again"},
			{ID: "QA-02", File: "wire/wire_test.go", Test: "TestNack", Partly: true},
		},
		"QB-100": {
			{ID: "QB-100", File: "e2e/grpc/client.py", Partly: true},
			{ID: "QB-100", File: "wire/wire_test.go", Test: "TestNack"},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestScanRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"unknown id in a comment": {"a_test.go", "package a\n\n// Proves QA-09.\nfunc TestX(t *testing.T) {}\n", "a_test.go:3:1: QA-09 is not"},
		"unknown id in a name":    {"a_test.go", "package a\n\nfunc TestQA09(t *testing.T) {}\n", "a_test.go:3:1: the name TestQA09 holds QA-09"},
		"unknown id in a subtest": {"a_test.go", "package a\n\nfunc TestX(t *testing.T) { t.Run(\"QA-09\", nil) }\n", "a subtest is named QA-09"},
		"claim on a helper":       {"a_test.go", "package a\n\n// Proves QA-01.\nfunc help() {}\n", "a_test.go:3:1: the claim about QA-01 stands on no test"},
		"claim on a variable":     {"a_test.go", "package a\n\n// Proves QA-01.\nvar cases int\n", "stands on no test"},
		"a range":                 {"a_test.go", "package a\n\n// Proves QA-01..QA-02.\nfunc TestX(t *testing.T) {}\n", "list each id"},
		"no Go":                   {"a_test.go", "package\n", "a_test.go:1"},
		"unknown id in a script":  {"testdata/s.txt", "x\n# Proves\n# QA-09.\n", "testdata/s.txt:2: QA-09 is not"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sample(t).Scan(tree(map[string]string{c.file: c.text}))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRender(t *testing.T) {
	reqs := sample(t)
	proofs, err := reqs.Scan(tree(sampleTree))
	if err != nil {
		t.Fatal(err)
	}
	got := Render(reqs, proofs, "..")
	for _, id := range slices.Collect(maps.Keys(proofs)) {
		slices.Reverse(proofs[id])
	}
	if again := Render(reqs, proofs, ".."); again != got {
		t.Errorf("the order of the claims shows:\n%s", cmp.Diff(got, again))
	}
	golden := filepath.Join("testdata", "sample.md")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestRunChecksAndWrites(t *testing.T) {
	root := t.TempDir()
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), "run make generate") {
		t.Errorf("check without a document: %v", err)
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Errorf("check of a fresh document: %v", err)
	}
	name := filepath.Join(root, filepath.FromSlash(document))
	if err := os.WriteFile(name, []byte("stale"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil {
		t.Error("a stale document passed the check")
	}
}

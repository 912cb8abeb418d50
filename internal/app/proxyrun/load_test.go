package proxyrun_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// environment is that of the tests.
func environment() proxyrun.Environment {
	return proxyrun.Environment{LookupEnv: func(name string) (string, bool) {
		return "here", name == "PRESENT"
	}}
}

// outcome describes what loading gave, the directory's name left out.
func outcome(loaded *proxyrun.Loaded, err error, dir string) string {
	var b strings.Builder
	var bad *proxyrun.LoadError
	switch {
	case errors.As(err, &bad):
		for _, f := range bad.Findings {
			fmt.Fprintln(&b, f)
		}
	case err != nil:
		fmt.Fprintln(&b, err)
	default:
		for _, w := range loaded.Warnings {
			fmt.Fprintln(&b, w)
		}
		if loaded.UnknownFields+loaded.DeprecatedUses > 0 {
			fmt.Fprintf(&b, "%d unknown, %d deprecated\n", loaded.UnknownFields, loaded.DeprecatedUses)
		}
		fmt.Fprintln(&b, "OK")
	}
	return strings.ReplaceAll(b.String(), dir+string(filepath.Separator), "")
}

// goldenLoad loads each file of an archive and compares the outcome with the
// file of its name and .want.
func goldenLoad(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("testdata", "load", name+".txtar")
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, cases := t.TempDir(), 0
	for i := 0; i+1 < len(archive.Files); i += 2 {
		input, want := archive.Files[i], &archive.Files[i+1]
		if want.Name != input.Name+".want" {
			t.Fatalf("%s is followed by %s", input.Name, want.Name)
		}
		cases++
		path := filepath.Join(dir, input.Name)
		if err := os.WriteFile(path, input.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := proxyrun.Load(proxyrun.Flags{ConfigPath: path}, environment())
		got := outcome(loaded, err, dir)
		if diff := cmp.Diff(string(want.Data), got); diff != "" && !*update {
			t.Errorf("%s: outcome differs (run with -update if that is right):\n%s", input.Name, diff)
		}
		want.Data = []byte(got)
	}
	if cases == 0 {
		t.Fatal("no cases")
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Proves BS-14.
func TestUnregisteredExtensions(t *testing.T) { goldenLoad(t, "unregistered") }

// Proves BS-15.
func TestKnownExtensions(t *testing.T) { goldenLoad(t, "known") }

func TestNotBuilt(t *testing.T) { goldenLoad(t, "notbuilt") }

// Proves BS-18.
func TestMalformed(t *testing.T) { goldenLoad(t, "syntax") }

// Proves BS-19.
func TestDeclaredRules(t *testing.T) { goldenLoad(t, "rules") }

// Proves BS-20.
func TestDeprecated(t *testing.T) { goldenLoad(t, "deprecated") }

// Proves BS-21.
func TestV2(t *testing.T) { goldenLoad(t, "v2") }

// Proves BS-23.
func TestReferences(t *testing.T) { goldenLoad(t, "references") }

// Proves BS-33: files, variables and inline forms of a body.
func TestDataSources(t *testing.T) { goldenLoad(t, "sources") }

// Proves BS-46.
func TestAcceptedWithoutEffect(t *testing.T) { goldenLoad(t, "noops") }

package check_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/xebec-proxy/xebec/internal/alltypes" // Envoy's extensions
	"github.com/xebec-proxy/xebec/internal/app/check"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/xds"
)

const quickstart = "../../../examples/quickstart"

func quickstartFiles(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(quickstart, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return filepath.Base(n) == "groups.yaml" })
}

// TestVersionsAreThoseServed compares the resources of single files with what a
// server serves from their directory: `xebec wait --file` relies on it.
func TestVersionsAreThoseServed(t *testing.T) {
	batch, findings, err := file.Load(quickstart)
	if err != nil || len(findings) > 0 {
		t.Fatal(findings, err)
	}
	served := map[xds.Key]string{}
	for _, g := range batch.Groups {
		for _, r := range g.Set {
			served[r.Key()] = r.Version()
		}
	}
	got, err := check.Resources(quickstartFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(served) {
		t.Errorf("%d resources, %d are served", len(got), len(served))
	}
	for _, r := range got {
		if v := served[r.Key()]; v != r.Version() {
			t.Errorf("%s: version %s, served is %q", r.Name(), r.Version(), v)
		}
	}
}

// TestFilesAndDirectoriesAgree checks the same files both ways.
func TestFilesAndDirectoriesAgree(t *testing.T) {
	for _, o := range []check.Options{{}, {Strict: true}, {Lenient: true}} {
		dir, err := check.Paths([]string{quickstart}, o)
		if err != nil {
			t.Fatal(err)
		}
		files, err := check.Paths(quickstartFiles(t), o)
		if err != nil {
			t.Fatal(err)
		}
		if dir.Resources != 9 || files.Resources != 9 || dir.Errors+dir.Warnings+files.Errors+files.Warnings > 0 {
			t.Errorf("%+v: directory %+v, files %+v", o, dir, files)
		}
	}
}

func TestResourcesWithErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(name, []byte("\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\nnope: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := check.Resources([]string{name}); err == nil || !strings.Contains(err.Error(), "a.yaml:3:1") {
		t.Errorf("error %v", err)
	}
	if _, err := check.Resources([]string{name + "x"}); err == nil {
		t.Error("no error for a file that is not there")
	}
}

package proxyrun_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

// What the page for users shows of a refusal is what the program says.
func TestTheGuideShowsRealErrors(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join("testdata", "guide"))
	_, err = proxyrun.Load(proxyrun.Flags{ConfigPath: "bad.yaml"}, environment())
	if err == nil {
		t.Fatal("bad.yaml is in order")
	}
	said := strings.Split(err.Error(), "\n")
	shown := 0
	for line := range strings.Lines(string(guide)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "bad.yaml:") {
			continue
		}
		shown++
		if !slices.Contains(said, line) {
			t.Errorf("docs/proxy.md shows %s\nwhich is not among\n%s", line, err)
		}
	}
	if shown < 3 {
		t.Errorf("docs/proxy.md shows %d errors", shown)
	}
}

// The example that the README runs is in order, without a warning.
func TestTheExampleLoads(t *testing.T) {
	l := load(t, proxyrun.Flags{ConfigPath: "../../../examples/proxy/envoy.yaml"})
	if len(l.Warnings) > 0 || len(l.Bootstrap.GetStaticResources().GetListeners()) != 3 {
		t.Errorf("%d listeners, warnings %v", len(l.Bootstrap.GetStaticResources().GetListeners()), l.Warnings)
	}
}

package file

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/xds"
)

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "")
	for path, want := range map[string]string{
		"":                          "no directory",
		filepath.Join(dir, "none"):  "does not exist; create it",
		filepath.Join(dir, "file"):  "is a file",
		filepath.Join(dir, "f\x00"): "cannot be used",
	} {
		if _, err := New(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
		if _, _, err := Load(path); err == nil {
			t.Errorf("%q is loaded", path)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "xds")
	must(t, os.Mkdir(dir, 0o755))
	l := start(t, dir)
	if err := l.src.Run(t.Context(), newRecorder()); err == nil {
		t.Error("a second Run is accepted")
	}
	l.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.src.Run(ctx, newRecorder()); err != nil {
		t.Errorf("Run after Run: %v", err)
	}
	must(t, os.Remove(dir))
	if err := l.src.Run(t.Context(), newRecorder()); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Run without the directory: %v", err)
	}
}

// The forms a file may have, among them the one of Envoy's own file
// subscriptions.
func TestLoadForms(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "bare.yaml", docs(cluster("bare1", 1), cluster("bare2", 1)))
	write(t, dir, "list.yml", "version_info: '7'\nresources:\n- '@type': "+xds.ClusterType+"\n  name: listed\n")
	write(t, dir, "static.JSON", `{"static_resources": {"clusters": [{"name": "static"}]}}`)
	write(t, dir, "text.pb_text", "resources { [type.googleapis.com/envoy.config.cluster.v3.Cluster] { name: \"text\" } }")
	for _, ignored := range []string{"README.md", "a.yaml~", "#a.yaml#", ".hidden.yaml", ".git/x.yaml", "..data/y.yaml", "4913", ".a.yaml.swp"} {
		write(t, dir, ignored, cluster("ignored", 1))
	}
	b, findings, err := Load(dir)
	must(t, err)
	rec := newRecorder()
	must(t, rec.Apply(b))
	want := "Cluster/bare1 Cluster/bare2 Cluster/listed Cluster/static Cluster/text"
	if got := strings.Join(rec.names(DefaultGroup), " "); got != want {
		t.Errorf("the resources are %s, want %s", got, want)
	}
	if len(findings) > 0 {
		t.Errorf("the findings are %v", findings)
	}
}

func TestLoadEmpty(t *testing.T) {
	b, findings, err := Load(t.TempDir())
	if err != nil || !b.Full || len(b.Groups) != 1 || len(b.Groups[DefaultGroup].Set) != 0 {
		t.Errorf("loaded %+v, %v", b, err)
	}
	if !hasCode("empty")(findings) || !noErrors(findings) {
		t.Errorf("the findings are %v", findings)
	}
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", cluster("one", 1))
	write(t, dir, "d/b.yaml", cluster("two", 1))
	l := start(t, dir)
	must(t, os.Chmod(l.path("a.yaml"), 0))
	must(t, os.Chmod(l.path("d"), 0))
	t.Cleanup(func() { _ = os.Chmod(l.path("d"), 0o755) })
	if _, err := os.ReadFile(l.path("a.yaml")); err == nil {
		t.Skip("this user may read everything")
	}
	l.untilFindings("the unreadable file", hasCode("unreadable"))
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
}

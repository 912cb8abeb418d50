package file

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/xebec-proxy/xebec/internal/filewatch"
	"github.com/xebec-proxy/xebec/xds"
)

// What changes while it is being read, and nothing announces, is found by the next
// look: it is compared with what was there before the reading, not after it.
func TestChangeWhileReading(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cds.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version_info: a part")
	tr, err := New(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	typ, _ := xds.LookupType(xds.ClusterType)
	w := filewatch.New(nil, false)
	got := tr.load(typ)
	write("version_info: 'a part, and the rest'")
	w.Follow(&got.needs)
	if !w.Changed() {
		t.Error("what was written between the reading and the look is missed")
	}
	got = tr.load(typ)
	if w.Follow(&got.needs); w.Changed() {
		t.Error("a change is seen where there is none")
	}
}

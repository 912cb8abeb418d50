//go:build interop

package differential

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// pair are the two proxies of a test that does something else than exchanges.
type pair [2]*side

// startPair runs both with files, of which bootstrap.json is needed; "${dir}" in
// them is the folder of the proxy.
func startPair(t *testing.T, files map[string]string) pair {
	t.Helper()
	var p pair
	for i, command := range [][]string{{envoyBinary}, {xebecBinary, "proxy"}} {
		s := &side{name: filepath.Base(command[0]), command: command, dir: t.TempDir(), group: &group{}, admin: harness.NewAdmin(t), read: map[string]int{}}
		for name, text := range files {
			s.write(t, name, text)
		}
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.stop)
		p[i] = s
	}
	return p
}

// write moves a file into the proxy's folder.
func (s *side) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "${dir}", s.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, filepath.Join(s.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// both does something with each at the same time.
func (p pair) both(do func(s *side)) {
	var wait sync.WaitGroup
	for _, s := range p {
		wait.Go(func() { do(s) })
	}
	wait.Wait()
}

// alike waits until both say the same, and reports what they say otherwise.
func (p pair) alike(t *testing.T, what string, say func(s *side) any) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var said [2]any
		for i, s := range p {
			said[i] = say(s)
		}
		diff := cmp.Diff(said[0], said[1])
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: Envoy (-) and Xebec (+) differ:\n%s", what, diff)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xebec-proxy/xebec/internal/admin"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/xds"
)

// groups are what a server serves.
type groups struct {
	mu    sync.Mutex
	views map[string]*snapshot.Snapshot
}

func (g *groups) Groups() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	for n := range g.views {
		names = append(names, n)
	}
	return names
}

func (g *groups) Snapshot(name string) *snapshot.Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.views[name]
}

// set gives a group clusters; none removes it.
func (g *groups) set(t *testing.T, group string, clusters ...string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	var c snapshot.Changes
	for _, n := range clusters {
		r, err := xds.Marshal(n, &clusterv3.Cluster{Name: n})
		if err != nil {
			t.Fatal(err)
		}
		c.Set = append(c.Set, r)
	}
	if len(clusters) == 0 {
		delete(g.views, group)
		return
	}
	s, _, err := snapshot.New().With(c)
	if err != nil {
		t.Fatal(err)
	}
	g.views[group] = s
}

// exported is which clusters the folders of a directory hold.
func exported(t *testing.T, dir string) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string][]string{}
	for _, e := range entries {
		b, _, err := file.Load(filepath.Join(dir, e.Name()), file.WithLenient(true))
		if err != nil {
			continue // it has just been removed
		}
		names := []string{}
		for _, r := range b.Groups[file.DefaultGroup].Set {
			names = append(names, r.Name())
		}
		m[e.Name()] = names
	}
	return m
}

// Each group has a folder, which goes with it, also if that was while nobody served; what
// fails is said once, and tried again. Partly proves XF-08.
func TestExporter(t *testing.T) {
	dir := t.TempDir()
	g := &groups{views: map[string]*snapshot.Snapshot{}}
	g.set(t, "edge", "a", "b")
	g.set(t, "../odd", "c")
	var log strings.Builder
	run := func(steps func(e *exporter)) {
		e, err := newExporter(dir, g, slog.New(slog.NewTextHandler(&log, nil)), admin.NewEvents())
		if err != nil {
			t.Fatal(err)
		}
		e.retry = 10 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.run(ctx) }()
		steps(e)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	until := func(holds func(map[string][]string) bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !holds(exported(t, dir)); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("there is %v", exported(t, dir))
			}
		}
	}
	run(func(e *exporter) {
		e.note()
		until(func(m map[string][]string) bool {
			return slices.Equal(m["edge"], []string{"a", "b"}) && slices.Equal(m["%2E.%2Fodd"], []string{"c"})
		})
		g.set(t, "../odd")
		e.note()
		until(func(m map[string][]string) bool { return len(m) == 1 })
		g.set(t, "old", "d")
		e.note()
		until(func(m map[string][]string) bool { return len(m["old"]) == 1 })
	})
	g.set(t, "old")
	if err := os.MkdirAll(filepath.Join(dir, "taken", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.set(t, "taken", "e")
	run(func(e *exporter) {
		e.note()
		until(func(m map[string][]string) bool { _, there := m["old"]; return !there })
		time.Sleep(50 * time.Millisecond)
		if err := os.Remove(filepath.Join(dir, "taken", "x")); err != nil {
			t.Fatal(err)
		}
		until(func(m map[string][]string) bool { return len(m["taken"]) == 1 })
	})
	if n := strings.Count(log.String(), "cannot be exported"); n != 1 || !strings.Contains(log.String(), "exported again") {
		t.Errorf("%d complaints in the log:\n%s", n, &log)
	}
	var none *exporter
	none.note()
}

// What is exported must not be served again by the server itself.
func TestExportApart(t *testing.T) {
	dir := t.TempDir()
	for _, out := range []string{dir, filepath.Join(dir, "out"), filepath.Dir(dir)} {
		if err := apart(dir, out); err == nil || !strings.Contains(err.Error(), "must not be one in the other") {
			t.Errorf("%s: %v", out, err)
		}
	}
	if err := apart(dir, dir+"-out"); err != nil {
		t.Error(err)
	}
}

package file

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// The first batch is the whole state, with the place of every resource.
func TestFirstBatchIsFull(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", docs(cluster("one", 1), cluster("two", 1)))
	write(t, dir, "deep/er/b.yml", cluster("three", 1))
	l := start(t, dir)
	if b := l.since(0)[0]; !b.Full || b.GroupOf == nil {
		t.Errorf("the first batch is full=%v with a group function: %v", b.Full, b.GroupOf != nil)
	}
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/three", "Cluster/two")
	two := l.get(DefaultGroup, xds.ClusterType, "two")
	if want := (xds.Position{File: filepath.Join(dir, "a.yaml"), Line: 6, Column: 1}); two.Origin() != want {
		t.Errorf("the origin is %v, want %v", two.Origin(), want)
	}
	if two.Updated().IsZero() {
		t.Error("the resource does not say when it changed")
	}
	l.untilFindings("none", func(f []validate.Finding) bool { return len(f) == 0 && l.src.Health().Loaded })
}

func TestLaterBatchesHoldOnlyWhatChanged(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", docs(cluster("one", 1), cluster("two", 1), cluster("three", 1)))
	write(t, dir, "b.yaml", cluster("four", 1))
	l := start(t, dir)
	one := l.get(DefaultGroup, xds.ClusterType, "one")
	l.write("a.yaml", docs(cluster("one", 1), cluster("two", 2)))
	l.untilTimeout(DefaultGroup, "two", 2*time.Second)
	batches := l.since(1)
	if len(batches) != 1 {
		t.Fatalf("%d batches came, want 1", len(batches))
	}
	c := batches[0].Groups[DefaultGroup]
	if batches[0].Full || len(c.Set) != 1 || c.Set[0].Name() != "two" || len(c.Remove) != 1 || c.Remove[0].Name != "three" {
		t.Errorf("the batch is %+v", batches[0])
	}
	if l.get(DefaultGroup, xds.ClusterType, "one") != one {
		t.Error("a resource that is the same has a new object")
	}
}

func TestEditors(t *testing.T) {
	const quiet = 100 * time.Millisecond
	tests := map[string]func(t *testing.T, p string){
		"write in place": func(t *testing.T, p string) {
			must(t, os.WriteFile(p, []byte(docs(cluster("one", 2), cluster("two", 2))), 0o644))
		},
		"write in two chunks": func(t *testing.T, p string) {
			// The first chunk is a file that parses, with one cluster less.
			f, err := os.OpenFile(p, os.O_WRONLY|os.O_TRUNC, 0)
			must(t, err)
			_, err = f.WriteString(cluster("one", 2))
			must(t, err)
			if runtime.GOOS == "linux" { // where a file that is open for writing is waited for
				time.Sleep(3 * quiet)
			}
			_, err = f.WriteString("---\n" + cluster("two", 2))
			must(t, err)
			must(t, f.Close())
		},
		"rename and write anew (vim)": func(t *testing.T, p string) {
			must(t, os.Rename(p, p+"~"))
			time.Sleep(quiet / 4) // a slow disk
			must(t, os.WriteFile(p, []byte(docs(cluster("one", 2), cluster("two", 2))), 0o644))
			must(t, os.Remove(p+"~"))
		},
		"write beside and rename over (emacs, sed -i)": func(t *testing.T, p string) {
			tmp := filepath.Join(filepath.Dir(p), "#a.yaml#")
			must(t, os.WriteFile(tmp, []byte(docs(cluster("one", 2), cluster("two", 2))), 0o644))
			must(t, os.Rename(tmp, p))
		},
		"remove and create": func(t *testing.T, p string) {
			must(t, os.Remove(p))
			time.Sleep(quiet / 4)
			must(t, os.WriteFile(p, []byte(docs(cluster("one", 2), cluster("two", 2))), 0o644))
		},
	}
	for name, edit := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "a.yaml", docs(cluster("one", 1), cluster("two", 1)))
			l := start(t, dir, WithDebounce(quiet, time.Minute))
			edit(t, l.path("a.yaml"))
			l.untilTimeout(DefaultGroup, "two", 2*time.Second)
			for _, b := range l.since(1) {
				if removed := b.Groups[DefaultGroup].Remove; len(removed) > 0 {
					t.Errorf("%v was removed on the way", removed)
				}
			}
			if n := l.count(); n != 2 {
				t.Errorf("the edit went out in %d batches, want 1", n-1)
			}
			l.untilFindings("none", noErrors)
		})
	}
}

// A file that stops in the middle keeps what was served, and says where it is
// wrong; once it is whole it is taken over.
func TestBadFileKeepsLastGood(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", docs(cluster("one", 1), cluster("two", 1)))
	write(t, dir, "b.yaml", cluster("three", 1))
	l := start(t, dir)
	l.write("a.yaml", docs(cluster("one", 2), "\"@type\": [unclosed\n"))
	l.untilFindings("a syntax error", func(f []validate.Finding) bool { return !noErrors(f) })
	if f := l.src.Findings()[0]; f.Pos.File != l.path("a.yaml") || f.Pos.Line < 5 {
		t.Errorf("the finding is at %v", f.Pos)
	}
	if l.src.Health().Err == nil || !l.src.Health().Loaded {
		t.Errorf("the health is %+v", l.src.Health())
	}
	l.write("b.yaml", cluster("three", 2)) // others go on
	l.untilTimeout(DefaultGroup, "three", 2*time.Second)
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/three", "Cluster/two")
	if d := timeoutOf(l.get(DefaultGroup, xds.ClusterType, "one")); d != time.Second {
		t.Errorf("half of a bad file was applied: %v", d)
	}
	l.write("a.yaml", docs(cluster("one", 3), cluster("two", 3)))
	l.untilTimeout(DefaultGroup, "one", 3*time.Second)
	l.untilFindings("none", noErrors)
	if err := l.src.Health().Err; err != nil {
		t.Errorf("the health still says %v", err)
	}
}

func TestRemoval(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", docs(cluster("one", 1), cluster("two", 1)))
	write(t, dir, "b/c.yaml", cluster("three", 1))
	l := start(t, dir)
	l.write("a.yaml", cluster("two", 1))
	l.untilHolds(DefaultGroup, "Cluster/three", "Cluster/two")
	must(t, os.RemoveAll(l.path("b")))
	l.untilHolds(DefaultGroup, "Cluster/two")
	must(t, os.Remove(l.path("a.yaml")))
	l.untilHolds(DefaultGroup)
	l.untilFindings("a warning about the empty directory", hasCode("empty"))
	if err := l.src.Health().Err; err != nil {
		t.Errorf("an empty directory is an error: %v", err)
	}
}

func TestNewFolders(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir)
	l.write("x/y/z/a.yaml", cluster("one", 1))
	l.untilHolds(DefaultGroup, "Cluster/one")
	l.write("x/y/z/b.yaml", cluster("two", 1))
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
	must(t, os.Rename(l.path("x/y"), l.path("moved")))
	l.eventually("the new origin", func() bool {
		return slices.ContainsFunc(l.src.Files(), func(f File) bool { return f.Path == l.path("moved/z/b.yaml") })
	})
	l.write("moved/z/c.yaml", cluster("three", 1))
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/three", "Cluster/two")
}

// A burst is merged: the first change goes out at once, the rest in few
// batches, and nothing is lost.
func TestBurst(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir)
	const n = 1000
	var names []string
	for i := range n {
		name := "c" + strconv.Itoa(i)
		names = append(names, "Cluster/"+name)
		l.write(name+".yaml", cluster(name, 1))
	}
	l.untilHolds(DefaultGroup, names...)
	if got := l.count() - 1; got > 50 {
		t.Errorf("%d files went out in %d batches", n, got)
	}
}

// A change that comes alone does not wait for the window.
func TestLoneChangeGoesOutAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", cluster("one", 1))
	l := start(t, dir, WithDebounce(time.Hour, 2*time.Hour))
	l.write("a.yaml", cluster("one", 2))
	l.untilTimeout(DefaultGroup, "one", 2*time.Second)
}

func TestDuplicate(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "m.yaml", cluster("one", 1))
	l := start(t, dir)
	l.write("a.yaml", docs(cluster("one", 9), cluster("two", 1)))
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
	l.untilFindings("a duplicate", hasCode("duplicate"))
	f := l.src.Findings()[0]
	if f.Pos.File != l.path("a.yaml") || f.Pos.Line != 1 || f.Name != "one" {
		t.Errorf("the finding is %v", f)
	}
	if want := l.path("m.yaml") + ":1:1"; !slices.Contains([]string{"the name is already used at " + want + ", which is the one served"}, f.Message) {
		t.Errorf("the finding does not name %s: %s", want, f.Message)
	}
	if d := timeoutOf(l.get(DefaultGroup, xds.ClusterType, "one")); d != time.Second {
		t.Errorf("the one loaded first did not stay: %v", d)
	}
	must(t, os.Remove(l.path("m.yaml")))
	l.untilTimeout(DefaultGroup, "one", 9*time.Second)
	l.untilFindings("none", noErrors)
}

// A resource that moves to another file is never missing.
func TestMove(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", cluster("one", 1))
	l := start(t, dir)
	must(t, os.Rename(l.path("a.yaml"), l.path("b.yaml")))
	l.eventually("the new file", func() bool {
		f := l.src.Files()
		return len(f) == 1 && f[0].Path == l.path("b.yaml")
	})
	if n := l.count(); n != 1 {
		t.Errorf("a move without a change sent %d batches", n-1)
	}
}

func TestSinkRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", cluster("one", 1))
	l := start(t, dir, WithRescan(30*time.Millisecond))
	l.setRefuse(errRefused)
	l.write("a.yaml", cluster("one", 2))
	l.write("b.yaml", cluster("two", 2))
	l.eventually("the refusal in the health", func() bool { return errors.Is(l.src.Health().Err, errRefused) })
	l.setRefuse(nil)
	l.untilTimeout(DefaultGroup, "one", 2*time.Second)
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
}

// What no notification tells is found by the listing.
func TestRescan(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", cluster("one", 1))
	s, err := New(dir, WithRescan(20*time.Millisecond))
	must(t, err)
	rec := newRecorder()
	r := newReload(s, rec, &watcher{}) // a system without notifications
	now := time.Now()
	r.lookAround(now)
	r.window.note(now, false)
	r.attempt(now)
	write(t, dir, "a.yaml", cluster("one", 2))
	now = now.Add(time.Minute)
	r.rescan(now)
	r.attempt(now)
	if d := timeoutOf(rec.get(DefaultGroup, xds.ClusterType, "one")); d != 2*time.Second {
		t.Errorf("the change was not found: %v", d)
	}
}

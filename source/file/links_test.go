package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// relink points a symbolic link elsewhere in one step.
func relink(t *testing.T, to, link string) {
	t.Helper()
	tmp := link + "_tmp"
	must(t, os.Symlink(to, tmp))
	must(t, os.Rename(tmp, link))
}

// A mounted ConfigMap: the files are links through ..data, which is a link to a
// time-stamped folder and is swapped.
func TestConfigMapSwap(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "..2026_01/a.yaml", cluster("one", 1))
	write(t, dir, "..2026_01/b.yaml", cluster("two", 1))
	must(t, os.Symlink("..2026_01", filepath.Join(dir, "..data")))
	must(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	must(t, os.Symlink("..data/b.yaml", filepath.Join(dir, "b.yaml")))
	l := start(t, dir)
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
	for n := 2; n < 5; n++ {
		folder := "..2026_0" + string(rune('0'+n))
		write(t, dir, folder+"/a.yaml", cluster("one", n))
		write(t, dir, folder+"/b.yaml", cluster("two", n))
		before := l.count()
		relink(t, folder, l.path("..data"))
		must(t, os.RemoveAll(l.path("..2026_0"+string(rune('0'+n-1)))))
		l.untilTimeout(DefaultGroup, "two", time.Duration(n)*time.Second)
		if b := l.since(before); len(b) != 1 || len(b[0].Groups[DefaultGroup].Set) != 2 {
			t.Fatalf("the swap was not one batch of both files but %+v", b)
		}
	}
}

// The root is a link that is pointed to another release.
func TestRootIsSwapped(t *testing.T) {
	base := t.TempDir()
	write(t, base, "v1/a.yaml", docs(cluster("one", 1), cluster("old", 1)))
	write(t, base, "v2/a.yaml", cluster("one", 2))
	write(t, base, "v2/sub/b.yaml", cluster("new", 2))
	root := filepath.Join(base, "current")
	must(t, os.Symlink("v1", root))
	l := start(t, root)
	before := l.count()
	relink(t, "v2", root)
	l.untilHolds(DefaultGroup, "Cluster/new", "Cluster/one")
	if b := l.since(before); len(b) != 1 {
		t.Errorf("the swap went out in %d batches", len(b))
	}
	write(t, base, "v2/sub/b.yaml", cluster("new", 3)) // the new place is watched
	l.untilTimeout(DefaultGroup, "new", 3*time.Second)
}

// A link above the root is swapped.
func TestLinkAboveRootIsSwapped(t *testing.T) {
	base := t.TempDir()
	write(t, base, "v1/xds/a.yaml", cluster("one", 1))
	write(t, base, "v2/xds/a.yaml", cluster("one", 2))
	must(t, os.Symlink(filepath.Join(base, "v1"), filepath.Join(base, "current")))
	l := start(t, filepath.Join(base, "current", "xds"))
	relink(t, "v2", filepath.Join(base, "current"))
	l.untilTimeout(DefaultGroup, "one", 2*time.Second)
}

// A root that disappears keeps everything; one that comes back is read again.
func TestRootIsRemovedAndMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "xds")
	write(t, dir, "a.yaml", cluster("one", 1))
	l := start(t, dir)
	must(t, os.Rename(dir, dir+".old"))
	l.untilFindings("the missing root", hasCode("unreadable"))
	l.untilHolds(DefaultGroup, "Cluster/one")
	if l.src.Health().Err == nil {
		t.Error("the health does not mention the missing root")
	}
	write(t, dir, "b.yaml", cluster("two", 1))
	l.untilHolds(DefaultGroup, "Cluster/two")
	l.write("sub/c.yaml", cluster("three", 1))
	l.untilHolds(DefaultGroup, "Cluster/three", "Cluster/two")
	l.untilFindings("none", noErrors)
}

func TestLinkedFilesAndFolders(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "xds")
	write(t, base, "elsewhere/file.txt", cluster("one", 1))
	write(t, base, "shared/sub/b.yaml", cluster("two", 1))
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Symlink("../elsewhere/file.txt", filepath.Join(dir, "a.yaml")))
	must(t, os.Symlink(filepath.Join(base, "shared"), filepath.Join(dir, "common")))
	l := start(t, dir)
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
	write(t, base, "elsewhere/file.txt", cluster("one", 2))
	l.untilTimeout(DefaultGroup, "one", 2*time.Second)
	write(t, base, "shared/sub/b.yaml", cluster("two", 2))
	l.untilTimeout(DefaultGroup, "two", 2*time.Second)
	want := xds.Position{File: filepath.Join(dir, "common/sub/b.yaml"), Line: 1, Column: 1}
	if got := l.get(DefaultGroup, xds.ClusterType, "two").Origin(); got != want {
		t.Errorf("the origin is %v, want the path through the link, %v", got, want)
	}
	must(t, os.Remove(l.path("common")))
	l.untilHolds(DefaultGroup, "Cluster/one")
}

func TestLinkLoop(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "sub/a.yaml", cluster("one", 1))
	must(t, os.Symlink("..", filepath.Join(dir, "sub/up")))
	must(t, os.Symlink("self", filepath.Join(dir, "self")))
	must(t, os.Symlink("nowhere.yaml", filepath.Join(dir, "dead.yaml")))
	b, findings, err := Load(dir)
	must(t, err)
	if n := len(b.Groups[DefaultGroup].Set); n != 1 {
		t.Errorf("%d resources were loaded, want 1", n)
	}
	for _, code := range []string{"link-loop", "broken-link"} {
		if !hasCode(code)(findings) {
			t.Errorf("no finding %q in %v", code, findings)
		}
	}
}

// A link to nothing is followed as soon as there is something.
func TestDeadLinkComesToLife(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "xds")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Symlink("../later.yaml", filepath.Join(dir, "a.yaml")))
	l := start(t, dir)
	write(t, base, "later.yaml", cluster("one", 1))
	l.untilHolds(DefaultGroup, "Cluster/one")
}

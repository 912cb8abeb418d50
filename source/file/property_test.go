package file

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever happens to the directory, in the end the sink holds what a fresh
// load of it gives, as long as no file is wrong and no name is used twice.
func TestSinkConvergesToTheDirectory(t *testing.T) {
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(run))
		run++
		must(t, os.Mkdir(dir, 0o755))
		l := start(t, dir, WithDebounce(2*time.Millisecond, 10*time.Millisecond))
		defer l.stop()
		ops := operations{t: t, rt: rt, dir: dir}
		for range rapid.IntRange(1, 12).Draw(rt, "operations") {
			ops.step()
			if rapid.Bool().Draw(rt, "pause") {
				time.Sleep(time.Duration(rapid.IntRange(0, 12).Draw(rt, "ms")) * time.Millisecond)
			}
		}
		ops.repair()
		b, findings, err := Load(dir)
		if err != nil || !noErrors(findings) {
			rt.Fatalf("the directory is not clean in the end: %v %v", err, findings)
		}
		fresh := newRecorder()
		must(t, fresh.Apply(b))
		for end := time.Now().Add(patience); !reflect.DeepEqual(l.state(), fresh.state()); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				rt.Fatalf("the sink holds %v, the directory %v", l.state(), fresh.state())
			}
		}
	})
}

// operations changes a directory at random. Each file has names of its own.
type operations struct {
	t   *testing.T
	rt  *rapid.T
	dir string
	n   int
}

func (o *operations) step() {
	rel := rapid.SampledFrom([]string{"a.yaml", "b.yml", "d/a.yaml", "d/e/a.yaml", "link/a.yaml", "groups.yaml"}).Draw(o.rt, "file")
	switch op := rapid.SampledFrom([]string{"replace", "write", "append", "break", "remove", "remove folder", "rename folder", "link"}).Draw(o.rt, "op"); op {
	case "replace":
		write(o.t, o.dir, rel, o.content(rel))
	case "write":
		o.inPlace(rel, os.O_TRUNC, o.content(rel))
	case "append":
		if rel != GroupsFile {
			o.inPlace(rel, os.O_APPEND, "---\n"+cluster(o.name(rel)+fmt.Sprint("-extra", o.count()), 1))
		}
	case "break":
		o.inPlace(rel, os.O_TRUNC, "a: [b\n")
	case "remove":
		_ = os.Remove(filepath.Join(o.dir, rel))
	case "remove folder":
		must(o.t, os.RemoveAll(filepath.Join(o.dir, "d")))
	case "rename folder":
		_ = os.Rename(filepath.Join(o.dir, "d/e"), filepath.Join(o.dir, "f"))
	case "link":
		must(o.t, os.RemoveAll(filepath.Join(o.dir, "link")))
		target := fmt.Sprint(".target", o.count())
		write(o.t, o.dir, target+"/a.yaml", o.content("link/a.yaml"))
		must(o.t, os.Symlink(target, filepath.Join(o.dir, "link")))
	}
}

func (o *operations) count() int { o.n++; return o.n }

func (o *operations) name(rel string) string {
	return strings.NewReplacer("/", "-", ".", "-").Replace(rel)
}

// content is new content for a file; a folder that was renamed brings its names
// along, so names carry a count.
func (o *operations) content(rel string) string {
	if rel == GroupsFile {
		folders := rapid.SampledFrom([]string{"d", ".", "d/e", "link", "f"}).Draw(o.rt, "folder")
		return groupsText("x "+folders, "y "+folders+", a.yaml")
	}
	var d []string
	for range rapid.IntRange(0, 3).Draw(o.rt, "clusters") {
		d = append(d, cluster(o.name(rel)+fmt.Sprint("-", o.count()), o.n))
	}
	return docs(d...)
}

func (o *operations) inPlace(rel string, flag int, content string) {
	p := filepath.Join(o.dir, rel)
	must(o.t, os.MkdirAll(filepath.Dir(p), 0o755))
	f, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY|flag, 0o644)
	must(o.t, err)
	for part := range slices.Chunk([]byte(content), 40) {
		_, err = f.Write(part)
		must(o.t, err)
	}
	must(o.t, f.Close())
}

// repair removes every file that cannot be read.
func (o *operations) repair() {
	must(o.t, filepath.WalkDir(o.dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !readable(e.Name()) {
			return err
		}
		data, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(data), "[b\n") {
			return os.Remove(p)
		}
		return err
	}))
}

package file

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What is reported after some changes is what a look at all files would give, and what
// was reported before stays as it was.
func TestStatesFollowChanges(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	s, err := New(dir)
	must(t, err)
	r := newReload(s, nil, &watcher{})
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	before, kept := r.states.reported, []File(nil)
	for step := range 60 {
		var wrote []string
		for range 1 + random.IntN(3) {
			name := fmt.Sprintf("a/f%d.yaml", random.IntN(12))
			wrote = append(wrote, name)
			switch random.IntN(8) {
			case 0:
				_ = os.Remove(filepath.Join(dir, name))
			case 1:
				write(t, dir, name, "nonsense: [")
			case 2:
				wrote = append(wrote, GroupsFile)
				write(t, dir, GroupsFile, fmt.Sprintf("groups: [{name: g%d, match: {id: x}, folders: a}]\n", step))
			default:
				write(t, dir, name, cluster(fmt.Sprint("c", random.IntN(12)), step+1))
			}
		}
		// Long ago, so that what is known is not looked at again.
		for _, path := range wrote {
			at := time.Now().Add(time.Duration(step)*time.Minute - 24*time.Hour)
			if err := os.Chtimes(filepath.Join(dir, path), at, at); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		r.lookAround(time.Time{})
		r.takeAll()
		now := r.states.update(r)
		var want []File
		for _, rel := range r.known() {
			want = append(want, r.state(rel, r.file(rel)))
		}
		slices.SortFunc(want, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		same := cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })
		got := listed(now)
		if diff := cmp.Diff(want, got, same, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("step %d: %s", step, diff)
		}
		if diff := cmp.Diff(kept, listed(before), same, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("step %d: what was reported before is another: %s", step, diff)
		}
		before, kept = now, got
	}
}

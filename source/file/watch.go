package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// watcher keeps notifications on a changing set of folders. Without fs, when
// the system gives none, only the rescans find changes.
type watcher struct {
	fs   *fsnotify.Watcher
	have map[string]os.FileInfo
	// err is why some folder is not watched.
	err error
}

func newWatcher() *watcher {
	fsw, err := fsnotify.NewWatcher()
	if err != nil {
		return &watcher{err: err}
	}
	return &watcher{fs: fsw, have: map[string]os.FileInfo{}}
}

func (w *watcher) close() {
	if w.fs != nil {
		_ = w.fs.Close()
	}
}

func (w *watcher) events() <-chan fsnotify.Event {
	if w.fs == nil {
		return nil
	}
	return w.fs.Events
}

func (w *watcher) errors() <-chan error {
	if w.fs == nil {
		return nil
	}
	return w.fs.Errors
}

// sync watches exactly the folders wanted. It reports whether a watch is new:
// what happened in that folder before is then not known.
func (w *watcher) sync(want map[string]struct{}) (added bool) {
	if w.fs == nil {
		return false
	}
	w.err = nil
	active := map[string]bool{}
	for _, d := range w.fs.WatchList() {
		active[d] = true
		if _, wanted := want[d]; !wanted {
			_ = w.fs.Remove(d)
			delete(w.have, d)
		}
	}
	for d := range want {
		info, err := os.Stat(d)
		if err == nil {
			// Every time, because the path may be another folder by now.
			err = w.fs.Add(d)
		}
		if err != nil {
			delete(w.have, d)
			if !errors.Is(err, fs.ErrNotExist) {
				w.err = err
			}
			continue
		}
		if old := w.have[d]; old == nil || !active[d] || !os.SameFile(old, info) {
			added = true
		}
		w.have[d] = info
	}
	return added
}

// affected says what an event can have changed: everything, or some paths.
func (s *scan) affected(e fsnotify.Event) (all bool, rels []string) {
	name := filepath.Clean(e.Name)
	if _, hop := s.hops[name]; hop {
		return true, nil
	}
	rels = append(rels, s.targets[name]...)
	folders := s.dirs[filepath.Dir(name)]
	base := filepath.Base(name)
	if len(folders) == 0 || hidden(base) {
		// The folder itself may be announced, by its own name.
		_, isFolder := s.dirs[name]
		return isFolder && !e.Has(fsnotify.Write) && !e.Has(fsnotify.Chmod), rels
	}
	if _, isFolder := s.dirs[name]; isFolder {
		return true, nil
	}
	if info, err := os.Lstat(name); err == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0) {
		return true, nil
	}
	if !readable(base) {
		return false, rels
	}
	for _, d := range folders {
		rels = append(rels, joinRel(d, base))
	}
	return false, rels
}

func joinRel(dir, base string) string {
	if dir == "." {
		return base
	}
	return dir + "/" + base
}

package file

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"github.com/xebec-proxy/xebec/internal/linktrace"
)

// watch keeps notifications on the places at which some paths can change.
type watch struct {
	fs *fsnotify.Watcher // nil: only rescans find changes
	// names are the real paths whose replacing matters, all the directories in
	// which everything does.
	names, all map[string]struct{}
	have       map[string]fs.FileInfo // directories that are watched
	files      map[string]fs.FileInfo // as before they were last read; nil if not there
	missing    []string               // directories that cannot be watched
	movesOnly  bool                   // what is written in place is no change
}

func newWatch(w *fsnotify.Watcher, movesOnly bool) *watch {
	return &watch{fs: w, have: map[string]fs.FileInfo{}, movesOnly: movesOnly}
}

func (w *watch) events() <-chan fsnotify.Event {
	if w.fs == nil {
		return nil
	}
	return w.fs.Events
}

func (w *watch) errors() <-chan error {
	if w.fs == nil {
		return nil
	}
	return w.fs.Errors
}

// follow makes the watch one on the files and directories that a reading needed. It
// reports whether a directory is new to it: what happened there before is not known.
func (w *watch) follow(l *loaded) (fresh bool) {
	w.names, w.all, w.files = map[string]struct{}{}, map[string]struct{}{}, l.before
	places := map[string]struct{}{}
	for _, f := range l.files {
		at, hops, err := linktrace.Path(f)
		if err != nil {
			continue // rescans look at it
		}
		for _, p := range append(hops, at) {
			w.names[p] = struct{}{}
			places[filepath.Dir(p)] = struct{}{}
		}
	}
	for _, d := range l.dirs {
		if at, _, err := linktrace.Path(d); err == nil {
			w.all[at] = struct{}{}
			places[at] = struct{}{}
		}
	}
	return w.place(places)
}

// place watches exactly these directories.
func (w *watch) place(places map[string]struct{}) (fresh bool) {
	w.missing = nil
	if w.fs == nil {
		return false
	}
	for d := range w.have {
		if _, wanted := places[d]; !wanted {
			_ = w.fs.Remove(d)
			delete(w.have, d)
		}
	}
	for d := range places {
		info := stat(d)
		if info == nil || w.fs.Add(d) != nil { // each time: the path may be another directory by now
			delete(w.have, d)
			w.missing = append(w.missing, d)
			continue
		}
		if old := w.have[d]; old == nil || !os.SameFile(old, info) {
			fresh = true
		}
		w.have[d] = info
	}
	return fresh
}

func stat(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// change says what an event may mean.
type change uint8

const (
	nothing change = iota
	written        // something is being written to
	moved          // something has taken a place
)

func (w *watch) meaning(e fsnotify.Event) change {
	name := filepath.Clean(e.Name)
	_, named := w.names[name]
	_, within := w.all[filepath.Dir(name)]
	switch {
	case e.Has(fsnotify.Create) && (named || within):
		return moved
	case w.movesOnly:
	case e.Has(fsnotify.Write) && named:
		return written
	case e.Has(fsnotify.Remove|fsnotify.Rename) && named:
		return written // another one may follow
	}
	return nothing
}

// changed looks whether something has changed that was not announced.
func (w *watch) changed() bool {
	for path, before := range w.files {
		now := stat(path)
		switch {
		case now == nil && before == nil:
		case w.movesOnly && now != nil && before != nil && os.SameFile(now, before):
		case now == nil || before == nil, !os.SameFile(now, before), now.Size() != before.Size(), !now.ModTime().Equal(before.ModTime()):
			return true
		}
	}
	return false
}

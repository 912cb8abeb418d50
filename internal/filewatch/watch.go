// Package filewatch notices that files have been replaced, or something in a
// directory, by way of symbolic links too.
package filewatch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"

	"github.com/xebec-proxy/xebec/internal/linktrace"
)

// Needs are the files that a reading has used, and the directories in which
// everything matters. The zero value has none.
type Needs struct {
	files, dirs []string
	before      map[string]fs.FileInfo // what was there before; nil if nothing
}

// File and Dir note what is about to be read, or matters: what changes from now on
// is a change. An empty name is none.
func (n *Needs) File(name string) { n.files = n.note(n.files, name) }

// Dir is File for a directory in which everything matters.
func (n *Needs) Dir(name string) { n.dirs = n.note(n.dirs, name) }

func (n *Needs) note(list []string, name string) []string {
	if name == "" || slices.Contains(list, name) {
		return list
	}
	if n.before == nil {
		n.before = map[string]fs.FileInfo{}
	}
	if _, known := n.before[name]; !known {
		n.before[name] = stat(name)
	}
	return append(list, name)
}

// Watch keeps notifications on the places at which some paths can change. It is
// not safe for concurrent use.
type Watch struct {
	fs *fsnotify.Watcher // nil: only rescans find changes
	// names are the real paths whose replacing matters, all the directories in
	// which everything does.
	names, all map[string]struct{}
	have       map[string]fs.FileInfo // directories that are watched
	files      map[string]fs.FileInfo // as before they were last read; nil if not there
	missing    []string               // directories that cannot be watched
	movesOnly  bool                   // what is written in place is no change
}

// New makes a watch on nothing yet. w, which stays the caller's to close, may be
// nil: then only Changed finds changes. With movesOnly, what is written in place
// is no change.
func New(w *fsnotify.Watcher, movesOnly bool) *Watch {
	return &Watch{fs: w, have: map[string]fs.FileInfo{}, movesOnly: movesOnly}
}

// Events are what Meaning explains; nil, if there are none, as Errors.
func (w *Watch) Events() <-chan fsnotify.Event {
	if w.fs == nil {
		return nil
	}
	return w.fs.Events
}

// Errors say that notifications were lost.
func (w *Watch) Errors() <-chan error {
	if w.fs == nil {
		return nil
	}
	return w.fs.Errors
}

// Follow makes the watch one on the files and directories that a reading needed. It
// reports whether a directory is new to it: what happened there before is not known.
func (w *Watch) Follow(l *Needs) (fresh bool) {
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
func (w *Watch) place(places map[string]struct{}) (fresh bool) {
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

// Change says what an event may mean.
type Change uint8

// What an event means.
const (
	Nothing Change = iota
	Written        // something is being written to
	Moved          // something has taken a place
)

// Meaning explains a notification.
func (w *Watch) Meaning(e fsnotify.Event) Change {
	name := filepath.Clean(e.Name)
	_, named := w.names[name]
	_, within := w.all[filepath.Dir(name)]
	switch {
	case e.Has(fsnotify.Create) && (named || within):
		return Moved
	case w.movesOnly:
	case e.Has(fsnotify.Write) && named:
		return Written
	case e.Has(fsnotify.Remove|fsnotify.Rename) && named:
		return Written // another one may follow
	}
	return Nothing
}

// Changed looks whether something has changed that was not announced.
func (w *Watch) Changed() bool {
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

// Missing are the directories that cannot be watched: changes there are found by
// Changed alone.
func (w *Watch) Missing() []string { return w.missing }

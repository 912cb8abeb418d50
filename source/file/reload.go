package file

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/errgroup"

	"github.com/xebec-proxy/xebec/source"
)

// reload is the state of one Run. It belongs to Run's goroutine.
type reload struct {
	root   string
	sink   source.Sink
	watch  *watcher
	exam   *examiner
	tree   *tree
	window window

	scan    *scan
	rootErr error
	// relist is when something last happened that only a new scan can tell; zero
	// if nothing did since the last one.
	relist time.Time
	// pending are the paths to look at, failed those that could not be read.
	pending map[string]*pending
	failed  map[string]error
	states  states

	// owed says that the sink has had no batch yet, or refused the last one;
	// sinkErr says why, good is when it last accepted one.
	owed    bool
	sinkErr error
	good    time.Time
}

func newReload(s *Source, sink source.Sink, w *watcher) *reload {
	return &reload{
		root: s.dir, sink: sink, watch: w, exam: s.examiner(), tree: newTree(s.opts.strict),
		window:  window{quiet: s.opts.quiet, max: s.opts.max},
		pending: map[string]*pending{}, failed: map[string]error{}, states: newStates(), owed: true,
	}
}

// lookAround lists the directory anew, watches what it finds, and makes
// everything pending whose state differs, as changed at the given time. It
// reports whether any of it was not pending before.
func (r *reload) lookAround(at time.Time) (fresh bool) {
	r.relist = time.Time{}
	// A folder can change between being listed and being watched, so it is
	// listed again until there is nothing new to watch; a tree that keeps growing
	// is left to the next event.
	for range 5 {
		r.scan, r.rootErr = lookAround(r.root)
		if !r.watch.sync(r.scan.watch()) {
			break
		}
	}
	var rels []string
	for rel, info := range r.scan.files {
		if f := r.file(rel); f == nil || !sameStat(f, info) || r.failed[rel] != nil {
			rels = append(rels, rel)
		}
	}
	if r.rootErr == nil {
		for _, rel := range r.known() {
			if _, there := r.scan.files[rel]; !there && !r.scan.kept(rel) {
				rels = append(rels, rel)
			}
		}
	}
	return r.add(at, false, rels)
}

// file is the last state of a path; nil if it is not loaded.
func (r *reload) file(rel string) *loaded {
	if rel == GroupsFile {
		return r.tree.groupsFile
	}
	return r.tree.files[rel]
}

// known lists the paths that are loaded.
func (r *reload) known() []string {
	l := slices.Collect(maps.Keys(r.tree.files))
	if r.tree.groupsFile != nil {
		l = append(l, GroupsFile)
	}
	return l
}

// add makes paths pending. told says that their bytes may have changed even if
// size and time have not. It reports whether one was not pending before.
func (r *reload) add(at time.Time, told bool, rels []string) (fresh bool) {
	for _, rel := range rels {
		p := r.pending[rel]
		if p == nil {
			fresh = true
			p = &pending{}
			r.pending[rel] = p
		}
		p.last = at
		p.told = p.told || told
	}
	return fresh
}

// event takes a notification.
func (r *reload) event(now time.Time, e fsnotify.Event) {
	all, rels := r.scan.affected(e)
	switch {
	case all:
		r.changedSomewhere(now)
	case len(rels) > 0:
		r.window.note(now, !r.add(now, true, rels))
	}
}

// drain takes the notifications that are waiting.
func (r *reload) drain(now time.Time) {
	for {
		select {
		case e := <-r.watch.events():
			r.event(now, e)
		default:
			return
		}
	}
}

// changedSomewhere asks for a new scan.
func (r *reload) changedSomewhere(now time.Time) {
	r.window.note(now, !r.relist.IsZero())
	r.relist = now
}

// rescan looks for what no notification told.
func (r *reload) rescan(now time.Time) {
	if r.lookAround(now) {
		r.window.note(now, false)
	}
	if r.owed && len(r.pending) == 0 {
		r.deliver(now)
	}
}

// attempt looks at everything pending, and delivers it if all of it is
// finished; at the end of the window, what of it is. It reports whether it
// came to an end.
func (r *reload) attempt(now time.Time) bool {
	if !r.relist.IsZero() {
		r.lookAround(r.relist)
	}
	rels := slices.Sorted(maps.Keys(r.pending))
	looks := r.examine(rels, now)
	if now.Before(r.window.deadline()) {
		for _, l := range looks {
			if l.outcome == unfinished {
				r.window.later(now)
				return false
			}
		}
	}
	for i, rel := range rels {
		if looks[i].outcome != unfinished {
			delete(r.pending, rel)
			r.take(rel, looks[i])
		}
	}
	r.window.done(now, len(r.pending) > 0)
	r.deliver(now)
	return true
}

// examine looks at several paths at once.
func (r *reload) examine(rels []string, now time.Time) []look {
	looks := make([]look, len(rels))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, rel := range rels {
		p, before := r.pending[rel], r.file(rel)
		g.Go(func() error {
			looks[i] = r.exam.examine(rel, p, before, now)
			return nil
		})
	}
	_ = g.Wait()
	return looks
}

// take brings what was found at one path into the tree.
func (r *reload) take(rel string, l look) {
	delete(r.failed, rel)
	r.states.touch(rel)
	switch l.outcome {
	case failed:
		r.failed[rel] = l.err
	case same:
		if f := r.file(rel); f != nil && l.file != nil {
			f.info, f.read = l.file.info, l.file.read
		}
	case gone:
		if rel == GroupsFile {
			r.tree.dropGroups()
		} else {
			r.tree.drop(rel)
		}
	case changed:
		if rel == GroupsFile {
			r.tree.putGroups(l.file, r.exam.path(rel), l.data)
		} else {
			r.tree.put(l.file, *l.content)
		}
	}
}

// deliver gives the sink what it lacks. Nothing is delivered as long as the
// directory has a groups.yaml that could never be read: nobody knows then who
// may get what.
func (r *reload) deliver(now time.Time) {
	if r.undecided() {
		return
	}
	b, some := r.tree.batch()
	if !some && !r.owed {
		return
	}
	if r.sinkErr = r.sink.Apply(b); r.sinkErr != nil {
		r.owed = true
		return
	}
	r.tree.accepted()
	r.owed, r.good = false, now
}

// undecided reports that there is a groups.yaml of which no version could be
// read so far.
func (r *reload) undecided() bool {
	unread := r.failed[GroupsFile] != nil && r.tree.groupsFile == nil && !r.tree.decided
	return unread || r.tree.undecided()
}

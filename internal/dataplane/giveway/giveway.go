// Package giveway lets requests go first on a core that they share with work on
// the configuration.
//
// Linux decides who has a core when somebody wakes, and at its tick: a thread that
// applies changes can keep a core for a whole slice of 3 to 4 ms while the worker
// on it is ready. So such work gives the core away by itself, between its pieces.
package giveway

import (
	"sync/atomic"
	"time"
)

const (
	// least is how long work keeps a core before it gives it away: to do so costs a
	// few microseconds.
	least = 50 * time.Microsecond
	// share is how much longer than it works others may keep the core.
	share = 16
	// pause is how long nothing was done, at least, when work begins anew.
	pause = 2 * time.Millisecond
)

// Work is work in pieces, of one goroutine at a time or of several: then each
// may keep the core for as long as one alone. Make it with [New]. Safe for
// concurrent use.
type Work struct {
	yield  func()
	began  time.Time
	since  atomic.Int64 // when the core was had back, counted from began
	waited atomic.Int64 // how long it was away the last time
	ended  atomic.Int64 // when the last piece did
}

// New is work that begins.
func New() *Work { return &Work{yield: yield, began: time.Now()} }

// Begin is to be called before the first piece of work that comes now and then, such as
// an update: when nothing was done for a while, others had the core already.
func (w *Work) Begin() {
	at := int64(time.Since(w.began))
	if at-w.ended.Load() > int64(pause) {
		w.since.Store(at)
		w.waited.Store(0)
	}
}

// Between is to be called between two pieces of work. It lets who is ready on the
// core go first, and returns when they have had their turn; at once if nobody is
// ready, or if the work has not lasted for 50 µs. On a core that others never leave
// by themselves work would get 50 µs of each of their slices: there it keeps the core
// for a sixteenth of the time that it has waited for it.
func (w *Work) Between() {
	at := time.Since(w.began)
	w.ended.Store(int64(at))
	if at-time.Duration(w.since.Load()) < max(least, time.Duration(w.waited.Load())/share) {
		return
	}
	w.yield()
	back := time.Since(w.began)
	w.since.Store(int64(back))
	w.ended.Store(int64(back))
	w.waited.Store(int64(back - at))
}

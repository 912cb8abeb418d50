package file

import "time"

// window decides when pending changes are looked at: one that comes alone at
// once, a burst when nothing has happened for quiet, at most max after its
// first change. It knows times only by what it is told.
type window struct {
	quiet, max time.Duration

	waiting bool      // something is pending
	burst   bool      // more than one change came close together
	first   time.Time // when the present wait began
	last    time.Time // the last change, also of waits that are over
	retry   time.Time // not before this, after a look that found something unfinished
	initial bool      // it is the first load, which is no change
}

// begin opens the window for the first load.
func (w *window) begin(now time.Time) {
	w.waiting, w.first, w.last, w.initial = true, now, now, true
}

// note records a change at now. again says that it concerns what is pending
// already: a file that is being written announces itself many times.
func (w *window) note(now time.Time, again bool) {
	switch {
	case !w.waiting:
		w.burst = !w.last.IsZero() && now.Sub(w.last) < w.quiet
		w.waiting, w.first, w.retry = true, now, time.Time{}
	case !again:
		w.burst = true
	default:
		w.retry = time.Time{}
	}
	w.last = now
}

// due is when to look next; false if nothing is pending.
func (w *window) due() (time.Time, bool) {
	if !w.waiting {
		return time.Time{}, false
	}
	at := w.first
	if w.burst {
		at = earlier(w.last.Add(w.quiet), w.deadline())
	}
	if w.retry.After(at) {
		at = w.retry
	}
	return at, true
}

// deadline is when what is finished goes out without what is not.
func (w *window) deadline() time.Time { return w.first.Add(w.max) }

// later puts the next look off after one that found something unfinished:
// soon while the change is fresh, for a writer is about to finish, less often
// after that.
func (w *window) later(now time.Time) {
	step := w.quiet
	if now.Before(w.last.Add(w.quiet)) {
		step = min(max(w.quiet/10, time.Millisecond), w.last.Add(w.quiet).Sub(now))
	}
	w.retry = now.Add(step)
}

// done ends the wait; rest says that something is pending still, which begins
// a new one.
func (w *window) done(now time.Time, rest bool) {
	if w.initial && !rest {
		w.initial, w.last = false, time.Time{}
	}
	w.waiting, w.burst, w.retry = rest, rest, time.Time{}
	w.first = now
	if rest {
		w.retry = now.Add(w.quiet)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

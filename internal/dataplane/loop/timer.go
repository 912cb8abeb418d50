package loop

import (
	"math/bits"
	"time"
)

// Timer calls a function on its loop. It is made once with Init, as a part of
// the object it belongs to, and set as often as is wanted: pushing a deadline
// back, the common case, is one store. Confined to the loop.
type Timer struct {
	loop       *Loop
	fn         func()
	deadline   time.Duration // 0: not set
	linked     int64         // the tick and the slot that it is linked at; 0: it is not
	prev, next *Timer
}

// slotBits are the lower ones of linked, which have the slot's number and 1. There is
// a timer in every idle connection, with no room for more.
const slotBits = 9

// Init binds the timer to a loop and a function. It must not be set.
func (t *Timer) Init(l *Loop, fn func()) { t.loop, t.fn = l, fn }

// Set makes the timer fire once after d, instead of when it was to fire.
func (t *Timer) Set(d time.Duration) {
	t.deadline = max(t.loop.now+d, 1)
	tick := tickOf(t.deadline)
	if t.linked != 0 {
		if tick >= t.linked>>slotBits {
			return // found to be early when its slot comes
		}
		t.unlink()
	}
	t.loop.wheel.link(t, tick)
}

// Stop makes sure that the timer does not fire before it is set again.
func (t *Timer) Stop() { t.deadline = 0 }

// Left is how long a timer that is set has to run.
func (t *Timer) Left() time.Duration { return max(t.deadline-t.loop.now, 0) }

// Active reports whether the timer is set.
func (t *Timer) Active() bool { return t.deadline != 0 }

// Unlink is Stop for a timer whose object is given up: the loop forgets it.
func (t *Timer) Unlink() {
	t.deadline = 0
	if t.linked != 0 {
		t.unlink()
	}
}

func (t *Timer) unlink() {
	w := &t.loop.wheel
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		w.slots[t.linked&(1<<slotBits-1)-1] = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	w.count--
	t.prev, t.next, t.linked = nil, nil, 0
}

// tickLength is the resolution of timers. They never fire early.
const tickLength = time.Millisecond

func tickOf(d time.Duration) int64 { return int64((d + tickLength - 1) / tickLength) }

const (
	levelBits = 6
	slots     = 1 << levelBits
	levels    = 6 // 2^36 ticks: two years
)

// wheel is a hierarchical timing wheel.
type wheel struct {
	slots [levels * slots]*Timer // the first of each; the levels one after another
	busy  [levels]uint64         // a bit for each slot that may hold timers
	tick  int64                  // every tick up to this one was handled
	count int
}

func (w *wheel) init(now time.Duration) { w.tick = int64(now / tickLength) }

// link puts a timer where it will be found at a tick that is still to come.
func (w *wheel) link(t *Timer, tick int64) { w.place(t, max(tick, w.tick+1)) }

func (w *wheel) place(t *Timer, tick int64) {
	level := 0
	for level < levels-1 && (tick>>(levelBits*(level+1))) != (w.tick>>(levelBits*(level+1))) {
		level++
	}
	i := (tick >> (levelBits * level)) & (slots - 1)
	n := int64(level)*slots + i
	s := &w.slots[n]
	t.linked, t.prev, t.next = tick<<slotBits|(n+1), nil, *s
	if *s != nil {
		(*s).prev = t
	}
	*s = t
	w.busy[level] |= 1 << i
	w.count++
}

// next is how long it is until a slot has to be looked at, at least: one whose
// timers fire or, on a higher level, go down to the next.
func (w *wheel) next(now time.Duration) time.Duration {
	if w.count == 0 {
		return idleWait
	}
	for level := range levels {
		shift := levelBits * level
		at := w.tick >> shift
		if ahead := w.busy[level] >> (at & (slots - 1)) >> 1; ahead != 0 {
			slot := at + 1 + int64(bits.TrailingZeros64(ahead))
			return max(time.Duration(slot<<shift)*tickLength-now, 0)
		}
	}
	return idleWait
}

// advance fires what is due.
func (w *wheel) advance(now time.Duration) {
	to := int64(now / tickLength)
	if w.count == 0 {
		w.tick = max(to, w.tick)
		return
	}
	for w.tick < to {
		w.tick++
		if w.tick&(slots-1) == 0 {
			w.cascade()
		} else if w.busy[0]>>(uint(w.tick)&(slots-1)) == 0 {
			// The rest of this turn is empty.
			w.tick = min(to, w.tick|(slots-1))
			continue
		}
		w.fire(0, w.tick&(slots-1))
	}
}

// cascade brings the timers of higher levels whose time has come down.
func (w *wheel) cascade() {
	for level := 1; level < levels; level++ {
		i := (w.tick >> (levelBits * level)) & (slots - 1)
		w.redistribute(level, i)
		if i != 0 {
			return
		}
	}
}

func (w *wheel) redistribute(level int, i int64) {
	s := &w.slots[int64(level)*slots+i]
	w.busy[level] &^= 1 << i
	for t := *s; t != nil; t = *s {
		t.unlink()
		if t.deadline == 0 {
			continue
		}
		w.place(t, max(tickOf(t.deadline), w.tick))
	}
}

func (w *wheel) fire(level int, i int64) {
	if w.busy[level]&(1<<i) == 0 {
		return
	}
	w.busy[level] &^= 1 << i
	s := &w.slots[int64(level)*slots+i]
	for t := *s; t != nil; t = *s {
		t.unlink()
		switch tick := tickOf(t.deadline); {
		case t.deadline == 0:
		case tick > w.tick:
			w.link(t, tick)
		default:
			t.deadline = 0
			t.fn()
		}
	}
}

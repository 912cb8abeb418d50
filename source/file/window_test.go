package file

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func testWindow() window { return window{quiet: 20 * time.Millisecond, max: 500 * time.Millisecond} }

func TestWindow(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type step struct {
		ms    int
		again bool
		done  bool // the look found everything finished
		later bool // the look found something unfinished
		due   int  // in ms afterwards; -1 for never
	}
	tests := map[string][]step{
		"alone":                               {{ms: 0, due: 0}, {ms: 1, done: true, due: -1}},
		"two far apart":                       {{ms: 0, due: 0}, {ms: 1, done: true, due: -1}, {ms: 30, due: 30}},
		"two in succession":                   {{ms: 0, due: 0}, {ms: 1, done: true, due: -1}, {ms: 5, due: 25}},
		"two before the first look":           {{ms: 0, due: 0}, {ms: 0, due: 20}},
		"each change puts a burst off":        {{ms: 0, due: 0}, {ms: 0, due: 20}, {ms: 10, due: 30}, {ms: 25, due: 45}},
		"but not longer than the longest":     {{ms: 0, due: 0}, {ms: 0, due: 20}, {ms: 490, due: 500}, {ms: 499, due: 500}},
		"the same again is no burst":          {{ms: 0, due: 0}, {ms: 1, again: true, due: 0}},
		"unfinished is looked at soon":        {{ms: 0, due: 0}, {ms: 0, later: true, due: 2}, {ms: 2, later: true, due: 4}},
		"less often when it is quiet":         {{ms: 0, due: 0}, {ms: 20, later: true, due: 40}, {ms: 40, later: true, due: 60}},
		"an announcement cuts the wait short": {{ms: 0, due: 0}, {ms: 30, later: true, due: 50}, {ms: 31, again: true, due: 0}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			w := testWindow()
			for i, s := range steps {
				switch {
				case s.done:
					w.done(at(s.ms), false)
				case s.later:
					w.later(at(s.ms))
				default:
					w.note(at(s.ms), s.again)
				}
				due, waiting := w.due()
				if waiting != (s.due >= 0) || waiting && !due.Equal(at(s.due)) {
					t.Fatalf("step %d: due at %v ms, %v, want %d", i, due.Sub(start).Milliseconds(), waiting, s.due)
				}
			}
		})
	}
}

// However changes come, what is pending is due at the latest when the window
// ends, and a burst not before it was quiet.
func TestWindowBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := testWindow()
		now := time.Unix(1000, 0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ms")) * time.Millisecond)
			if due, waiting := w.due(); waiting && !now.Before(due) {
				w.done(now, false)
			}
			w.note(now, rapid.Bool().Draw(t, "again"))
			due, waiting := w.due()
			switch {
			case !waiting:
				t.Fatal("a change is pending but nothing is due")
			case due.After(w.first.Add(w.max)):
				t.Fatalf("due %v after the first change", due.Sub(w.first))
			case w.burst && due.Before(w.last.Add(w.quiet)) && due.Before(w.first.Add(w.max)):
				t.Fatalf("a burst is due %v after its last change", due.Sub(w.last))
			case !w.burst && due.After(now):
				t.Fatal("a lone change is put off")
			}
		}
	})
}

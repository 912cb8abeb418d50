package demand

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWaits plays waits, cancels and answers at random beside a list of what is
// to be resumed.
func TestWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var asked, left []string
		s := New(func(k Key) { asked = append(asked, k.Name) }, func(k Key) { left = append(left, k.Name) })
		waits := make([]Wait, 5)
		of := map[int]string{}
		var order, resumed []int
		var wantLeft []string
		open := map[string]bool{}
		leave := func(i int, answered bool) {
			name, waits := of[i]
			delete(of, i)
			order = slices.DeleteFunc(order, func(x int) bool { return x == i })
			if waits && !answered && !slices.ContainsFunc(order, func(x int) bool { return of[x] == name }) {
				delete(open, name)
				wantLeft = append(wantLeft, name)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(waits)-1).Draw(t, "who")
			name := fmt.Sprint("k", rapid.IntRange(0, 2).Draw(t, "key"))
			asked, resumed, left, wantLeft = nil, nil, nil, nil
			var wantAsked []string
			var wantResumed []int
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				leave(i, false)
				of[i], order = name, append(order, i)
				if !open[name] {
					wantAsked = []string{name}
				}
				open[name] = true
				s.Add(&waits[i], Key{Name: name}, func() { resumed = append(resumed, i) })
			case 1:
				leave(i, false)
				waits[i].Cancel()
			case 2:
				for _, w := range slices.Clone(order) {
					if of[w] == name {
						wantResumed = append(wantResumed, w)
						leave(w, true)
					}
				}
				delete(open, name)
				s.Answer(Key{Name: name})
			}
			if !slices.Equal(asked, wantAsked) || !slices.Equal(resumed, wantResumed) || !slices.Equal(left, wantLeft) {
				t.Fatalf("asked %v, want %v; resumed %v, want %v; left %v, want %v", asked, wantAsked, resumed, wantResumed, left, wantLeft)
			}
			if s.Len() != len(open) {
				t.Fatalf("%d keys are open, want %d", s.Len(), len(open))
			}
		}
	})
}

// TestAgain waits again for the same key, and ends the waiting of another, while
// those who wait are let go on.
func TestAgain(t *testing.T) {
	asked := 0
	s := New(func(Key) { asked++ }, func(k Key) { t.Errorf("%v is left", k) })
	var a, b, c Wait
	var log []string
	k := Key{Name: "k"}
	s.Add(&a, k, func() {
		log = append(log, "a")
		b.Cancel()
		s.Add(&a, k, func() { log = append(log, "a again") })
	})
	s.Add(&b, k, func() { log = append(log, "b") })
	s.Add(&c, k, func() { log = append(log, "c") })
	s.Answer(k)
	if !slices.Equal(log, []string{"a", "c"}) || asked != 2 {
		t.Errorf("%q, asked %d times", log, asked)
	}
	s.Answer(k)
	s.Answer(k)
	if !slices.Equal(log, []string{"a", "c", "a again"}) {
		t.Errorf("%q", log)
	}
}

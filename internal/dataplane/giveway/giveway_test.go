package giveway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pieces works in pieces of 10 µs beside others that keep the core for a while each time
// they get it, and returns for how long it worked and waited, and its longest
// time without giving way.
func pieces(n int, others time.Duration) (worked, waited, longest time.Duration) {
	w := New()
	var run time.Duration
	w.yield = func() {
		time.Sleep(others)
		waited += others
		run = 0
	}
	for range n {
		w.Between()
		time.Sleep(10 * time.Microsecond)
		worked += 10 * time.Microsecond
		run += 10 * time.Microsecond
		longest = max(longest, run)
	}
	return worked, waited, longest
}

func TestOthersGoFirst(t *testing.T) {
	tests := []struct {
		name    string
		others  time.Duration
		longest time.Duration
	}{
		{"nobody is ready", 0, 50 * time.Microsecond},
		{"a worker answers what has come", 300 * time.Microsecond, 50 * time.Microsecond},
		{"a worker without a pause", 4 * time.Millisecond, 250 * time.Microsecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				worked, waited, longest := pieces(10_000, test.others)
				if longest != test.longest {
					t.Errorf("it kept the core for %v, want %v", longest, test.longest)
				}
				if test.others > 0 && waited == 0 {
					t.Error("others never went first")
				}
				if worked*(share+1) < waited {
					t.Errorf("it had the core for %v of %v: others kept it away", worked, worked+waited)
				}
			})
		})
	}
}

// Work that comes now and then does not count the time in between as its own.
func TestWorkBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, given := New(), 0
		w.yield = func() { given++ }
		update := func(took time.Duration) {
			w.Begin()
			time.Sleep(took)
			w.Between()
		}
		for range 10 {
			time.Sleep(10 * time.Millisecond)
			update(40 * time.Microsecond)
		}
		if given != 0 {
			t.Errorf("small updates gave the core away %d times", given)
		}
		for range 10 { // without a pause
			update(40 * time.Microsecond)
		}
		if given != 5 {
			t.Errorf("ten in a row, of 40 µs each, gave the core away %d times, want 5", given)
		}
	})
}

func TestWorkOfSeveral(t *testing.T) {
	w := New()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				w.Between()
			}
		})
	}
	wg.Wait()
}

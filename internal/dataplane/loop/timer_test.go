package loop

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Timers fire once, not early, within a tick of the first advance past their
// deadline, whatever is set, moved and stopped meanwhile.
func TestTimersFollowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Loop{}
		l.now = time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "start"))
		l.wheel.init(l.now)
		const n = 8
		timers := make([]Timer, n)
		due := make([]time.Duration, n)
		fired := make([]int, n)
		for i := range timers {
			timers[i].Init(l, func() {
				if due[i] == 0 || l.now < due[i] {
					t.Fatalf("timer %d fired at %v, due %v", i, l.now, due[i])
				}
				due[i] = 0
				fired[i]++
			})
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [3]int64 {
			return [3]int64{rapid.Int64Range(0, 3).Draw(t, "op"), rapid.Int64Range(0, n-1).Draw(t, "timer"), rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "time") >> rapid.IntRange(0, 40).Draw(t, "shift")}
		}), 1, 60).Draw(t, "steps")
		for _, s := range steps {
			i, d := s[1], time.Duration(s[2])
			switch s[0] {
			case 0, 1:
				timers[i].Set(d)
				due[i] = max(l.now+d, 1)
			case 2:
				timers[i].Stop()
				due[i] = 0
			case 3:
				timers[i].Unlink()
				due[i] = 0
			}
			for target := l.now + d/2; l.now < target; {
				l.now = min(target, l.now+max(l.wheel.next(l.now), time.Microsecond))
				l.wheel.advance(l.now)
				for i, at := range due {
					if at != 0 && at+2*tickLength < l.now {
						t.Fatalf("timer %d was due at %v, it is %v", i, at, l.now)
					}
				}
			}
		}
	})
}

// A loop that waits for one timer looks at it a few times, however far it is.
func TestFarTimersAreSeldomLookedAt(t *testing.T) {
	for _, d := range []time.Duration{time.Second, time.Minute, time.Hour, 240 * time.Hour} {
		l := &Loop{now: 12345678 * time.Microsecond}
		l.wheel.init(l.now)
		fired := false
		var timer Timer
		timer.Init(l, func() { fired = true })
		timer.Set(d)
		looks := 0
		for end := l.now + d + 2*tickLength; !fired && l.now < end; looks++ {
			l.now += max(l.wheel.next(l.now), time.Microsecond)
			l.wheel.advance(l.now)
		}
		if !fired || looks > 2*levels {
			t.Errorf("%v: fired %v after %d looks", d, fired, looks)
		}
	}
}

func BenchmarkTimerReset(b *testing.B) {
	l := &Loop{}
	l.wheel.init(0)
	var t Timer
	t.Init(l, func() {})
	for b.Loop() {
		t.Set(time.Minute)
	}
}

package overload

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// xorshift is a source of random numbers.
type xorshift uint64

func (x *xorshift) Random() uint64 {
	*x ^= *x << 13
	*x ^= *x >> 7
	*x ^= *x << 17
	return uint64(*x)
}

// Partly proves OV-03: an action is taken with the probability that is its level.
func TestLevel(t *testing.T) {
	const n = 100_000
	x := xorshift(88172645463325252)
	var l Level
	if l.Takes(nil) {
		t.Error("an action that was never set is taken")
	}
	for _, share := range []float64{-1, 0, 1e-30, 0.1, 0.5, 0.999, 1 - 1e-16, 1, 2} {
		l.Set(share)
		got := 0
		for range n {
			if l.Takes(&x) {
				got++
			}
		}
		want := min(max(share, 0), 1) * n
		if math.Abs(float64(got)-want) > 5*math.Sqrt(want*(1-want/n))+0.5 {
			t.Errorf("%v: taken %d times of %d", share, got, n)
		}
	}
	l.Set(1)
	if !l.Takes(largest{}) {
		t.Error("all is all")
	}
	if n := testing.AllocsPerRun(100, func() { l.Takes(&x) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type largest struct{}

func (largest) Random() uint64 { return math.MaxUint64 }

// Partly proves OV-03: the times of Envoy's documentation, and both ways to say the
// least.
func TestTimeouts(t *testing.T) {
	m := Timeouts{least: [timers]*least{ConnectionIdle: {time: 2 * time.Second}, StreamIdle: {share: 0.1}}}
	for _, c := range []struct {
		k     Timer
		d     time.Duration
		level float64
		want  time.Duration
	}{
		{ConnectionIdle, 600 * time.Second, 0, 600 * time.Second},
		{ConnectionIdle, 600 * time.Second, 0.7, 181400 * time.Millisecond},
		{ConnectionIdle, 600 * time.Second, 1, 2 * time.Second},
		{ConnectionIdle, time.Second, 1, time.Second}, // it is never longer
		{StreamIdle, 600 * time.Second, 1, 60 * time.Second},
		{StreamIdle, 600 * time.Second, 0.5, 330 * time.Second},
		{Handshake, 600 * time.Second, 1, 600 * time.Second}, // not configured
	} {
		var f Factors
		f[c.k] = c.level
		m.Change(f, func() {})
		if got := m.Of(c.k, c.d); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("%d of %v at %v: %v, want %v", c.k, c.d, c.level, got, c.want)
		}
	}
	if got := (*Timeouts)(nil).Of(StreamIdle, time.Second); got != time.Second {
		t.Error(got)
	}
}

// Partly proves OV-03: however the levels change while a timer runs, it ends when it
// would have ended had it been set with the last of them.
func TestTimeoutsOfRunningTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Timeouts{least: [timers]*least{StreamIdle: {time: rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 20).Draw(t, "s")) * time.Second
		}).Draw(t, "least")}}}
		d := time.Duration(rapid.IntRange(1, 100).Draw(t, "d")) * time.Second
		gone, end := time.Duration(0), m.Of(StreamIdle, d)
		for range rapid.IntRange(0, 10).Draw(t, "changes") {
			step := time.Duration(rapid.IntRange(0, 30).Draw(t, "step")) * time.Second
			if gone+step >= end {
				return // it has ended
			}
			gone += step
			m.Change(Factors{StreamIdle: rapid.Float64Range(0, 1).Draw(t, "level")}, func() {
				end = gone + m.Left(StreamIdle, d, end-gone)
			})
			if want := max(m.Of(StreamIdle, d), gone); (end - want).Abs() > time.Microsecond {
				t.Fatalf("it ends after %v, want %v", end, want)
			}
			if end <= gone {
				return
			}
		}
	})
}

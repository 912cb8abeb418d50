package healthcheck

import (
	"testing"
	"time"
)

func scheduleOf(t *testing.T, fields string) schedule {
	t.Helper()
	c := clusterOf(t, `{"health_checks": [{`+fields+`}]}`)
	return newSchedule(c.GetHealthChecks()[0])
}

// Proves HK-07 for every state: which interval follows a result, with and without
// traffic, and what each is by default.
func TestIntervals(t *testing.T) {
	all := scheduleOf(t, `"interval": "1s", "unhealthy_interval": "2s", "unhealthy_edge_interval": "3s", "healthy_edge_interval": "4s",
		"no_traffic_interval": "5s", "no_traffic_healthy_interval": "6s"`)
	few := scheduleOf(t, `"interval": "1s"`)
	some := scheduleOf(t, `"interval": "1s", "unhealthy_interval": "2s", "no_traffic_interval": "5s"`)
	for _, tt := range []struct {
		passed             bool
		change             Change
		traffic            bool
		all, few, someSecs int
	}{
		{true, Unchanged, true, 1, 1, 1},
		{true, Changed, true, 1, 1, 1},
		{true, Pending, true, 4, 1, 1},
		{false, Unchanged, true, 2, 1, 2},
		{false, Changed, true, 2, 1, 2},
		{false, Pending, true, 3, 1, 2},
		{true, Unchanged, false, 6, 60, 5},
		{true, Changed, false, 6, 60, 5},
		{true, Pending, false, 5, 60, 5},
		{false, Unchanged, false, 5, 60, 5},
		{false, Pending, false, 5, 60, 5},
	} {
		for _, x := range []struct {
			s    schedule
			want int
		}{{all, tt.all}, {few, tt.few}, {some, tt.someSecs}} {
			if got := x.s.next(tt.passed, tt.change, tt.traffic, limits{}, nil); got != time.Duration(x.want)*time.Second {
				t.Errorf("passed %v, change %d, traffic %v: %v, want %d s", tt.passed, tt.change, tt.traffic, got, x.want)
			}
		}
	}
}

// Proves HK-07 for jitter and the limits of the runtime.
func TestJitter(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name, fields string
		limits       limits
		random       uint64
		first, next  time.Duration
	}{
		{"none", `"interval": "10s"`, limits{}, 7, 0, 10 * s},
		{"a fixed one", `"interval": "10s", "interval_jitter": "2s"`, limits{}, 1999, 0, 11*s + 999*time.Millisecond},
		{"it is below the maximum", `"interval": "10s", "interval_jitter": "2s"`, limits{}, 2000, 0, 10 * s},
		{"a part", `"interval": "10s", "interval_jitter_percent": 30`, limits{}, 2999, 0, 12*s + 999*time.Millisecond},
		{"both", `"interval": "10s", "interval_jitter_percent": 30, "interval_jitter": "1s"`, limits{}, 500, 0, 11 * s},
		{"too small to matter", `"interval": "0.001s", "interval_jitter_percent": 10`, limits{}, 5, 0, time.Millisecond},
		{"the first check", `"interval": "10s", "initial_jitter": "3s"`, limits{}, 2500, 2500 * time.Millisecond, 10 * s},
		{"never at once", `"interval": "10s", "initial_jitter": "3s"`, limits{}, 3000, time.Millisecond, 10 * s},
		{"not sooner than the runtime says", `"interval": "10s"`, limits{least: 20 * s}, 0, 0, 20 * s},
		{"nor later", `"interval": "10s"`, limits{most: 2 * s}, 0, 0, 2 * s},
		{"the minimum wins", `"interval": "10s"`, limits{least: 3 * s, most: 2 * s}, 0, 0, 3 * s},
		{"less than a millisecond", `"interval": "0.0001s"`, limits{}, 0, 0, time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sch := scheduleOf(t, tt.fields)
			random := func() uint64 { return tt.random }
			if got := sch.first(tt.limits, random); got != tt.first {
				t.Errorf("first after %v, want %v", got, tt.first)
			}
			if got := sch.next(true, Unchanged, true, tt.limits, random); got != tt.next {
				t.Errorf("next after %v, want %v", got, tt.next)
			}
		})
	}
}

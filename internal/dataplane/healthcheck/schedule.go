package healthcheck

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// schedule is how long to wait between checks (HK-07). It counts in milliseconds,
// as Envoy does.
type schedule struct {
	interval, unhealthy         time.Duration
	healthyEdge, unhealthyEdge  time.Duration
	noTraffic, noTrafficHealthy time.Duration
	initialJitter, jitter       time.Duration
	jitterPercent               uint32
}

// limits are what the runtime allows between checks: health_check.min_interval and
// health_check.max_interval. A maximum of 0 is none.
type limits struct{ least, most time.Duration }

const defaultNoTraffic = time.Minute

func newSchedule(c *corev3.HealthCheck) schedule {
	or := func(d *durationpb.Duration, def time.Duration) time.Duration {
		if d == nil {
			return def
		}
		return d.AsDuration().Truncate(time.Millisecond)
	}
	s := schedule{
		interval: or(c.GetInterval(), 0), noTraffic: or(c.GetNoTrafficInterval(), defaultNoTraffic),
		initialJitter: or(c.GetInitialJitter(), 0), jitter: or(c.GetIntervalJitter(), 0), jitterPercent: c.GetIntervalJitterPercent(),
	}
	s.noTrafficHealthy = or(c.GetNoTrafficHealthyInterval(), s.noTraffic)
	s.unhealthy = or(c.GetUnhealthyInterval(), s.interval)
	s.unhealthyEdge = or(c.GetUnhealthyEdgeInterval(), s.unhealthy)
	s.healthyEdge = or(c.GetHealthyEdgeInterval(), s.interval)
	return s
}

// first is the time before the first check.
func (s *schedule) first(l limits, random func() uint64) time.Duration {
	if s.initialJitter == 0 {
		return 0
	}
	return s.spread(0, s.initialJitter, l, random)
}

// next is the time after a check. traffic tells that the cluster ever had a
// connection.
func (s *schedule) next(passed bool, c Change, traffic bool, l limits, random func() uint64) time.Duration {
	return s.spread(s.base(passed, c, traffic), s.jitter, l, random)
}

func (s *schedule) base(passed bool, c Change, traffic bool) time.Duration {
	switch {
	case !traffic && passed && c != Pending:
		return s.noTrafficHealthy
	case !traffic:
		return s.noTraffic
	case passed && c == Pending:
		return s.healthyEdge
	case passed:
		return s.interval
	case c == Pending:
		return s.unhealthyEdge
	}
	return s.unhealthy
}

// spread adds both jitters and keeps to the limits; it is never 0.
func (s *schedule) spread(d, jitter time.Duration, l limits, random func() uint64) time.Duration {
	if most := d * time.Duration(s.jitterPercent) / 100; most >= time.Millisecond {
		d += below(most, random)
	}
	if jitter >= time.Millisecond {
		d += below(jitter, random)
	}
	if l.most > 0 {
		d = min(d, l.most)
	}
	return max(d, l.least, time.Millisecond)
}

// below is a random number of milliseconds under d, which is one at least.
func below(d time.Duration, random func() uint64) time.Duration {
	return time.Duration(random()%uint64(d/time.Millisecond)) * time.Millisecond //nolint:gosec // less than d
}

package proxy

import (
	"os"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// usage is what the process holds, in bytes.
type usage struct{ allocated, heap, physical int64 }

func memory() usage {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(s)
	u := usage{allocated: int64(s[0].Value.Uint64()), heap: int64(s[1].Value.Uint64())} //nolint:gosec // sizes
	u.physical = u.heap
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				u.physical = pages * int64(os.Getpagesize())
			}
		}
	}
	return u
}

// logCounts counts what access-log files do.
type logCounts struct {
	main     *stats.Main
	counters map[accesslog.Stat]stats.Counter
	gauges   map[accesslog.Stat]stats.Gauge
}

// newLogCounts registers the statistics filesystem.*.
func newLogCounts(r *stats.Registry) *logCounts {
	c := &logCounts{main: r.Main(), counters: map[accesslog.Stat]stats.Counter{}, gauges: map[accesslog.Stat]stats.Gauge{}}
	for _, s := range accesslog.Stats() {
		if name := s.Name(); s == accesslog.TotalBuffered {
			c.gauges[s] = r.Scope("filesystem").Gauge(name)
		} else {
			c.counters[s] = r.Scope("filesystem").Counter(name)
		}
	}
	return c
}

// Add implements accesslog.Counts.
func (c *logCounts) Add(s accesslog.Stat, n int64) {
	if g, ok := c.gauges[s]; ok {
		c.main.GaugeAdd(g, n)
		return
	}
	c.main.Add(c.counters[s], uint64(n)) //nolint:gosec // counters only grow
}

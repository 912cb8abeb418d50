package overload

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Memory is what the runtime tells of the process's memory, in bytes.
type Memory struct {
	// Live is what the last collection of garbage found in use, and Cycle that
	// collection's number.
	Live, Cycle uint64
	// Objects are those with garbage, and Free is held for objects to come.
	Objects, Free uint64
	// Other is what is in use besides objects: stacks and the runtime's own.
	Other uint64
}

// ReadMemory asks the runtime.
func ReadMemory() Memory {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/total:bytes"},
	}
	metrics.Read(s)
	n := func(i int) uint64 { return s[i].Value.Uint64() }
	return Memory{Live: n(0), Cycle: n(1), Objects: n(2), Free: n(3), Other: n(6) - n(5) - n(4) - n(3) - n(2)}
}

// used is what the process cannot do without: what was allocated since may be
// garbage, which goes when it has to.
func (m *Memory) used() uint64 { return min(m.Live, m.Objects) + m.Other }

// heap compares the memory in use with a limit (fixed_heap).
//
// What is in use is known as of the last collection. So that little is unknown, the
// limit is made the collector's too: it collects before the process holds more. And
// where an action depends on it, it is made to collect: a proxy that takes no more
// requests allocates nothing, and would not find out that it has become free.
type heap struct {
	most   func() uint64
	lowest float64 // the pressure at which an action begins
	read   func() Memory
	gc     collector
	now    func() time.Time

	cycle uint64    // the last collection that was seen
	since time.Time // when that was
	rest  time.Duration
}

// collector is what is asked of the garbage collector.
type collector interface {
	// collect collects, and returns when that is done.
	collect()
	// limit makes it collect before the process holds more than a monitor allows.
	limit(of *heap, bytes int64)
}

// Forced collections are at least so far apart, and take at most this part of the
// time.
const (
	leastRest = time.Second
	restShare = 10
)

func (m *heap) pressure() (float64, error) {
	most := m.most()
	m.gc.limit(m, int64(min(most, math.MaxInt64))) //nolint:gosec // it was looked at
	mem, now := m.read(), m.now()
	if mem.Cycle != m.cycle {
		m.cycle, m.since = mem.Cycle, now
	}
	p := float64(mem.used()) / float64(most)
	if p < m.lowest || now.Sub(m.since) < max(leastRest, m.rest) {
		return p, nil
	}
	m.gc.collect()
	mem = m.read()
	end := m.now()
	m.cycle, m.since, m.rest = mem.Cycle, end, restShare*end.Sub(now)
	return float64(mem.used()) / float64(most), nil
}

// goCollector is the runtime's collector. Its limit is left alone if the program's
// environment has set it.
type goCollector struct {
	mu     sync.Mutex
	own    bool
	limits map[*heap]int64 // nil: it has ended
}

func newGoCollector() *goCollector {
	return &goCollector{own: debug.SetMemoryLimit(-1) == math.MaxInt64, limits: map[*heap]int64{}}
}

func (*goCollector) collect() { runtime.GC() }

func (c *goCollector) limit(of *heap, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.own || c.limits == nil || c.limits[of] == bytes {
		return
	}
	c.limits[of] = bytes
	least := bytes
	for _, n := range c.limits {
		least = min(least, n)
	}
	debug.SetMemoryLimit(least)
}

// end gives the limit back.
func (c *goCollector) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own && len(c.limits) > 0 {
		debug.SetMemoryLimit(math.MaxInt64)
	}
	c.limits = nil
}

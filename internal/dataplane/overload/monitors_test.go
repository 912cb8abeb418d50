package overload

import (
	"maps"
	"math"
	"sync"
	"testing"
	"time"
)

// Partly proves OV-02: a pressure from a file.
func TestInjectedResource(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "1": 1, "0.25\n": 0.25, "1.01": -1, "-0.1": -1, "x": -1, "": -1, "NaN": -1, "inf": -1, "\x00": -1} {
		_, f := newEnv(t)
		f.put("p", text)
		m := &injected{file: "p", read: f.read}
		got, err := m.pressure()
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	_, f := newEnv(t)
	if _, err := (&injected{file: "none", read: f.read}).pressure(); err == nil {
		t.Error("a file that does not exist has a pressure")
	}
}

// Partly proves OV-02: the memory of a control group, of either version.
func TestCgroupMemory(t *testing.T) {
	v2 := func(used, limit string) map[string]string {
		return map[string]string{"/sys/fs/cgroup/memory.current": used, "/sys/fs/cgroup/memory.max": limit}
	}
	v1 := func(used, limit string) map[string]string {
		return map[string]string{"/sys/fs/cgroup/memory/memory.usage_in_bytes": used, "/sys/fs/cgroup/memory/memory.limit_in_bytes": limit}
	}
	both := v1("9", "10")
	maps.Copy(both, v2("1", "10"))
	for name, c := range map[string]struct {
		files map[string]string
		most  uint64
		want  float64 // -1: it fails; -2: there is none
	}{
		"version 2":                {v2("50\n", "100\n"), 0, 0.5},
		"version 1":                {v1("50\n", "200\n"), 0, 0.25},
		"both":                     {both, 0, 0.1},
		"unlimited":                {v2("50", "max"), 0, 0},
		"unlimited 1":              {v1("50", "-1"), 0, 0},
		"a lower limit":            {v2("50", "100"), 80, 0.625},
		"a higher limit":           {v2("50", "100"), 1000, 0.5},
		"a limit of its own":       {v2("50", "max"), 200, 0.25},
		"more than all":            {v2("300", "100"), 0, 3},
		"no number":                {v2("x", "100"), 0, -1},
		"no number for limit":      {v2("1", "x"), 0, -1},
		"empty":                    {v2("", "100"), 0, -1},
		"nothing":                  {v2("1", "0"), 0, -1},
		"too large":                {v2("1", "99999999999999999999999"), 0, -1},
		"no limit, so version 1":   {map[string]string{"/sys/fs/cgroup/memory.current": "1", "/sys/fs/cgroup/memory/memory.usage_in_bytes": "3", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "4"}, 0, 0.75},
		"no control group at all":  {nil, 0, -2},
		"only the limit is missed": {map[string]string{"/sys/fs/cgroup/memory.current": "1"}, 0, -2},
	} {
		f := &files{text: c.files}
		m, err := newCgroup(c.most, f.read)
		got := -2.0
		if err == nil {
			if got, err = m.pressure(); err != nil {
				got = -1
			}
		}
		if got != c.want {
			t.Errorf("%s: %v (%v), want %v", name, got, err, c.want)
		}
	}
	f := &files{text: v2("1", "4")}
	m, err := newCgroup(0, f.read)
	if err != nil {
		t.Fatal(err)
	}
	delete(f.text, "/sys/fs/cgroup/memory.max")
	if _, err := m.pressure(); err == nil {
		t.Error("a limit that has gone is none")
	}
}

// fakeCollector is a collector of a memory that the test makes.
type fakeCollector struct {
	mem    Memory
	live   uint64 // what a collection finds
	took   time.Duration
	now    time.Time
	forced int
	most   int64
}

func (c *fakeCollector) collect() {
	c.forced++
	c.mem.Live, c.mem.Objects = c.live, c.live
	c.mem.Cycle++
	c.now = c.now.Add(c.took)
}

func (c *fakeCollector) limit(_ *heap, n int64) { c.most = n }

// Partly proves OV-02: of the heap counts what a collection finds in use, not the
// garbage since; and where an action depends on it, there is a collection.
func TestFixedHeap(t *testing.T) {
	most := uint64(1000)
	c := &fakeCollector{now: time.Unix(1, 0), mem: Memory{Live: 300, Cycle: 1, Objects: 900, Free: 50, Other: 100}, live: 300}
	m := &heap{most: func() uint64 { return most }, lowest: 0.8, read: func() Memory { return c.mem }, gc: c, now: func() time.Time { return c.now }}
	look := func(want float64, forced int) {
		t.Helper()
		p, err := m.pressure()
		if err != nil || p != want || c.forced != forced {
			t.Errorf("%v with %d collections (%v), want %v with %d", p, c.forced, err, want, forced)
		}
	}
	look(0.4, 0)
	if c.most != 1000 {
		t.Errorf("the collector's limit is %d", c.most)
	}
	c.now = c.now.Add(time.Hour)
	look(0.4, 0)                     // nothing depends on it
	c.mem.Live, c.mem.Cycle = 850, 2 // load
	c.live = 200
	look(0.95, 0) // the collection was just now
	c.now = c.now.Add(leastRest - 1)
	look(0.95, 0)
	c.now, c.took = c.now.Add(1), 2*time.Second
	look(0.3, 1) // the load has gone, and nothing else would have told
	c.mem.Live, c.mem.Objects = 900, 900
	c.now = c.now.Add(19 * time.Second)
	look(1, 1) // what takes long is not done often
	c.now = c.now.Add(time.Second)
	look(0.3, 2)
	c.mem.Live, c.mem.Objects = 200, 100 // freed since
	look(0.2, 2)
	most = 500
	look(0.4, 2)
	if c.most != 500 {
		t.Errorf("the collector's limit is %d", c.most)
	}
	most = math.MaxUint64
	look(200.0/(1<<64), 2)
	if c.most != math.MaxInt64 {
		t.Errorf("the collector's limit is %d", c.most)
	}
}

// The runtime tells what the monitor asks, and its numbers fit together.
func TestReadMemory(t *testing.T) {
	m := ReadMemory()
	if m.Live == 0 || m.Cycle == 0 || m.Objects == 0 || m.Other == 0 || m.Other > 1<<30 {
		t.Errorf("%+v", m)
	}
}

// Partly proves OV-02: the limit of the heap by the runtime.
func TestFixedHeapByTheRuntime(t *testing.T) {
	env, _ := newEnv(t)
	n := uint64(0)
	env.Integer = func(key string) (uint64, bool) { return n, key == "k" && n < 100 }
	env.Memory = func() Memory { return Memory{Live: 10, Objects: 10} }
	m, err := New(parse(t, "resource_monitors: [{name: r, typed_config: {@heap, max_heap_size_bytes_runtime: {runtime_key: k, default_value: 40}}}]"), env)
	if err != nil {
		t.Fatal(err)
	}
	h := m.resources[0].monitor.(*heap)
	h.gc = &fakeCollector{}
	for _, c := range []struct {
		key  uint64
		want float64
	}{{100, 0.25}, {20, 0.5}, {0, 0.25}} {
		n = c.key
		if p, err := h.pressure(); err != nil || p != c.want {
			t.Errorf("%d: %v (%v), want %v", c.key, p, err, c.want)
		}
	}
}

// Partly proves OV-02 and OV-06: the limit of all connections is never passed,
// however many come at once, and what leaves makes room.
func TestConnections(t *testing.T) {
	limits := map[string]func() *Connections{
		"monitor": func() *Connections { c := NewConnections(); c.most = 10; return c },
		"runtime": func() *Connections { c := NewConnections(); c.SetRuntime(10, true); return c },
	}
	for name, make := range limits {
		c := make()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 1000 {
					if c.Enter(false) {
						if n := c.counted.Load(); c.most > 0 && n > 20 {
							t.Errorf("%d are counted", n)
						}
						c.Leave(false)
					}
				}
			})
		}
		all.Wait()
		if c.open.Load() != 0 || c.counted.Load() != 0 {
			t.Fatalf("%s: %d are left, %d counted", name, c.open.Load(), c.counted.Load())
		}
		for i := range 10 {
			if !c.Enter(false) {
				t.Fatalf("%s: number %d is refused", name, i)
			}
		}
		if c.Enter(false) {
			t.Fatalf("%s: number 11 is not refused", name)
		}
		if !c.Enter(true) {
			t.Errorf("%s: one that is exempt is refused", name)
		}
		c.Leave(false)
		// The monitor does not count what is exempt, the runtime's limit does.
		if got := c.Enter(false); got != (name == "monitor") {
			t.Errorf("%s: after one has left: %v", name, got)
		}
	}
	c := limits["monitor"]()
	c.SetRuntime(1, true)
	for range 5 {
		c.Enter(false)
	}
	if p := c.pressure(); p != 0.5 {
		t.Errorf("the pressure is %v: the runtime's limit is for those without the monitor", p)
	}
	c = NewConnections()
	c.SetRuntime(0, true)
	if c.Enter(false) {
		t.Error("a limit of 0 is a limit")
	}
	c.SetRuntime(math.MaxUint64, true)
	if !c.Enter(false) {
		t.Error("the largest limit is none")
	}
	c.SetRuntime(1, false)
	if !c.Enter(false) {
		t.Error("the limit has been taken away")
	}
}

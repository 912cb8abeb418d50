package overload

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// runUntilEnd runs a manager until the test ends.
func (m *Manager) runUntilEnd(t *testing.T, h Hooks) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// wants looks for statistics.
func wants(t *testing.T, env *Env, want ...string) {
	t.Helper()
	all := counted(t, env.Stats)
	for _, w := range want {
		if !slices.Contains(all, w) {
			t.Errorf("there is no %q in\n%s", w, strings.Join(all, "\n"))
		}
	}
}

// Proves OV-05. Partly proves OV-01 and OV-02: monitors are asked once an interval, 1s
// if none is given; what they say is counted, and who has not answered is not asked
// again.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, f := newEnv(t)
		stuck := make(chan struct{})
		asked := 0
		env.ReadFile = func(name string) ([]byte, error) {
			if name == "pipe" {
				asked++
				<-stuck
				return []byte("0.5"), nil
			}
			return f.read(name)
		}
		m, err := New(parse(t, `
resource_monitors:
- {name: r, typed_config: {@injected, filename: p}}
- {name: s, typed_config: {@injected, filename: pipe}}
- {name: envoy.resource_monitors.global_downstream_max_connections, typed_config: {@connections, max_active_downstream_connections: 4}}
actions:
- {name: envoy.overload_actions.stop_accepting_requests, triggers: [{name: r, threshold: {value: 0.9}}, {name: s, scaled: {scaling_threshold: 0, saturation_threshold: 1}}]}
`), env)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, env, "overload.refresh_interval_delay: No recorded values", "overload.r.pressure: 0", "overload.r.failed_updates: 0", "overload.s.skipped_updates: 0",
			"overload.envoy.overload_actions.stop_accepting_requests.active: 0", "overload.envoy.overload_actions.stop_accepting_requests.scale_percent: 0")
		if all := fmt.Sprint(counted(t, env.Stats)); strings.Contains(all, "connections.skipped_updates") {
			t.Error("connections are counted, not asked for")
		}
		m.runUntilEnd(t, Hooks{})
		f.put("p", "0.95")
		for range 5 {
			env.Connections.Enter(false)
		}
		step := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		step(999 * time.Millisecond)
		wants(t, env, "overload.r.pressure: 0")
		step(2 * time.Millisecond)
		wants(t, env, "overload.r.pressure: 95", "overload.envoy.overload_actions.stop_accepting_requests.active: 1", "overload.s.skipped_updates: 0",
			"overload.envoy.resource_monitors.global_downstream_max_connections.pressure: 100", "overload.envoy.resource_monitors.global_downstream_max_connections.failed_updates: 1")
		if !m.Levels.StopRequests.Takes(largest{}) {
			t.Error("workers do not see it")
		}
		f.put("p", "none")
		step(2 * time.Second)
		wants(t, env, "overload.r.pressure: 95", "overload.r.failed_updates: 2", "overload.s.skipped_updates: 2", "overload.s.pressure: 0",
			"overload.envoy.resource_monitors.global_downstream_max_connections.failed_updates: 1")
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		close(stuck)
		f.put("p", "0")
		step(time.Second)
		wants(t, env, "overload.s.pressure: 50", "overload.s.skipped_updates: 2", "overload.r.pressure: 0",
			"overload.envoy.overload_actions.stop_accepting_requests.active: 0", "overload.envoy.overload_actions.stop_accepting_requests.scale_percent: 50")
	})
}

// A monitor that never answers does not keep the proxy from ending.
func TestEndWithAStuckMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, _ := newEnv(t)
		stuck := make(chan struct{})
		env.ReadFile = func(string) ([]byte, error) { <-stuck; return nil, context.Canceled }
		m, err := New(parse(t, "refresh_interval: 0.25s\nresource_monitors: [{name: r, typed_config: {@injected, filename: p}}]"), env)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := m.Run(ctx, Hooks{}); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != 300*time.Millisecond+lastAnswers {
			t.Errorf("it took %v to end", d)
		}
		close(stuck)
	})
}

// Partly proves OV-03: shrink_heap gives back what is held without use, once an
// interval while it is saturated, if that is much.
func TestShrinkHeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, f := newEnv(t)
		mem, released := Memory{Live: 100, Objects: 150, Free: 50}, 0
		env.Memory, env.Release = func() Memory { return mem }, func() { released++ }
		m, err := New(parse(t, `
refresh_interval: 0.25s
resource_monitors: [{name: r, typed_config: {@injected, filename: p}}]
actions:
- name: envoy.overload_actions.shrink_heap
  triggers: [{name: r, scaled: {scaling_threshold: 0.5, saturation_threshold: 0.9}}]
  typed_config: {@shrink, timer_interval: 2s, max_unfreed_memory_bytes: 99}
`), env)
		if err != nil {
			t.Fatal(err)
		}
		m.runUntilEnd(t, Hooks{})
		const count = "overload.envoy.overload_actions.shrink_heap.shrink_count: "
		after := func(d time.Duration, pressure, counts string, want int) {
			t.Helper()
			f.put("p", pressure)
			time.Sleep(d)
			synctest.Wait()
			wants(t, env, count+counts)
			if released != want {
				t.Errorf("given back %d times, want %d", released, want)
			}
		}
		after(5*time.Second, "0.8", "0", 0) // not saturated
		after(4*time.Second, "0.9", "2", 2)
		mem.Free = 49
		after(4*time.Second, "0.9", "4", 2)
		after(4*time.Second, "0", "4", 2)
	})
}

// Partly proves OV-02: the collector keeps the process below the limit of the heap
// while there is one, unless the environment has set another.
func TestLimitOfTheCollector(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	debug.SetMemoryLimit(math.MaxInt64)
	c := newGoCollector()
	a, b := &heap{}, &heap{}
	limit := func(want int64) {
		t.Helper()
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("the limit is %d, want %d", got, want)
		}
	}
	c.limit(a, 2<<30)
	limit(2 << 30)
	c.limit(b, 3<<30)
	limit(2 << 30)
	c.limit(b, 1<<30)
	limit(1 << 30)
	c.limit(b, 4<<30)
	limit(2 << 30)
	c.end()
	limit(math.MaxInt64)
	c.limit(a, 1<<30) // too late
	limit(math.MaxInt64)
	debug.SetMemoryLimit(5 << 30)
	c = newGoCollector()
	c.limit(a, 1<<30)
	limit(5 << 30)
	c.end()
	limit(5 << 30)
}

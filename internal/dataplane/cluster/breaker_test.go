package cluster

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"pgregory.net/rapid"
)

// Proves CB-01: the limits, their defaults, and that of several thresholds of
// a priority the first counts.
func TestBreakerLimits(t *testing.T) {
	c, _ := build(t, object{"name": "c", "circuit_breakers": object{"thresholds": []object{
		{"max_connections": 1, "max_pending_requests": 2, "max_requests": 3, "max_retries": 4, "max_connection_pools": 5},
		{"max_connections": 99},
	}}}.String())
	d, h := c.Breaker(DefaultPriority), c.Breaker(HighPriority)
	got := []uint64{d.Cx.Max(), d.Pending.Max(), d.Request.Max(), d.MaxRetries(), d.CxPool.Max(), h.Cx.Max(), h.Pending.Max(), h.Request.Max(), h.MaxRetries(), h.CxPool.Max()}
	want := []uint64{1, 2, 3, 4, 5, 1024, 1024, 1024, 3, math.MaxUint64}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("limits %v, want %v", got, want)
			break
		}
	}
}

// Proves RT-26: the priorities have their own breakers.
func TestBreakerOfPriority(t *testing.T) {
	c, _ := build(t, `{"name":"c","circuit_breakers":{"thresholds":[{"max_requests":1}]}}`)
	d, h := c.Breaker(RoutePriorityOf(corev3.RoutingPriority_DEFAULT)), c.Breaker(RoutePriorityOf(corev3.RoutingPriority_HIGH))
	if !d.TryRequest() || d.TryRequest() {
		t.Error("max_requests 1 does not allow exactly one")
	}
	if !h.TryRequest() {
		t.Error("HIGH is affected by a full DEFAULT")
	}
}

// Proves CB-02: a connection over the limit can be forced, and is counted.
func TestForcedConnection(t *testing.T) {
	c, _ := build(t, `{"name":"c","circuit_breakers":{"thresholds":[{"max_connections":1}]}}`)
	b := c.Breaker(DefaultPriority)
	if !b.TryCx() || b.TryCx() {
		t.Fatal("max_connections 1 does not allow exactly one")
	}
	b.ForceCx()
	if b.Cx.Count() != 2 || b.Cx.Remaining() != 0 {
		t.Errorf("count %d, remaining %d", b.Cx.Count(), b.Cx.Remaining())
	}
	b.ReleaseCx()
	if b.TryCx() {
		t.Error("allowed while at the limit")
	}
	b.ReleaseCx()
	if !b.TryCx() {
		t.Error("refused below the limit")
	}
}

// Proves CB-04: 20 % of active and pending requests, at least 3.
func TestRetryBudget(t *testing.T) {
	tests := []struct {
		conf            string
		active, pending int
		want            uint64
	}{
		{`{}`, 0, 0, 3},
		{`{}`, 100, 0, 20},
		{`{}`, 60, 40, 20},
		{`{}`, 14, 0, 3},
		{`{}`, 20, 0, 4},
		{`{"budget_percent":{"value":50},"min_retry_concurrency":1}`, 9, 0, 4},
		{`{"budget_percent":{"value":0},"min_retry_concurrency":0}`, 100, 0, 0},
	}
	for _, tt := range tests {
		c, _ := build(t, `{"name":"c","circuit_breakers":{"thresholds":[{"max_retries":1,"retry_budget":`+tt.conf+`}]}}`)
		b := c.Breaker(DefaultPriority)
		for range tt.active {
			b.TryRequest()
		}
		for range tt.pending {
			b.TryPending()
		}
		n := uint64(0)
		for b.TryRetry() {
			n++
		}
		if n != tt.want || b.Retries() != n {
			t.Errorf("%s with %d and %d: %d retries, want %d", tt.conf, tt.active, tt.pending, n, tt.want)
		}
	}
}

// Proves CB-06: the gauges are 1 while full and the remaining ones count down.
func TestBreakerGauges(t *testing.T) {
	c, reg := build(t, `{"name":"c","circuit_breakers":{"thresholds":[{"max_connections":1,"max_pending_requests":1,"max_requests":2,"max_retries":1,"max_connection_pools":1,"track_remaining":true},{"priority":"HIGH","max_requests":0}]}}`)
	b := c.Breaker(DefaultPriority)
	read := func(name string) uint64 {
		c.PublishGauges()
		return snapshot(t, reg).Gauge(reg.Scope("cluster.c.circuit_breakers").Gauge(name))
	}
	steps := []struct {
		name, open, left  string
		take, give        func()
		full, before, now uint64
	}{
		{"cx", "cx_open", "remaining_cx", func() { b.TryCx() }, b.ReleaseCx, 1, 1, 0},
		{"pending", "rq_pending_open", "remaining_pending", func() { b.TryPending() }, b.ReleasePending, 1, 1, 0},
		{"requests", "rq_open", "remaining_rq", func() { b.TryRequest() }, b.ReleaseRequest, 0, 2, 1},
		{"retries", "rq_retry_open", "remaining_retries", func() { b.TryRetry() }, b.ReleaseRetry, 1, 1, 0},
		{"pools", "cx_pool_open", "remaining_cx_pools", func() { b.CxPool.Try() }, b.CxPool.Release, 1, 1, 0},
	}
	for _, s := range steps {
		if o, l := read("default."+s.open), read("default."+s.left); o != 0 || l != s.before {
			t.Errorf("%s before: open %d, left %d", s.name, o, l)
		}
		s.take()
		if o, l := read("default."+s.open), read("default."+s.left); o != s.full || l != s.now {
			t.Errorf("%s taken: open %d, left %d", s.name, o, l)
		}
		s.give()
		if o, l := read("default."+s.open), read("default."+s.left); o != 0 || l != s.before {
			t.Errorf("%s given back: open %d, left %d", s.name, o, l)
		}
	}
	if read("high.remaining_rq") != 0 {
		t.Error("remaining_rq without track_remaining")
	}
	// As measured on Envoy: a limit of 0 that nothing reached is not open.
	if read("high.rq_open") != 0 {
		t.Error("rq_open of an unused limit of 0")
	}
}

// Without a limit Envoy shows 18446744073709551615.
func TestRemainingWithoutALimit(t *testing.T) {
	c, reg := build(t, `{"name":"c","circuit_breakers":{"thresholds":[{"track_remaining":true}]}}`)
	c.PublishGauges()
	if n := snapshot(t, reg).Gauge(c.Stats.breakers[DefaultPriority].left.CxPools); n != math.MaxUint64 {
		t.Errorf("remaining_cx_pools is %d", n)
	}
}

type runtimeMap map[string]float64

func (m runtimeMap) Integer(key string, def uint64) uint64 {
	if v, ok := m[key]; ok {
		return uint64(v)
	}
	return def
}

func (m runtimeMap) Double(key string, def float64) float64 {
	if v, ok := m[key]; ok {
		return v
	}
	return def
}

// Proves CB-07: limits change under load without losing counts, and come back.
func TestRuntimeLimits(t *testing.T) {
	c, _ := build(t, object{
		"name": "c", "load_assignment": load(at("1.1.1.1")), "lb_policy": "LEAST_REQUEST",
		"least_request_lb_config": object{"active_request_bias": object{"default_value": 2, "runtime_key": "bias"}},
		"circuit_breakers":        object{"thresholds": []object{{"max_requests": 2, "retry_budget": object{}}}},
	}.String())
	b := c.Breaker(DefaultPriority)
	b.TryRequest()
	b.TryRequest()
	set := c.Hosts()
	c.ApplyRuntime(runtimeMap{
		"circuit_breakers.c.default.max_requests": 1, "circuit_breakers.c.high.max_retries": 7,
		"circuit_breakers.c.default.retry_budget.min_retry_concurrency": 5, "upstream.healthy_panic_threshold": 10, "bias": 0,
	})
	if b.TryRequest() || b.Request.Count() != 2 || b.Request.Max() != 1 || c.Breaker(HighPriority).MaxRetries() != 7 || b.MaxRetries() != 5 {
		t.Errorf("lowered: %d of %d", b.Request.Count(), b.Request.Max())
	}
	if s := c.Hosts(); s == set || s.PanicThreshold != 10 || s.ActiveRequestBias != 0 || s.Priorities[0].Hosts[0] != set.Priorities[0].Hosts[0] {
		t.Errorf("set: %+v", s)
	}
	b.ReleaseRequest()
	b.ReleaseRequest()
	c.ApplyRuntime(runtimeMap{"upstream.healthy_panic_threshold": 10, "bias": 3})
	if bias := c.Hosts().ActiveRequestBias; bias != 3 {
		t.Errorf("bias %v after only it changed", bias)
	}
	c.ApplyRuntime(runtimeMap{})
	if a, b, c := b.TryRequest(), b.TryRequest(), b.TryRequest(); !a || !b || c {
		t.Error("the configured limit did not come back")
	}
	if c.Hosts().PanicThreshold != 50 || c.Hosts().ActiveRequestBias != 2 {
		t.Error("the configured values did not come back")
	}
}

// Proves CB-08: over all goroutines no more are in use than allowed, at any
// time, and all that end leave zero.
func TestLimitsAreExact(t *testing.T) {
	c, _ := build(t, `{"name":"c","circuit_breakers":{"thresholds":[{"max_requests":7,"max_pending_requests":3}]}}`)
	b := c.Breaker(DefaultPriority)
	var inUse, most atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 0))
			held := 0
			for range 5000 {
				if held > 0 && rnd.IntN(2) == 0 {
					inUse.Add(-1)
					b.ReleaseRequest()
					held--
				} else if b.TryRequest() {
					held++
					for n := inUse.Add(1); ; {
						old := most.Load()
						if n <= old || most.CompareAndSwap(old, n) {
							break
						}
					}
				}
			}
			for ; held > 0; held-- {
				inUse.Add(-1)
				b.ReleaseRequest()
			}
		})
	}
	wg.Wait()
	if most.Load() > 7 || b.Request.Count() != 0 {
		t.Errorf("%d in use at once of 7, %d left", most.Load(), b.Request.Count())
	}
}

// Proves CB-08: any order of attempts and ends keeps to a simple model.
func TestBreakerModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Uint64Range(0, 4).Draw(rt, "limit")
		r := &Resource{}
		r.max.Store(limit)
		n := uint64(0)
		for range rapid.IntRange(0, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0:
				if ok := r.Try(); ok != (n < limit) {
					rt.Fatalf("Try at %d of %d: %v", n, limit, ok)
				} else if ok {
					n++
				}
			case 1:
				if n > 0 {
					r.Release()
					n--
				}
			case 2:
				limit = rapid.Uint64Range(0, 4).Draw(rt, "new limit")
				r.max.Store(limit)
			}
			if r.Count() != n || r.Open() != (n > 0 && n >= limit) || r.Remaining()+min(n, limit) != limit {
				rt.Fatalf("count %d, open %v, remaining %d at %d of %d", r.Count(), r.Open(), r.Remaining(), n, limit)
			}
		}
	})
}

func BenchmarkTryRequest(b *testing.B) {
	c, _ := build(b, `{"name":"c"}`)
	br := c.Breaker(DefaultPriority)
	b.ReportAllocs()
	for b.Loop() {
		if br.TryRequest() {
			br.ReleaseRequest()
		}
	}
}

package lb

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
)

// chiSquared is the statistic of counts against the same expectation for all.
func chiSquared(counts map[*cluster.Host]int, hosts []*cluster.Host, expected float64) (x float64) {
	for _, h := range hosts {
		d := float64(counts[h]) - expected
		x += d * d / expected
	}
	return x
}

// Proves LB-02: equal weights rotate, and the start is random.
func TestRoundRobinRotates(t *testing.T) {
	c, reg := made(t, nil, group{healthy: 5})
	hosts := c.Hosts().Hosts()
	starts := make(map[*cluster.Host]bool)
	for seed := range uint64(40) {
		p := picking(c, reg, seed)
		first := p.Pick(nil)
		starts[first] = true
		at := 0
		for hosts[at] != first {
			at++
		}
		for i := 1; i < 20; i++ {
			if h := p.Pick(nil); h != hosts[(at+i)%5] {
				t.Fatalf("seed %d, pick %d: %s, want %s", seed, i, h, hosts[(at+i)%5])
			}
		}
	}
	if len(starts) != 5 {
		t.Errorf("%d different starts of 40, want all 5", len(starts))
	}
}

// Proves LB-02: weights 1:2:7 are exact within one cycle, from any start.
func TestRoundRobinWeights(t *testing.T) {
	c, reg := made(t, nil, group{healthy: 3, weights: []uint32{1, 2, 7}})
	hosts := c.Hosts().Hosts()
	for seed := range uint64(10) {
		p := picking(c, reg, seed)
		for cycle := range 100 {
			n := counted(p, 10)
			if n[hosts[0]] != 1 || n[hosts[1]] != 2 || n[hosts[2]] != 7 {
				t.Fatalf("seed %d, cycle %d: %d %d %d", seed, cycle, n[hosts[0]], n[hosts[1]], n[hosts[2]])
			}
		}
	}
}

// Proves LB-02: any weights are exact within each cycle, wherever it begins.
func TestScheduleIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint32Range(1, 30), 1, 12).Draw(rt, "weights")
		sum := 0
		for _, w := range weights {
			sum += int(w)
		}
		s := newWRR(weights)
		for range rapid.IntRange(0, 50).Draw(rt, "start") {
			s.next()
		}
		for range 2 {
			counts := make([]int, len(weights))
			for range sum {
				counts[s.next()]++
			}
			for i, w := range weights {
				if counts[i] != int(w) {
					rt.Fatalf("weights %v came %v times", weights, counts)
				}
			}
		}
	})
	big := newWRR([]uint32{math.MaxUint32, math.MaxUint32 - 1})
	n := [2]int{}
	for range 1000 {
		n[big.next()]++
	}
	if n[0] != 500 || n[1] != 500 {
		t.Errorf("huge weights: %v", n)
	}
}

// The schedules of fixed and of changing weights agree while weights stay.
func TestSchedulesAgree(t *testing.T) {
	weights := []uint32{1, 2, 4, 8}
	exact, float := newWRR(weights), newEDF(len(weights))
	for i, w := range weights {
		float.add(i, float64(w))
	}
	a, b := [4]int{}, [4]int{}
	for range 1500 {
		a[exact.next()]++
		i := float.due()
		float.again(float64(weights[i]))
		b[i]++
	}
	if a != b || a != [4]int{100, 200, 400, 800} {
		t.Errorf("exact %v, float %v", a, b)
	}
}

// Proves LB-04: random is uniform whatever the weights. Seeds are fixed; the
// bound is the 99.9th percentile of chi-squared with 9 degrees of freedom.
func TestRandomIsUniform(t *testing.T) {
	c, reg := made(t, policy(clusterv3.Cluster_RANDOM), group{healthy: 10, weights: []uint32{1, 100, 3}})
	counts := counted(picking(c, reg, 7), 10_000)
	if x := chiSquared(counts, c.Hosts().Hosts(), 1000); x > 27.9 {
		t.Errorf("chi-squared %.1f", x)
	}
}

func leastRequest(change func(*clusterv3.Cluster_LeastRequestLbConfig)) func(*clusterv3.Cluster) {
	return func(c *clusterv3.Cluster) {
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		lr := &clusterv3.Cluster_LeastRequestLbConfig{}
		change(lr)
		c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{LeastRequestLbConfig: lr}
	}
}

// Proves LB-03: of two random hosts, drawn with replacement, the one with
// fewer requests: a busy one of two is taken only if drawn twice, one time in
// four; with more choices, less.
func TestLeastRequestOfEqualWeights(t *testing.T) {
	for choices, want := range map[uint32]float64{2: 1.0 / 4, 3: 1.0 / 8, 5: 1.0 / 32} {
		c, reg := made(t, leastRequest(func(lr *clusterv3.Cluster_LeastRequestLbConfig) { lr.ChoiceCount = wrapperspb.UInt32(choices) }), group{healthy: 2})
		busy := c.Hosts().Hosts()[0]
		busy.AddRqActive(1)
		const n = 40_000
		got := float64(counted(picking(c, reg, 3), n)[busy]) / n
		if math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/n) {
			t.Errorf("%d choices: the busy host takes %.4f, want %.4f", choices, got, want)
		}
	}
	idle, reg := made(t, policy(clusterv3.Cluster_LEAST_REQUEST), group{healthy: 10})
	if x := chiSquared(counted(picking(idle, reg, 5), 10_000), idle.Hosts().Hosts(), 1000); x > 27.9 {
		t.Errorf("idle hosts: chi-squared %.1f", x)
	}
}

// Proves LB-03: unequal weights are lowered by (active+1)^bias.
func TestLeastRequestOfUnequalWeights(t *testing.T) {
	for bias, want := range map[float64]float64{0: 0.75, 1: 0.5, 2: 0.25, 0.5: 3 / math.Sqrt(3) / (1 + 3/math.Sqrt(3))} {
		c, reg := made(t, leastRequest(func(lr *clusterv3.Cluster_LeastRequestLbConfig) {
			lr.ActiveRequestBias = &corev3.RuntimeDouble{DefaultValue: bias, RuntimeKey: "k"}
		}), group{healthy: 2, weights: []uint32{1, 3}})
		heavy := c.Hosts().Hosts()[1]
		heavy.AddRqActive(2)
		const n = 12_000
		if got := float64(counted(picking(c, reg, 3), n)[heavy]) / n; math.Abs(got-want) > 0.001 {
			t.Errorf("bias %v: the heavy host takes %.4f, want %.4f", bias, got, want)
		}
	}
}

// Proves LB-03: FULL_SCAN takes the least busy of all, any of equals.
func TestLeastRequestFullScan(t *testing.T) {
	c, reg := made(t, fullScan(t), group{healthy: 10})
	hosts := c.Hosts().Hosts()
	for _, h := range hosts[:7] {
		h.AddRqActive(1)
	}
	counts := counted(picking(c, reg, 3), 3000)
	if x := chiSquared(counts, hosts[7:], 1000); len(counts) != 3 || x > 13.8 {
		t.Errorf("%d hosts, chi-squared %.1f", len(counts), x)
	}
}

// Proves LB-09 with hosts: the loads of Distribute are what hosts get, and
// degraded ones get the missing share (LB-14).
func TestTrafficFollowsHealth(t *testing.T) {
	c, reg := made(t, nil, group{healthy: 5, degraded: 1, down: 4}, group{priority: 1, healthy: 2, degraded: 8})
	counts := counted(picking(c, reg, 3), 50_000)
	s := c.Hosts()
	got := func(hosts []*cluster.Host) (n int) {
		for _, h := range hosts {
			n += counts[h]
		}
		return n
	}
	for name, tt := range map[string]struct {
		hosts []*cluster.Host
		want  float64
	}{
		"P0 healthy": {s.Priorities[0].Healthy, 0.70}, "P1 healthy": {s.Priorities[1].Healthy, 0.28},
		"P0 degraded": {s.Priorities[0].Degraded, 0.02}, "P1 degraded": {s.Priorities[1].Degraded, 0},
	} {
		if g := float64(got(tt.hosts)) / 50_000; math.Abs(g-tt.want) > 0.008 {
			t.Errorf("%s: %.3f, want %.2f", name, g, tt.want)
		}
	}
}

// Proves LB-10 with hosts: panic uses all of them and is counted; with the
// threshold at 0, or fail_traffic_on_panic, there is none. Partly proves CM-16: panic.
func TestPanicUsesAllHosts(t *testing.T) {
	groups := group{healthy: 1, down: 9}
	c, reg := made(t, nil, groups)
	shard := reg.NewShard(func(f func()) bool { f(); return true })
	p := NewPicker(c, rand.New(rand.NewPCG(1, 1)), shard)
	counts := counted(p, 100)
	shard.Close()
	snap, err := reg.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) != 10 || snap.Counter(c.Stats.LbHealthyPanic) != 100 {
		t.Errorf("%d hosts, lb_healthy_panic %d", len(counts), snap.Counter(c.Stats.LbHealthyPanic))
	}
	off := func(c *clusterv3.Cluster) {
		c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: &typev3.Percent{Value: 0}}
	}
	c, reg = made(t, off, groups)
	if counts := counted(picking(c, reg, 1), 100); counts[c.Hosts().Hosts()[0]] != 100 {
		t.Errorf("without panic the healthy host takes %d of 100", counts[c.Hosts().Hosts()[0]])
	}
	c, reg = made(t, off, group{down: 3})
	if h := picking(c, reg, 1).Pick(nil); h != nil {
		t.Errorf("without panic and healthy host: %s", h)
	}
	c, reg = made(t, func(c *clusterv3.Cluster) {
		c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{LocalityConfigSpecifier: &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{
			ZoneAwareLbConfig: &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig{FailTrafficOnPanic: true},
		}}
	}, groups)
	if h := picking(c, reg, 1).Pick(nil); h != nil {
		t.Errorf("fail_traffic_on_panic: %s", h)
	}
	c, reg = made(t, nil)
	if h := picking(c, reg, 1).Pick(nil); h != nil {
		t.Errorf("no hosts: %s", h)
	}
}

// Proves LB-11 with hosts: the table's 50 % row, and within a locality the
// weights of its hosts.
func TestLocalityWeights(t *testing.T) {
	weighted := func(c *clusterv3.Cluster) {
		c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{LocalityConfigSpecifier: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}}
	}
	x, y := group{zone: "x", weight: 1, healthy: 2, down: 2}, group{zone: "y", weight: 2, healthy: 2, weights: []uint32{1, 3}}
	c, reg := made(t, weighted, x, y)
	const n = 27_000
	counts := counted(picking(c, reg, 3), n)
	loc := c.Hosts().Priorities[0].Localities
	if got := counts[loc[0].Hosts[0]] + counts[loc[0].Hosts[1]]; math.Abs(float64(got)-7_000) > 2 {
		t.Errorf("x takes %d of %d, want 7000", got, n)
	}
	if got := counts[loc[1].Hosts[1]]; math.Abs(float64(got)-15_000) > 2 {
		t.Errorf("the heavy host of y takes %d, want 15000", got)
	}
	if counts[loc[0].Hosts[2]] != 0 {
		t.Error("an unhealthy host is picked")
	}
	// Without locality_weighted_lb_config the weights of localities are idle.
	c, reg = made(t, nil, group{zone: "x", weight: 1, healthy: 1}, group{zone: "y", weight: 9, healthy: 1})
	if counts := counted(picking(c, reg, 3), 100); counts[c.Hosts().Hosts()[0]] != 50 {
		t.Errorf("x takes %d of 100, want 50", counts[c.Hosts().Hosts()[0]])
	}
	// A locality without a weight gets nothing; if none has one, all share.
	c, reg = made(t, weighted, group{zone: "x", healthy: 1}, group{zone: "y", weight: 9, healthy: 1})
	if counts := counted(picking(c, reg, 3), 100); counts[c.Hosts().Priorities[0].Localities[0].Hosts[0]] != 0 {
		t.Error("a locality without a weight is picked")
	}
	c, reg = made(t, weighted, group{zone: "x", healthy: 1}, group{zone: "y", healthy: 1})
	if counts := counted(picking(c, reg, 3), 100); counts[c.Hosts().Hosts()[0]] != 50 {
		t.Error("without any weight localities do not share")
	}
}

func TestRejectedHostsAreAvoided(t *testing.T) {
	c, reg := made(t, nil, group{healthy: 2})
	p := picking(c, reg, 3)
	bad := c.Hosts().Hosts()[0]
	ctx := &Context{Reject: func(h *cluster.Host) bool { return h == bad }, Reselect: 1}
	for range 20 {
		if p.Pick(ctx) == bad {
			t.Fatal("a rejected host is picked")
		}
	}
	all := &Context{Reject: func(*cluster.Host) bool { return true }, Reselect: 3}
	if p.Pick(all) == nil {
		t.Error("when all are rejected the last one is taken")
	}
}

// Proves LB-18: pickers of several workers follow the cluster while its hosts
// change, and every host they return was in a set.
func TestPickingUnderChurn(t *testing.T) {
	c, reg := made(t, leastRequest(func(lr *clusterv3.Cluster_LeastRequestLbConfig) {
		lr.ActiveRequestBias = &corev3.RuntimeDouble{DefaultValue: 1, RuntimeKey: "k"}
	}), group{healthy: 20, weights: []uint32{1, 2, 3}})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for seed := range uint64(3) {
		p := picking(c, reg, seed)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h := p.Pick(nil)
				if h == nil {
					t.Error("no host")
					return
				}
				h.AddRqActive(1)
				h.AddRqActive(-1)
			}
		})
	}
	for i := range 2000 {
		c.ApplyRuntime(bias(i % 3))
	}
	close(stop)
	wg.Wait()
	for _, h := range c.Hosts().Hosts() {
		if h.RqActive() != 0 {
			t.Errorf("%s has %d requests left", h, h.RqActive())
		}
	}
}

// bias is a runtime that changes only least request's bias.
type bias float64

func (b bias) Integer(_ string, def uint64) uint64 { return def }
func (b bias) Double(key string, def float64) float64 {
	if key == "k" {
		return float64(b)
	}
	return def
}

// Proves LB-19: no pick allocates while the hosts stay.
func TestPickAllocatesNothing(t *testing.T) {
	for name, tt := range pickers(t, 1000) {
		tt.Pick(nil)
		if n := testing.AllocsPerRun(1000, func() { tt.Pick(nil) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// pickers are one of each kind over n hosts.
func pickers(t testing.TB, n int) map[string]Picker {
	uneven := make([]uint32, n)
	for i := range uneven {
		uneven[i] = uint32(1 + i%7)
	}
	equal, weighted := group{healthy: n}, group{healthy: n, weights: uneven}
	out := make(map[string]Picker)
	for name, tt := range map[string]struct {
		change func(*clusterv3.Cluster)
		groups []group
	}{
		"RoundRobin":           {nil, []group{equal}},
		"RoundRobinWeighted":   {nil, []group{weighted}},
		"LeastRequest":         {policy(clusterv3.Cluster_LEAST_REQUEST), []group{equal}},
		"LeastRequestWeighted": {policy(clusterv3.Cluster_LEAST_REQUEST), []group{weighted}},
		"Random":               {policy(clusterv3.Cluster_RANDOM), []group{equal}},
		"TwoPriorities":        {nil, []group{{healthy: n / 2, down: n / 2}, {priority: 1, healthy: n}}},
	} {
		c, reg := made(t, tt.change, tt.groups...)
		out[name] = picking(c, reg, 3)
	}
	return out
}

// Proves LB-19: a pick out of 10,000 hosts takes less than a microsecond.
func BenchmarkPick10k(b *testing.B) {
	for name, p := range pickers(b, 10_000) {
		b.Run(name, func(b *testing.B) {
			p.Pick(nil)
			b.ReportAllocs()
			for b.Loop() {
				p.Pick(nil)
			}
		})
	}
}

package priority

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// share is a priority of 100 hosts.
func share(healthy, degraded int) Health {
	return Health{Hosts: 100, Healthy: healthy, Degraded: degraded}
}

// Proves LB-09: the tables of the documentation on priorities and
// overprovisioning. For 25/25/20 it says 36/36/28, but Envoy computes with whole
// percents and gives the rest to the first priority: 30,000 requests through
// Envoy 1.40 came to 36.7/35.0/28.3 %.
func TestPriorityTables(t *testing.T) {
	tests := []struct {
		healthy []int
		want    []uint32
	}{
		{[]int{100, 100}, []uint32{100, 0}},
		{[]int{72, 100}, []uint32{100, 0}},
		{[]int{71, 100}, []uint32{99, 1}},
		{[]int{50, 100}, []uint32{70, 30}},
		{[]int{30, 100}, []uint32{42, 58}},
		{[]int{25, 100}, []uint32{35, 65}},
		{[]int{0, 100}, []uint32{0, 100}},
		{[]int{25, 25}, []uint32{50, 50}},
		{[]int{25, 25, 100}, []uint32{35, 35, 30}},
		{[]int{25, 25, 20}, []uint32{37, 35, 28}},
		{[]int{20, 20, 10}, []uint32{40, 40, 20}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.healthy), func(t *testing.T) {
			var ps []Health
			for _, h := range tt.healthy {
				ps = append(ps, share(h, 0))
			}
			got := Distribute(ps, 140, 0)
			if !slices.Equal(got.Healthy, tt.want) || slices.Contains(got.Panic, true) {
				t.Errorf("%+v, want %v", got, tt.want)
			}
		})
	}
}

// Proves LB-10: the table of the documentation on panic, for two priorities of
// the same size: health of P0 and P1, traffic, panic of each. For 5/65 it says
// 7/93; 30,000 requests through Envoy 1.40 came to 8.1/91.9 %.
func TestPanicTable(t *testing.T) {
	tests := []struct {
		p0, p1    int
		want      []uint32
		panicking []bool
	}{
		{72, 72, []uint32{100, 0}, []bool{false, false}},
		{71, 71, []uint32{99, 1}, []bool{false, false}},
		{50, 60, []uint32{70, 30}, []bool{false, false}},
		{25, 100, []uint32{35, 65}, []bool{false, false}},
		{25, 25, []uint32{50, 50}, []bool{true, true}},
		{5, 65, []uint32{8, 92}, []bool{true, false}},
		{0, 0, []uint32{50, 50}, []bool{true, true}},
	}
	for _, tt := range tests {
		got := Distribute([]Health{share(tt.p0, 0), share(tt.p1, 0)}, 140, 50)
		if !slices.Equal(got.Healthy, tt.want) || !slices.Equal(got.Panic, tt.panicking) {
			t.Errorf("%d/%d: %+v, want %v %v", tt.p0, tt.p1, got, tt.want, tt.panicking)
		}
	}
	uneven := []Health{{Hosts: 1}, {Hosts: 3}}
	if got := Distribute(uneven, 140, 50); !slices.Equal(got.Healthy, []uint32{25, 75}) {
		t.Errorf("if all panic, load goes by the number of hosts: %+v", got)
	}
	if got := Distribute(uneven, 140, 0); got.Healthy[0] != 100 || got.Panic[0] || got.Panic[1] {
		t.Errorf("threshold 0: %+v", got)
	}
	if got := Distribute([]Health{{}}, 140, 50); got.Healthy[0] != 100 {
		t.Errorf("no hosts: %+v", got)
	}
	if got := Distribute([]Health{share(20, 30)}, 140, 50); got.Panic[0] {
		t.Error("healthy and degraded together reach the threshold, and it panics")
	}
}

// Proves LB-14: degraded hosts take what the healthy ones of all priorities
// cannot, and excluded hosts leave the denominator.
func TestDegradedTable(t *testing.T) {
	tests := []struct {
		ps                []Health
		healthy, degraded []uint32
	}{
		{[]Health{share(72, 28)}, []uint32{100}, []uint32{0}},
		{[]Health{share(71, 29)}, []uint32{99}, []uint32{1}},
		{[]Health{share(0, 100)}, []uint32{0}, []uint32{100}},
		{[]Health{share(25, 65)}, []uint32{35}, []uint32{65}},
		{[]Health{share(5, 0)}, []uint32{100}, []uint32{0}},
		{[]Health{share(50, 50), share(20, 0)}, []uint32{70, 28}, []uint32{2, 0}},
		{[]Health{share(0, 50), share(0, 100)}, []uint32{0, 0}, []uint32{70, 30}},
		{[]Health{{Hosts: 100, Excluded: 50, Healthy: 25}, share(100, 0)}, []uint32{70, 30}, []uint32{0, 0}},
		{[]Health{{Hosts: 10, Excluded: 10}, share(100, 0)}, []uint32{0, 100}, []uint32{0, 0}},
		{[]Health{{Hosts: 2, Healthy: 1, Weighted: true, HealthyWeight: 1, TotalWeight: 4}, share(100, 0)}, []uint32{35, 65}, []uint32{0, 0}},
	}
	for i, tt := range tests {
		got := Distribute(tt.ps, 140, 0)
		if !slices.Equal(got.Healthy, tt.healthy) || !slices.Equal(got.Degraded, tt.degraded) {
			t.Errorf("row %d: %+v, want %v %v", i, got, tt.healthy, tt.degraded)
		}
	}
}

// Proves LB-09: whatever the hosts, the loads add up to 100, and each percent
// goes to a priority with hosts if there is one.
func TestLoadsAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var ps []Health
		hosts := 0
		for range rapid.IntRange(1, 6).Draw(rt, "priorities") {
			p := Health{Hosts: rapid.IntRange(0, 30).Draw(rt, "hosts")}
			p.Healthy = rapid.IntRange(0, p.Hosts).Draw(rt, "healthy")
			p.Degraded = rapid.IntRange(0, p.Hosts-p.Healthy).Draw(rt, "degraded")
			p.Excluded = rapid.IntRange(0, p.Hosts-p.Healthy-p.Degraded).Draw(rt, "excluded")
			hosts += p.Hosts
			ps = append(ps, p)
		}
		l := Distribute(ps, rapid.Uint32Range(100, 300).Draw(rt, "overprovisioning"), rapid.Uint32Range(0, 100).Draw(rt, "threshold"))
		total := uint32(0)
		for i := range ps {
			total += l.Healthy[i] + l.Degraded[i]
		}
		if total != 100 {
			rt.Fatalf("%+v of %+v adds up to %d", l, ps, total)
		}
		seen := make([]uint32, 2*len(ps))
		for r := range uint64(100) {
			i, degraded := l.Choose(r)
			if degraded {
				i += len(ps)
			}
			seen[i]++
		}
		if want := slices.Concat(l.Healthy, l.Degraded); !slices.Equal(seen, want) {
			rt.Fatalf("chosen %v, want %v", seen, want)
		}
	})
}

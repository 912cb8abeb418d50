package cluster

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter"
)

// Proves CM-29 and the EDS rows of CM-12: statuses, weights, localities,
// priorities with a gap, hostnames, additional addresses, pipes, IPv6.
func TestHostsOfStatic(t *testing.T) {
	ep := func(addr, status string) object { return at(addr).with(object{"health_status": status}) }
	c, reg := build(t, object{"name": "c", "load_assignment": object{"cluster_name": "c", "endpoints": []object{
		{
			"locality": object{"region": "r", "zone": "b"}, "load_balancing_weight": 4,
			"lb_endpoints": []object{ep("1.0.0.1", "UNKNOWN"), ep("1.0.0.2", "HEALTHY"), ep("1.0.0.3", "UNHEALTHY"), ep("1.0.0.4", "TIMEOUT")},
		},
		{
			"locality": object{"region": "r", "zone": "a"},
			"lb_endpoints": []object{ep("1.0.0.5", "DRAINING"), ep("1.0.0.6", "DEGRADED"), {
				"endpoint": object{
					"address": object{"socket_address": object{"address": "::1", "port_value": 7}}, "hostname": "six",
					"additional_addresses": []object{{"address": object{"socket_address": object{"address": "1.0.0.9", "port_value": 8}}}},
				},
				"load_balancing_weight": 9, "metadata": object{"filter_metadata": object{"envoy.lb": object{"canary": true}}},
			}},
		},
		{"priority": 2, "lb_endpoints": []object{{"endpoint": object{"address": object{"pipe": object{"path": "/run/x"}}}}}},
	}}}.String())
	s := c.Hosts()
	if len(s.Priorities) != 3 || len(s.Priorities[1].Hosts) != 0 || s.Priorities[2].Hosts[0].Address().Pipe != "/run/x" {
		t.Fatalf("priorities: %+v", s.Priorities)
	}
	names := func(hs []*Host) (out []string) {
		for _, h := range hs {
			out = append(out, h.String())
		}
		return out
	}
	p := &s.Priorities[0]
	got := map[string][]string{"healthy": names(p.Healthy), "degraded": names(p.Degraded), "excluded": names(p.Excluded)}
	want := map[string][]string{
		"healthy":  {"1.0.0.1:80", "1.0.0.2:80", "[::1]:7"},
		"degraded": {"1.0.0.6:80"}, "excluded": {"1.0.0.5:80"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(p.Localities) != 2 || p.Localities[0].Locality.Zone != "a" || p.Localities[0].Excluded != 1 ||
		p.Localities[1].Weight != 4 || len(p.Localities[1].Healthy) != 2 {
		t.Errorf("localities: %+v", p.Localities)
	}
	six := p.Localities[0].Healthy[0]
	if six.Weight() != 9 || six.Hostname() != "six" || !six.Attributes().Canary || names(p.Hosts)[6] != "[::1]:7" {
		t.Errorf("host: %v %q %+v", six.Weight(), six.Hostname(), six.Attributes())
	}
	if more := six.AdditionalAddresses(); len(more) != 1 || more[0].String() != "1.0.0.9:8" {
		t.Errorf("additional addresses: %v", more)
	}
	c.PublishGauges()
	snap := snapshot(t, reg)
	if snap.Gauge(c.Stats.MembershipTotal) != 8 || snap.Gauge(c.Stats.MembershipHealthy) != 4 ||
		snap.Gauge(c.Stats.MembershipDegraded) != 1 || snap.Gauge(c.Stats.MembershipExcluded) != 1 ||
		snap.Counter(c.Stats.MembershipChange) != 2 {
		t.Error("membership gauges are wrong")
	}
	if !c.isReady() {
		t.Error("a STATIC cluster is not ready at once")
	}
}

// Proves TS-23. The first three rows are as measured on Envoy.
func TestTransportSocketMatch(t *testing.T) {
	md := func(o object) object {
		return object{"metadata": object{"filter_metadata": object{"envoy.transport_socket_match": o}}}
	}
	match := func(name string, o object) object {
		return object{"name": name, "match": o, "transport_socket": object{"name": "envoy.transport_sockets.raw_buffer"}}
	}
	all := []object{match("A", object{"k": "loc"}), match("B", object{"k": "ep"}), match("C", object{})}
	two := []object{match("A", object{"k": "loc", "n": 1}), match("B", object{"k": "ep"})}
	tests := []struct {
		name          string
		matches       []object
		endpoint, loc object
		want          int
	}{
		{"the endpoint first", all, md(object{"k": "ep"}), md(object{"k": "loc"}), 1},
		{"empty criteria match an endpoint without metadata", all, nil, md(object{"k": "loc"}), 2},
		{"empty criteria match any", all, md(object{"k": "zz"}), md(object{"k": "loc"}), 2},
		{"the locality next", two, md(object{"k": "zz"}), md(object{"k": "ep"}), 1},
		{"all criteria count", two, md(object{"k": "loc"}), nil, -1},
		{"numbers", two, md(object{"k": "loc", "n": 1, "other": true}), nil, 0},
		{"none", two, nil, nil, -1},
		{"no matches", nil, md(object{"k": "ep"}), nil, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			la := object{"cluster_name": "c", "endpoints": []object{object{"lb_endpoints": []object{at("1.1.1.1").with(tt.endpoint)}}.with(tt.loc)}}
			c, reg := build(t, object{"name": "c", "load_assignment": la, "transport_socket_matches": tt.matches}.String())
			if got := c.Hosts().Priorities[0].Hosts[0].Attributes().TransportSocket; got != tt.want {
				t.Fatalf("entry %d, want %d", got, tt.want)
			}
			name := "default"
			if tt.want >= 0 {
				name = c.TransportSocketMatches()[tt.want].Name
			}
			if n := snapshot(t, reg).Counter(reg.Scope("cluster.c").Counter(name + ".total_match_count")); n != 1 {
				t.Errorf("%s.total_match_count is %d", name, n)
			}
		})
	}
}

// Proves CM-17: through any series of updates a host is the same while its
// address and hostname stay, whatever else changes, and the set is what the
// update said.
func TestIdentityOfHosts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var updates []Update
		c, _ := build(t, `{"name":"c","common_lb_config":{"update_merge_window":"0s"}}`, func(o *Options) { o.OnUpdate = func(u Update) { updates = append(updates, u) } })
		updates = nil
		gen := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) hostSpec {
			return hostSpec{
				where:    addresses{first: filter.PipeAddress(fmt.Sprint("/", rapid.IntRange(0, 5).Draw(rt, "addr")))},
				hostname: rapid.SampledFrom([]string{"", "a"}).Draw(rt, "hostname"),
				attrs:    Attributes{Weight: rapid.Uint32Range(1, 3).Draw(rt, "weight"), Priority: rapid.Uint32Range(0, 2).Draw(rt, "priority"), TransportSocket: -1},
			}
		}), 0, 8)
		for range rapid.IntRange(1, 6).Draw(rt, "updates") {
			specs := gen.Draw(rt, "specs")
			before := c.Hosts()
			updates = nil
			changed := c.apply(specs)
			if changed != (c.Hosts() != before) || changed != (len(updates) == 1) {
				rt.Fatalf("changed %v, new set %v, %d calls", changed, c.Hosts() != before, len(updates))
			}
			checkUpdate(rt, before.Hosts(), c.Hosts(), specs, updates)
		}
	})
}

func checkUpdate(rt *rapid.T, before []*Host, set *HostSet, specs []hostSpec, updates []Update) {
	after := set.Hosts()
	count := func(keys []string) map[string]int {
		m := map[string]int{}
		for _, k := range keys {
			m[k]++
		}
		return m
	}
	var want, got, old []string
	for _, s := range specs {
		want = append(want, fmt.Sprint(s.key(), s.attrs.Weight, s.attrs.Priority))
	}
	kept, wantKept := 0, 0
	var newKeys []string
	for _, h := range after {
		got = append(got, fmt.Sprint(h.key(), h.Weight(), h.Attributes().Priority))
		newKeys = append(newKeys, h.key())
		if slices.Contains(before, h) {
			kept++
		}
		if h.Removed() {
			rt.Fatalf("%s is in the set and removed", h)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		rt.Fatalf("hosts %q, want %q", got, want)
	}
	for _, h := range before {
		old = append(old, h.key())
		if !slices.Contains(after, h) && !h.Removed() {
			rt.Fatalf("%s has gone and is not marked", h)
		}
	}
	now := count(newKeys)
	for k, n := range count(old) {
		wantKept += min(n, now[k])
	}
	if kept != wantKept {
		rt.Fatalf("%d hosts kept, want %d", kept, wantKept)
	}
	for _, u := range updates {
		if len(u.Added) != len(after)-kept || len(u.Removed) != len(before)-kept || u.Hosts != set {
			rt.Fatalf("update: %d added, %d removed of %d and %d", len(u.Added), len(u.Removed), len(before), len(after))
		}
	}
}

// Proves CB-05: per_host_thresholds.max_connections holds exactly.
func TestPerHostLimit(t *testing.T) {
	c, _ := build(t, object{
		"name": "c", "load_assignment": load(at("1.1.1.1"), at("1.1.1.2")),
		"circuit_breakers": object{"per_host_thresholds": []object{{"max_connections": 3}}},
	}.String())
	h, other := c.Hosts().Hosts()[0], c.Hosts().Hosts()[1]
	var wg sync.WaitGroup
	var got atomic.Int32
	for range 8 {
		wg.Go(func() {
			if h.TryCx() {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if got.Load() != 3 || h.CxActive() != 3 || !other.TryCx() {
		t.Errorf("%d connections allowed, %d counted", got.Load(), h.CxActive())
	}
	h.ReleaseCx()
	if !h.TryCx() || h.TryCx() {
		t.Error("after one ended exactly one more is allowed")
	}
}

// Proves CM-28.
func TestDrop(t *testing.T) {
	drop := func(num int, den string) Drop {
		c, _ := build(t, object{"name": "c", "load_assignment": load(at("1.1.1.1")).with(object{"policy": object{
			"drop_overloads": []object{{"category": "throttle", "drop_percentage": object{"numerator": num, "denominator": den}}},
		}})}.String())
		return c.Drop()
	}
	tests := []struct {
		d    Drop
		want map[DropDecision]int
	}{
		{Drop{}, map[DropDecision]int{DropNot: 10_000}},
		{drop(0, "HUNDRED"), map[DropDecision]int{DropNot: 10_000}},
		{drop(30, "HUNDRED"), map[DropDecision]int{DropNot: 7_000, DropOverload: 3_000}},
		{drop(5, "TEN_THOUSAND"), map[DropDecision]int{DropNot: 9_995, DropOverload: 5}},
		{drop(100, "HUNDRED"), map[DropDecision]int{DropUnconditional: 10_000}},
		{drop(1_000_000, "MILLION"), map[DropDecision]int{DropUnconditional: 10_000}},
	}
	for _, tt := range tests {
		got := map[DropDecision]int{}
		for i := range uint64(10_000) {
			got[tt.d.Decide(i)]++
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v: %s", tt.d, diff)
		}
	}
	if c := drop(1, "HUNDRED").Category; c != "throttle" {
		t.Errorf("category %q", c)
	}
}

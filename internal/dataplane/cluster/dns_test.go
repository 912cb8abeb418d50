package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var errServFail = errors.New("server misbehaving")

// script answers lookups from a table that tests change.
type script struct {
	mu      sync.Mutex
	answers map[string]string // "ip4 name" to addresses, or "fail"
	asked   []time.Time
}

func (s *script) set(key, addrs string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers = make(map[string]string)
	}
	s.answers[key] = addrs
}

func (s *script) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Now())
	text := s.answers[network+" "+host]
	switch text {
	case "":
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case "fail":
		return nil, errServFail
	}
	var out []netip.Addr
	for a := range strings.FieldsSeq(text) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// times are the moments of the lookups since start.
func (s *script) times(start time.Time) (out []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.asked {
		out = append(out, t.Sub(start))
	}
	return out
}

// ttlScript adds a TTL to each answer.
type ttlScript struct {
	script
	ttl time.Duration
}

func (s *ttlScript) LookupNetIPTTL(ctx context.Context, network, host string) ([]netip.Addr, time.Duration, error) {
	a, err := s.LookupNetIP(ctx, network, host)
	return a, s.ttl, err
}

// running runs a cluster inside a synctest bubble until the test ends.
func running(t *testing.T, r Resolver, conf object, change ...func(*Options)) *Cluster {
	t.Helper()
	c, _ := build(t, object{"name": "c"}.with(conf).String(), append([]func(*Options){func(o *Options) { o.Resolver = r }}, change...)...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return c
}

func hostsOf(c *Cluster) (out []string) {
	for _, h := range c.Hosts().Hosts() {
		out = append(out, h.String())
	}
	return out
}

func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Proves CM-07: each address is a host, duplicates collapse, failures keep the
// hosts, an empty answer removes them, hosts that stay are the same.
func TestStrictDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		s.set("ip4 a", "10.0.0.1 10.0.0.2 10.0.0.1")
		var updates atomic.Int32
		c := running(t, s, object{"type": "STRICT_DNS", "dns_lookup_family": "V4_ONLY", "load_assignment": load(at("a").with(object{"load_balancing_weight": 3}))},
			func(o *Options) { o.OnUpdate = func(Update) { updates.Add(1) } })
		if got := hostsOf(c); !slices.Equal(got, []string{"10.0.0.1:80", "10.0.0.2:80"}) || !c.isReady() {
			t.Fatalf("hosts %v", got)
		}
		first := c.Hosts().Hosts()[0]
		if first.Hostname() != "a" || first.Weight() != 3 {
			t.Errorf("host %q weight %d", first.Hostname(), first.Weight())
		}
		steps := []struct {
			answer string
			want   []string
			change bool
		}{
			{"10.0.0.2 10.0.0.1", []string{"10.0.0.1:80", "10.0.0.2:80"}, false}, // a rotated answer is no change
			{"10.0.0.1 10.0.0.3", []string{"10.0.0.1:80", "10.0.0.3:80"}, true},
			{"fail", []string{"10.0.0.1:80", "10.0.0.3:80"}, false},
			{"", nil, true},
			{"10.0.0.1", []string{"10.0.0.1:80"}, true},
		}
		for i, step := range steps {
			s.set("ip4 a", step.answer)
			n := updates.Load()
			later(5 * time.Second)
			if got := hostsOf(c); !slices.Equal(got, step.want) || (updates.Load() > n) != step.change {
				t.Errorf("step %d (%q): hosts %v, %d updates", i, step.answer, got, updates.Load()-n)
			}
			if i < 3 && c.Hosts().Hosts()[0] != first {
				t.Errorf("step %d: not the same host", i)
			}
		}
		if !first.Removed() || c.Hosts().Hosts()[0] == first {
			t.Error("a host that had gone came back as the same")
		}
	})
}

// Proves CM-07: several endpoints and localities each resolve; a literal needs
// no lookup; the cluster is ready when each was asked once.
func TestStrictDNSOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		s.set("ip4 a", "10.0.0.1")
		s.set("ip4 b", "fail")
		c := running(t, s, object{"type": "STRICT_DNS", "dns_lookup_family": "V4_ONLY", "load_assignment": object{"cluster_name": "c", "endpoints": []object{
			{"locality": object{"zone": "x"}, "lb_endpoints": []object{at("a"), at("192.0.2.1")}},
			{"locality": object{"zone": "y"}, "priority": 1, "lb_endpoints": []object{at("b")}},
		}}})
		if got := hostsOf(c); !slices.Equal(got, []string{"10.0.0.1:80", "192.0.2.1:80"}) || !c.isReady() {
			t.Fatalf("hosts %v, ready %v", got, c.isReady())
		}
		s.set("ip4 b", "10.0.0.7 10.0.0.8")
		later(5 * time.Second)
		ps := c.Hosts().Priorities
		if len(ps) != 2 || len(ps[1].Hosts) != 2 || ps[1].Localities[0].Locality.Zone != "y" || ps[0].Hosts[1].Hostname() != "192.0.2.1" {
			t.Errorf("%+v", ps)
		}
	})
}

// Proves CM-08 and the racing addresses of CM-09: one host with the first
// address of the latest answer; it stays the same host, so that connections to
// an earlier address stay.
func TestLogicalDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		s.set("ip4 a", "10.0.0.1 10.0.0.2")
		s.set("ip6 a", "2001:db8::1")
		c := running(t, s, object{"type": "LOGICAL_DNS", "dns_lookup_family": "ALL", "load_assignment": load(at("a"))})
		h := c.Hosts().Hosts()
		if len(h) != 1 || h[0].String() != "[2001:db8::1]:80" || len(h[0].AdditionalAddresses()) != 2 || h[0].Hostname() != "a" {
			t.Fatalf("hosts %v", hostsOf(c))
		}
		s.set("ip6 a", "2001:db8::2 2001:db8::1")
		later(5 * time.Second)
		if got := hostsOf(c); !slices.Equal(got, []string{"[2001:db8::2]:80"}) || c.Hosts().Hosts()[0] != h[0] || h[0].Removed() {
			t.Errorf("hosts %v", got)
		}
		s.set("ip6 a", "")
		s.set("ip4 a", "")
		later(5 * time.Second)
		if got := hostsOf(c); len(got) != 0 || !h[0].Removed() {
			t.Errorf("hosts %v after an empty answer", got)
		}
	})
}

// Proves CM-09: the families.
func TestLookupFamilies(t *testing.T) {
	const v4, v6 = "10.0.0.1 10.0.0.2 10.0.0.3", "2001:db8::1 2001:db8::2"
	tests := []struct {
		family, ip4, ip6 string
		want             string
		fails            bool
	}{
		{"AUTO", v4, v6, v6, false},
		{"AUTO", v4, "", v4, false},
		{"AUTO", v4, "fail", v4, false},
		{"AUTO", "", "fail", "", true},
		{"AUTO", "fail", "", "", true},
		{"V4_ONLY", v4, v6, v4, false},
		{"V4_ONLY", "", v6, "", false},
		{"V6_ONLY", v4, v6, v6, false},
		{"V6_ONLY", v4, "fail", "", true},
		{"V4_PREFERRED", v4, v6, v4, false},
		{"V4_PREFERRED", "", v6, v6, false},
		{"ALL", v4, v6, "2001:db8::1 10.0.0.1 2001:db8::2 10.0.0.2 10.0.0.3", false},
		{"ALL", v4, "fail", v4, false},
		{"ALL", "fail", "fail", "", true},
		{"ALL", "", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.family+" "+tt.ip4+" "+tt.ip6, func(t *testing.T) {
			s := &script{}
			s.set("ip4 a", tt.ip4)
			s.set("ip6 a", tt.ip6)
			c, _ := build(t, object{"name": "c", "type": "STRICT_DNS", "dns_lookup_family": tt.family}.String(), func(o *Options) { o.Resolver = s })
			a, err := lookup(t.Context(), s, c.dns.family, "a")
			var got []string
			for _, x := range a.addrs {
				got = append(got, x.String())
			}
			if strings.Join(got, " ") != tt.want || (err != nil) != tt.fails {
				t.Errorf("%v, error %v", got, err)
			}
			typed, _ := build(t, object{"name": "c", "cluster_type": object{"name": "envoy.cluster.dns", "typed_config": packed(
				"envoy.extensions.clusters.dns.v3.DnsCluster", object{"dns_lookup_family": tt.family})}}.String(), func(o *Options) { o.Resolver = s })
			if typed.dns.family != c.dns.family {
				t.Errorf("the typed form has family %d, the enum %d", typed.dns.family, c.dns.family)
			}
		})
	}
}

// Proves the times of CM-07: refresh rate, jitter, failure rate, TTL and its
// minimum.
func TestRefreshTimes(t *testing.T) {
	s := time.Second
	const dnsType = "envoy.extensions.clusters.dns.v3.DnsCluster"
	ttl := func(least string) object {
		return object{"cluster_type": object{"name": "x", "typed_config": packed(dnsType, object{
			"dns_lookup_family": "V4_ONLY", "respect_dns_ttl": true, "dns_min_refresh_rate": least,
		})}}
	}
	tests := []struct {
		name   string
		conf   object
		answer string
		random uint64
		want   []time.Duration
	}{
		{"default", object{"type": "STRICT_DNS"}, "10.0.0.1", 0, []time.Duration{0, 5 * s, 10 * s}},
		{"rate", object{"type": "STRICT_DNS", "dns_refresh_rate": "7s"}, "10.0.0.1", 0, []time.Duration{0, 7 * s, 14 * s}},
		{"jitter", object{"type": "STRICT_DNS", "dns_jitter": "4s"}, "10.0.0.1", uint64(3 * s), []time.Duration{0, 8 * s, 16 * s}},
		{"failure by the rate", object{"type": "STRICT_DNS", "dns_refresh_rate": "7s"}, "fail", 0, []time.Duration{0, 7 * s, 14 * s}},
		{
			"growing after failures",
			object{"type": "STRICT_DNS", "dns_failure_refresh_rate": object{"base_interval": "1s", "max_interval": "3s"}},
			"fail", uint64(12*s - 1),
			[]time.Duration{0, 1*s - 1, 3*s - 2, 6*s - 3},
		},
		{"TTL", ttl("2s"), "10.0.0.1", 0, []time.Duration{0, 11 * s, 22 * s}},
		{"TTL under the minimum", ttl("30s"), "10.0.0.1", 0, []time.Duration{0, 30 * s}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &ttlScript{ttl: 11 * s}
				r.set("ip4 a", tt.answer)
				start := time.Now()
				conf := object{"dns_lookup_family": "V4_ONLY"}
				if tt.conf["cluster_type"] != nil {
					conf = object{}
				}
				running(t, r, conf.with(tt.conf).with(object{"load_assignment": load(at("a"))}),
					func(o *Options) { o.Random = func() uint64 { return tt.random } })
				later(tt.want[len(tt.want)-1])
				if diff := cmp.Diff(tt.want, r.times(start)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// Proves the update_* counters of ST-05.
func TestUpdateCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		s.set("ip4 a", "10.0.0.1")
		reg := registry(t)
		c := running(t, s, object{"type": "STRICT_DNS", "dns_lookup_family": "V4_ONLY", "load_assignment": load(at("a"))},
			func(o *Options) { o.Registry, o.Hosts, o.Sink = reg.Scope("cluster.c"), reg.Hidden(), reg.Main() })
		later(5 * time.Second)
		s.set("ip4 a", "fail")
		later(5 * time.Second)
		c.PublishGauges()
		snap := snapshot(t, reg)
		got := []uint64{
			snap.Counter(c.Stats.UpdateAttempt), snap.Counter(c.Stats.UpdateSuccess), snap.Counter(c.Stats.UpdateFailure),
			snap.Counter(c.Stats.UpdateNoRebuild), snap.Counter(c.Stats.MembershipChange), snap.Gauge(c.Stats.MaxHostWeight),
		}
		if want := []uint64{3, 2, 1, 1, 1, 1}; !slices.Equal(got, want) {
			t.Errorf("attempt, success, failure, no_rebuild, change, weight: %v, want %v", got, want)
		}
	})
}

// blocked never answers until its context ends.
type blocked struct{}

func (blocked) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRunEndsDuringALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, blocked{}, object{"type": "LOGICAL_DNS", "load_assignment": load(at("a"))})
		if c.isReady() {
			t.Error("ready without an answer")
		}
		if err := c.Run(t.Context()); !errors.Is(err, errRunning) {
			t.Errorf("a second Run: %v", err)
		}
	})
}

func TestRunOfStaticReturns(t *testing.T) {
	c, _ := build(t, `{"name":"c"}`)
	if err := c.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// The real resolver fits and knows the local names.
func TestNetResolver(t *testing.T) {
	a, err := lookup(t.Context(), &net.Resolver{}, familyAll, "localhost")
	if err != nil || len(a.addrs) == 0 || !a.addrs[0].IsLoopback() {
		t.Errorf("localhost is %v, error %v", a.addrs, err)
	}
}

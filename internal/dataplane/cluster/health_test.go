package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
)

const checks = `"health_checks": [{"timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 1, "tcp_health_check": {}}]`

func checkedEDS(t *testing.T, fields string, change ...func(*Options)) *Cluster {
	t.Helper()
	c, _ := build(t, `{"name": "c", "type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}, `+checks+fields+`}`, change...)
	return c
}

func assign(t *testing.T, c *Cluster, endpoints ...string) {
	t.Helper()
	if err := c.Assign(assignmentOf(t, `{"cluster_name": "c", "endpoints": [{"lb_endpoints": [`+strings.Join(endpoints, ",")+`]}]}`)); err != nil {
		t.Fatal(err)
	}
}

func endpointAt(addr, fields string) string {
	return `{"endpoint": {"address": {"socket_address": {"address": "` + addr + `", "port_value": 80}}` + fields + `}}`
}

// check is a result of a host's checks.
func check(c *Cluster, h *Host, flags Flags) {
	if c.SetHealth(h, flags) {
		c.Rebalance()
	}
	c.FirstChecked(h)
}

// Proves CM-12, the table of discovery and health: a host that discovery has and
// checks pass is used, one that fails is not; one that is gone is used while it
// passes, and is deleted when it fails. Without health checks, or with
// ignore_health_on_host_removal, discovery alone decides.
func TestDiscoveryAndHealth(t *testing.T) {
	for _, tt := range []struct {
		name, fields         string
		discovered, passing  bool
		there, used, removed bool
		flags                string
	}{
		{"discovered and well", "", true, true, true, true, false, "healthy"},
		{"discovered and failing", "", true, false, true, false, false, "/failed_active_hc"},
		{"gone and well", "", false, true, true, true, false, "/pending_dynamic_removal"},
		{"gone and failing", "", false, false, false, false, true, "/failed_active_hc"},
		{"gone, health ignored", `, "ignore_health_on_host_removal": true`, false, true, false, false, true, "healthy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var gone []*Host
			c := checkedEDS(t, tt.fields, func(o *Options) { o.OnUpdate = func(u Update) { gone = append(gone, u.Removed...) } })
			assign(t, c, endpointAt("1.0.0.1", ""), endpointAt("1.0.0.2", ""))
			h := c.Hosts().Hosts()[0]
			check(c, h, 0)
			if !tt.passing {
				check(c, h, FailedActive)
			}
			if !tt.discovered {
				assign(t, c, endpointAt("1.0.0.2", ""))
			}
			there := false
			for _, x := range c.Hosts().Hosts() {
				there = there || x == h
			}
			used := len(c.Hosts().Priorities[0].Healthy) == 1
			if there != tt.there || used != tt.used || h.Removed() != tt.removed || (len(gone) == 1) != tt.removed || h.HealthFlags() != tt.flags {
				t.Errorf("there %v, used %v, removed %v %v, %s", there, used, h.Removed(), gone, h.HealthFlags())
			}
		})
	}
}

// Proves CM-12 for what comes after: a host that is gone is deleted with its first
// failure, is an ordinary one when it comes back, and goes at once if the same
// address comes as another host, if it is not checked, or if the configuration says
// that it is not well.
func TestGoneHostsInTime(t *testing.T) {
	var updates []Update
	c := checkedEDS(t, "", func(o *Options) { o.OnUpdate = func(u Update) { updates = append(updates, u) } })
	assign(t, c, endpointAt("1.0.0.1", ""), endpointAt("1.0.0.2", ""))
	h := c.Hosts().Hosts()[0]
	check(c, h, 0)
	check(c, c.Hosts().Hosts()[1], 0)
	assign(t, c, endpointAt("1.0.0.2", ""))
	set, n := c.Hosts(), len(updates)
	assign(t, c, endpointAt("1.0.0.2", ""))
	if c.Hosts() != set || len(updates) != n {
		t.Error("an equal assignment is a change while a host that is gone stays")
	}
	assign(t, c, endpointAt("1.0.0.1", ""), endpointAt("1.0.0.2", ""))
	if h.HealthFlags() != "healthy" || c.Hosts().Hosts()[0] != h {
		t.Errorf("%s when it came back", h.HealthFlags())
	}
	assign(t, c, endpointAt("1.0.0.2", ""))
	check(c, h, FailedActive)
	last := updates[len(updates)-1]
	if !h.Removed() || len(c.Hosts().Hosts()) != 1 || len(last.Removed) != 1 || len(last.Failed) != 1 || last.Failed[0] != h {
		t.Errorf("%+v after it failed", last)
	}

	assign(t, c, endpointAt("1.0.0.3", ""), endpointAt("1.0.0.4", `, "health_check_config": {"disable_active_health_check": true}`),
		strings.Replace(endpointAt("1.0.0.5", ""), `{"endpoint"`, `{"health_status": "UNHEALTHY", "endpoint"`, 1))
	hosts := c.Hosts().Hosts()
	for _, x := range hosts {
		check(c, x, 0)
	}
	assign(t, c, endpointAt("1.0.0.3", `, "health_check_config": {"port_value": 81}`))
	now := c.Hosts().Hosts()
	if len(now) != 2 || now[0] == hosts[0] || now[1].String() != "1.0.0.2:80" || now[0].Flags() != FailedActive {
		t.Errorf("%v", now)
	}
}

// Proves CM-12 for DNS.
func TestGoneHostsOfDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan []netip.Addr, 1)
		last := []netip.Addr{netip.MustParseAddr("1.0.0.1")}
		c, _ := build(t, `{"name": "c", "type": "STRICT_DNS", "dns_refresh_rate": "1s", `+checks+`, "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [`+endpointAt("a.test", "")+`]}]}}`,
			func(o *Options) {
				o.Resolver = resolverFunc(func() []netip.Addr {
					select {
					case last = <-answers:
					default:
					}
					return last
				})
			})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		h := c.Hosts().Hosts()[0]
		check(c, h, 0)
		answers <- []netip.Addr{netip.MustParseAddr("1.0.0.2")}
		time.Sleep(2 * time.Second)
		if got := fmt.Sprint(c.Hosts().Hosts()); got != "[1.0.0.2:80 1.0.0.1:80]" {
			t.Error(got)
		}
		check(c, h, FailedActive)
		if got := fmt.Sprint(c.Hosts().Hosts()); got != "[1.0.0.2:80]" {
			t.Error(got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type resolverFunc func() []netip.Addr

func (f resolverFunc) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	if network == "ip6" {
		return nil, &net.DNSError{IsNotFound: true}
	}
	return f(), nil
}

// Proves CM-04 for health checks: a cluster is ready when each of its first hosts was
// checked once, or is gone, whatever came of it; at once if there is nothing to check.
func TestReadyAfterFirstRound(t *testing.T) {
	c, _ := build(t, `{"name": "c", `+checks+`, "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [`+
		endpointAt("1.0.0.1", "")+","+endpointAt("1.0.0.2", "")+","+endpointAt("1.0.0.3", `, "health_check_config": {"disable_active_health_check": true}`)+`]}]}}`)
	hosts := c.Hosts().Hosts()
	if !c.Known() || c.isReady() || len(c.Hosts().Priorities[0].Healthy) != 1 {
		t.Fatal("before the first round")
	}
	check(c, hosts[0], FailedActive)
	check(c, hosts[0], 0)
	if c.isReady() {
		t.Error("ready with a host that was not checked")
	}
	check(c, hosts[1], FailedActive)
	if !c.isReady() {
		t.Error("not ready after the first round")
	}

	c, _ = build(t, `{"name": "c", `+checks+`}`)
	if !c.isReady() {
		t.Error("a cluster without hosts waits for checks")
	}

	c = checkedEDS(t, "")
	assign(t, c, endpointAt("1.0.0.1", ""), endpointAt("1.0.0.2", ""))
	c.GiveUp()
	c.Skip()
	if c.isReady() {
		t.Error("given up although its hosts are known")
	}
	check(c, c.Hosts().Hosts()[0], 0)
	assign(t, c, endpointAt("1.0.0.1", ""), endpointAt("1.0.0.9", ""))
	if !c.isReady() {
		t.Error("a host that is gone is waited for")
	}
	c = checkedEDS(t, "")
	c.Skip()
	if !c.isReady() {
		t.Error("nothing is known to exist")
	}
}

// Proves HK-12: the flags as text and as JSON; those of outlier detection, which is
// not built, never are. Partly proves CM-16: ignore_new_hosts_until_first_hc.
func TestHealthFlags(t *testing.T) {
	c := checkedEDS(t, `, "common_lb_config": {"ignore_new_hosts_until_first_hc": true, "update_merge_window": "0s"}`)
	assign(t, c, endpointAt("1.0.0.1", ""))
	h := c.Hosts().Hosts()[0]
	for _, tt := range []struct {
		flags              Flags
		text               string
		health             Health
		excluded, degraded int
	}{
		{h.Flags(), "/failed_active_hc/pending_active_hc", Unhealthy, 1, 0},
		{0, "healthy", Healthy, 0, 0},
		{DegradedActive, "/degraded_active_hc", Degraded, 0, 1},
		{FailedActive | DegradedActive | ExcludedByFailure, "/failed_active_hc/degraded_active_hc/excluded_via_immediate_hc_fail", Unhealthy, 1, 0},
		{FailedActive | ActiveTimeout, "/failed_active_hc/active_hc_timeout", Unhealthy, 0, 0},
	} {
		check(c, h, tt.flags)
		p := c.Hosts().Priorities[0]
		if h.HealthFlags() != tt.text || h.Health() != tt.health || len(p.Excluded) != tt.excluded || len(p.Degraded) != tt.degraded {
			t.Errorf("%s %d, %d excluded and %d degraded", h.HealthFlags(), h.Health(), len(p.Excluded), len(p.Degraded))
		}
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := v.proto().GetHostStatuses()[0].GetHealthStatus()
		got := [...]bool{
			s.GetFailedActiveHealthCheck(), s.GetFailedActiveDegradedCheck(), s.GetPendingActiveHc(), s.GetExcludedViaImmediateHcFail(), s.GetActiveHcTimeout(), s.GetPendingDynamicRemoval(),
		}
		has := func(f Flags) bool { return tt.flags&f != 0 }
		want := [...]bool{has(FailedActive), has(DegradedActive), has(PendingActive), has(ExcludedByFailure), has(ActiveTimeout), false}
		if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(v.Hosts[0].HealthFlagsText, tt.text) {
			t.Errorf("%s: %s", tt.text, diff)
		}
	}
	check(c, h, 0)
	assign(t, c)
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := v.proto().GetHostStatuses()[0].GetHealthStatus(); !s.GetPendingDynamicRemoval() || v.Hosts[0].HealthFlagsText != "/pending_dynamic_removal" {
		t.Errorf("%v", s)
	}
}

// A set is made once for all changes before it, and none for what load balancing does
// not look at.
func TestRebalancesOnce(t *testing.T) {
	updates := 0
	c := checkedEDS(t, "", func(o *Options) { o.OnUpdate = func(Update) { updates++ } })
	var endpoints []string
	for i := range 100 {
		endpoints = append(endpoints, endpointAt(fmt.Sprintf("1.0.0.%d", i), ""))
	}
	assign(t, c, endpoints...)
	updates = 0
	for _, h := range c.Hosts().Hosts() {
		c.SetHealth(h, 0)
	}
	for range 100 {
		c.Rebalance()
	}
	if updates != 1 || len(c.Hosts().Priorities[0].Healthy) != 100 {
		t.Errorf("%d sets of hosts", updates)
	}
	h := c.Hosts().Hosts()[0]
	check(c, h, FailedActive)
	if c.SetHealth(h, FailedActive|ActiveTimeout) {
		t.Error("a flag that is only shown is a change")
	}
	if updates != 2 {
		t.Errorf("%d sets of hosts", updates)
	}
}

// Partly proves HK-09: what is not valid is refused by its field; and partly proves
// HK-01: what each check must have.
func TestCheckConfigRefused(t *testing.T) {
	for _, tt := range []struct{ name, conf, want string }{
		{"port", endpointAt("1.0.0.1", `, "health_check_config": {"port_value": 65536}`), "PortValue: value must be less than or equal to 65535"},
		{"address", endpointAt("1.0.0.1", `, "health_check_config": {"address": {"socket_address": {"address": "a.test", "port_value": 1}}}`), "lb_endpoints[0].endpoint.health_check_config.address: malformed IP address: a.test"},
		{"port of a pipe", `{"endpoint": {"address": {"pipe": {"path": "/x"}}, "health_check_config": {"port_value": 1}}}`, "health_check_config.port_value: Invalid host configuration: non-zero port for non-IP address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf := configOf(t, `{"name": "c", "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [`+tt.conf+`]}]}}`)
			if _, err := New(conf, optionsOn(registry(t), conf)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q in it", err, tt.want)
			}
		})
	}
	for _, field := range []string{"Timeout", "Interval", "UnhealthyThreshold", "HealthyThreshold", "HealthChecker"} {
		conf := configOf(t, `{"name": "c", `+checks+`}`)
		h := conf.GetHealthChecks()[0]
		switch field {
		case "Timeout":
			h.Timeout = nil
		case "Interval":
			h.Interval = nil
		case "UnhealthyThreshold":
			h.UnhealthyThreshold = nil
		case "HealthyThreshold":
			h.HealthyThreshold = nil
		case "HealthChecker":
			h.HealthChecker = nil
		}
		if _, err := New(conf, optionsOn(registry(t), conf)); err == nil || !strings.Contains(err.Error(), field+": value is required") {
			t.Errorf("without %s: %v", field, err)
		}
	}
}

// Partly proves HK-09: transport_socket_match_criteria select as an endpoint's
// metadata would, and whatever those say.
func TestMatchTransportSocket(t *testing.T) {
	socket := `"transport_socket": {"name": "x", "typed_config": {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {}}}`
	c, _ := build(t, `{"name": "c", "transport_socket_matches": [{"name": "a", "match": {"k": "1"}, `+socket+`}, {"name": "b", "match": {"k": "2"}, `+socket+`}]}`)
	for value, want := range map[string]int{"1": 0, "2": 1, "3": -1} {
		if got := c.MatchTransportSocket(&structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue(value)}}); got != want {
			t.Errorf("%s selects %d, want %d", value, got, want)
		}
	}
}

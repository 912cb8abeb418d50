package cluster

import (
	"fmt"
	"strings"
	"testing"

	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/random/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

const subsetPolicy = "envoy.extensions.load_balancing_policies.subset.v3.Subset"

// The quoted texts are those of Envoy 1.40 for the same configuration.
// Partly proves LB-15.
func TestSubsetsRefused(t *testing.T) {
	selector := func(s object) object { return object{"subset_selectors": []object{{"keys": []string{"z"}}, s}} }
	keys := []string{"b", "a"}
	robin := policies(packed("envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin", nil))["load_balancing_policy"]
	for name, tt := range map[string]struct {
		conf object
		want string
	}{
		"not for these":   {selector(object{"keys": keys, "fallback_keys_subset": []string{"a"}}), "subset_selectors[1].fallback_keys_subset can be set only for KEYS_SUBSET fallback_policy"},
		"no fewer keys":   {selector(object{"keys": keys, "fallback_policy": "KEYS_SUBSET"}), "subset_selectors[1].fallback_keys_subset cannot be empty"},
		"other keys":      {selector(object{"keys": keys, "fallback_policy": "KEYS_SUBSET", "fallback_keys_subset": []string{"a", "c"}}), "subset_selectors[1].fallback_keys_subset must be a subset of selector keys"},
		"the same keys":   {selector(object{"keys": keys, "fallback_policy": "KEYS_SUBSET", "fallback_keys_subset": []string{"a", "b"}}), "subset_selectors[1].fallback_keys_subset cannot be equal to keys"},
		"keys twice":      {selector(object{"keys": []string{"a", "a"}, "fallback_policy": "KEYS_SUBSET", "fallback_keys_subset": []string{"a"}}), "subset_selectors[1].fallback_keys_subset cannot be equal to keys"},
		"without keys":    {selector(object{"fallback_policy": "KEYS_SUBSET"}), ""},
		"without any":     {object{}, ""},
		"several and one": {selector(object{"keys": keys, "single_host_per_subset": true}), ""},
	} {
		for form, conf := range map[string]object{
			"lb_subset_config.": {"lb_subset_config": tt.conf},
			"load_balancing_policy.policies[0].typed_extension_config.typed_config.": policies(packed(subsetPolicy, tt.conf.with(object{"subset_lb_policy": robin}))),
		} {
			err := newError(t, conf)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), form+tt.want)):
				t.Errorf("%s: %v, want %q in it", name, err, form+tt.want)
			}
		}
	}
	nested := packed(subsetPolicy, object{"subset_lb_policy": robin})
	for name, tt := range map[string]struct {
		conf object
		want string
	}{
		"provided":        {object{"lb_policy": "CLUSTER_PROVIDED", "lb_subset_config": selector(object{})}, "cluster: LB policy CLUSTER_PROVIDED cannot be combined with lb_subset_config"},
		"provided, none":  {object{"lb_policy": "CLUSTER_PROVIDED", "lb_subset_config": object{}}, "did not provide one"},
		"both":            {policies(nested).with(object{"lb_subset_config": selector(object{})}), "cluster: load_balancing_policy cannot be combined with lb_subset_config"},
		"no policy":       {policies(packed(subsetPolicy, nil)), "typed_config.subset_lb_policy: cluster: didn't find a registered load balancer factory implementation for subset lb with names from []"},
		"unknown policy":  {policies(packed(subsetPolicy, object{"subset_lb_policy": policies(packed("google.protobuf.Struct", object{"value": object{}}))["load_balancing_policy"]})), "for subset lb with names from [p0]"},
		"unbuilt policy":  {policies(packed(subsetPolicy, object{"subset_lb_policy": policies(packed("envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst", nil))["load_balancing_policy"]})), "typed_config.subset_lb_policy.policies[0].typed_extension_config.typed_config: envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst is known but not built"},
		"subsets of them": {policies(packed(subsetPolicy, object{"subset_lb_policy": policies(nested)["load_balancing_policy"]})), "typed_config: subsets of subsets are known but not built"},
		"fallback 9":      {object{"lb_subset_config": object{"fallback_policy": 9}}, "LbSubsetConfig.FallbackPolicy: value must be one of the defined enum values"},
		"typed 9":         {policies(packed(subsetPolicy, object{"fallback_policy": 9, "subset_lb_policy": robin})), "Subset.FallbackPolicy: value must be one of the defined enum values"},
	} {
		if err := newError(t, tt.conf); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", name, err, tt.want)
		}
	}
}

// newError is what is wrong with a STATIC cluster of some configuration.
func newError(t *testing.T, conf object) error {
	t.Helper()
	c := configOf(t, object{"name": "c", "load_assignment": load(at("127.0.0.1"))}.with(conf).String())
	_, err := New(c, optionsOn(registry(t), c))
	return err
}

// marked is an endpoint with metadata.
func marked(host string, metadata object) object {
	return at(host).with(object{"metadata": object{"filter_metadata": object{subset.Namespace: metadata}}})
}

// assigned makes an EDS cluster with subsets, and a way to change its endpoints.
func assigned(t testing.TB, fields object) (c *Cluster, reg *stats.Registry, assign func(eps ...object), stat func() string) {
	t.Helper()
	c, reg = build(t, object{"name": "c", "type": "EDS", "eds_cluster_config": object{"eds_config": object{"ads": object{}}}}.with(object{"lb_subset_config": object{"subset_selectors": []object{{"keys": []string{"a"}}}}}).with(fields).String())
	assign = func(eps ...object) {
		t.Helper()
		if err := c.Assign(assignmentOf(t, load(eps...).String())); err != nil {
			t.Fatal(err)
		}
	}
	stat = func() string {
		c.PublishGauges()
		snap := snapshot(t, reg)
		return fmt.Sprintf("active %d, created %d, removed %d", snap.Gauge(c.Stats.LbSubsetsActive), snap.Counter(c.Stats.LbSubsetsCreated), snap.Counter(c.Stats.LbSubsetsRemoved))
	}
	return c, reg, assign, stat
}

// What of the subsets has not changed stays the same, and what has is new; hosts go
// from one subset to another with their metadata.
// Partly proves LB-15, CM-17.
func TestSubsetsChange(t *testing.T) {
	c, reg, assign, stat := assigned(t, object{"common_lb_config": object{"update_merge_window": "0s"}})
	names := c.LB.Subsets
	find := func(v string) *Subset {
		m := names.Of(configOf(t, object{"metadata": marked("", object{"a": v})["metadata"]}.String()).GetMetadata())
		return c.Hosts().Subsets.Named(m.Subsets[0].Name)
	}
	size := func(v string) int {
		s := find(v)
		if s == nil {
			return -1
		}
		return len(s.Hosts.Hosts())
	}
	want := func(what string, one, two int, counts string) {
		t.Helper()
		if a, b, s := size("1"), size("2"), stat(); a != one || b != two || s != counts {
			t.Errorf("%s: %d and %d hosts, %s; want %d, %d, %s", what, a, b, s, one, two, counts)
		}
	}
	want("at first", -1, -1, "active 0, created 0, removed 0")
	assign(marked("10.0.0.1", object{"a": "1"}), marked("10.0.0.2", object{"a": "1"}), at("10.0.0.3"))
	want("one subset", 2, -1, "active 1, created 1, removed 0")
	first, host := find("1"), c.Hosts().Hosts()[1]
	assign(marked("10.0.0.1", object{"a": "1"}), marked("10.0.0.2", object{"a": "1"}), at("10.0.0.3"), marked("10.0.0.4", object{"a": "2"}))
	want("another", 2, 1, "active 2, created 2, removed 0")
	if find("1") != first {
		t.Error("a subset of which nothing has changed is made again")
	}
	assign(marked("10.0.0.1", object{"a": "1"}), marked("10.0.0.2", object{"a": "2"}), at("10.0.0.3"), marked("10.0.0.4", object{"a": "2"}))
	want("a host of another", 1, 2, "active 2, created 2, removed 0")
	if find("1") == first || find("2").Hosts.Hosts()[0] != host {
		t.Error("the host has not moved, or is another one")
	}
	second := find("2")
	assign(marked("10.0.0.1", object{"a": "1"}).with(object{"load_balancing_weight": 5}), marked("10.0.0.2", object{"a": "2"}), marked("10.0.0.4", object{"a": "2"}))
	if find("2") != second || find("1").Hosts.Priorities[0].Hosts[0].Weight() != 5 {
		t.Error("a weight")
	}
	assign(marked("10.0.0.1", object{"a": "1"}).with(object{"health_status": "UNHEALTHY"}), marked("10.0.0.2", object{"a": "2"}), marked("10.0.0.4", object{"a": "2"}))
	if find("2") != second || len(find("1").Hosts.Priorities[0].Healthy) != 0 {
		t.Error("health")
	}
	c.ApplyRuntime(runtimeMap{"upstream.healthy_panic_threshold": 10})
	if s := find("2"); s == second || s.Hosts.PanicThreshold != 10 {
		t.Error("the runtime does not reach the subsets")
	}
	assign(marked("10.0.0.2", object{"a": "2"}))
	want("gone", -1, 1, "active 1, created 2, removed 1")
	c.Ended()
	if n := snapshot(t, reg).Counter(c.Stats.LbSubsetsRemoved); n != 2 {
		t.Errorf("at the end %d are removed", n)
	}
}

// Of the hosts of one priority with the same values one counts, that of the first
// priority.
// Partly proves LB-15.
func TestOneHostOfEach(t *testing.T) {
	c, reg := build(t, object{
		"name": "c", "lb_subset_config": object{"subset_selectors": []object{{"keys": []string{"a"}, "single_host_per_subset": true}}},
		"load_assignment": object{"cluster_name": "c", "endpoints": []object{
			{"priority": 1, "lb_endpoints": []object{marked("10.0.1.1", object{"a": "1"}), marked("10.0.1.2", object{"a": "2"}), marked("10.0.1.3", object{"a": "2"})}},
			{"lb_endpoints": []object{marked("10.0.0.1", object{"a": "3"}), marked("10.0.0.2", object{"a": "1"}), marked("10.0.0.3", object{"a": "1"})}},
		}},
	}.String())
	got := map[string]bool{}
	for _, s := range c.Hosts().Subsets.byName {
		got[s.Single.String()] = true
	}
	if len(got) != 3 || !got["10.0.0.2:80"] || !got["10.0.0.1:80"] || !got["10.0.1.2:80"] {
		t.Errorf("%v", got)
	}
	c.PublishGauges()
	if n := snapshot(t, reg).Gauge(c.Stats.subsets.Duplicates); n != 2 {
		t.Errorf("%d duplicates", n)
	}
}

// Clusters without subsets have nothing of them.
func TestNoSubsets(t *testing.T) {
	c, _ := build(t, object{"name": "c", "lb_subset_config": object{"fallback_policy": "NO_FALLBACK"}, "load_assignment": load(marked("10.0.0.1", object{"a": "1"}))}.String())
	like, _, assign, _ := assigned(t, nil)
	assign(at("10.0.0.1"), at("10.0.0.2"))
	if h := like.Hosts().Hosts(); h[0].Attributes() != h[1].Attributes() {
		t.Error("hosts that are alike have attributes of their own")
	}
	if c.LB.Asks() || c.Hosts().Subsets != nil || c.Hosts().Hosts()[0].Attributes().subsets != nil {
		t.Error("it has subsets")
	}
	c.PublishGauges()
	c.Ended()
}

// BenchmarkSubsetsChange is the time from an assignment in which one endpoint of
// 10,000 has changed to the hosts in force, with 100 subsets and without.
func BenchmarkSubsetsChange(b *testing.B) {
	for _, selectors := range []int{0, 1, 3} {
		b.Run(fmt.Sprint(selectors), func(b *testing.B) {
			var list []object
			for i := range selectors {
				list = append(list, object{"keys": []string{fmt.Sprint("k", i)}})
			}
			c, _, _, _ := assigned(b, object{"lb_subset_config": object{"subset_selectors": list}})
			var eps []object
			for i := range 10000 {
				m := object{}
				for k := range 3 {
					m[fmt.Sprint("k", k)] = fmt.Sprint(i % 100)
				}
				eps = append(eps, marked(fmt.Sprintf("10.0.%d.%d", i>>8, i&255), m))
			}
			la := assignmentOf(b, load(eps...).String())
			status := la.GetEndpoints()[0].GetLbEndpoints()[5000]
			for b.Loop() {
				status.HealthStatus ^= 3 // UNKNOWN and DRAINING
				if err := c.Assign(la); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package cluster

import (
	"slices"
	"strings"
	"testing"
)

// edsHashed is an EDS cluster with a policy that hashes.
func edsHashed(t *testing.T) *Cluster {
	t.Helper()
	c, _ := build(t, object{"name": "c", "type": "EDS", "lb_policy": "MAGLEV", "eds_cluster_config": object{"eds_config": object{"ads": object{}}}}.String())
	return c
}

func assignTo(t *testing.T, c *Cluster, eps ...object) error {
	t.Helper()
	return c.Assign(configOf(t, object{"name": "c", "load_assignment": load(eps...)}.String()).GetLoadAssignment())
}

// The table is made again when its members change, and only then; a set that is in
// use keeps its own.
// Proves LB-18 for policies that hash. Partly proves LB-19.
func TestTableFollowsEndpoints(t *testing.T) {
	c := edsHashed(t)
	c.mergeWindow = 0
	if h := c.Hosts().Hashed[0].Choose(1, 0); h != nil {
		t.Errorf("%v before there are endpoints", h)
	}
	a, b := at("10.0.0.1"), at("10.0.0.2")
	meta := func(ep object, key string) object {
		return ep.with(object{"metadata": object{"filter_metadata": object{"envoy.lb": object{"hash_key": key}, "x": object{"k": key}}}})
	}
	other := func(ep object, v string) object {
		return ep.with(object{"metadata": object{"filter_metadata": object{"x": object{"k": v}}}})
	}
	var before *HostSet
	for i, step := range []struct {
		what string
		eps  []object
		same bool
	}{
		{"first", []object{a, b}, false},
		{"metadata", []object{other(a, "v"), b}, true},
		{"weight", []object{a, b.with(object{"load_balancing_weight": 2})}, false},
		{"equal weights", []object{a.with(object{"load_balancing_weight": 2}), b.with(object{"load_balancing_weight": 4})}, true},
		{"key", []object{meta(a, "k"), b.with(object{"load_balancing_weight": 2})}, false},
		{"health", []object{a.with(object{"health_status": "UNHEALTHY"}), b}, false},
		{"fewer", []object{b}, true},
		{"nobody", nil, false},
	} {
		if err := assignTo(t, c, step.eps...); err != nil {
			t.Fatal(err)
		}
		set := c.Hosts()
		if i > 0 {
			same := before.Hashed[0].table == set.Hashed[0].table
			if same != step.same {
				t.Errorf("%s: the table is the same: %t", step.what, same)
			}
			if h := before.Hashed[0].Choose(5, 0); h == nil || !slices.Contains(before.Hosts(), h) {
				t.Errorf("%s: the set from before chooses %v", step.what, h)
			}
		}
		before = set
	}
}

// Proves LB-05: what could not be added up is refused when it is discovered, too.
func TestDiscoveredWeights(t *testing.T) {
	c := edsHashed(t)
	err := assignTo(t, c, at("10.0.0.1").with(object{"load_balancing_weight": 4294967295}), at("10.0.0.2"))
	if err == nil || !strings.Contains(err.Error(), "The sum of weights of all upstream hosts in a locality exceeds 4294967295") {
		t.Error(err)
	}
}

// fixed is a runtime with a panic threshold.
type fixed uint64

func (f fixed) Integer(key string, def uint64) uint64 {
	if key == "upstream.healthy_panic_threshold" {
		return uint64(f)
	}
	return def
}
func (fixed) Double(_ string, def float64) float64 { return def }

// Panic that the runtime brings or ends changes who is in the table (LB-10).
func TestTableFollowsRuntime(t *testing.T) {
	down := object{"health_status": "UNHEALTHY"}
	c, _ := build(t, object{"name": "c", "lb_policy": "RING_HASH", "load_assignment": load(at("10.0.0.1"), at("10.0.0.2").with(down), at("10.0.0.3").with(down))}.String())
	for _, step := range []struct{ threshold, hosts int }{{50, 3}, {20, 1}, {40, 3}} {
		c.ApplyRuntime(fixed(step.threshold))
		if n := len(c.Hosts().Hashed[0].Hosts); n != step.hosts {
			t.Errorf("with %d%% %d hosts are chosen from, want %d", step.threshold, n, step.hosts)
		}
	}
}

// As in Envoy the localities come in the order of their names, after the proxy's
// own.
func TestOwnLocalityFirst(t *testing.T) {
	group := func(zone, addr string) object {
		return object{"locality": object{"zone": zone}, "load_balancing_weight": 1, "lb_endpoints": []object{at(addr)}}
	}
	conf := object{
		"name": "c", "lb_policy": "RING_HASH", "common_lb_config": object{"locality_weighted_lb_config": object{}},
		"load_assignment": object{"cluster_name": "c", "endpoints": []object{group("c", "10.0.0.3"), group("b", "10.0.0.2"), group("a", "10.0.0.1")}},
	}.String()
	for zone, want := range map[string]string{"": "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80", "c": "10.0.0.3:80 10.0.0.1:80 10.0.0.2:80"} {
		c, _ := build(t, conf, func(o *Options) { o.Locality = Locality{Zone: zone} })
		var got []string
		for _, h := range c.Hosts().Hashed[0].Hosts {
			got = append(got, h.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("in zone %q: %v", zone, got)
		}
	}
}

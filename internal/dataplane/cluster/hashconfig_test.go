package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/dataplane/consistent"
)

const hashing = "envoy.extensions.load_balancing_policies."

// Proves LB-01: both forms of the policies that hash come to the same.
// Partly proves CM-16: consistent_hashing_lb_config.
func TestHashConfig(t *testing.T) {
	ring := HashConfig{Ring: consistent.RingConfig{Least: 1024, Most: 8 << 20}}
	changed := HashConfig{Ring: consistent.RingConfig{Least: 5, Most: 10, Murmur: true}, ByHostname: true, BalanceFactor: 150}
	bounded := ring
	bounded.BalanceFactor = 120
	common := func(o object) object { return object{"consistent_hashing_lb_config": o} }
	strict := object{"type": "STRICT_DNS", "load_assignment": load()}
	tests := []struct {
		name        string
		enum, typed object
		policy      LBPolicy
		want        HashConfig
		weighted    bool
	}{
		{name: "ring", enum: object{"lb_policy": "RING_HASH"}, typed: policies(packed(hashing+"ring_hash.v3.RingHash", nil)), policy: RingHash, want: ring},
		{
			name: "ring changed",
			enum: strict.with(object{
				"lb_policy": "RING_HASH", "ring_hash_lb_config": object{"minimum_ring_size": 5, "maximum_ring_size": 10, "hash_function": "MURMUR_HASH_2"},
				"common_lb_config": common(object{"use_hostname_for_hashing": true, "hash_balance_factor": 150}),
			}),
			typed: policies(packed(hashing+"ring_hash.v3.RingHash", object{"minimum_ring_size": 5, "maximum_ring_size": 10, "hash_function": "MURMUR_HASH_2"}.
				with(common(object{"use_hostname_for_hashing": true, "hash_balance_factor": 150})))),
			policy: RingHash, want: changed,
		},
		{
			name:  "deprecated fields",
			enum:  object{"lb_policy": "RING_HASH", "common_lb_config": common(object{"hash_balance_factor": 120})},
			typed: policies(packed(hashing+"ring_hash.v3.RingHash", object{"hash_balance_factor": 120})), policy: RingHash, want: bounded,
		},
		{
			name: "new fields win", enum: object{"lb_policy": "RING_HASH"},
			typed:  policies(packed(hashing+"ring_hash.v3.RingHash", object{"hash_balance_factor": 120, "use_hostname_for_hashing": true}.with(common(object{})))),
			policy: RingHash, want: ring,
		},
		{name: "maglev", enum: object{"lb_policy": "MAGLEV"}, typed: policies(packed(hashing+"maglev.v3.Maglev", nil)), policy: Maglev, want: HashConfig{TableSize: 65537}},
		{
			name:  "maglev changed",
			enum:  object{"lb_policy": "MAGLEV", "maglev_lb_config": object{"table_size": 11}, "common_lb_config": object{"locality_weighted_lb_config": object{}}},
			typed: policies(packed(hashing+"maglev.v3.Maglev", object{"table_size": 11, "locality_weighted_lb_config": object{}})), policy: Maglev,
			want: HashConfig{TableSize: 11}, weighted: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for form, conf := range map[string]object{"enum": tt.enum, "typed": tt.typed} {
				c, _ := build(t, object{"name": "c"}.with(conf).String(), func(o *Options) { o.Resolver = &SystemResolver{} })
				if c.LB.Policy != tt.policy || c.LB.LocalityWeighted != tt.weighted {
					t.Errorf("%s: %+v", form, c.LB)
				}
				if diff := cmp.Diff(tt.want, c.LB.Hash); diff != "" {
					t.Errorf("%s: %s", form, diff)
				}
			}
		})
	}
}

// Proves LB-05, LB-07: what cannot be built is refused, most of it with the words
// of Envoy.
func TestHashConfigRefuses(t *testing.T) {
	weighing := func(weights ...uint32) object {
		var eps []object
		for _, w := range weights {
			eps = append(eps, at("127.0.0.1").with(object{"load_balancing_weight": w}))
		}
		return object{"load_assignment": load(eps...)}
	}
	groups := func(weights ...uint32) object {
		var ls []object
		for i, w := range weights {
			ls = append(ls, object{"locality": object{"zone": string(rune('a' + i))}, "load_balancing_weight": w, "lb_endpoints": []object{at("127.0.0.1")}})
		}
		return object{"load_assignment": object{"cluster_name": "c", "endpoints": ls}}
	}
	ring, maglev := object{"lb_policy": "RING_HASH"}, object{"lb_policy": "MAGLEV"}
	own := func(p object) object {
		return policies(packed(hashing+"maglev.v3.Maglev", object{"consistent_hashing_lb_config": object{"hash_policy": []object{p}}}))
	}
	named := object{"common_lb_config": object{"consistent_hashing_lb_config": object{"use_hostname_for_hashing": true}}}
	for name, tt := range map[string]struct {
		conf object
		want string
	}{
		"sizes":         {ring.with(object{"ring_hash_lb_config": object{"minimum_ring_size": 10, "maximum_ring_size": 5}}), "ring_hash_lb_config: ring hash: minimum_ring_size (10) > maximum_ring_size (5)"},
		"typed sizes":   {policies(packed(hashing+"ring_hash.v3.RingHash", object{"minimum_ring_size": 10, "maximum_ring_size": 5})), "typed_config: ring hash: minimum_ring_size (10) > maximum_ring_size (5)"},
		"too large":     {ring.with(object{"ring_hash_lb_config": object{"minimum_ring_size": 8<<20 + 1}}), "MinimumRingSize: value must be less than or equal to 8388608"},
		"no prime":      {maglev.with(object{"maglev_lb_config": object{"table_size": 4}}), "maglev_lb_config.table_size: The table size of maglev must be prime number"},
		"one":           {maglev.with(object{"maglev_lb_config": object{"table_size": 1}}), "The table size of maglev must be prime number"},
		"typed prime":   {policies(packed(hashing+"maglev.v3.Maglev", object{"table_size": 0})), "typed_config.table_size: The table size of maglev must be prime number"},
		"hostname":      {ring.with(named), "Cannot use hostname for consistent hashing loadbalancing for cluster of type: 'STATIC'"},
		"any hostname":  {named, "Cannot use hostname for consistent hashing loadbalancing for cluster of type: 'STATIC'"},
		"factor":        {ring.with(object{"common_lb_config": object{"consistent_hashing_lb_config": object{"hash_balance_factor": 99}}}), "HashBalanceFactor: value must be greater than or equal to 100"},
		"weights":       {ring.with(weighing(1<<31, 1<<31)), "The sum of weights of all upstream hosts in a locality exceeds 4294967295"},
		"localities":    {maglev.with(groups(1<<31, 1<<31)), "The sum of weights of all localities at the same priority exceeds 4294967295"},
		"regex":         {own(object{"header": object{"header_name": "a", "regex_rewrite": object{"pattern": object{"regex": "("}}}}), "typed_config.consistent_hashing_lb_config.hash_policy[0].header.regex_rewrite.pattern: "},
		"no specifier":  {own(object{}), "HashPolicy"},
		"also the list": {policies(packed(hashing+"maglev.v3.Maglev", nil)).with(named), "load_balancing_policy cannot be combined with partial fields"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := configOf(t, object{"name": "c"}.with(tt.conf).String())
			_, err := New(conf, optionsOn(registry(t), conf))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
	for _, fine := range []object{weighing(1<<31, 1<<31), maglev.with(object{"ring_hash_lb_config": object{"minimum_ring_size": 10, "maximum_ring_size": 5}})} {
		build(t, object{"name": "c"}.with(fine).String())
	}
}

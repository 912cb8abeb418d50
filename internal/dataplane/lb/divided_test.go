package lb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/maglev/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// hostWith is an lb_endpoint e<n> with metadata and, perhaps, more fields.
func hostWith(n int, metadata string, more ...string) string {
	return fmt.Sprintf(`{"endpoint": {"hostname": "e%d", "address": {"socket_address": {"address": "10.0.%d.%d", "port_value": 80}}},
		"metadata": {"filter_metadata": {"envoy.lb": %s}}%s}`, n, n>>8, n&255, metadata, strings.Join(append([]string{""}, more...), ", "))
}

// subsetted makes a STATIC cluster of endpoints, which are in one locality.
func subsetted(t testing.TB, fields string, endpoints ...string) (*cluster.Cluster, *stats.Registry) {
	t.Helper()
	return located(t, fields, `{"lb_endpoints": [`+strings.Join(endpoints, ",")+`]}`)
}

func located(t testing.TB, fields string, localities ...string) (*cluster.Cluster, *stats.Registry) {
	t.Helper()
	return made(t, func(c *clusterv3.Cluster) {
		text := `{"name": "c", "load_assignment": {"cluster_name": "c", "endpoints": [` + strings.Join(localities, ",") + `]}, ` + fields + `}`
		if err := protojson.Unmarshal([]byte(text), c); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	})
}

// typedSubsets is the extension's form of a division, of which the children are a
// policy.
func typedSubsets(policy, fields string) string {
	const lbs = `type.googleapis.com/envoy.extensions.load_balancing_policies.`
	wrap := func(config string) string {
		return `{"policies": [{"typed_extension_config": {"name": "p", "typed_config": ` + config + `}}]}`
	}
	return `"load_balancing_policy": ` + wrap(`{"@type": "`+lbs+`subset.v3.Subset", "subset_lb_policy": `+wrap(`{"@type": "`+lbs+policy+`"}`)+`, `+fields+`}`)
}

const robin = "round_robin.v3.RoundRobin"

// criteria are those of a route's metadata_match; "" has none.
func criteria(t testing.TB, js string) *subset.Criteria {
	t.Helper()
	if js == "" {
		return nil
	}
	s := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(js), s); err != nil {
		t.Fatalf("%v in %s", err, js)
	}
	var none *subset.Criteria
	return none.Merged(&corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{subset.Namespace: s}})
}

// over are the names of the hosts that a picker balances over.
func over(t testing.TB, p Picker, match string) string {
	t.Helper()
	ctx, seen := &Context{Criteria: criteria(t, match)}, map[string]bool{}
	for range 60 {
		if h := p.Pick(ctx); h != nil {
			seen[h.Hostname()] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), " ")
}

// counters are the statistics of subsets that are not 0.
func counters(t testing.TB, c *cluster.Cluster, reg *stats.Registry) string {
	t.Helper()
	c.PublishGauges()
	snap, err := reg.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := stats.Render(&text, snap, stats.RenderOptions{}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(text.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if short, ok := strings.CutPrefix(name, "cluster.c.lb_subsets_"); ok && value != "0" {
			out = append(out, short+" "+value)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// The hosts, selectors and matches of the documentation
// (intro/arch_overview/upstream/load_balancing/subsets.rst).
// Proves LB-15.
func TestSubsetsOfTheDocumentation(t *testing.T) {
	const division = `"fallback_policy": "DEFAULT_SUBSET", "default_subset": {"stage": "prod", "version": "1.0", "type": "std"},
		"subset_selectors": [{"keys": ["stage", "type"]}, {"keys": ["stage", "version"]}, {"keys": ["version"]}, {"keys": ["xlarge", "version"]}]`
	for form, fields := range map[string]string{"cluster": `"lb_subset_config": {` + division + `}`, "policy": typedSubsets(robin, division)} {
		c, reg := subsetted(t, fields,
			hostWith(1, `{"stage": "prod", "version": "1.0", "type": "std", "xlarge": true}`),
			hostWith(2, `{"stage": "prod", "version": "1.0", "type": "std"}`),
			hostWith(3, `{"stage": "prod", "version": "1.1", "type": "std"}`),
			hostWith(4, `{"stage": "prod", "version": "1.1", "type": "std"}`),
			hostWith(5, `{"stage": "prod", "version": "1.0", "type": "bigmem"}`),
			hostWith(6, `{"stage": "prod", "version": "1.1", "type": "bigmem"}`),
			hostWith(7, `{"stage": "dev", "version": "1.2-pre", "type": "std"}`))
		p := picking(c, reg, 1)
		for match, want := range map[string]string{
			`{"stage": "prod", "type": "std"}`:                   "e1 e2 e3 e4",
			`{"stage": "prod", "type": "bigmem"}`:                "e5 e6",
			`{"stage": "dev", "type": "std"}`:                    "e7",
			`{"stage": "prod", "version": "1.0"}`:                "e1 e2 e5",
			`{"version": "1.1", "stage": "prod"}`:                "e3 e4 e6",
			`{"stage": "dev", "version": "1.2-pre"}`:             "e7",
			`{"version": "1.0"}`:                                 "e1 e2 e5",
			`{"version": "1.1"}`:                                 "e3 e4 e6",
			`{"version": "1.2-pre"}`:                             "e7",
			`{"version": "1.0", "xlarge": true}`:                 "e1",
			`{"stage": "prod", "type": "std", "version": "1.0"}`: "e1 e2", // the default: no selector has these keys
			`{"other": "x"}`:                                     "e1 e2",
			`{"version": "1.2"}`:                                 "e1 e2",
			`{"xlarge": "true", "version": "1.0"}`:               "e1 e2", // a text is no boolean
			`{}`:                                                 "e1 e2",
			``:                                                   "e1 e2",
		} {
			if got := over(t, p, match); got != want {
				t.Errorf("%s: %s goes to %q, want %q", form, match, got, want)
			}
		}
		if got, want := counters(t, c, reg), "active 10, created 10, fallback 360, selected 600"; got != want {
			t.Errorf("%s: %s, want %s", form, got, want)
		}
	}
}

// What a division does with a request, compared with Envoy 1.40 for the same
// configuration.
// Proves LB-15.
func TestFallbacks(t *testing.T) {
	one, two := hostWith(1, `{"a": "1"}`), hostWith(2, `{"a": "1", "b": "2"}`)
	for name, tt := range map[string]struct {
		division string
		typed    bool
		hosts    []string
		want     map[string]string
		stats    string // without active and created
	}{
		"none": {`"subset_selectors": [{"keys": ["a"]}]`, false, []string{one}, map[string]string{
			``: "", `{"a": "2"}`: "", `{"a": "1", "x": 1}`: "", `{"a": "1"}`: "e1",
		}, "selected 60"},
		"any": {`"fallback_policy": "ANY_ENDPOINT", "subset_selectors": [{"keys": ["a", "b"]}]`, false, []string{one, two}, map[string]string{
			``: "e1 e2", `{"a": "1"}`: "e1 e2", `{"a": "1", "b": "2"}`: "e2",
		}, "fallback 120, selected 60"},
		"default": {`"fallback_policy": "DEFAULT_SUBSET", "default_subset": {"b": "2"}, "subset_selectors": [{"keys": ["a"]}]`, false, []string{one, two}, map[string]string{
			``: "e2", `{"a": "1"}`: "e1 e2",
		}, "fallback 60, selected 60"},
		"default is empty": {`"fallback_policy": "DEFAULT_SUBSET", "default_subset": {"d": "1"}, "subset_selectors": [{"keys": ["a"]}]`, false, []string{one}, map[string]string{
			``: "",
		}, ""},
		"panic": {`"panic_mode_any": true, "fallback_policy": "DEFAULT_SUBSET", "default_subset": {"d": "1"}, "subset_selectors": [{"keys": ["a"]}]`, false, []string{one}, map[string]string{
			``: "e1",
		}, "fallback_panic 60"},
		"panic without a fallback": {`"panic_mode_any": true, "subset_selectors": [{"keys": ["a"]}]`, false, []string{one}, map[string]string{
			``: "", `{"a": "2"}`: "",
		}, ""},
		"a selector's own": {`"fallback_policy": "ANY_ENDPOINT", "default_subset": {"b": "2"}, "subset_selectors": [
			{"keys": ["a"], "fallback_policy": "NO_FALLBACK"}, {"keys": ["b"], "fallback_policy": "DEFAULT_SUBSET"}, {"keys": ["c"], "fallback_policy": "ANY_ENDPOINT"}]`, false, []string{one, two}, map[string]string{
			`{"a": "2"}`: "", `{"b": "1"}`: "e2", `{"c": "1"}`: "e1 e2", `{"d": "1"}`: "e1 e2",
		}, "fallback 60"},
		"a selector's has no panic": {`"panic_mode_any": true, "fallback_policy": "ANY_ENDPOINT", "default_subset": {"d": "1"}, "subset_selectors": [{"keys": ["a"], "fallback_policy": "DEFAULT_SUBSET"}]`, false, []string{one}, map[string]string{
			`{"a": "2"}`: "",
		}, ""},
		"fewer keys": {`"subset_selectors": [{"keys": ["a"]}, {"keys": ["b", "a"], "fallback_policy": "KEYS_SUBSET", "fallback_keys_subset": ["a"]},
			{"keys": ["a", "b", "c"], "fallback_policy": "KEYS_SUBSET", "fallback_keys_subset": ["b", "a"]}]`, false, []string{one, two}, map[string]string{
			`{"a": "1", "b": "2", "c": "3"}`: "e2", `{"a": "1", "b": "3", "c": "3"}`: "e1 e2", `{"a": "4", "b": "2", "c": "3"}`: "",
		}, "selected 120"},
		"the first of the same keys": {`"subset_selectors": [{"keys": ["a"], "fallback_policy": "ANY_ENDPOINT"}, {"keys": ["a", "a"], "fallback_policy": "NO_FALLBACK", "single_host_per_subset": true}]`, false, []string{one, two}, map[string]string{
			`{"a": "1"}`: "e1 e2", `{"a": "3"}`: "e1 e2",
		}, "selected 60"},
		"fallback list": {`"metadata_fallback_policy": "FALLBACK_LIST", "subset_selectors": [{"keys": ["a", "b"]}, {"keys": ["a"]}]`, false, []string{one, two}, map[string]string{
			`{"fallback_list": [{"a": "9"}, {"a": "1", "b": "2"}]}`: "e2", `{"a": "1", "fallback_list": [{"b": "9"}, {"b": "2"}]}`: "e2",
			`{"a": "1", "fallback_list": []}`: "e1 e2", `{"a": "1", "fallback_list": "x"}`: "e1 e2", `{"a": "1", "fallback_list": ["x"]}`: "e1 e2",
			`{"a": "1", "fallback_list": [{"a": "7"}]}`: "", `{"a": "1"}`: "e1 e2",
		}, "selected 360"},
		"fallback list not asked for": {`"subset_selectors": [{"keys": ["a"]}]`, false, []string{one}, map[string]string{`{"a": "1", "fallback_list": [{"a": "1"}]}`: ""}, ""},
		"redundant keys": {
			`"allow_redundant_keys": true, "subset_selectors": [{"keys": ["a"]}, {"keys": ["a", "b"], "fallback_policy": "KEYS_SUBSET", "fallback_keys_subset": ["b"]}, {"keys": ["b"]}]`, true,
			[]string{one, two, hostWith(3, `{"b": "2"}`)},
			map[string]string{
				`{"a": "1", "x": "1"}`: "e1 e2", `{"a": "1", "b": "2", "x": "2"}`: "e2", `{"a": "3", "b": "2", "c": "2"}`: "e2 e3", `{"x": "1"}`: "",
			},
			"selected 180",
		},
		"list as any": {
			`"list_as_any": true, "fallback_policy": "DEFAULT_SUBSET", "default_subset": {"a": "2"}, "subset_selectors": [{"keys": ["a", "b"]}]`, false,
			[]string{hostWith(1, `{"a": ["1", "2", "1"], "b": ["x", "y"]}`), hostWith(2, `{"a": "1", "b": "x"}`), hostWith(3, `{"a": [], "b": "z"}`)},
			map[string]string{
				`{"a": "1", "b": "x"}`: "e1 e2", `{"a": "1", "b": "y"}`: "e1", `{"a": "2", "b": "y"}`: "e1", `{"a": ["1", "2"], "b": "x"}`: "e1", `{"b": "z"}`: "e1",
			},
			"fallback 120, selected 180",
		},
		"lists as themselves": {
			`"subset_selectors": [{"keys": ["a"]}]`, false,
			[]string{hostWith(1, `{"a": [1, 2]}`), hostWith(2, `{"a": 1}`), hostWith(3, `{"a": {"x": 1, "y": null}}`), hostWith(4, `{"a": true}`), hostWith(5, `{"a": null}`), hostWith(6, `{"a": ""}`), hostWith(7, `{"a": 0}`)},
			map[string]string{
				`{"a": [1, 2]}`: "e1", `{"a": [2, 1]}`: "", `{"a": 1.0}`: "e2", `{"a": "1"}`: "", `{"a": {"y": null, "x": 1}}`: "e3", `{"a": {"x": 1}}`: "",
				`{"a": true}`: "e4", `{"a": false}`: "", `{"a": null}`: "e5", `{"a": ""}`: "e6", `{"a": -0.0}`: "e7",
			},
			"selected 420",
		},
		"one host": {
			`"subset_selectors": [{"keys": ["a"], "single_host_per_subset": true}]`, false,
			[]string{hostWith(1, `{"a": "1"}`, `"health_status": "UNHEALTHY"`), hostWith(2, `{"a": "1"}`), hostWith(3, `{"a": "2"}`)},
			map[string]string{
				`{"a": "1"}`: "e1", `{"a": "2"}`: "e3", `{"a": "3"}`: "",
			},
			"selected 120, single_host_per_subset_duplicate 1",
		},
		"no selectors":               {`"fallback_policy": "NO_FALLBACK"`, false, []string{one}, map[string]string{``: "e1", `{"a": "2"}`: "e1"}, ""},
		"no selectors of the policy": {`"fallback_policy": "NO_FALLBACK"`, true, []string{one}, map[string]string{``: "", `{"a": "1"}`: ""}, ""},
		"no host":                    {`"fallback_policy": "ANY_ENDPOINT", "subset_selectors": [{"keys": ["a"]}]`, false, nil, map[string]string{``: "", `{"a": "1"}`: ""}, ""},
	} {
		fields := `"lb_subset_config": {` + tt.division + `}`
		if tt.typed {
			fields = typedSubsets(robin, tt.division)
		}
		c, reg := subsetted(t, fields, tt.hosts...)
		p := picking(c, reg, 1)
		for match, want := range tt.want {
			if got := over(t, p, match); got != want {
				t.Errorf("%s: %s goes to %q, want %q", name, match, got, want)
			}
		}
		got := strings.Split(counters(t, c, reg), ", ")
		got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "active ") || strings.HasPrefix(s, "created ") })
		if s := strings.Join(got, ", "); s != tt.stats {
			t.Errorf("%s: %s, want %s", name, s, tt.stats)
		}
	}
}

// The policy and the health of the hosts count within a subset; a subset in which
// nobody is healthy is one all the same.
// Partly proves LB-15, LB-10.
func TestWithinASubset(t *testing.T) {
	const keys = `"lb_subset_config": {"fallback_policy": "ANY_ENDPOINT", "subset_selectors": [{"keys": ["a"]}]}`
	const down = `"health_status": "UNHEALTHY"`
	hosts := []string{
		hostWith(1, `{"a": "1"}`), hostWith(2, `{"a": "1"}`, down), hostWith(3, `{"a": "1"}`),
		hostWith(4, `{"a": "2"}`, down), hostWith(5, `{"a": "2"}`, down), hostWith(6, `{"a": "2"}`),
		hostWith(7, `{"a": "3"}`, down),
	}
	for threshold, want := range map[int][3]string{50: {"e1 e3", "e4 e5 e6", "e7"}, 0: {"e1 e3", "e6", ""}} {
		c, reg := subsetted(t, keys+fmt.Sprintf(`, "common_lb_config": {"healthy_panic_threshold": {"value": %d}}`, threshold), hosts...)
		p := picking(c, reg, 1)
		for i, want := range want {
			if got := over(t, p, fmt.Sprintf(`{"a": "%d"}`, i+1)); got != want {
				t.Errorf("%d%%: %d goes to %q, want %q", threshold, i+1, got, want)
			}
		}
	}
	weighted, reg := subsetted(t, keys, hostWith(1, `{"a": "1"}`, `"load_balancing_weight": 3`), hostWith(2, `{"a": "1"}`), hostWith(3, `{"a": "2"}`, `"load_balancing_weight": 8`))
	p, n := picking(weighted, reg, 1), map[string]int{}
	for range 400 {
		n[p.Pick(&Context{Criteria: criteria(t, `{"a": "1"}`)}).Hostname()]++
	}
	if n["e1"] != 300 || n["e2"] != 100 {
		t.Errorf("by weight: %v", n)
	}
}

// Policies that hash do so among the hosts of the subset.
// Partly proves LB-15, LB-07.
func TestHashedSubsets(t *testing.T) {
	var hosts []string
	for i := range 40 {
		hosts = append(hosts, hostWith(i, fmt.Sprintf(`{"a": "%d"}`, i%2)))
	}
	const keys = `"subset_selectors": [{"keys": ["a"]}], "fallback_policy": "ANY_ENDPOINT"`
	for _, fields := range []string{
		`"lb_policy": "MAGLEV", "lb_subset_config": {` + keys + `}`, `"lb_policy": "RING_HASH", "lb_subset_config": {` + keys + `}`,
		typedSubsets("maglev.v3.Maglev", keys),
		// Without locality_weight_aware subsets know of no weights of localities.
		`"lb_policy": "MAGLEV", "common_lb_config": {"locality_weighted_lb_config": {}}, "lb_subset_config": {` + keys + `}`,
	} {
		c, reg := subsetted(t, fields, hosts...)
		p, seen := picking(c, reg, 1), map[*cluster.Host]bool{}
		for hash := range 500 {
			ctx := &Context{Hasher: hashOf(hash * 0x9e3779b97f4a7c1), Criteria: criteria(t, `{"a": "1"}`)}
			h := p.Pick(ctx)
			if h == nil || h.Attributes().Metadata.GetFilterMetadata()["envoy.lb"].GetFields()["a"].GetStringValue() != "1" || p.Pick(ctx) != h {
				t.Fatalf("%s: %v", fields, h)
			}
			seen[h] = true
			ctx.Criteria = nil
			if p.Pick(ctx) == nil {
				t.Fatalf("%s: nobody without criteria", fields)
			}
		}
		if len(seen) != 20 {
			t.Errorf("%s: %d hosts of 20", fields, len(seen))
		}
	}
}

// Localities have their weights in subsets only if these know of them, scaled to
// the hosts that are of the subset if that is asked for.
// Partly proves LB-15, LB-11.
func TestLocalitiesOfSubsets(t *testing.T) {
	locality := func(name string, weight int, hosts ...string) string {
		return fmt.Sprintf(`{"locality": {"zone": "%s"}, "load_balancing_weight": %d, "lb_endpoints": [%s]}`, name, weight, strings.Join(hosts, ","))
	}
	localities := []string{
		locality("x", 60, hostWith(1, `{"a": "1"}`), hostWith(2, `{}`), hostWith(3, `{}`)),
		locality("y", 20, hostWith(4, `{"a": "1"}`), hostWith(5, `{"a": "1"}`)),
	}
	for aware, want := range map[string]int{
		``:                                1000, // each host the same
		`, "locality_weight_aware": true`: 2250, // 60 : 20
		`, "locality_weight_aware": true, "scale_locality_weight": true`: 1500, // 20 : 20
	} {
		c, reg := located(t, `"common_lb_config": {"locality_weighted_lb_config": {}}, "lb_subset_config": {"fallback_policy": "ANY_ENDPOINT", "subset_selectors": [{"keys": ["a"]}]`+aware+`}`, localities...)
		p, n := picking(c, reg, 1), map[string]int{}
		for range 3000 {
			n[p.Pick(&Context{Criteria: criteria(t, `{"a": "1"}`)}).Hostname()]++
		}
		if d := n["e1"] - want; d < -2 || d > 2 || n["e1"]+n["e4"]+n["e5"] != 3000 {
			t.Errorf("%s: %v, want %d for e1", aware, n, want)
		}
		// Any host is chosen by the same weights.
		first := 0
		for range 3000 {
			if h := p.Pick(nil); h.Attributes().Locality.Zone == "x" {
				first++
			}
		}
		if wantFirst := map[bool]int{true: 1800, false: 2250}[aware == ""]; first < wantFirst-2 || first > wantFirst+2 {
			t.Errorf("%s: %d of the first locality, want %d", aware, first, wantFirst)
		}
	}
}

// Proves LB-19 for clusters with subsets: a choice takes no memory, whichever way
// it goes.
func TestDividingAllocatesNothing(t *testing.T) {
	c, reg := subsetted(t, typedSubsets(robin, `"allow_redundant_keys": true, "metadata_fallback_policy": "FALLBACK_LIST", "fallback_policy": "ANY_ENDPOINT", "subset_selectors": [
		{"keys": ["a"]}, {"keys": ["a", "b"], "fallback_policy": "KEYS_SUBSET", "fallback_keys_subset": ["a"]}, {"keys": ["c"], "single_host_per_subset": true}]`),
		hostWith(1, `{"a": "1", "c": "1"}`), hostWith(2, `{"a": "1", "b": "2"}`))
	p := picking(c, reg, 1)
	for _, match := range []string{
		`{"a": "1"}`, `{"a": "2"}`, `{"a": "1", "x": "1"}`, `{"a": "1", "b": "3", "x": "1"}`, `{"a": "3", "b": "3"}`, `{"c": "1"}`, `{}`, ``,
		`{"fallback_list": [{"a": "7"}, {"a": "1"}]}`,
	} {
		ctx := &Context{Criteria: criteria(t, match)}
		if p.Pick(ctx) == nil {
			t.Fatalf("%s: nobody", match)
		}
		if n := testing.AllocsPerRun(100, func() { p.Pick(ctx) }); n > 0 {
			t.Errorf("%s: %v", match, n)
		}
	}
}

// eds makes an EDS cluster with subsets, and a way to assign its endpoints.
func eds(t testing.TB, fields string) (c *cluster.Cluster, reg *stats.Registry, assign func(hosts ...string)) {
	t.Helper()
	c, reg = made(t, func(c *clusterv3.Cluster) {
		text := `{"name": "c", "type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}, ` + fields + `}`
		c.Reset()
		if err := protojson.Unmarshal([]byte(text), c); err != nil {
			t.Fatal(err)
		}
	})
	return c, reg, func(hosts ...string) {
		la := &endpointv3.ClusterLoadAssignment{}
		if err := protojson.Unmarshal([]byte(`{"cluster_name": "c", "endpoints": [{"lb_endpoints": [`+strings.Join(hosts, ",")+`]}]}`), la); err != nil {
			t.Fatal(err)
		}
		if err := c.Assign(la); err != nil {
			t.Fatal(err)
		}
	}
}

// A picker that knows a subset follows it: its hosts change, it goes, it comes
// back; while nothing of it changes, its turns go on.
// Partly proves LB-15.
func TestPickersFollowSubsets(t *testing.T) {
	c, reg, assign := eds(t, `"lb_subset_config": {"subset_selectors": [{"keys": ["a"]}, {"keys": ["one"], "single_host_per_subset": true}]}, "common_lb_config": {"update_merge_window": "0s"}`)
	p := picking(c, reg, 1)
	want := func(what string, hosts, single string) {
		t.Helper()
		if got := over(t, p, `{"a": "1"}`); got != hosts {
			t.Errorf("%s: %q, want %q", what, got, hosts)
		}
		if got := over(t, p, `{"one": "1"}`); got != single {
			t.Errorf("%s: %q for one, want %q", what, got, single)
		}
	}
	want("before all", "", "")
	assign(hostWith(1, `{"a": "1", "one": "1"}`), hostWith(2, `{"a": "1"}`), hostWith(3, `{"a": "2"}`))
	want("at first", "e1 e2", "e1")
	assign(hostWith(1, `{"a": "2"}`), hostWith(2, `{"a": "1", "one": "1"}`), hostWith(3, `{"a": "1"}`))
	want("changed", "e2 e3", "e2")
	ctx := &Context{Criteria: criteria(t, `{"a": "1"}`)}
	last := p.Pick(ctx)
	assign(hostWith(1, `{"a": "3"}`), hostWith(2, `{"a": "1", "one": "1"}`), hostWith(3, `{"a": "1"}`))
	if p.Pick(ctx) == last {
		t.Error("the turns begin again although nothing of the subset has changed")
	}
	assign(hostWith(1, `{"a": "2"}`))
	want("gone", "", "")
	assign(hostWith(1, `{"a": "1", "one": "1"}`))
	want("back", "e1", "e1")
}

// runtimeOf is a runtime with a panic threshold.
type runtimeOf uint64

func (r runtimeOf) Integer(key string, def uint64) uint64 {
	if key == "upstream.healthy_panic_threshold" {
		return uint64(r)
	}
	return def
}
func (runtimeOf) Double(_ string, def float64) float64 { return def }

// While hosts go from one subset to another, whoever asks for one gets a host
// that was in it, on every worker.
// Partly proves LB-15, LB-18.
func TestSubsetsUnderChurn(t *testing.T) {
	const n = 30
	for _, policy := range []string{robin, "maglev.v3.Maglev"} {
		c, reg, to := eds(t, typedSubsets(policy, `"subset_selectors": [{"keys": ["a"]}]`))
		assign := func(turn int) {
			var hosts []string
			for i := range n { // host i is in subset i%3 or in the next one
				hosts = append(hosts, hostWith(i, fmt.Sprintf(`{"a": "%d"}`, (i+(turn+i)/7%2)%3)))
			}
			to(hosts...)
		}
		assign(0)
		var wg sync.WaitGroup
		var stop atomic.Bool
		for seed := range 3 {
			p, ctx := picking(c, reg, uint64(seed)), &Context{Hasher: hashOf(seed), Criteria: criteria(t, fmt.Sprintf(`{"a": "%d"}`, seed))}
			wg.Go(func() {
				for !stop.Load() {
					h := p.Pick(ctx)
					if h == nil {
						t.Error("nobody")
						return
					}
					var i int
					if _, err := fmt.Sscanf(h.Hostname(), "e%d", &i); err != nil || i%3 != seed && (i+1)%3 != seed {
						t.Errorf("%s is of no subset %d", h.Hostname(), seed)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				c.ApplyRuntime(runtimeOf(i % 90))
			}
		})
		for turn := range 20 {
			assign(turn)
		}
		stop.Store(true)
		wg.Wait()
	}
}

func BenchmarkSubset10k(b *testing.B) {
	var hosts []string
	for i := range 10000 {
		hosts = append(hosts, hostWith(i, fmt.Sprintf(`{"a": "%d", "b": "x"}`, i%100)))
	}
	c, reg := subsetted(b, `"lb_subset_config": {"subset_selectors": [{"keys": ["a", "b"]}]}`, hosts...)
	p := picking(c, reg, 1)
	all := make([]Context, 100)
	for i := range all {
		all[i].Criteria = criteria(b, fmt.Sprintf(`{"a": "%d", "b": "x"}`, i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Pick(&all[i%100])
	}
}

package route

import "testing"

// The criteria of a route count for its weighted clusters, which say others in
// their place; what they say of anything but envoy.lb is no criterion.
// Partly proves RT-25.
func TestCriteria(t *testing.T) {
	tab := oneHost(t, `
- {match: {path: /none}, route: {cluster: c}}
- {match: {path: /other}, route: {cluster: c, metadata_match: {filter_metadata: {other: {a: "1"}}}}}
- {match: {path: /empty}, route: {cluster: c, metadata_match: {filter_metadata: {envoy.lb: {}}}}}
- {match: {path: /one}, route: {cluster: c, metadata_match: {filter_metadata: {envoy.lb: {b: 2, a: "1"}}}}}
- match: {path: /weighted}
  route:
    metadata_match: {filter_metadata: {envoy.lb: {b: 2, a: "1"}}}
    weighted_clusters:
      header_name: x-random
      clusters:
      - {name: c, weight: 1}
      - {name: c, weight: 1, metadata_match: {filter_metadata: {envoy.lb: {c: true, a: "3"}}}}
      - {name: c, weight: 1, metadata_match: {filter_metadata: {other: {a: "3"}}}}
- {match: {path: /alone}, route: {weighted_clusters: {clusters: [{name: c, weight: 1, metadata_match: {filter_metadata: {envoy.lb: {a: "3"}}}}]}}}
- {match: {path: /same}, route: {cluster: c, metadata_match: {filter_metadata: {envoy.lb: {c: true, b: 2, a: "3"}}}}}
`)
	name := func(path, random string) string {
		c := context(request("h", path, "x-random: "+random))
		e := tab.Match(c)
		criteria := e.Criteria(e.PickCluster(c))
		if criteria == nil {
			return "none"
		}
		return criteria.Name()
	}
	one, three := name("/one", "0"), name("/same", "0")
	for _, tt := range [][3]string{
		{"/none", "0", "none"},
		{"/other", "0", "none"},
		{"/empty", "0", ""},
		{"/weighted", "0", one},
		{"/weighted", "1", three},
		{"/weighted", "2", one},
	} {
		if got := name(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s with %s: %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
	if alone := name("/alone", "0"); alone == "none" || alone == "" || alone == one || one == three {
		t.Errorf("%q, %q and %q", alone, one, three)
	}
}

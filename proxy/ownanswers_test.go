package proxy_test

import (
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// What the proxy answers in the place of an upstream has the headers that the
// route adds to responses, with the path as it would have been sent and the
// cluster's name and metadata; the host is not yet that of an upstream that could
// not be reached.
// Partly proves RT-22: local replies of routes to clusters.
func TestOwnAnswersHaveTheRoutesHeaders(t *testing.T) {
	const adds = `response_headers_to_add: [
	  {header: {key: x-path, value: "%REQ(:path)%"}}, {header: {key: x-cluster, value: "%UPSTREAM_CLUSTER%"}}, {header: {key: x-for, value: "%REQ(:authority)%"}}, {header: {key: x-of, value: "%METADATA(CLUSTER:of:it)%"}}]`
	v := (&site{
		routes: `{match: {prefix: /none}, route: {cluster_header: x-to}, ` + adds + `},
		  {match: {prefix: /empty}, route: {cluster: empty, prefix_rewrite: /new}, ` + adds + `},
		  {match: {prefix: /dead}, route: {cluster: dead, prefix_rewrite: /new, auto_host_rewrite: true}, ` + adds + `},
		  {match: {prefix: /fault}, route: {cluster: empty}, ` + adds + `, typed_per_filter_config: {fault: {
		    "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, abort: {http_status: 418, percentage: {numerator: 100}}}}},
		  {match: {prefix: /said}, direct_response: {status: 200, body: {inline_string: said}}, ` + adds + `}`,
		filters: `{name: fault, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault}},`,
		more: `- {name: empty, alt_stat_name: other, metadata: {filter_metadata: {of: {it: "7"}}}, load_assignment: {cluster_name: empty}}
  - {name: dead, load_assignment: {cluster_name: dead, endpoints: [{lb_endpoints: [` +
			strings.Replace(endpoints(t, []string{freeAddress(t)}), "{address", "{hostname: theirs, address", 1) + `]}]}}`,
	}).serve(t)
	for _, tc := range []struct{ path, want, own, cluster, of string }{
		{"/none", "503 ", "/none", "", ""},
		{"/empty", "503 no healthy upstream", "/new", "other", "7"},
		{"/dead", "503 upstream connect error", "/new", "dead", ""},
		{"/fault", "418 fault filter abort", "/fault", "other", "7"},
		{"/said", "200 said", "/said", "", ""},
	} {
		w := v.dial(t)
		w.get(tc.path, "x-to: none")
		r := w.reply()
		if !strings.HasPrefix(r.String(), tc.want) || r.header.Get("x-path") != tc.own || r.header.Get("x-cluster") != tc.cluster || r.header.Get("x-of") != tc.of || r.header.Get("x-for") == "theirs" {
			t.Errorf("%s: %s %v", tc.path, r, r.header)
		}
	}
}

// A route that tells the client of attempts does so in the proxy's own answers,
// if there was anything to attempt.
func TestOwnAnswersCountAttempts(t *testing.T) {
	v := (&site{
		routes: `{match: {prefix: /none}, route: {cluster_header: x-to}}, {match: {prefix: /empty}, route: {cluster: empty}},
		  {match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: connect-failure, num_retries: 1}}}`,
		hosts: []string{freeAddress(t)},
		more:  `- {name: empty, load_assignment: {cluster_name: empty}}`,
		vhost: "include_attempt_count_in_response: true,",
	}).serve(t)
	for path, want := range map[string]string{"/none": "", "/empty": "1", "/": "2"} {
		w := v.dial(t)
		w.get(path, "x-to: none")
		if r := w.reply(); r.status != 503 || r.header.Get("x-envoy-attempt-count") != want {
			t.Errorf("%s: %s %v", path, r, r.header)
		}
	}
}

// Partly proves AD-08 and AD-06: an assignment has what is dropped, and not its
// weighted_priority_health; a cluster has the service's name.
func TestDumpOfAssignments(t *testing.T) {
	s := newSource()
	r := start(t, byHeader, s.by)
	must(t, r.Resources().SetCluster(edsCluster("y", "svc"), "1"))
	a := assignment("svc", "127.0.0.1:2")
	a.Policy = &endpointv3.ClusterLoadAssignment_Policy{WeightedPriorityHealth: true, DropOverloads: []*endpointv3.ClusterLoadAssignment_Policy_DropOverload{
		{Category: "test", DropPercentage: &typev3.FractionalPercent{Numerator: 25}},
	}}
	must(t, r.Resources().SetEndpoints(nil, a, "1"))
	got := &endpointv3.ClusterLoadAssignment{}
	must(t, dumped(t, r, &adminv3.EndpointsConfigDump{}).GetDynamicEndpointConfigs()[0].GetEndpointConfig().UnmarshalTo(got))
	drop := got.GetPolicy().GetDropOverloads()
	if got.GetPolicy().GetWeightedPriorityHealth() || len(drop) != 1 || drop[0].GetCategory() != "test" || drop[0].GetDropPercentage().GetNumerator() != 250_000 {
		t.Errorf("%v", got)
	}
	if page := r.get(t, "/clusters"); !strings.Contains(page, "\ny::eds_service_name::svc\n") || strings.Contains(page, "one::eds_service_name") {
		t.Errorf("/clusters:\n%s", page)
	}
	if page := r.get(t, "/clusters?format=json"); strings.Count(page, `"eds_service_name"`) != 1 {
		t.Errorf("/clusters:\n%s", page)
	}
}

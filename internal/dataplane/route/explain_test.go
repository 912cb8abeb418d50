package route

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// What is explained is what happens.
func TestExplain(t *testing.T) {
	tab := newTable(t, `
virtual_hosts:
- {name: tls, domains: [tls], require_tls: ALL, routes: [{match: {prefix: /}, route: {cluster: c}}]}
- name: v
  domains: [v]
  routes:
  - {name: a, match: {path: /A, case_sensitive: false}, route: {cluster: c}}
  - {name: b, match: {safe_regex: {regex: "/b.*"}}, route: {cluster: c}}
  - {name: c, match: {prefix: /c, grpc: {}}, route: {cluster: c}}
  - {name: d, match: {prefix: /c, headers: [{name: x}]}, route: {cluster: c}}
  - {name: e, match: {prefix: /c, headers: [{name: y, string_match: {exact: "1"}}]}, route: {cluster: c}}
  - {name: f, match: {prefix: /c, headers: [{name: y, invert_match: true}]}, route: {cluster: c}}
  - {name: g, match: {prefix: /c, query_parameters: [{name: q}]}, route: {cluster: c}}
  - {name: h, match: {prefix: /c, cookies: [{name: k, string_match: {exact: "1"}}]}, route: {cluster: c}}
  - {name: i, match: {prefix: /c, runtime_fraction: {default_value: {numerator: 0}}}, route: {cluster: c}}
  - {name: j, match: {prefix: /c, tls_context: {presented: true}}, route: {cluster: c}}
  - {name: k, match: {prefix: /c, filter_state: [{key: z, string_match: {exact: z}}]}, route: {cluster: c}}
  - {name: l, match: {path_separated_prefix: /c}, route: {cluster: c}}
  - {name: m, match: {prefix: /c}, route: {cluster: c}}
`)
	c := context(request("v", "/c?p", "y: 2"))
	x := tab.Explain(c)
	var got []string
	for _, r := range x.Tried {
		got = append(got, r.Name+", "+r.Path+": "+r.Why)
	}
	want := []string{
		`a, path /a (of any case): the path is "/c"`, `b, safe_regex /b.*: the path is "/c"`, "c, prefix /c: it is no gRPC request",
		"d, prefix /c: header x is missing", `e, prefix /c: header y is "2"`, "f, prefix /c: header y is there", "g, prefix /c: query parameter q",
		"h, prefix /c: cookie k", "i, prefix /c: runtime_fraction is off for the random number 0", "j, prefix /c: tls_context: the client's certificate",
		"k, prefix /c: dynamic_metadata or filter_state, which filters set", "l, path_separated_prefix /c: ",
	}
	if !slices.Equal(got, want) || x.Untried != 1 || x.VirtualHost != "v" {
		t.Errorf("got %d untried in %s:\n%s", x.Untried, x.VirtualHost, strings.Join(got, "\n"))
	}
	if e := tab.Match(c); e.Name() != "l" {
		t.Errorf("the match is %s", e.Name())
	}
	if x := tab.Explain(context(request("tls", "/"))); !x.RequireTLS || x.Tried != nil {
		t.Errorf("%+v", x)
	}
	if x := tab.Explain(context(request("w", "/"))); x.VirtualHost != "" {
		t.Errorf("%+v", x)
	}
}

func TestVirtualClusters(t *testing.T) {
	env := testEnv()
	env.Checking = true
	tab := newTableIn(t, `
internal_only_headers: [x]
virtual_hosts:
- name: v
  domains: [v]
  virtual_clusters:
  - {name: put, headers: [{name: ":method", string_match: {exact: PUT}}, {name: ":path", string_match: {safe_regex: {regex: "/a/\\d+"}}}]}
  - {name: any, headers: [{name: x-any}]}
  routes: [{match: {prefix: /}, route: {cluster: c}}]
- {name: w, domains: [w], routes: [{match: {prefix: /}, route: {cluster: c}}]}
`, env)
	for _, tc := range []struct {
		host, path, want string
		headers          []string
	}{{"v", "/a/1", "put", []string{":method: PUT"}}, {"v", "/a/1", "other", nil}, {"v", "/b", "any", []string{"x-any: 1"}}, {"w", "/a/1", "", nil}} {
		c := context(request(tc.host, tc.path, tc.headers...))
		got := ""
		if v := tab.Match(c).VirtualCluster(c); v != nil {
			got = v.Name()
		}
		if got != tc.want {
			t.Errorf("%s%s is of %q, want %q", tc.host, tc.path, got, tc.want)
		}
	}
}

func TestMatchersForOthers(t *testing.T) {
	ok, err := HeaderMatch("m", &routev3.HeaderMatcher{Name: "X-A"}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if !ok(request("h", "/", "x-a: 1")) || ok(request("h", "/")) {
		t.Error("the condition is wrong")
	}
	if _, err := HeaderMatch("m[0]", &routev3.HeaderMatcher{}, Env{}); err == nil || !strings.Contains(err.Error(), "m[0].name") {
		t.Errorf("the error is %v", err)
	}
	value, err := ValueMatch("m", &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_BoolMatch{BoolMatch: true}}, Env{})
	if err != nil || !value(structpb.NewBoolValue(true)) || value(structpb.NewBoolValue(false)) || value(nil) {
		t.Errorf("the value is judged wrongly: %v", err)
	}
	if _, err := ValueMatch("m", nil, Env{}); err == nil {
		t.Error("no matcher is accepted")
	}
}

package routecheck_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/app/routecheck"
)

const routes = `
name: main
virtual_hosts:
- name: shop
  domains: [shop.example]
  virtual_clusters: [{name: cart, headers: [{name: ":path", string_match: {prefix: /cart}}]}]
  routes:
  - {name: cart, match: {prefix: /cart}, metadata: {filter_metadata: {team: {owner: a}}}, route: {cluster: cart, prefix_rewrite: /v2/cart, host_rewrite_literal: inner, timeout: 1.5s}, request_headers_to_add: [{header: {key: x-add, value: "%REQ(x-in)%!"}}], response_headers_to_add: [{header: {key: x-out, value: o}}]}
  - {match: {prefix: /moved}, redirect: {host_redirect: new.example, response_code: FOUND}}
  - {match: {path: /ping}, direct_response: {status: 200, body: {inline_string: pong}}}
  - {match: {prefix: /beta, runtime_fraction: {default_value: {numerator: 50}, runtime_key: beta}}, route: {cluster: beta}}
  - {match: {prefix: /md, dynamic_metadata: [{filter: f, path: [{key: k}], value: {string_match: {exact: v}}}]}, route: {cluster: md}}
  - {match: {prefix: /split}, route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 3}]}}}
- {name: secure, domains: [secure.example], require_tls: EXTERNAL_ONLY, routes: [{match: {prefix: /}, route: {cluster: secure}}]}
`

func file(t *testing.T, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func load(t *testing.T) *routecheck.Table {
	t.Helper()
	tab, err := routecheck.Load(file(t, "routes.yaml", routes), routecheck.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// Proves RT-50.
func TestCheckPasses(t *testing.T) {
	r, err := routecheck.Check(load(t), file(t, "tests.yaml", `
tests:
- test_name: forward
  input: {authority: shop.example, path: "/cart/1?q", additional_request_headers: [{key: X-In, value: hi}], additional_response_headers: [{key: x-was, value: w}]}
  validate:
    cluster_name: cart
    virtual_cluster_name: cart
    virtual_host_name: shop
    path_rewrite: "/v2/cart/1?q"
    host_rewrite: inner
    path_redirect: ""
    timeout: 1.5s
    route_metadata: [{namespace: team, key: owner, value: a}]
    request_header_matches: [{name: x-add, string_match: {exact: "hi!"}}, {name: none, present_match: false}]
    response_header_matches: [{name: x-out, exact_match: o}, {name: x-was}]
    header_fields: [{key: ":method", value: GET}]
    custom_header_fields: [{key: X-Add, value: "hi!"}]
- {test_name: redirect, input: {authority: shop.example, path: /moved/x, ssl: true}, validate: {path_redirect: "https://new.example/moved/x", code_redirect: 302, cluster_name: "", virtual_host_name: ""}}
- test_name: direct
  input: {authority: shop.example, path: /ping, method: POST}
  validate: {path_redirect: "http://shop.example/ping", response_header_matches: [{name: content-length, exact_match: "4"}, {name: content-type, exact_match: text/plain}]}
- {test_name: no route, input: {authority: shop.example, path: /none}, validate: {cluster_name: "", path_rewrite: ""}}
- {test_name: runtime off, input: {authority: shop.example, path: /beta}, validate: {cluster_name: ""}}
- {test_name: runtime on, input: {authority: shop.example, path: /beta, runtime: beta, random_value: 49}, validate: {cluster_name: beta}}
- {test_name: runtime share, input: {authority: shop.example, path: /beta, runtime: beta, random_value: 50}, validate: {cluster_name: ""}}
- {test_name: metadata, input: {authority: shop.example, path: /md, dynamic_metadata: [{metadata_namespace: f, value: {k: v}}, {metadata_namespace: f, value: {k: w}}]}, validate: {cluster_name: md}}
- {test_name: metadata again, input: {authority: shop.example, path: /md, dynamic_metadata: [{metadata_namespace: f, value: {k: v}}, {metadata_namespace: f, value: {k: w}, allow_overwrite: true}]}, validate: {cluster_name: ""}}
- {test_name: weight, input: {authority: shop.example, path: /split, random_value: 4}, validate: {cluster_name: a, virtual_cluster_name: other}}
- {test_name: tls, input: {authority: secure.example, path: /}, validate: {path_redirect: "https://secure.example/"}}
- {test_name: internal, input: {authority: secure.example, path: /, internal: true}, validate: {cluster_name: secure, virtual_cluster_name: ""}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range r.Results {
		for _, f := range res.Failures {
			t.Errorf("%s: %+v", res.Test, f)
		}
	}
	if r.Passed != 12 || r.Failed != 0 {
		t.Errorf("%d passed, %d failed", r.Passed, r.Failed)
	}
}

// Proves RT-50.
func TestCheckFails(t *testing.T) {
	r, err := routecheck.Check(load(t), file(t, "tests.json", `{"tests": [
{"test_name": "all", "input": {"authority": "shop.example", "path": "/cart"}, "validate": {
 "cluster_name": "x", "virtual_cluster_name": "x", "virtual_host_name": "x", "host_rewrite": "x", "path_rewrite": "x", "path_redirect": "x", "code_redirect": 1, "timeout": "2s",
 "route_metadata": [{"namespace": "team", "key": "owner", "value": "b"}], "header_fields": [{"key": "x-add", "value": ""}],
 "request_header_matches": [{"name": "x-add", "exact_match": "?"}], "response_header_matches": [{"name": "none"}]}},
{"test_name": "none", "input": {"authority": "none", "path": "/"}, "validate": {"cluster_name": "x", "route_metadata": [{"namespace": "team", "key": "owner", "value": "b"}]}}
]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, res := range r.Results {
		for _, f := range res.Failures {
			got = append(got, res.Test+" "+f.Field+" "+f.Expected+"/"+f.Actual)
		}
	}
	want := []string{
		"all cluster_name x/cart", "all virtual_cluster_name x/cart", "all virtual_host_name x/shop", "all path_rewrite x//v2/cart", "all host_rewrite x/inner",
		"all path_redirect x/", "all code_redirect 1/0", "all timeout 2s/1.5s", "all route_metadata team.owner b/a", "all header x-add /!",
		`all request_header_matches[0] {"name":"x-add","exactMatch":"?"}/!`, `all response_header_matches[0] {"name":"none"}/missing`,
		"none cluster_name x/", "none route_metadata team.owner b/",
	}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], ", ", ",")
	}
	if d := cmp.Diff(want, got); d != "" || r.Failed != 2 {
		t.Errorf("%d failed: %s", r.Failed, d)
	}
}

func TestBadTests(t *testing.T) {
	const ok = "input: {authority: a, path: /}"
	for text, want := range map[string]string{
		"":          "has no tests",
		"tests: []": "has no tests",
		"tests: [{input: {authority: a, path: /}, validate: {}}]":                                     "tests[0]: test_name is missing",
		"tests: [{test_name: t, validate: {}}]":                                                       `"t": input needs authority and path`,
		"tests: [{test_name: t, " + ok + "}]":                                                         "validate is missing",
		"tests: [{test_name: t, " + ok + ", validate: {nope: 1}}]":                                    "field nope not found",
		"tests: [{test_name: t, " + ok + ", validate: {timeout: 3}}]":                                 "no number of seconds",
		"tests: [{test_name: t, " + ok + ", validate: {request_header_matches: [{nope: 1}]}}]":        "unknown field",
		"tests: [{test_name: t, " + ok + ", validate: {request_header_matches: [{exact_match: a}]}}]": "request_header_matches[0].name: the header has no name",
		"{runtime: {some.key: 1}, tests: []}":                                                         "some.key has no effect",
		"tests: [{test_name: t, input: {authority: a, path: /, dynamic_metadata: [{metadata_namespace: f, value: {k: 2020-01-01}}]}, validate: {}}]": "dynamic_metadata f",
	} {
		if _, err := routecheck.Check(load(t), file(t, "t.yaml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := routecheck.Check(load(t), file(t, "t.pb_text", "")); err == nil || !strings.Contains(err.Error(), ".yaml") {
		t.Errorf("the error is %v", err)
	}
}

func TestLoad(t *testing.T) {
	hcm := func(name string) string {
		return "{name: h, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: s, route_config: {name: " + name +
			", virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: c}}]}]}}}"
	}
	bootstrap := "static_resources: {listeners: [{name: l, filter_chains: [{filters: [" + hcm("one") + "]}], default_filter_chain: {filters: [" + hcm("two") + "]}}]}"
	typed := "{'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration, name: three, virtual_hosts: []}"
	for _, tc := range []struct{ text, name, want, err string }{
		{bootstrap, "one", "one", ""},
		{bootstrap, "two", "two", ""},
		{bootstrap, "", "", `2 route configurations, "one", "two": say which with --route-config`},
		{bootstrap, "x", "", `no route configuration "x": it has "one", "two"`},
		{typed, "", "three", ""},
		{"resources: [" + typed + "]", "", "three", ""},
		{"name: four", "", "four", ""},
		{"static_resources: {}", "", "", "has no route configuration"},
		{"virtual_hosts: [{nope: 1}]", "", "", "nope"},
		{"name: r\nvirtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}}]}]", "", "", `route configuration "r": virtual_hosts[0].routes[0]: the route has no action`},
	} {
		got, err := routecheck.Load(file(t, "c.yaml", tc.text), routecheck.Options{RouteConfig: tc.name})
		switch {
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: %v, want %s", tc.text, err, tc.err)
		case tc.err == "" && (err != nil || got.Name() != tc.want):
			t.Errorf("%s: %v", tc.text, err)
		}
	}
	if _, err := routecheck.Load(filepath.Join(t.TempDir(), "none.yaml"), routecheck.Options{}); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestExplain(t *testing.T) {
	for _, tc := range []struct {
		r     routecheck.Request
		found bool
		want  string
	}{
		{routecheck.Request{Host: "shop.example", Path: "/cart/1", Headers: []string{"x-in: hi"}}, true, `virtual host shop
  routes[0] cart, prefix /cart: MATCHES
  5 more after it
to cluster "cart"
  timeout 1.5s
  > :authority: inner
  > :path: /v2/cart/1
  > :method: GET
  > :scheme: http
  > x-forwarded-proto: http
  > x-in: hi
  > x-add: hi!
  > x-envoy-original-host: shop.example
  > x-envoy-original-path: /cart/1
  < x-out: o
`},
		{routecheck.Request{Host: "shop.example", Path: "/moved"}, true, `virtual host shop
  routes[0] cart, prefix /cart: no: the path is "/moved"
  routes[1], prefix /moved: MATCHES
  4 more after it
redirect: 302 to http://new.example/moved
  < location: http://new.example/moved
`},
		{routecheck.Request{Host: "secure.example", Path: "/"}, true, "virtual host secure\nrequire_tls: 301 to https://secure.example/\n  < location: https://secure.example/\n"},
		{routecheck.Request{Host: "none", Path: "/"}, false, "No virtual host has a domain for none: 404.\n"},
	} {
		var b strings.Builder
		found, err := routecheck.Explain(&b, load(t), tc.r)
		if err != nil || found != tc.found {
			t.Fatalf("%+v: %t %v", tc.r, found, err)
		}
		if d := cmp.Diff(tc.want, b.String()); d != "" {
			t.Error(d)
		}
	}
	var b strings.Builder
	if found, err := routecheck.Explain(&b, load(t), routecheck.Request{Host: "shop.example", Path: "/none"}); found || err != nil || !strings.Contains(b.String(), "no route: 404") {
		t.Errorf("%t %v:\n%s", found, err, b.String())
	}
	if _, err := routecheck.Explain(&b, load(t), routecheck.Request{Host: "h", Path: "/", Headers: []string{"bad"}}); err == nil {
		t.Error("a header without a value is taken")
	}
}

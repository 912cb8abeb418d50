package route

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter/header"
)

// finalize matches a request and does to it what its route says.
func finalize(t *testing.T, tab *Table, c *Context) *header.Map {
	t.Helper()
	e := tab.Match(c)
	if e == nil {
		t.Fatalf("no route for %s", c.Request.Path())
	}
	e.FinalizeRequest(c, e.PickCluster(c))
	return c.Request
}

// Proves RT-20. The results were measured with Envoy 1.40.
func TestPathRewrites(t *testing.T) {
	tab := oneHost(t, `
- {match: {prefix: /p}, route: {cluster: c, prefix_rewrite: /q}}
- {match: {path: /e}, route: {cluster: c, prefix_rewrite: /q}}
- {match: {path_separated_prefix: /s}, route: {cluster: c, prefix_rewrite: /}}
- {match: {safe_regex: {regex: "/rx.*"}}, route: {cluster: c, prefix_rewrite: /q}}
- {match: {prefix: /g}, route: {cluster: c, regex_rewrite: {pattern: {regex: '(a)(b)?'}, substitution: '[\2\1\0$1]'}}}
- {match: {prefix: /b}, route: {cluster: c, regex_rewrite: {pattern: {regex: 'x'}, substitution: '\\'}}}
- {match: {prefix: /w}, route: {cluster: c, path_rewrite: "/W%REQ(x-v)%"}}
- {match: {prefix: /n}, route: {cluster: c, path_rewrite: "%REQ(x-v)%"}}
- {match: {prefix: /CI, case_sensitive: false}, route: {cluster: c, prefix_rewrite: /q}}
- {match: {prefix: /seg/}, route: {cluster: c, prefix_rewrite: /}}
- {match: {prefix: /seg}, route: {cluster: c, prefix_rewrite: /}}
`)
	for _, tc := range []struct{ path, want, v string }{
		{"/p", "/q", ""},
		{"/p/x?q", "/q/x?q", ""},
		{"/px", "/qx", ""},
		{"/e?x", "/q?x", ""},
		{"/s/x", "//x", ""},
		{"/s?x", "/?x", ""},
		{"/rxa?b", "/q?b", ""},
		{"/gabacab?ab", "/g[baab$1][aa$1]c[baab$1]?ab", ""},
		{"/bx", `/b\`, ""},
		{"/wx?y", "/W?y", ""},
		{"/nx?y", "/nx?y", ""},
		{"/ci/x", "/q/x", ""},
		{"/wx?y", "/Wvv?y", "vv"},
		{"/seg/a", "/a", ""},
		{"/seg", "/", ""},
		{"/seg/", "/", ""},
	} {
		c := context(request("h", tc.path, "x-envoy-original-path: /mine"))
		if tc.v != "" {
			c.Request.Add("x-v", tc.v)
		}
		h := finalize(t, tab, c)
		original := "/mine"
		if tc.want != tc.path {
			original = tc.path
		}
		if h.Path() != tc.want || h.Get("x-envoy-original-path") != original || h.Count("x-envoy-original-path") != 1 {
			t.Errorf("%s becomes %s, want %s; the original is %s, want %s", tc.path, h.Path(), tc.want, h.Get("x-envoy-original-path"), original)
		}
	}
}

// Proves RT-20. The results were measured with Envoy 1.40.
func TestTemplateRewrites(t *testing.T) {
	const typ = "typed_config: {'@type': type.googleapis.com/envoy.extensions.path."
	for _, tc := range []struct{ template, rewrite, path, want string }{
		{"/c/{x}/d/{y=*}", "/r/{y}/{x}", "/c/1/d/2?q=1", "/r/2/1?q=1"},
		{"/e/{z=v/*}/f", "/q{z}/", "/e/v/1/f", "/qv/1/"},
		{"/g/{w=**}", "/{w}", "/g/", "/"},
		{"/g/{w=**}", "/{w}", "/g/a/b", "/a/b"},
		{"/j/v{ver}/k", "/{ver}{ver}", "/j/v12/k", "/1212"},
		{"/{a=**}/b", "/{a}", "/x/y/b", "/x/y"},
	} {
		tab := oneHost(t, "- match: {path_match_policy: {name: t, "+typ+"match.uri_template.v3.UriTemplateMatchConfig, path_template: '"+tc.template+"'}}}\n"+
			"  route: {cluster: c, path_rewrite_policy: {name: t, "+typ+"rewrite.uri_template.v3.UriTemplateRewriteConfig, path_template_rewrite: '"+tc.rewrite+"'}}}\n")
		if got := finalize(t, tab, context(request("h", tc.path))).Path(); got != tc.want {
			t.Errorf("%s becomes %s, want %s", tc.path, got, tc.want)
		}
	}
}

// Proves RT-21. The results were measured with Envoy 1.40, but that a
// substitution without a value is empty in host_rewrite, as documented.
func TestHostRewrites(t *testing.T) {
	tab := oneHost(t, `
- {match: {prefix: /p}, route: {cluster: c, host_rewrite_path_regex: {pattern: {regex: '^/p/(.+)$'}, substitution: '\1'}}}
- {match: {prefix: /f}, route: {cluster: c, host_rewrite: "a-%REQ(x-v)%"}}
- {match: {prefix: /h}, route: {cluster: c, host_rewrite_header: x-v, append_x_forwarded_host: true}}
- {match: {prefix: /l}, route: {cluster: c, host_rewrite_literal: lit, append_x_forwarded_host: true}}
- {match: {prefix: /none}, route: {cluster: c, append_x_forwarded_host: true}}
`)
	for _, tc := range []struct {
		path, host, original, forwarded string
		headers                         []string
	}{
		{"/p/abc?d", "abc", "hr", "", nil},
		{"/f", "a-", "hr", "", nil},
		{"/f", "a-vv", "hr", "", []string{"x-v: vv", "x-envoy-original-host: mine"}},
		{"/h", "hr", "", "", nil},
		{"/h", "hr", "", "", []string{"x-v: "}},
		{"/h", "vv", "hr", "hr", []string{"x-v: vv", "x-v: v2"}},
		{"/h", "vv", "hr", "a, hr,hr", []string{"x-v: vv", "x-forwarded-host: a, hr"}},
		{"/h", "vv", "hr", "a,hr", []string{"x-v: vv", "x-forwarded-host: a,hr"}},
		{"/l", "lit", "hr", "hr", nil},
		{"/none", "hr", "", "", nil},
	} {
		h := finalize(t, tab, context(request("hr", tc.path, tc.headers...)))
		if h.Authority() != tc.host || h.Get("x-envoy-original-host") != tc.original || h.Get("x-forwarded-host") != tc.forwarded {
			t.Errorf("%s %q: host %s, original %q, forwarded %q, want %s, %q, %q", tc.path, tc.headers, h.Authority(),
				h.Get("x-envoy-original-host"), h.Get("x-forwarded-host"), tc.host, tc.original, tc.forwarded)
		}
	}
}

// Proves RT-21.
func TestAutoHostRewrite(t *testing.T) {
	tab := oneHost(t, "- {match: {prefix: /}, route: {cluster: c, auto_host_rewrite: true, append_x_forwarded_host: true}}\n")
	c := context(request("client.example", "/"))
	e := tab.Match(c)
	if !e.AutoHostRewrite() {
		t.Fatal("auto_host_rewrite is not told")
	}
	e.SetHost(c, "one.example")
	e.SetHost(c, "two.example")
	h := c.Request
	if h.Authority() != "two.example" || h.Get("x-envoy-original-host") != "client.example" || h.Get("x-forwarded-host") != "client.example" {
		t.Errorf("after a second attempt:\n%s", h)
	}
}

func TestOriginalsAreSuppressed(t *testing.T) {
	tab := oneHost(t, "- {match: {prefix: /}, route: {cluster: c, prefix_rewrite: /x, host_rewrite_literal: y}}\n")
	c := context(request("h", "/"))
	c.SuppressEnvoyHeaders = true
	h := finalize(t, tab, c)
	tab.Match(c).FinalTimeouts(c, false, false)
	for n := range h.All() {
		if strings.HasPrefix(n, "x-envoy-") {
			t.Errorf("%s is added", n)
		}
	}
}

// Proves RT-15.
func TestClusterChoice(t *testing.T) {
	tab := oneHost(t, `
- {match: {path: /plain}, route: {cluster: c}}
- {match: {path: /header}, route: {cluster_header: X-C}}
- match: {path: /weighted}
  route: {weighted_clusters: {header_name: x-w, clusters: [{name: a, weight: 10}, {cluster_header: x-c, weight: 10}, {name: b, weight: 80}]}}
`)
	for _, tc := range []struct {
		path, want string
		random     uint64
		headers    []string
	}{
		{"/plain", "c", 0, nil},
		{"/header", "", 0, nil},
		{"/header", "x", 0, []string{"x-c: x", "x-c: y"}},
		{"/weighted", "a", 0, nil},
		{"/weighted", "a", 9, nil},
		{"/weighted", "", 10, nil},
		{"/weighted", "hdr", 19, []string{"x-c: hdr"}},
		{"/weighted", "b", 20, nil},
		{"/weighted", "b", 99, nil},
		{"/weighted", "a", 100, nil},
		{"/weighted", "b", 0, []string{"x-w: 50"}},
		{"/weighted", "a", 50, []string{"x-w: 105"}},
		{"/weighted", "b", 50, []string{"x-w: bad"}},
		{"/weighted", "b", 50, []string{"x-w: 5", "x-w: 6"}},
	} {
		c := context(request("h", tc.path, tc.headers...))
		c.Random = tc.random
		if got := tab.Match(c).PickCluster(c); got.Cluster != tc.want || (got.Weighted != nil) != (tc.path == "/weighted") {
			t.Errorf("%s with %d and %q goes to %q, want %q", tc.path, tc.random, tc.headers, got.Cluster, tc.want)
		}
	}
	if n := tab.Match(context(request("h", "/plain"))).Cluster(); n != "c" {
		t.Errorf("the route leads to %q", n)
	}
}

// Proves RT-15.
func TestWeightedDistribution(t *testing.T) {
	tab := oneHost(t, "- {match: {prefix: /}, route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 3}, {name: z, weight: 0}, {name: d, weight: 6}]}}}\n")
	c := context(request("h", "/"))
	e := tab.Match(c)
	count := map[string]int{}
	rnd := rand.New(rand.NewPCG(1, 2))
	const picks = 100000
	for range picks {
		c.Random = rnd.Uint64()
		count[e.PickCluster(c).Cluster]++
	}
	for name, share := range map[string]float64{"a": .1, "b": .3, "z": 0, "d": .6} {
		if got := float64(count[name]) / picks; got < share-.01 || got > share+.01 {
			t.Errorf("%s gets %.3f, want %.1f", name, got, share)
		}
	}
}

// Proves RT-15.
func TestWeightsByRuntime(t *testing.T) {
	env := testEnv()
	weights := map[string]uint64{"w.a": 0, "w.b": 5}
	env.RuntimeInteger = func(key string) (uint64, bool) { n, ok := weights[key]; return n, ok }
	tab := newTableIn(t, "virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {weighted_clusters: {runtime_key_prefix: w, clusters: [{name: a, weight: 90}, {name: b, weight: 10}, {name: d, weight: 5}]}}}]}]", env)
	c := context(request("h", "/"))
	for random, want := range map[uint64]string{0: "b", 4: "b", 5: "d", 9: "d", 10: "b"} {
		c.Random = random
		if got := tab.Match(c).PickCluster(c).Cluster; got != want {
			t.Errorf("%d goes to %s, want %s", random, got, want)
		}
	}
}

// Proves RT-14.
func TestClusterNotFound(t *testing.T) {
	tab := oneHost(t, `
- {match: {path: /a}, route: {cluster: c}}
- {match: {path: /b}, route: {cluster: c, cluster_not_found_response_code: NOT_FOUND}}
- {match: {path: /c}, route: {cluster: c, cluster_not_found_response_code: INTERNAL_SERVER_ERROR}}
`)
	for path, want := range map[string]int{"/a": 503, "/b": 404, "/c": 500} {
		if got := tab.Match(context(request("h", path))).ClusterNotFoundStatus(); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// Proves RT-14.
func TestClustersAreValidated(t *testing.T) {
	env := testEnv()
	env.ClusterExists = func(n string) bool { return n == "c" }
	const routes = "virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: nope}}, {match: {prefix: /}, route: {weighted_clusters: {clusters: [{name: nah, weight: 1}, {name: c, weight: 1}]}}}]}]"
	got := newError(t, routes, env)
	for _, want := range []string{
		"virtual_hosts[0].routes[0].route.cluster: route: unknown cluster 'nope'",
		"virtual_hosts[0].routes[1].route.weighted_clusters.clusters[0].name: route: unknown weighted cluster 'nah'",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not told in:\n%s", want, got)
		}
	}
	newTableIn(t, "validate_clusters: false\n"+routes, env)
}

// Proves RT-17. The results were measured with Envoy 1.40.
func TestRedirects(t *testing.T) {
	tab := oneHost(t, `
- {match: {prefix: /https}, redirect: {https_redirect: true}}
- {match: {prefix: /host}, redirect: {host_redirect: new, response_code: FOUND}}
- {match: {prefix: /port}, redirect: {port_redirect: 8443, https_redirect: true, response_code: SEE_OTHER}}
- {match: {prefix: /ps443}, redirect: {port_redirect: 443, scheme_redirect: https, response_code: TEMPORARY_REDIRECT}}
- {match: {prefix: /path}, redirect: {path_redirect: /new, response_code: PERMANENT_REDIRECT}}
- {match: {prefix: /pqs}, redirect: {path_redirect: "/new?z", strip_query: true}}
- {match: {prefix: /pq}, redirect: {path_redirect: "/new?z"}}
- {match: {prefix: /ps}, redirect: {path_redirect: /new, strip_query: true}}
- {match: {prefix: /pre}, redirect: {prefix_rewrite: /X}}
- {match: {prefix: /re}, redirect: {regex_rewrite: {pattern: {regex: '^/re/(.*)$'}, substitution: '/Y/\1'}}}
- {match: {prefix: /sq}, redirect: {strip_query: true}}
- {match: {prefix: /fmt}, redirect: {path_rewrite: "/n/%REQ(x-v)%"}}
- {match: {prefix: /fme}, redirect: {path_rewrite: "%REQ(x-w)%"}}
- {match: {prefix: /scheme}, redirect: {scheme_redirect: ftp}}
`)
	for _, tc := range []struct {
		host, path, want string
		status           int
	}{
		{"rd", "/https", "https://rd/https", 301},
		{"rd:80", "/https", "https://rd/https", 301},
		{"rd:8080", "/https", "https://rd:8080/https", 301},
		{"rd:443", "/https", "https://rd:443/https", 301},
		{"[::1]:80", "/https", "https://[::1]/https", 301},
		{"[::1]", "/https", "https://[::1]/https", 301},
		{"rd:80", "/host/a?b", "http://new/host/a?b", 302},
		{"rd:80", "/port", "https://rd:8443/port", 303},
		{"[::1]:80", "/port", "https://[::1]:8443/port", 303},
		{"rd", "/ps443", "https://rd:443/ps443", 307},
		{"rd:80", "/path?q", "http://rd:80/new?q", 308},
		{"rd", "/path", "http://rd/new", 308},
		{"rd", "/pq?q", "http://rd/new?z", 301},
		{"rd", "/ps?q", "http://rd/new", 301},
		{"rd", "/pqs?q", "http://rd/new?z", 301},
		{"rd:80", "/pre/a?b", "http://rd:80/X/a?b", 301},
		{"rd", "/re/x?y", "http://rd/Y/x?y", 301},
		{"rd", "/sq?x", "http://rd/sq", 301},
		{"rd", "/fmt?q", "http://rd/n/vv?q", 301},
		{"rd", "/fme?q", "http://rd/fme?q", 301},
		{"rd:80", "/scheme", "ftp://rd/scheme", 301},
	} {
		c := context(request(tc.host, tc.path, "x-v: vv"))
		e := tab.Match(c)
		if e.Kind() != Redirect {
			t.Fatalf("%s is no redirect", tc.path)
		}
		if status, got := e.Redirect(c); got != tc.want || status != tc.status {
			t.Errorf("%s%s leads to %d %s, want %d %s", tc.host, tc.path, status, got, tc.status, tc.want)
		}
	}
}

// Proves RT-09. The results were measured with Envoy 1.40.
func TestRequireTLS(t *testing.T) {
	for _, require := range []string{"NONE", "ALL"} {
		tab := newTable(t, "virtual_hosts: [{name: v, domains: ['*'], require_tls: "+require+", routes: [{match: {prefix: /}, route: {cluster: c}}]}]")
		if e := tab.Match(context(request("h", "/", "x-forwarded-proto: "))); e != nil {
			t.Errorf("%s: there is a route for an empty x-forwarded-proto", require)
		}
	}
	for _, tc := range []struct {
		require, host, proto string
		external, tls        bool
		want                 string
	}{
		{"ALL", "h", "http", true, false, "https://h/x?y"},
		{"ALL", "h:80", "http", false, false, "https://h:80/x?y"},
		{"ALL", "h", "https", true, false, ""},
		{"EXTERNAL_ONLY", "h", "http", true, false, "https://h/x?y"},
		{"EXTERNAL_ONLY", "h", "http", false, false, ""},
		{"NONE", "h", "http", true, false, ""},
		{"ALL", "h", "", true, true, ""},
		{"ALL", "h", "", true, false, "https://h/x?y"},
	} {
		tab := newTable(t, "virtual_hosts: [{name: v, domains: ['*'], require_tls: "+tc.require+", response_headers_to_add: [{header: {key: x, value: y}}], routes: [{match: {prefix: /}, route: {cluster: c}}]}]")
		c := context(request(tc.host, "/x?y", "x-forwarded-proto: "+tc.proto))
		if tc.proto == "" {
			c.Request.Del("x-forwarded-proto")
		}
		c.External, c.TLS = tc.external, tc.tls
		e := tab.Match(c)
		if tc.want == "" {
			if e.Kind() != Forward {
				t.Errorf("%+v is redirected", tc)
			}
			continue
		}
		status, got := e.Redirect(c)
		c.Response = &header.Map{}
		e.FinalizeResponse(c, Target{})
		if status != 301 || got != tc.want || c.Response.Len() > 0 {
			t.Errorf("%+v: %d %s %s", tc, status, got, c.Response)
		}
	}
}

// Proves RT-18.
func TestDirectResponses(t *testing.T) {
	env := testEnv()
	env.ReadFile = func(name string) ([]byte, error) {
		if name == "/big" {
			return make([]byte, 4097), nil
		}
		if name != "/body" {
			return nil, errors.New("file does not exist")
		}
		return []byte("from file"), nil
	}
	env.Getenv = func(name string) (string, bool) { return "from env", name == "BODY" }
	const host = "virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, direct_response: {status: "
	for _, tc := range []struct {
		direct, body, kind string
		status             int
	}{
		{"200", "", "", 200},
		{"404, body: {inline_string: nope}", "nope", "", 404},
		{"503, body: {filename: /body}", "from file", "", 503},
		{"200, body: {environment_variable: BODY}", "from env", "", 200},
		{"200, body: {inline_bytes: aGk=}", "hi", "", 200},
		{"418, body_format: {text_format: '%REQ(:path)% %RESPONSE_CODE%'}", "/x 418", "text/plain", 418},
		{"418, body_format: {text_format: t, content_type: a/b}", "t", "a/b", 418},
	} {
		tab := newTableIn(t, host+tc.direct+"}}]}]", env)
		c := context(request("h", "/x"))
		e := tab.Match(c)
		if e.Kind() != DirectResponse {
			t.Fatal("it is no direct response")
		}
		status, body, kind := e.Direct(c)
		if status != tc.status || body != tc.body || kind != tc.kind || c.Info.ResponseCode != 0 {
			t.Errorf("%s: %d %q %q", tc.direct, status, body, kind)
		}
	}
	for direct, want := range map[string]string{
		"600": "600 is not within 200 and 599", "199": "199 is not", "200, body: {filename: /nope}": "file does not exist",
		"200, body: {environment_variable: NOPE}": "NOPE does not exist", "200, body: {}": "no source",
		"200, body: {filename: /big}":                                   "response body file /big size is 4097 bytes; maximum is 4096",
		"200, body: {inline_string: " + strings.Repeat("x", 4097) + "}": "response body size is 4097 bytes; maximum is 4096",
		"200, body_format: {text_format: '%NOPE%'}":                     "unknown operator NOPE",
		"200, body_format: {json_format: {a: b}}":                       "only text_format",
	} {
		if got := newError(t, host+direct+"}}]}]", env); !strings.Contains(got, want) {
			t.Errorf("%s gives %q, want %q", direct, got, want)
		}
	}
	if got := newError(t, "max_direct_response_body_size_bytes: 1\n"+host+"200, body: {inline_string: xx}}}]}]", env); !strings.Contains(got, "is 2 bytes; maximum is 1") {
		t.Error(got)
	}
}

// Proves RT-18. The results were measured with Envoy 1.40.
func TestDirectResponseElsewhere(t *testing.T) {
	for status, want := range map[string]string{"301": "http://h/x?y", "201": "http://h/x?y", "200": ""} {
		tab := oneHost(t, "- {match: {prefix: /}, direct_response: {status: "+status+"}, response_headers_to_add: [{header: {key: x, value: y}}]}\n")
		c := context(request("h", "/x?y"))
		c.Response = &header.Map{}
		tab.Match(c).FinalizeResponse(c, Target{})
		if got := c.Response.Get("location"); got != want || c.Response.Get("x") != "y" {
			t.Errorf("%s has location %q, want %q", status, got, want)
		}
	}
}

// Proves RT-26. Partly proves RT-25.
func TestRouteAttributes(t *testing.T) {
	tab := newTable(t, `
name: table
metadata: {filter_metadata: {f: {level: table}}}
virtual_hosts:
- name: v
  domains: ['*']
  metadata: {filter_metadata: {f: {level: host}}}
  routes:
  - {name: high, match: {path: /high}, metadata: {filter_metadata: {f: {level: route}}}, route: {cluster: c, priority: HIGH}}
  - {match: {prefix: /}, route: {cluster: c}}
`)
	e := tab.Match(context(request("h", "/high")))
	level := func(m interface {
		GetFilterMetadata() map[string]*structpb.Struct
	},
	) string {
		return m.GetFilterMetadata()["f"].GetFields()["level"].GetStringValue()
	}
	if tab.Name() != "table" || e.Name() != "high" || e.VirtualHost() != "v" || e.Priority() != 1 ||
		level(e.Metadata()) != "route" || level(e.VirtualHostMetadata()) != "host" || level(tab.Metadata()) != "table" {
		t.Errorf("%q %q %d", e.Name(), e.VirtualHost(), e.Priority())
	}
	if e = tab.Match(context(request("h", "/"))); e.Name() != "" || e.Priority() != 0 || e.Metadata() != nil {
		t.Errorf("%q %d", e.Name(), e.Priority())
	}
	if n, ok := tab.VirtualHost(context(request("h", "/"))); n != "v" || !ok {
		t.Errorf("the virtual host is %q", n)
	}
}

// Proves RT-27.
func TestUpgradesAndLimits(t *testing.T) {
	tab := newTable(t, `
virtual_hosts:
- name: v
  domains: [v]
  include_request_attempt_count: true
  include_is_timeout_retry_header: true
  per_request_buffer_limit_bytes: 10
  routes:
  - {match: {path: /a}, request_body_buffer_limit: 20, route: {cluster: c, upgrade_configs: [{upgrade_type: WebSocket}, {upgrade_type: foo, enabled: false}]}}
  - {match: {path: /b}, per_request_buffer_limit_bytes: 30, route: {cluster: c}}
  - {match: {path: /c}, route: {cluster: c}}
  - {match: {path: /d}, request_body_buffer_limit: 5000000000, route: {cluster: c}}
- {name: w, domains: [w], include_attempt_count_in_response: true, routes: [{match: {prefix: /}, route: {cluster: c}}]}
`)
	for path, want := range map[string]uint32{"/a": 20, "/b": 30, "/c": 10, "/d": 1<<32 - 1} {
		if n, ok := tab.Match(context(request("v", path))).BufferLimit(); n != want || !ok {
			t.Errorf("the limit of %s is %d %t, want %d", path, n, ok, want)
		}
	}
	a, w := tab.Match(context(request("v", "/a"))), tab.Match(context(request("w", "/a")))
	if _, ok := w.BufferLimit(); ok {
		t.Error("a limit out of nowhere")
	}
	for kind, want := range map[string][2]bool{"websocket": {true, true}, "WEBSOCKET": {true, true}, "foo": {false, true}, "bar": {false, false}} {
		if on, set := a.Upgrade(kind); on != want[0] || set != want[1] {
			t.Errorf("upgrade %s: %t %t", kind, on, set)
		}
	}
	if !a.IncludeRequestAttemptCount() || a.IncludeResponseAttemptCount() || !a.IncludeIsTimeoutRetry() ||
		w.IncludeRequestAttemptCount() || !w.IncludeResponseAttemptCount() || w.IncludeIsTimeoutRetry() {
		t.Error("the virtual host's wishes are mixed up")
	}
}

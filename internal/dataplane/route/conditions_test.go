package route

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
)

// matches tells whether a request fulfils a route's match.
func matches(t *testing.T, match string, edit func(*Context), path string, headers ...string) bool {
	t.Helper()
	tab := oneHost(t, "- match: "+match+"\n  route: {cluster: c}\n")
	c := context(request("h", path, headers...))
	if edit != nil {
		edit(c)
	}
	return tab.Match(c) != nil
}

// Proves RT-04, BS-35.
func TestPathKinds(t *testing.T) {
	for _, tc := range []struct {
		match   string
		yes, no []string
	}{
		{"{prefix: /foo}", []string{"/foo", "/foobar", "/foo/x?a", "/foo#x"}, []string{"/fo", "/FOO", "/x?/foo"}},
		{"{prefix: /foo, case_sensitive: false}", []string{"/foo", "/FoObar"}, []string{"/fo"}},
		{"{prefix: /FOO, case_sensitive: false}", []string{"/foo", "/FoObar"}, []string{"/fo"}},
		{"{prefix: ''}", []string{"/", "*", "x"}, nil},
		{"{prefix: '/a?b'}", nil, []string{"/a?b"}},
		{"{path: /foo}", []string{"/foo", "/foo?x=1", "/foo#f"}, []string{"/foobar", "/foo/", "/Foo"}},
		{"{path: /foo, case_sensitive: false}", []string{"/FOO?x"}, []string{"/foo/"}},
		{"{safe_regex: {regex: /foo}}", []string{"/foo", "/foo?x"}, []string{"/foobar", "/x/foo", "/Foo"}},
		{"{safe_regex: {regex: '/a|/b'}}", []string{"/a", "/b"}, []string{"/ab", "/b/x"}},
		{"{safe_regex: {regex: /foo}, case_sensitive: false}", nil, []string{"/FOO"}},
		{"{path_separated_prefix: /api/dev}", []string{"/api/dev", "/api/dev/", "/api/dev/v1", "/api/dev?p=1"}, []string{"/api/developer", "/api/de", "/API/dev"}},
		{"{path_separated_prefix: /a, case_sensitive: false}", []string{"/a", "/A/x", "/A?x", "/a/"}, []string{"/ab"}},
	} {
		for _, p := range tc.yes {
			if !matches(t, tc.match, nil, p) {
				t.Errorf("%s does not match %s", tc.match, p)
			}
		}
		for _, p := range tc.no {
			if matches(t, tc.match, nil, p) {
				t.Errorf("%s matches %s", tc.match, p)
			}
		}
	}
}

func TestPathParametersAreLeftOut(t *testing.T) {
	tab := newTable(t, `
ignore_path_parameters_in_path_matching: true
virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {path: /a}, route: {cluster: c, prefix_rewrite: /new}}]}]
`)
	c := context(request("h", "/a;v=1?q"))
	tab.Match(c).FinalizeRequest(c, Target{})
	if got := c.Request.Path(); got != "/new;v=1?q" {
		t.Errorf("rewritten to %s", got)
	}
	for path, want := range map[string]bool{"/a": true, "/a;v=1": true, "/a;v=1?q": true, "/b;/a": false} {
		if got := tab.Match(context(request("h", path))) != nil; got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
}

// headerCases are requests by the values of their header x.
func headerCases() map[string][]string {
	return map[string][]string{
		"missing": nil, "empty": {"x: "}, "a": {"x: a"}, "b": {"x: b"}, "a+b": {"x: a", "x: b"}, "b+b": {"x: b", "x: b"},
		"a,b": {"x: a,b"}, "5": {"x: 5"}, "20+5": {"x: 20", "x: 5"}, "05": {"x: 05"}, "+5": {"x: +5"},
	}
}

// Proves RT-05. What matches was measured with Envoy 1.40.
func TestHeaderMatchers(t *testing.T) {
	all := "missing empty a b a+b b+b a,b 5 20+5 05 +5"
	for _, tc := range []struct{ matcher, yes string }{
		{"string_match: {exact: a}, invert_match: true", "empty b b+b a,b 5 20+5 05 +5"},
		{"string_match: {exact: a}", "a a+b"},
		{"exact_match: a", "a a+b"},
		{"safe_regex_match: {regex: '[ab]'}", "a b a+b b+b"},
		{"string_match: {safe_regex: {regex: '[ab]'}}", "a b a+b b+b"},
		{"string_match: {exact: A, ignore_case: true}", "a a+b"},
		{"prefix_match: a", "a a+b a,b"},
		{"suffix_match: b", "b a+b b+b a,b"},
		{"contains_match: ','", "a,b"},
		{"string_match: {contains: ',B', ignore_case: true}", "a,b"},
		{"string_match: {exact: a}, invert_match: true, treat_missing_header_as_empty: true", "missing empty b b+b a,b 5 20+5 05 +5"},
		{"string_match: {exact: ''}, treat_missing_header_as_empty: true", "missing empty"},
		{"range_match: {start: 1, end: 10}", "5 20+5 05 +5"},
		{"range_match: {start: 1, end: 5}", ""},
		{"range_match: {start: 5, end: 6}", "5 20+5 05 +5"},
		{"range_match: {start: 1, end: 10}, invert_match: true", "empty a b a+b b+b a,b"},
		{"range_match: {start: 1, end: 10}, invert_match: true, treat_missing_header_as_empty: true", "missing empty a b a+b b+b a,b"},
		{"present_match: true", "empty a b a+b b+b a,b 5 20+5 05 +5"},
		{"present_match: false", "missing"},
		{"present_match: true, invert_match: true", "missing"},
		{"present_match: true, treat_missing_header_as_empty: true", all},
		{"present_match: false, treat_missing_header_as_empty: true", ""},
		{"present_match: true, invert_match: true, treat_missing_header_as_empty: true", ""},
		{"invert_match: false", "empty a b a+b b+b a,b 5 20+5 05 +5"},
		{"invert_match: true", "missing"},
	} {
		want := map[string]bool{}
		for _, n := range words(tc.yes) {
			want[n] = true
		}
		for n, h := range headerCases() {
			got := matches(t, "{prefix: /, headers: [{name: X, "+tc.matcher+"}]}", nil, "/", h...)
			if got != want[n] {
				t.Errorf("{%s} and %s: %t, want %t", tc.matcher, n, got, want[n])
			}
		}
	}
}

func TestHostHeaderIsTheAuthority(t *testing.T) {
	for _, name := range []string{"Host", ":authority"} {
		if !matches(t, "{prefix: /, headers: [{name: '"+name+"', string_match: {exact: h}}]}", nil, "/") {
			t.Errorf("%s is not found", name)
		}
	}
}

func TestAllHeadersMustMatch(t *testing.T) {
	m := "{prefix: /, headers: [{name: x, present_match: true}, {name: y, present_match: true}]}"
	if matches(t, m, nil, "/", "x: 1") || !matches(t, m, nil, "/", "x: 1", "y: 1") {
		t.Error("not all matchers are asked")
	}
}

// Proves RT-06. What matches was measured with Envoy 1.40.
func TestQueryParameters(t *testing.T) {
	paths := "/ /?k /?k= /?k=a /?k=b&k=a /?k=a&k=b /?j&k=a /?K=a /?k=%61 /?&k=a /?x?k=a /?k=a? /?k=a;b"
	present := "/?k /?k= /?k=a /?k=b&k=a /?k=a&k=b /?j&k=a /?k=%61 /?&k=a /?k=a? /?k=a;b"
	for matcher, yes := range map[string]string{
		"name: k": present, "name: k, present_match: true": present, "name: k, present_match: false": "/ /?K=a /?x?k=a",
		"name: k, string_match: {exact: a}": "/?k=a /?k=a&k=b /?j&k=a /?&k=a",
	} {
		want := map[string]bool{}
		for _, p := range words(yes) {
			want[p] = true
		}
		for _, p := range words(paths) {
			if got := matches(t, "{prefix: /, query_parameters: [{"+matcher+"}]}", nil, p); got != want[p] {
				t.Errorf("{%s} and %s: %t, want %t", matcher, p, got, want[p])
			}
		}
	}
}

// Proves RT-07. What matches was measured with Envoy 1.40.
func TestCookies(t *testing.T) {
	for _, tc := range []struct {
		match   bool
		cookies []string
	}{
		{false, nil},
		{true, []string{"cookie: k=a"}},
		{false, []string{"cookie: k=b"}},
		{true, []string{`cookie: k="a"`}},
		{false, []string{"cookie: k=b; k=a"}},
		{true, []string{"cookie: k=a; k=b"}},
		{false, []string{"cookie: k=b", "cookie: k=a"}},
		{true, []string{"cookie: k=a", "cookie: k=b"}},
		{false, []string{"cookie: j=1;   k=a ;l"}},
		{true, []string{"cookie: j=1;   k=a;l"}},
		{false, []string{"cookie: j=1;\tk=a"}},
		{false, []string{"cookie: kk=a"}},
	} {
		const m = "{prefix: /, cookies: [{name: k, string_match: {exact: a}"
		if got := matches(t, m+"}]}", nil, "/", tc.cookies...); got != tc.match {
			t.Errorf("%q: %t, want %t", tc.cookies, got, tc.match)
		}
		if got := matches(t, m+", invert_match: true}]}", nil, "/", tc.cookies...); got == tc.match {
			t.Errorf("%q inverted: %t", tc.cookies, got)
		}
	}
}

// Proves RT-07.
func TestGRPC(t *testing.T) {
	for ct, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "application/grpc-web": false, "Application/grpc": false,
		"application/grpc;x": false, "text/plain": false, "": false,
	} {
		if got := matches(t, "{prefix: /, grpc: {}}", nil, "/", "content-type: "+ct); got != want {
			t.Errorf("%q: %t, want %t", ct, got, want)
		}
	}
}

// Proves RT-07.
func TestTLSContext(t *testing.T) {
	for _, tc := range []struct {
		tls  *filter.TLSInfo
		yes  string
		none string
	}{
		{nil, "{presented: false, validated: false}", "{presented: true}"},
		{&filter.TLSInfo{PeerPresented: true}, "{presented: true, validated: false}", "{validated: true}"},
		{&filter.TLSInfo{PeerPresented: true, PeerValidated: true}, "{presented: true, validated: true}", "{presented: false}"},
	} {
		set := func(c *Context) { c.Info.Connection = &filter.ConnectionInfo{TLS: tc.tls} }
		if !matches(t, "{prefix: /, tls_context: "+tc.yes+"}", set, "/") || matches(t, "{prefix: /, tls_context: "+tc.none+"}", set, "/") {
			t.Errorf("%+v is judged wrongly", tc.tls)
		}
	}
}

// Proves RT-07, BS-37.
func TestRuntimeFraction(t *testing.T) {
	for _, tc := range []struct {
		fraction string
		random   uint64
		want     bool
	}{
		{"{default_value: {numerator: 0}}", 0, false},
		{"{default_value: {numerator: 100}}", 99, true},
		{"{default_value: {numerator: 5, denominator: MILLION}}", 4, true},
		{"{default_value: {numerator: 5, denominator: MILLION}}", 5, false},
		{"{default_value: {numerator: 5, denominator: MILLION}}", 1000004, true},
		{"{default_value: {numerator: 5, denominator: TEN_THOUSAND}}", 10005, false},
		{"{default_value: {numerator: 0}, runtime_key: known}", 29, true},
		{"{default_value: {numerator: 100}, runtime_key: known}", 30, false},
		{"{default_value: {numerator: 100}, runtime_key: unknown}", 30, true},
	} {
		cfg := "virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /, runtime_fraction: " + tc.fraction + "}, route: {cluster: c}}]}]"
		env := testEnv()
		env.Runtime = func(key string) (uint32, uint32, bool) { return 30, 100, key == "known" }
		tab := newTableIn(t, cfg, env)
		c := context(request("h", "/"))
		c.Random = tc.random
		if got := tab.Match(c) != nil; got != tc.want {
			t.Errorf("%s with %d: %t, want %t", tc.fraction, tc.random, got, tc.want)
		}
	}
}

// Proves RT-07. What matches was measured with Envoy 1.40.
func TestDynamicMetadata(t *testing.T) {
	s, err := structpb.NewStruct(map[string]any{
		"s": "a", "l": []any{"a", "b"}, "o": map[string]any{"x": map[string]any{"y": "z"}}, "n": 5, "b": true, "null": nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	set := func(c *Context) { c.Info.Metadata = map[string]*structpb.Struct{"f": s} }
	for _, tc := range []struct {
		path, value string
		want        bool
	}{
		{"s", "{present_match: true}", true},
		{"l", "{present_match: true}", true},
		{"o", "{present_match: true}", true},
		{"zz", "{present_match: true}", false},
		{"s", "{present_match: false}", false},
		{"zz", "{present_match: false}", false},
		{"o/x/y", "{string_match: {exact: z}}", true},
		{"s/x", "{present_match: true}", false},
		{"l", "{list_match: {one_of: {string_match: {exact: b}}}}", true},
		{"l", "{list_match: {one_of: {string_match: {exact: c}}}}", false},
		{"s", "{list_match: {one_of: {string_match: {exact: a}}}}", false},
		{"n", "{double_match: {range: {start: 5, end: 6}}}", true},
		{"n", "{double_match: {range: {start: 4, end: 5}}}", false},
		{"n", "{double_match: {exact: 5}}", true},
		{"s", "{double_match: {exact: 5}}", false},
		{"zz", "{null_match: {}}", false},
		{"null", "{null_match: {}}", true},
		{"b", "{bool_match: true}", true},
		{"b", "{bool_match: false}", false},
		{"s", "{or_match: {value_matchers: [{bool_match: true}, {string_match: {prefix: a}}]}}", true},
		{"n", "{or_match: {value_matchers: [{bool_match: true}, {string_match: {prefix: a}}]}}", false},
	} {
		var keys string
		for i, k := range split(tc.path, "/") {
			if i > 0 {
				keys += ", "
			}
			keys += "{key: '" + k + "'}"
		}
		m := "{prefix: /, dynamic_metadata: [{filter: f, path: [" + keys + "], value: " + tc.value
		if got := matches(t, m+"}]}", set, "/"); got != tc.want {
			t.Errorf("%s %s: %t, want %t", tc.path, tc.value, got, tc.want)
		}
		if got := matches(t, m+", invert: true}]}", set, "/"); got == tc.want {
			t.Errorf("%s %s inverted: %t", tc.path, tc.value, got)
		}
	}
}

// Proves RT-07.
func TestFilterState(t *testing.T) {
	set := func(c *Context) {
		c.Info.SetState("text", "abc")
		c.Info.SetState("ip", mustAddr(t, "10.1.2.3"))
		c.Info.SetState("number", 7)
	}
	for m, want := range map[string]bool{
		"{key: text, string_match: {prefix: ab}}":                                                              true,
		"{key: text, string_match: {prefix: b}}":                                                               false,
		"{key: none, string_match: {exact: ''}}":                                                               false,
		"{key: number, string_match: {exact: '7'}}":                                                            false,
		"{key: ip, address_match: {ranges: [{address_prefix: 10.1.0.0, prefix_len: 16}]}}":                     true,
		"{key: ip, address_match: {ranges: [{address_prefix: 10.2.0.0, prefix_len: 16}]}}":                     false,
		"{key: ip, address_match: {ranges: [{address_prefix: 10.2.0.0, prefix_len: 16}], invert_match: true}}": true,
		"{key: text, address_match: {ranges: [{address_prefix: 0.0.0.0, prefix_len: 0}]}}":                     false,
	} {
		if got := matches(t, "{prefix: /, filter_state: ["+m+"]}", set, "/"); got != want {
			t.Errorf("%s: %t, want %t", m, got, want)
		}
	}
}

// Proves RT-04. What matches was measured with Envoy 1.40.
func TestURITemplates(t *testing.T) {
	for _, tc := range []struct{ template, yes, no string }{
		{"/a/*", "/a/x /a/x*y /a/x=y /a/%41", "/a/ /a/x/y /a/x|y /a/[x]"},
		{"/b/**", "/b/ /b/x/y", "/b"},
		{"/a/**/b", "/a/x/b /a/x/y/b /a//b", "/a/b /a/xb"},
		{"/**x", "/x /ax /a/bx", "/a/b"},
		{"/*.m4s", "/a.m4s /a.b.m4s", "/.m4s /a/b.m4s /aXm4s"},
		{"/{a=*/y/*}", "/1/y/2", "/1/2"},
		{"/{a=x/**}", "/x/ /x/1/2", "/x"},
		{"/a/", "/a/", "/a"},
		{"/v{v=*}.j/x{w}", "/v1.j/x2", "/v.j/x2 /v1.j/x"},
		{"/*", "/a /a* /a=b /~ /%zz /a;b", "/ /a/b"},
		{"/h/**.mpd", "/h/a/b.mpd /h/.mpd", "/h/a.mp"},
	} {
		m := "{path_match_policy: {name: t, typed_config: {'@type': type.googleapis.com/envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig, path_template: '" + tc.template + "'}}}"
		for _, p := range words(tc.yes) {
			if !matches(t, m, nil, p) || !matches(t, m, nil, p+"?q") {
				t.Errorf("%s does not match %s", tc.template, p)
			}
		}
		for _, p := range words(tc.no) {
			if matches(t, m, nil, p) {
				t.Errorf("%s matches %s", tc.template, p)
			}
		}
	}
}

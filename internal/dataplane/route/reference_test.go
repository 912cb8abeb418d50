package route

import (
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

// drawMatch makes a condition on the path over a small alphabet, so that
// prefixes nest and paths repeat.
func drawMatch(t *rapid.T) *routev3.RouteMatch {
	text := rapid.StringMatching(`(/[aAb]{1,2}){1,4}`).Draw(t, "text")
	m := &routev3.RouteMatch{}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		m.PathSpecifier = &routev3.RouteMatch_Path{Path: text}
	case 1:
		m.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: text}
	case 2:
		m.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: text + ".*"}}
	case 3:
		m.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: "/"}
	default:
		m.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: text[:rapid.IntRange(0, len(text)).Draw(t, "length")]}
	}
	if rapid.Bool().Draw(t, "fold") {
		m.CaseSensitive = wrapperspb.Bool(false)
	}
	if rapid.Bool().Draw(t, "condition") {
		m.Headers = []*routev3.HeaderMatcher{{Name: rapid.SampledFrom([]string{"x-0", "x-1"}).Draw(t, "header")}}
	}
	return m
}

// naive tells whether a request fulfils a match, by the words of the API.
func naive(m *routev3.RouteMatch, path string, headers []string) bool {
	path, _, _ = strings.Cut(path, "?")
	fold := func(s string) string { return s }
	if m.GetCaseSensitive() != nil && m.GetSafeRegex() == nil {
		fold = strings.ToLower
	}
	p := fold(path)
	ok := false
	switch s := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Path:
		ok = p == fold(s.Path)
	case *routev3.RouteMatch_Prefix:
		ok = strings.HasPrefix(p, fold(s.Prefix))
	case *routev3.RouteMatch_PathSeparatedPrefix:
		ok = p == fold(s.PathSeparatedPrefix) || strings.HasPrefix(p, fold(s.PathSeparatedPrefix)+"/")
	case *routev3.RouteMatch_SafeRegex:
		ok = strings.HasPrefix(path, strings.TrimSuffix(s.SafeRegex.GetRegex(), ".*"))
	}
	for _, h := range m.GetHeaders() {
		ok = ok && strings.Contains(strings.Join(headers, " "), h.GetName())
	}
	return ok
}

// The fast matcher finds what trying every route in order does.
//
// Proves RT-03.
func TestMatchFollowsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vh := &routev3.VirtualHost{Name: "v", Domains: []string{"*"}}
		n := rapid.IntRange(0, 60).Draw(t, "routes")
		for i := range n {
			vh.Routes = append(vh.Routes, &routev3.Route{
				Name: fmt.Sprint(i), Match: drawMatch(t),
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "c"}}},
			})
		}
		tab, err := New(&routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{vh}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			path := rapid.StringMatching(`(/[aAb]{0,2}){1,5}(\?x)?`).Draw(t, "path")
			headers := rapid.SampledFrom([][]string{nil, {"x-0: 1"}, {"x-1: 1"}, {"x-0: 1", "x-1: 1"}}).Draw(t, "headers")
			want := ""
			for _, r := range vh.GetRoutes() {
				if naive(r.GetMatch(), path, headers) {
					want = r.GetName()
					break
				}
			}
			got := ""
			c := context(request("h", path, headers...))
			if e := tab.Match(c); e != nil {
				got = e.Name()
			}
			if got != want {
				t.Fatalf("%s %q goes to %q, want %q of %v", path, headers, got, want, vh.GetRoutes())
			}
		}
	})
}

// More nested prefixes than can be merged are tried in order.
func TestManyNestedPrefixes(t *testing.T) {
	vh := &routev3.VirtualHost{Name: "v", Domains: []string{"*"}}
	add := func(name, prefix string, headers ...*routev3.HeaderMatcher) {
		vh.Routes = append(vh.Routes, &routev3.Route{
			Name: name, Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: prefix}, Headers: headers},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "c"}}},
		})
	}
	for i := 2 * maxLists; i > 0; i-- {
		add(fmt.Sprint(i), "/"+strings.Repeat("a", i), &routev3.HeaderMatcher{Name: "x"})
	}
	add("last", "/")
	tab, err := New(&routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{vh}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := "/" + strings.Repeat("a", 3*maxLists)
	for _, tc := range []struct {
		headers []string
		want    string
	}{{nil, "last"}, {[]string{"x: 1"}, fmt.Sprint(2 * maxLists)}} {
		if got := tab.Match(context(request("h", long, tc.headers...))).Name(); got != tc.want {
			t.Errorf("%q goes to %s, want %s", tc.headers, got, tc.want)
		}
	}
}

func TestLongHostsAndPaths(t *testing.T) {
	host, path := strings.Repeat("h", 300), "/"+strings.Repeat("p", 600)
	tab := newTable(t, "virtual_hosts: [{name: v, domains: ["+host+"], routes: [{match: {prefix: "+path+", case_sensitive: false}, route: {cluster: c}}]}]")
	if tab.Match(context(request(strings.ToUpper(host), strings.ToUpper(path)+"/x"))) == nil {
		t.Error("no route")
	}
}

func FuzzMatch(f *testing.F) {
	tab := newTable(f, `
ignore_port_in_host_matching: true
virtual_hosts:
- {name: a, domains: [a.com, "*.a.com", "b.*"], routes: [{match: {prefix: /x}, route: {cluster: c, prefix_rewrite: /y}}, {match: {safe_regex: {regex: "/r/.*"}}, redirect: {https_redirect: true, path_redirect: /z}}]}
- {name: any, domains: ["*"], routes: [{match: {prefix: /, query_parameters: [{name: q, string_match: {exact: v}}]}, route: {cluster_header: x}}, {match: {prefix: /, cookies: [{name: k, string_match: {exact: v}}]}, route: {cluster: c, regex_rewrite: {pattern: {regex: "b+"}, substitution: "<\\0>"}}}, {match: {path: /, case_sensitive: false}, redirect: {strip_query: true}}]}
`)
	for _, s := range [][4]string{{"a.com:80", "/x?q=v", "k=v", "http"}, {"[::1]:x", "/r/a#b", "k=\"v\"; j", "https"}, {"b.", "/bb?", ";;=", ""}, {"", "", "", ""}, {":", "?q=v", "k", "http"}} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, host, path, cookies, proto string) {
		c := context(request(host, path, "cookie: "+cookies, "x-forwarded-proto: "+proto))
		e := tab.Match(c)
		if e == nil {
			return
		}
		if e.Kind() == Redirect {
			if _, to := e.Redirect(c); !strings.Contains(to, "://") {
				t.Errorf("%s%s leads to %q", host, path, to)
			}
			return
		}
		e.FinalizeRequest(c, e.PickCluster(c))
		e.FinalTimeouts(c, false, true)
		if before, query, ok := strings.Cut(path, "?"); ok && !strings.Contains(before, "#") && !strings.HasSuffix(c.Request.Path(), "?"+query) {
			t.Errorf("the query of %q is lost in %q", path, c.Request.Path())
		}
	})
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"/a/{b}/**", "/{a=*/x/*}.j", "/*.m4s", "/{", "/{a={", "//"} {
		f.Add(s, "/a/b/c")
	}
	f.Fuzz(func(t *testing.T, template, path string) {
		p, err := parseTemplate(template)
		if err != nil {
			return
		}
		if n := p.re.NumSubexp(); n != len(p.names) {
			t.Errorf("%q has %d groups for %q", template, n, p.names)
		}
		p.match(path)
	})
}

package route

import (
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter/header"
)

func keyBuilder(t testing.TB, text string) *ScopeKeyBuilder {
	t.Helper()
	c := &hcmv3.ScopedRoutes_ScopeKeyBuilder{}
	parse(t, text, c)
	b, err := NewScopeKeyBuilder(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func scopeKey(fragments ...string) string {
	k := &routev3.ScopedRouteConfiguration_Key{}
	for _, f := range fragments {
		k.Fragments = append(k.Fragments, &routev3.ScopedRouteConfiguration_Key_Fragment{
			Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: f},
		})
	}
	return ScopeKey(k)
}

// Partly proves RT-11: the key of a request. What Envoy makes of the same headers
// is in e2e/differential.
func TestScopeKeyOfRequest(t *testing.T) {
	const (
		whole   = `{header_value_extractor: {name: X-T, index: 0}}`
		second  = `{header_value_extractor: {name: x-t, element_separator: ",", index: 1}}`
		long    = `{header_value_extractor: {name: x-t, element_separator: "::", index: 1}}`
		element = `{header_value_extractor: {name: x-t, element_separator: ";", element: {separator: "=", key: k}}}`
		alone   = `{header_value_extractor: {name: x-t, element: {separator: "=>", key: k}}}`
		host    = `{header_value_extractor: {name: Host, index: 0}}`
	)
	for _, c := range []struct {
		fragments string
		headers   []string
		want      []string // nil: no key
	}{
		{whole, nil, nil},
		{whole, []string{"x-t: a"}, []string{"a"}},
		{whole, []string{"x-t: "}, []string{""}},
		{whole, []string{"x-t: a,b"}, []string{"a,b"}},
		{whole, []string{"x-t: a", "x-t: b"}, []string{"a"}},
		{whole, []string{"x-other: a"}, nil},
		{second, []string{"x-t: a"}, nil},
		{second, []string{"x-t: a,b"}, []string{"b"}},
		{second, []string{"x-t: a,"}, []string{""}},
		{second, []string{"x-t: ,,"}, []string{""}},
		{second, []string{"x-t: a, b ,c"}, []string{" b "}},
		{second, []string{"x-t: a", "x-t: b"}, nil},
		{long, []string{"x-t: a::b::c"}, []string{"b"}},
		{long, []string{"x-t: a:b"}, nil},
		{element, []string{"x-t: k=v"}, []string{"v"}},
		{element, []string{"x-t: a=b;k=v;k=w"}, []string{"v"}},
		{element, []string{"x-t: a=b; k=v"}, nil},
		{element, []string{"x-t: k"}, []string{""}},
		{element, []string{"x-t: ;;k="}, []string{""}},
		{element, []string{"x-t: k=v=w"}, []string{"v=w"}},
		{element, []string{"x-t: K=v"}, nil},
		{alone, []string{"x-t: k=>v;w"}, []string{"v;w"}},
		{alone, []string{"x-t: k=v"}, nil},
		{host, nil, []string{"www.example.com"}},
		{whole + ", " + element, []string{"x-t: k=v"}, []string{"k=v", "v"}},
		{whole + ", " + host, []string{"x-t: a"}, []string{"a", "www.example.com"}},
		{host + ", " + whole, nil, nil},
	} {
		key, ok := keyBuilder(t, "fragments: ["+c.fragments+"]").Append(nil, request("www.example.com", "/", c.headers...))
		if ok != (c.want != nil) || ok && string(key) != scopeKey(c.want...) {
			t.Errorf("%s of %q: %q (%v), want %q", c.fragments, c.headers, key, ok, c.want)
		}
	}
}

func TestScopeKeyBuilderIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "fragments: at least one",
		`fragments: [{header_value_extractor: {index: 0}}]`: "fragments[0].header_value_extractor: name: ",
		`fragments: [{}]`: "fragments[0].header_value_extractor: name: ",
		`fragments: [{header_value_extractor: {name: x}}]`:                                                "HeaderValueExtractor extract_type not set.",
		`fragments: [{header_value_extractor: {name: x, index: 1}}]`:                                      "Index > 0 for empty string element separator.",
		`fragments: [{header_value_extractor: {name: x, element: {key: k}}}]`:                             "element: key and separator",
		`fragments: [{header_value_extractor: {name: x, element: {separator: "="}}}]`:                     "element: key and separator",
		`fragments: [{header_value_extractor: {name: x, index: 0}}, {header_value_extractor: {name: y}}]`: "fragments[1].header_value_extractor: ",
	} {
		c := &hcmv3.ScopedRoutes_ScopeKeyBuilder{}
		parse(t, text, c)
		if _, err := NewScopeKeyBuilder(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Lists of fragments are the same key only if they are equal.
func TestScopeKeysDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.StringMatching(`[\x00-\x02a]{0,3}`), 0, 4)
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		if same := fmt.Sprintf("%q", a) == fmt.Sprintf("%q", b); same != (scopeKey(a...) == scopeKey(b...)) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

// scopesOf makes n scopes by two headers.
func scopesOf(tb testing.TB, n int) *Scopes {
	tb.Helper()
	s := NewScopes(keyBuilder(tb, `fragments: [{header_value_extractor: {name: x-tenant, index: 0}}, {header_value_extractor: {name: x-t, element_separator: ";", element: {separator: "=", key: k}}}]`))
	for i := range n {
		t := &Table{level: &level{}}
		s.Set(scopeKey(fmt.Sprintf("tenant-%d", i), "v"), &Scope{Name: fmt.Sprint(i), Table: &t})
	}
	return s
}

// Partly proves RT-11: a request finds its scope without an allocation.
func TestFindingAScopeDoesNotAllocate(t *testing.T) {
	s := scopesOf(t, 100)
	var m header.Map
	var buf []byte
	if n := testing.AllocsPerRun(100, func() {
		m.Reset()
		m.Add("x-tenant", "tenant-77")
		m.Add("x-t", "a=b;k=v")
		var scope *Scope
		if scope, buf = s.Find(&m, buf); scope == nil || scope.Name != "77" {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	s.Set(scopeKey("tenant-77", "v"), nil)
	if scope, _ := s.Find(&m, nil); scope != nil || s.Len() != 99 {
		t.Error("a scope that was taken away is found")
	}
}

func BenchmarkFindScope(b *testing.B) {
	for _, n := range []int{1, 100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := scopesOf(b, n)
			m := request("h", "/", "x-tenant: tenant-0", "x-t: a=b;k=v")
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				if _, buf = s.Find(m, buf); buf == nil {
					b.Fatal("no key")
				}
			}
		})
	}
}

//go:build interop

package living

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// segments are what paths are made of.
var segments = []string{"a", "b", "item", "v1", "users", "x%41", "A"}

// path has one to three segments.
func (g *generator) path() string {
	var b strings.Builder
	for range g.between(1, 3) {
		b.WriteString("/" + pick(g, segments...))
	}
	return b.String()
}

// match is what a route wants of a request; p is made such a request, or nearly.
func (g *generator) match(p *probe) *routev3.RouteMatch {
	m := &routev3.RouteMatch{}
	g.matchPath(m, p)
	if g.chance(5) {
		m.CaseSensitive = wrapperspb.Bool(g.chance(2))
		if m.GetPathMatchPolicy() != nil || m.GetSafeRegex() != nil {
			m.CaseSensitive = nil
		}
	}
	for range g.between(0, 3) / 2 {
		m.Headers = append(m.Headers, g.matchHeader(p))
	}
	if g.chance(4) {
		m.QueryParameters = append(m.QueryParameters, g.matchQuery(p))
	}
	if g.chance(8) {
		m.Cookies = append(m.Cookies, &routev3.CookieMatcher{Name: "session", StringMatch: g.matchString(p.setCookie), InvertMatch: g.chance(4)})
	}
	switch g.random.IntN(20) {
	case 0:
		m.Grpc = &routev3.RouteMatch_GrpcRouteMatchOptions{}
		p.set("content-type", pick(g, "application/grpc", "application/grpc+proto", "application/json"))
	case 1:
		m.TlsContext = &routev3.RouteMatch_TlsContextMatchOptions{Presented: wrapperspb.Bool(g.chance(2))}
	case 2, 3:
		m.RuntimeFraction = &corev3.RuntimeFractionalPercent{
			DefaultValue: &typev3.FractionalPercent{Numerator: pick[uint32](g, 0, 50, 100)}, RuntimeKey: pick(g, "", "not.set"),
		}
	case 4:
		m.DynamicMetadata = []*matcherv3.MetadataMatcher{{
			Filter: "test", Path: []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: "k"}}},
			Value: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}, Invert: g.chance(2),
		}}
	}
	return m
}

func (g *generator) matchPath(m *routev3.RouteMatch, p *probe) {
	path := g.path()
	rest := pick(g, "", "/", "/more", "more", "/a/b")
	switch g.random.IntN(7) {
	case 0, 1:
		m.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: pick(g, path, path+"/", "/")}
		p.path = m.GetPrefix() + rest
	case 2:
		m.PathSpecifier = &routev3.RouteMatch_Path{Path: path}
		p.path = path + pick(g, "", "", "", "/")
	case 3:
		m.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: pick(g, path+".*", path+`/\w+`, "/(a|b)/.+", `/[^/]+`)}}
		p.path = pick(g, path+rest, "/a/b", "/b/item")
	case 4:
		m.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: path}
		p.path = path + rest
	case 5:
		t := pick(g, "/{one}/**", "/a/{two=*}", "/users/*/{rest=**}", "/*/{file}.json")
		m.PathSpecifier = &routev3.RouteMatch_PathMatchPolicy{PathMatchPolicy: &corev3.TypedExtensionConfig{
			Name: "template", TypedConfig: packed(&templatev3.UriTemplateMatchConfig{PathTemplate: t}),
		}}
		p.path = pick(g, path+rest, "/a/b", "/users/a/b/item", "/v1/item.json")
	default:
		m.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: "/"}
		p.path = path
	}
	if g.chance(6) {
		p.path = strings.ToUpper(p.path)
	}
	if strings.HasPrefix(p.path, "//") {
		p.path = p.path[1:] // it would be sent as a URL
	}
	if g.chance(12) {
		p.path += ";v=1"
	}
}

// matchString is a matcher; set is told a value that matches, or nearly.
func (g *generator) matchString(set func(string)) *matcherv3.StringMatcher {
	v := pick(g, "one", "two", "three-four")
	m := &matcherv3.StringMatcher{}
	switch g.random.IntN(5) {
	case 0:
		m.MatchPattern = &matcherv3.StringMatcher_Exact{Exact: v}
	case 1:
		m.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: v}
		v += "-x"
	case 2:
		m.MatchPattern = &matcherv3.StringMatcher_Suffix{Suffix: v}
		v = "x-" + v
	case 3:
		m.MatchPattern = &matcherv3.StringMatcher_Contains{Contains: v}
		v = "x-" + v + "-y"
	default:
		m.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: v + ".*"}}
		v += "z"
	}
	if g.chance(4) && m.GetSafeRegex() == nil {
		m.IgnoreCase = true
		v = strings.ToUpper(v)
	}
	if !g.chance(6) {
		set(v)
	}
	return m
}

func (g *generator) matchHeader(p *probe) *routev3.HeaderMatcher {
	m := &routev3.HeaderMatcher{Name: pick(g, "x-a", "x-b", "x-n"), InvertMatch: g.chance(5), TreatMissingHeaderAsEmpty: g.chance(6)}
	set := func(v string) { p.set(m.GetName(), v) }
	switch g.random.IntN(6) {
	case 0:
		m.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: g.chance(2)}
		if g.chance(2) {
			set("here")
		}
	case 1:
		m.HeaderMatchSpecifier = &routev3.HeaderMatcher_RangeMatch{RangeMatch: &typev3.Int64Range{Start: -5, End: 10}}
		set(pick(g, "-6", "-5", "0", "10", "nine", "9"))
	case 2:
		m.Name = ":method"
		p.method = pick(g, "GET", "POST", "PUT", "DELETE")
		m.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: pick(g, p.method, "GET")},
		}}
	case 3:
		m.HeaderMatchSpecifier = &routev3.HeaderMatcher_ExactMatch{ExactMatch: "old"} //nolint:staticcheck // still accepted
		set(pick(g, "old", "new"))
	default:
		m.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: g.matchString(set)}
	}
	return m
}

func (g *generator) matchQuery(p *probe) *routev3.QueryParameterMatcher {
	m := &routev3.QueryParameterMatcher{Name: pick(g, "q", "page")}
	if g.chance(2) {
		m.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}
		if !g.chance(5) {
			p.query = append(p.query, m.GetName()+pick(g, "", "=", "=1"))
		}
		return m
	}
	m.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{
		StringMatch: g.matchString(func(v string) { p.query = append(p.query, m.GetName()+"="+v) }),
	}
	return m
}

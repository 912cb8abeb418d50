//go:build interop

package living

import (
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	rewritev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/rewrite/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// domains are sets of domains of which none has another's, each with names
// that are meant, or nearly.
var domains = []struct{ domains, names []string }{
	{[]string{"a.test"}, []string{"a.test", "A.Test", "a.test:80"}},
	{[]string{"*.b.test", "b.test"}, []string{"y.b.test", "z.y.b.test", "b.test", ".b.test"}},
	{[]string{"c.*"}, []string{"c.test", "c.com:90", "c.c"}},
	{[]string{"d.test:8080", "d.test"}, []string{"d.test:8080", "d.test", "d.test:1"}},
	{[]string{"x.b.test", "*-b.test"}, []string{"x.b.test", "x-b.test", "X.B.test"}},
	{[]string{"*"}, []string{"other.test", "a.test", "y.b.test", "127.0.0.1"}},
}

// table is a route table; listener is where probes for its routes are sent.
func (g *generator) table(name string, listener int) *routev3.RouteConfiguration {
	t := &routev3.RouteConfiguration{
		Name:                               name,
		RequestHeadersToAdd:                g.headers(4),
		ResponseHeadersToAdd:               g.headers(4),
		RequestHeadersToRemove:             g.removed(6),
		ResponseHeadersToRemove:            g.removed(6),
		MostSpecificHeaderMutationsWins:    g.chance(3),
		IgnorePortInHostMatching:           g.chance(3),
		IgnorePathParametersInPathMatching: g.chance(4),
		TypedPerFilterConfig:               g.perFilter(6),
		Metadata:                           maybe(g, 4, g.metadata),
	}
	if g.chance(4) {
		t.MaxDirectResponseBodySizeBytes = g.u32(4096, 10000)
	}
	last := len(domains) - 1
	hosts := g.random.Perm(last)[:g.between(0, 4)]
	if len(hosts) == 0 || !g.chance(6) {
		hosts = append(hosts, last)
	}
	for i, d := range hosts {
		v := &routev3.VirtualHost{Name: fmt.Sprint(name, "-", i), Domains: domains[d].domains}
		g.virtualHost(v, probe{listener: listener, host: pick(g, domains[d].names...)})
		t.VirtualHosts = append(t.VirtualHosts, v)
	}
	return t
}

func (g *generator) virtualHost(v *routev3.VirtualHost, p probe) {
	v.RequestHeadersToAdd, v.ResponseHeadersToAdd = g.headers(5), g.headers(5)
	v.RequestHeadersToRemove, v.ResponseHeadersToRemove = g.removed(8), g.removed(8)
	v.IncludeRequestAttemptCount, v.IncludeAttemptCountInResponse = g.chance(3), g.chance(3)
	v.RetryPolicy = maybe(g, 4, g.retries)
	v.TypedPerFilterConfig = g.perFilter(8)
	v.Metadata = maybe(g, 8, g.metadata)
	if g.chance(15) {
		v.RequireTls = pick(g, routev3.VirtualHost_ALL, routev3.VirtualHost_EXTERNAL_ONLY)
	}
	for range g.between(1, 4) {
		of := g.vary(p)
		v.Routes = append(v.Routes, g.route(&of))
		if g.chance(2) {
			g.probes = append(g.probes, of)
		}
	}
}

func (g *generator) route(p *probe) *routev3.Route {
	r := &routev3.Route{
		Match:               g.match(p),
		RequestHeadersToAdd: g.headers(4), ResponseHeadersToAdd: g.headers(3),
		RequestHeadersToRemove: g.removed(6), ResponseHeadersToRemove: g.removed(6),
		TypedPerFilterConfig: g.perFilter(5),
		Metadata:             maybe(g, 4, g.metadata),
	}
	if g.chance(3) {
		r.Name = g.unique("route")
	}
	if g.chance(10) {
		r.RequestBodyBufferLimit = wrapperspb.UInt64(65536)
	}
	switch g.random.IntN(8) {
	case 0:
		r.Action = &routev3.Route_Redirect{Redirect: g.redirect(r.GetMatch())}
	case 1:
		r.Action = &routev3.Route_DirectResponse{DirectResponse: g.direct()}
	default:
		r.Action = &routev3.Route_Route{Route: g.forward(r.GetMatch(), p)}
	}
	return r
}

// hasPrefix reports whether a match can have its prefix replaced.
func hasPrefix(m *routev3.RouteMatch) bool {
	return m.GetPrefix() != "" || m.GetPath() != "" || m.GetPathSeparatedPrefix() != ""
}

func (g *generator) regexRewrite() *matcherv3.RegexMatchAndSubstitute {
	return pick(g,
		&matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: "^/([^/]+)(/.*)?$"}, Substitution: `\2/of/\1`},
		&matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: "a|b"}, Substitution: `x`},
		&matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: "/item"}, Substitution: `/thing\0`},
	)
}

func (g *generator) redirect(m *routev3.RouteMatch) *routev3.RedirectAction {
	r := &routev3.RedirectAction{StripQuery: g.chance(3)}
	switch g.random.IntN(4) {
	case 0:
		r.SchemeRewriteSpecifier = &routev3.RedirectAction_HttpsRedirect{HttpsRedirect: true}
	case 1:
		r.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: pick(g, "http", "https", "ftp")}
	}
	if g.chance(2) {
		r.HostRedirect = pick(g, "new.test", "new.test:99", "[::1]")
	}
	if g.chance(4) {
		r.PortRedirect = pick[uint32](g, 80, 443, 8080)
	}
	switch g.random.IntN(5) {
	case 0:
		r.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: pick(g, "/new", "/new?a=b", "/new#part")}
	case 1:
		if hasPrefix(m) {
			r.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: pick(g, "/new", "/new/", "/")}
		}
	case 2:
		r.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: g.regexRewrite()}
	}
	r.ResponseCode = routev3.RedirectAction_RedirectResponseCode(int32(g.random.IntN(5))) //nolint:gosec // one of the enum
	return r
}

func (g *generator) direct() *routev3.DirectResponseAction {
	d := &routev3.DirectResponseAction{Status: pick[uint32](g, 200, 201, 204, 302, 404, 503, 599)}
	if g.chance(2) && d.GetStatus() != 204 { // Envoy sends it, which breaks the connection
		d.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: pick(g, "x", "some text\n", "100% ünicode")}}
	}
	if g.chance(4) && d.GetStatus() != 204 {
		d.BodyFormat = &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: "%REQ(:method)% %REQ(x-a)% %PROTOCOL%"},
			}},
			ContentType: pick(g, "", "text/x-test"),
		}
	}
	return d
}

// forward sends to clusters, whether they are there or not.
func (g *generator) forward(m *routev3.RouteMatch, p *probe) *routev3.RouteAction {
	a := &routev3.RouteAction{RetryPolicy: maybe(g, 3, g.retries)}
	g.whereTo(a, p)
	g.rewritePath(a, m)
	g.rewriteHost(a)
	switch g.random.IntN(8) {
	case 0:
		a.Timeout = durationpb.New(0)
	case 1:
		a.Timeout = durationpb.New(80 * time.Millisecond)
		if g.chance(2) {
			p.set("x-delay", "250")
		}
	case 2:
		a.Timeout = g.duration(10*time.Second, time.Minute)
	}
	if g.chance(6) {
		a.IdleTimeout = g.duration(0, 20*time.Second)
	}
	if g.chance(6) {
		a.Priority = corev3.RoutingPriority_HIGH
	}
	if g.chance(8) {
		a.MaxStreamDuration = &routev3.RouteAction_MaxStreamDuration{MaxStreamDuration: g.duration(20*time.Second, time.Minute)}
	}
	if g.chance(8) {
		a.UpgradeConfigs = []*routev3.RouteAction_UpgradeConfig{{UpgradeType: "websocket", Enabled: wrapperspb.Bool(g.chance(2))}}
	}
	a.ClusterNotFoundResponseCode = routev3.RouteAction_ClusterNotFoundResponseCode(int32(g.random.IntN(3))) //nolint:gosec // one of the enum
	return a
}

func (g *generator) anyCluster() string {
	return pick(g, append(slices.Clone(generatedClusters), "none")...)
}

func (g *generator) whereTo(a *routev3.RouteAction, p *probe) {
	switch g.random.IntN(5) {
	case 0:
		a.ClusterSpecifier = &routev3.RouteAction_ClusterHeader{ClusterHeader: "x-cluster"}
		if !g.chance(6) {
			p.set("x-cluster", g.anyCluster())
		}
	case 1, 2:
		w := &routev3.WeightedCluster{RuntimeKeyPrefix: pick(g, "", "weights")}
		for range g.between(1, 3) {
			c := &routev3.WeightedCluster_ClusterWeight{
				Name: g.anyCluster(), Weight: g.u32(1, 2, 3), RequestHeadersToAdd: g.headers(5), ResponseHeadersToAdd: g.headers(5),
				RequestHeadersToRemove: g.removed(8), ResponseHeadersToRemove: g.removed(8), TypedPerFilterConfig: g.perFilter(8),
			}
			if g.chance(8) {
				c.Weight = wrapperspb.UInt32(0)
			}
			if g.chance(6) {
				c.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: "weighted.test"}
			}
			w.Clusters = append(w.Clusters, c)
		}
		if w.GetClusters()[0].GetWeight().GetValue() == 0 {
			w.Clusters[0].Weight = wrapperspb.UInt32(2)
		}
		if g.chance(2) {
			w.RandomValueSpecifier = &routev3.WeightedCluster_HeaderName{HeaderName: "x-random"}
			p.set("x-random", pick(g, "0", "1", "2", "5", "100", "z"))
		}
		a.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: w}
	default:
		a.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: g.anyCluster()}
	}
}

func (g *generator) rewritePath(a *routev3.RouteAction, m *routev3.RouteMatch) {
	switch g.random.IntN(6) {
	case 0:
		if hasPrefix(m) {
			a.PrefixRewrite = pick(g, "/new", "/", "/new/")
		}
	case 1:
		a.RegexRewrite = g.regexRewrite()
	case 2:
		if m.GetPathMatchPolicy() != nil {
			a.PathRewritePolicy = &corev3.TypedExtensionConfig{Name: "template", TypedConfig: packed(&rewritev3.UriTemplateRewriteConfig{
				PathTemplateRewrite: "/rewritten",
			})}
		}
	}
}

func (g *generator) rewriteHost(a *routev3.RouteAction) {
	switch g.random.IntN(12) {
	case 0:
		a.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: pick(g, "new.test", "new.test:1")}
	case 1:
		a.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteHeader{HostRewriteHeader: "x-a"}
	case 2:
		a.HostRewriteSpecifier = &routev3.RouteAction_AutoHostRewrite{AutoHostRewrite: wrapperspb.Bool(true)}
	case 3:
		a.HostRewriteSpecifier = &routev3.RouteAction_HostRewritePathRegex{HostRewritePathRegex: &matcherv3.RegexMatchAndSubstitute{
			Pattern: &matcherv3.RegexMatcher{Regex: "^/([a-z]+).*$"}, Substitution: `\1.test`,
		}}
	}
	a.AppendXForwardedHost = g.chance(5)
}

func (g *generator) retries() *routev3.RetryPolicy {
	r := &routev3.RetryPolicy{
		RetryOn:      pick(g, "5xx", "gateway-error", "retriable-status-codes", "retriable-4xx,reset", "connect-failure,refused-stream", "retriable-headers", "5xx,retriable-status-codes", "cancelled,unavailable", ""),
		NumRetries:   maybe(g, 2, func() *wrapperspb.UInt32Value { return g.u32(0, 1, 2, 3) }),
		RetryBackOff: &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(time.Millisecond), MaxInterval: durationpb.New(2 * time.Millisecond)},
	}
	if g.chance(2) {
		r.RetriableStatusCodes = []uint32{409, 500, pick[uint32](g, 404, 503, 200)}
	}
	if g.chance(3) {
		r.RetriableHeaders = []*routev3.HeaderMatcher{{Name: "x-host", HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}}
	}
	if g.chance(4) {
		r.RetriableRequestHeaders = []*routev3.HeaderMatcher{{Name: ":method", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "GET"}},
		}}}
	}
	if g.chance(4) {
		r.PerTryTimeout = g.duration(10 * time.Second)
	}
	return r
}

// percent is the whole or nothing.
func (g *generator) percent() *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: pick[uint32](g, 0, 100), Denominator: typev3.FractionalPercent_HUNDRED}
}

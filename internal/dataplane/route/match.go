package route

import (
	"errors"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/fields"
	"github.com/xebec-proxy/xebec/internal/fraction"
	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// conditions are what a route asks for beside its path; all must hold.
type conditions struct {
	any      bool // there are some
	headers  []headerMatcher
	query    []queryMatcher
	cookies  []cookieMatcher
	metadata []metadataMatcher
	state    []stateMatcher
	fraction *share
	grpc     bool

	presented, validated       bool
	wantPresented, wantCertain bool // what is asked for, if so
}

// share is a part of the requests, which the runtime may change (BS-37).
type share struct {
	numerator, denominator uint64
	key                    string
	env                    *Env
}

func (b *builder) fraction(f *corev3.RuntimeFractionalPercent) *share {
	n, d := fraction.Of(f.GetDefaultValue())
	return &share{numerator: n, denominator: d, key: f.GetRuntimeKey(), env: b.env}
}

func (f *share) on(random uint64) bool {
	if f.key != "" && f.env.Runtime != nil {
		if n, d, ok := f.env.Runtime(f.key); ok && d > 0 {
			return fraction.On(random, uint64(n), uint64(d))
		}
	}
	return fraction.On(random, f.numerator, f.denominator)
}

type queryMatcher struct {
	name    string
	text    stringmatch.Matcher
	byText  bool
	present bool
}

type cookieMatcher struct {
	name   string
	text   stringmatch.Matcher
	invert bool
}

func (b *builder) conditions(path string, m *routev3.RouteMatch) conditions {
	c := conditions{grpc: m.GetGrpc() != nil, headers: b.headerMatchers(path+".headers", m.GetHeaders())}
	if f := m.GetRuntimeFraction(); f != nil {
		if f.GetDefaultValue() == nil {
			b.fail(path+".runtime_fraction", errors.New("default_value is missing"))
		}
		c.fraction = b.fraction(f)
	}
	for i, q := range m.GetQueryParameters() {
		c.query = append(c.query, b.queryMatcher(index(path+".query_parameters", i), q))
	}
	for i, k := range m.GetCookies() {
		p := index(path+".cookies", i)
		c.cookies = append(c.cookies, cookieMatcher{k.GetName(), b.stringMatcher(p+".string_match", k.GetStringMatch()), k.GetInvertMatch()})
	}
	for i, d := range m.GetDynamicMetadata() {
		c.metadata = append(c.metadata, b.metadataMatcher(index(path+".dynamic_metadata", i), d))
	}
	for i, s := range m.GetFilterState() {
		c.state = append(c.state, b.stateMatcher(index(path+".filter_state", i), s))
	}
	if p := m.GetTlsContext().GetPresented(); p != nil {
		c.presented, c.wantPresented = true, p.GetValue()
	}
	if v := m.GetTlsContext().GetValidated(); v != nil {
		c.validated, c.wantCertain = true, v.GetValue()
	}
	c.any = c.grpc || c.headers != nil || c.fraction != nil || c.query != nil || c.cookies != nil ||
		c.metadata != nil || c.state != nil || c.presented || c.validated
	return c
}

func (b *builder) queryMatcher(path string, m *routev3.QueryParameterMatcher) queryMatcher {
	q := queryMatcher{name: m.GetName(), present: true}
	if q.name == "" {
		b.fail(path+".name", errors.New("the parameter has no name"))
	}
	switch s := m.GetQueryParameterMatchSpecifier().(type) {
	case *routev3.QueryParameterMatcher_PresentMatch:
		q.present = s.PresentMatch
	case *routev3.QueryParameterMatcher_StringMatch:
		q.byText, q.text = true, b.stringMatcher(path+".string_match", s.StringMatch)
	}
	return q
}

func (k *conditions) hold(c *Context) bool {
	if k.fraction != nil && !k.fraction.on(c.Random) {
		return false
	}
	if k.grpc && !IsGRPC(c.Request) || !matchHeaders(k.headers, c.Request) {
		return false
	}
	if len(k.query) > 0 && !k.queryHolds(c.Request.Path()) {
		return false
	}
	for i := range k.cookies {
		if !k.cookies[i].match(c.Request) {
			return false
		}
	}
	return k.tlsHolds(c) && k.dataHolds(c)
}

// IsGRPC tells whether a message is gRPC's by its content-type.
func IsGRPC(m *header.Map) bool {
	rest, ok := strings.CutPrefix(m.GetID(header.ContentType), "application/grpc")
	return ok && (rest == "" || rest[0] == '+')
}

func (k *conditions) queryHolds(path string) bool {
	for i := range k.query {
		q := &k.query[i]
		v, ok := fields.Query(path, q.name)
		if q.byText {
			ok = ok && q.text.Match(v)
		} else {
			ok = ok == q.present
		}
		if !ok {
			return false
		}
	}
	return true
}

func (k *cookieMatcher) match(m *header.Map) bool {
	v, ok := fields.Cookie(m, k.name)
	return (ok && k.text.Match(v)) != k.invert
}

func (k *conditions) tlsHolds(c *Context) bool {
	if !k.presented && !k.validated {
		return true
	}
	presented, validated := false, false
	if c.Info != nil && c.Info.Connection != nil && c.Info.Connection.TLS != nil {
		presented, validated = c.Info.Connection.TLS.PeerPresented, c.Info.Connection.TLS.PeerValidated
	}
	return (!k.presented || presented == k.wantPresented) && (!k.validated || validated == k.wantCertain)
}

func (k *conditions) dataHolds(c *Context) bool {
	for i := range k.metadata {
		if c.Info == nil || !k.metadata[i].match(c.Info.Metadata) {
			return false
		}
	}
	for i := range k.state {
		if !k.state[i].match(c.Info) {
			return false
		}
	}
	return true
}

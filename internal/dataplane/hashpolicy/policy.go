// Package hashpolicy computes the hash by which the balancers that hash choose a
// host for a request (RT-24), from the hash_policy of a route or of a balancer.
// It keeps nothing between requests.
package hashpolicy

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/fields"
	"github.com/xebec-proxy/xebec/internal/dataplane/substitute"
)

// Policy is a list of hash policies
// (envoy.config.route.v3.RouteAction.HashPolicy). It is immutable and safe for
// concurrent use.
type Policy struct{ rules []rule }

// Request is what a hash may be made of. The zero value has none.
type Request struct {
	Head   *header.Map // nil of a connection without requests
	Remote filter.Address
	State  map[string]any
	// Cookies makes cookies that the request does not have; nil makes none.
	Cookies CookieMaker
}

// CookieMaker gives the client a cookie.
type CookieMaker interface {
	// MakeCookie returns the value of the cookie that it makes.
	MakeCookie(c *Cookie) string
}

type rule struct {
	kind     kind
	name     string
	rewrite  *substitute.Regex
	cookie   *Cookie // to be made, or nil
	terminal bool
}

type kind uint8

const (
	byHeader kind = iota
	byCookie
	bySourceIP
	byQuery
	byState
)

// New reads hash policies; nil if there are none that hash. An error begins with
// the index of the policy, and the path of the field in it.
func New(list []*routev3.RouteAction_HashPolicy) (*Policy, error) {
	var p Policy
	var errs []error
	for i, c := range list {
		r, use, err := newRule(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("[%d].%w", i, err))
		} else if use {
			p.rules = append(p.rules, r)
		}
	}
	if len(p.rules) == 0 || len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &p, nil
}

func newRule(c *routev3.RouteAction_HashPolicy) (r rule, use bool, err error) {
	r.terminal = c.GetTerminal()
	switch s := c.GetPolicySpecifier().(type) {
	case *routev3.RouteAction_HashPolicy_Header_:
		r.kind, r.name = byHeader, strings.ToLower(s.Header.GetHeaderName())
		if r.name == "host" {
			r.name = ":authority"
		}
		if m := s.Header.GetRegexRewrite(); m != nil {
			if r.rewrite, err = substitute.New(m); err != nil {
				return r, false, fmt.Errorf("header.regex_rewrite.%w", err)
			}
		}
	case *routev3.RouteAction_HashPolicy_Cookie_:
		r.kind, r.name = byCookie, s.Cookie.GetName()
		if strings.ContainsAny(r.name+s.Cookie.GetPath(), "\x00\r\n") {
			return r, false, errors.New("cookie: its name or path has control characters")
		}
		if s.Cookie.GetTtl() != nil {
			r.cookie = newCookie(s.Cookie)
		}
	case *routev3.RouteAction_HashPolicy_ConnectionProperties_:
		r.kind = bySourceIP
		return r, s.ConnectionProperties.GetSourceIp(), nil
	case *routev3.RouteAction_HashPolicy_QueryParameter_:
		r.kind, r.name = byQuery, s.QueryParameter.GetName()
	case *routev3.RouteAction_HashPolicy_FilterState_:
		r.kind, r.name = byState, s.FilterState.GetKey()
	default:
		return r, false, errors.New("policy_specifier: it is missing: write header, cookie, connection_properties, query_parameter or filter_state")
	}
	return r, true, nil
}

// Hash is the hash of a request, or false if no policy has any. It does not
// allocate, but for headers that are rewritten and cookies that are made.
func (p *Policy) Hash(r *Request) (hash uint64, ok bool) {
	for i := range p.rules {
		if h, has := p.rules[i].hash(r); has {
			// Rotating keeps two equal policies from cancelling each other out.
			hash, ok = bits.RotateLeft64(hash, 1)^h, true
		}
		if ok && p.rules[i].terminal {
			break
		}
	}
	return hash, ok
}

func (u *rule) hash(r *Request) (uint64, bool) {
	switch {
	case u.kind == bySourceIP:
		return SourceIP(r.Remote)
	case u.kind == byState:
		return State(r.State, u.name)
	case r.Head == nil:
		return 0, false
	}
	switch u.kind {
	case byHeader:
		return u.header(r.Head)
	case byCookie:
		v, _ := fields.Cookie(r.Head, u.name)
		if v == "" && u.cookie != nil && r.Cookies != nil {
			return xxhash.Sum64String(r.Cookies.MakeCookie(u.cookie)), true
		}
		return xxhash.Sum64String(v), v != ""
	default:
		v, has := fields.Query(r.Head.Path(), u.name)
		return xxhash.Sum64String(v), has
	}
}

// header hashes the values of a header, in whatever order they came.
func (u *rule) header(m *header.Map) (uint64, bool) {
	var few [8]string
	values := few[:0]
	for v := range m.Values(u.name) {
		if u.rewrite != nil {
			v = u.rewrite.Replace(v)
		}
		values = append(values, v)
	}
	switch len(values) {
	case 0:
		return 0, false
	case 1:
		return xxhash.Sum64String(values[0]), true
	}
	slices.Sort(values)
	var d xxhash.Digest
	hash := uint64(0)
	for _, v := range values { // each by the hash of those before
		d.ResetWithSeed(hash)
		_, _ = d.WriteString(v)
		hash = d.Sum64()
	}
	return hash, true
}

// SourceIP is the hash of a client's IP; false if it has none.
func SourceIP(a filter.Address) (uint64, bool) {
	if !a.IP.IsValid() {
		return 0, false
	}
	var text [64]byte
	return xxhash.Sum64(a.IP.Addr().WithZone("").AppendTo(text[:0])), true
}

// State is the hash of an object of the filter state that can be hashed.
func State(state map[string]any, key string) (uint64, bool) {
	if h, can := state[key].(filter.Hashable); can {
		return h.Hash()
	}
	return 0, false
}

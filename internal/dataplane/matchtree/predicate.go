package matchtree

import (
	"errors"
	"fmt"
	"net/netip"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	ipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/ip/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/metadata/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

func (b *builder[D, A]) predicate(path string, m *xdsmatcherv3.Matcher_MatcherList_Predicate) func(D) bool {
	if !b.deeper(path) {
		return nil
	}
	defer b.shallower()
	switch t := m.GetMatchType().(type) {
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_:
		return b.single(path+".single_predicate", t.SinglePredicate)
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_OrMatcher:
		some := b.predicates(path+".or_matcher.predicate", t.OrMatcher)
		return func(d D) bool { return anyHolds(some, d, true) }
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_AndMatcher:
		all := b.predicates(path+".and_matcher.predicate", t.AndMatcher)
		return func(d D) bool { return !anyHolds(all, d, false) }
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher:
		not := b.predicate(path+".not_matcher", t.NotMatcher)
		return func(d D) bool { return !not(d) }
	default:
		b.fail(path, errors.New("no match_type: set single_predicate, or_matcher, and_matcher or not_matcher"))
		return nil
	}
}

func anyHolds[D any](list []func(D) bool, d D, as bool) bool {
	for _, holds := range list {
		if holds(d) == as {
			return true
		}
	}
	return false
}

func (b *builder[D, A]) predicates(path string, m *xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList) []func(D) bool {
	if n := len(m.GetPredicate()); n < 2 {
		b.fail(path, fmt.Errorf("%d in the list, which must have at least 2", n))
	}
	out := make([]func(D) bool, 0, len(m.GetPredicate()))
	for i, p := range m.GetPredicate() {
		out = append(out, b.predicate(fmt.Sprintf("%s[%d]", path, i), p))
	}
	return out
}

// single is a condition on one input. An input without a value meets none.
func (b *builder[D, A]) single(path string, m *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate) func(D) bool {
	in := b.input(path+".input", m.GetInput())
	switch t := m.GetMatcher().(type) {
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch:
		b.wantText(path, in)
		match, err := compile(path+".value_match", t.ValueMatch)
		if err != nil {
			b.errs = append(b.errs, err)
		}
		return onText(in, match.Match)
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch:
		return b.customMatch(path, t.CustomMatch, in)
	default:
		b.fail(path, errors.New("no matcher: set value_match or custom_match"))
		return nil
	}
}

func onText[D any](in Input[D], match func(string) bool) func(D) bool {
	return func(d D) bool {
		text, ok := in.Text(d)
		return ok && match(text)
	}
}

func (b *builder[D, A]) wantText(path string, in Input[D]) {
	if in.Text == nil && in.Metadata != nil {
		b.fail(path, errors.New("metadata is no text: match it with envoy.matching.matchers.metadata_matcher"))
	}
}

// compile reads a StringMatcher of xDS, which says what Envoy's does.
func compile(path string, m *xdsmatcherv3.StringMatcher) (stringmatch.Matcher, error) {
	out := &matcherv3.StringMatcher{IgnoreCase: m.GetIgnoreCase()}
	switch t := m.GetMatchPattern().(type) {
	case *xdsmatcherv3.StringMatcher_Exact:
		out.MatchPattern = &matcherv3.StringMatcher_Exact{Exact: t.Exact}
	case *xdsmatcherv3.StringMatcher_Prefix:
		out.MatchPattern = &matcherv3.StringMatcher_Prefix{Prefix: t.Prefix}
	case *xdsmatcherv3.StringMatcher_Suffix:
		out.MatchPattern = &matcherv3.StringMatcher_Suffix{Suffix: t.Suffix}
	case *xdsmatcherv3.StringMatcher_Contains:
		out.MatchPattern = &matcherv3.StringMatcher_Contains{Contains: t.Contains}
	case *xdsmatcherv3.StringMatcher_SafeRegex:
		out.MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: t.SafeRegex.GetRegex()}}
	case *xdsmatcherv3.StringMatcher_Custom:
		out.MatchPattern = &matcherv3.StringMatcher_Custom{}
	}
	return stringmatch.Compile(path, out) //nolint:wrapcheck // it names the field
}

// customMatch builds the conditions that are extensions.
func (b *builder[D, A]) customMatch(path string, c *xdscorev3.TypedExtensionConfig, in Input[D]) func(D) bool {
	at := path + ".custom_match"
	cfg, ok := b.unpack(at, c)
	if !ok {
		return nil
	}
	switch m := cfg.(type) {
	case *ipv3.Ip:
		b.wantText(path, in)
		return b.inRanges(at+".typed_config", m, in)
	case *metadatav3.Metadata:
		if in.Metadata == nil && in.Text != nil {
			b.fail(path+".input", errors.New("the matcher of metadata needs an input of metadata"))
		}
		match, err := route.ValueMatch(at+".typed_config.value", m.GetValue(), route.Env{})
		if err != nil {
			b.errs = append(b.errs, err)
		}
		invert := m.GetInvert()
		return func(d D) bool {
			v, _ := in.Metadata(d) // what is not there is a value of no kind
			return match(v) != invert
		}
	default:
		b.unknown(at, "matcher", c)
		return nil
	}
}

// inRanges is the matcher of addresses: of one of some ranges. What is no address is
// counted.
func (b *builder[D, A]) inRanges(path string, m *ipv3.Ip, in Input[D]) func(D) bool {
	if len(m.GetCidrRanges()) == 0 {
		b.fail(path+".cidr_ranges", errors.New("the list is empty"))
	}
	set := rangeMap[struct{}]{keys: map[netip.Prefix]struct{}{}}
	for i, c := range m.GetCidrRanges() {
		p, err := cidr(c.GetAddressPrefix(), c.GetPrefixLen().GetValue())
		if err != nil {
			b.fail(fmt.Sprintf("%s.cidr_ranges[%d]", path, i), err)
		}
		set.keys[p] = struct{}{}
	}
	set.index()
	failed := func(D) {}
	if m.GetStatPrefix() != "" && b.env.Count != nil {
		failed = b.env.Count(m.GetStatPrefix() + ".ip_parsing_failed")
	}
	return func(d D) bool {
		text, ok := in.Text(d)
		if !ok || text == "" {
			return false
		}
		addr, err := netip.ParseAddr(text)
		if err != nil {
			failed(d)
			return false
		}
		for range set.containing(addr) {
			return true
		}
		return false
	}
}

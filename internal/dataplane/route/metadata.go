package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// metadataMatcher is a MetadataMatcher (type/matcher/v3/metadata.proto).
type metadataMatcher struct {
	namespace string
	keys      []string
	value     valueMatcher
	invert    bool
}

type valueKind uint8

const (
	valueNull valueKind = iota
	valueDouble
	valueRange
	valueString
	valueBool
	valuePresent
	valueList
	valueOr
)

type valueMatcher struct {
	kind   valueKind
	lo, hi float64
	text   stringmatch.Matcher
	want   bool
	sub    []valueMatcher
}

func (b *builder) metadataMatcher(path string, m *matcherv3.MetadataMatcher) metadataMatcher {
	out := metadataMatcher{namespace: m.GetFilter(), invert: m.GetInvert()}
	for _, s := range m.GetPath() {
		out.keys = append(out.keys, s.GetKey())
	}
	if len(out.keys) == 0 {
		b.fail(path+".path", errors.New("the path is empty"))
	}
	out.value = b.valueMatcher(path+".value", m.GetValue())
	return out
}

func (b *builder) valueMatcher(path string, m *matcherv3.ValueMatcher) valueMatcher {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_NullMatch_:
		return valueMatcher{kind: valueNull}
	case *matcherv3.ValueMatcher_DoubleMatch:
		if r, ok := p.DoubleMatch.GetMatchPattern().(*matcherv3.DoubleMatcher_Range); ok {
			return valueMatcher{kind: valueRange, lo: r.Range.GetStart(), hi: r.Range.GetEnd()}
		}
		return valueMatcher{kind: valueDouble, lo: p.DoubleMatch.GetExact()}
	case *matcherv3.ValueMatcher_StringMatch:
		return valueMatcher{kind: valueString, text: b.stringMatcher(path+".string_match", p.StringMatch)}
	case *matcherv3.ValueMatcher_BoolMatch:
		return valueMatcher{kind: valueBool, want: p.BoolMatch}
	case *matcherv3.ValueMatcher_PresentMatch:
		return valueMatcher{kind: valuePresent, want: p.PresentMatch}
	case *matcherv3.ValueMatcher_ListMatch:
		return valueMatcher{kind: valueList, sub: []valueMatcher{b.valueMatcher(path+".list_match.one_of", p.ListMatch.GetOneOf())}}
	case *matcherv3.ValueMatcher_OrMatch:
		out := valueMatcher{kind: valueOr}
		for i, s := range p.OrMatch.GetValueMatchers() {
			out.sub = append(out.sub, b.valueMatcher(index(path+".or_match.value_matchers", i), s))
		}
		return out
	}
	b.fail(path, errors.New("no kind of value is given"))
	return valueMatcher{}
}

func (m *metadataMatcher) match(md map[string]*structpb.Struct) bool {
	return m.value.match(MetadataValue(md[m.namespace], m.keys)) != m.invert
}

// MetadataValue is the value of dynamic metadata that a path of keys leads to, or nil.
func MetadataValue(s *structpb.Struct, keys []string) *structpb.Value {
	var v *structpb.Value
	for i, k := range keys {
		if i > 0 {
			s = v.GetStructValue()
		}
		if v = s.GetFields()[k]; v == nil {
			return nil
		}
	}
	return v
}

func (m *valueMatcher) match(v *structpb.Value) bool {
	switch m.kind {
	case valuePresent:
		return m.want && v.GetKind() != nil // present_match: false never matches, as in Envoy
	case valueOr:
		return slices.ContainsFunc(m.sub, func(s valueMatcher) bool { return s.match(v) })
	}
	switch k := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return m.kind == valueNull
	case *structpb.Value_NumberValue:
		return m.kind == valueDouble && k.NumberValue == m.lo ||
			m.kind == valueRange && k.NumberValue >= m.lo && k.NumberValue < m.hi
	case *structpb.Value_StringValue:
		return m.kind == valueString && m.text.Match(k.StringValue)
	case *structpb.Value_BoolValue:
		return m.kind == valueBool && k.BoolValue == m.want
	case *structpb.Value_ListValue:
		if m.kind != valueList {
			return false
		}
		return slices.ContainsFunc(k.ListValue.GetValues(), m.sub[0].match)
	}
	return false
}

// stateMatcher is a FilterStateMatcher (type/matcher/v3/filter_state.proto).
type stateMatcher struct {
	key    string
	text   stringmatch.Matcher
	ranges []netip.Prefix // if isAddr
	isAddr bool
	invert bool
}

func (b *builder) stateMatcher(path string, m *matcherv3.FilterStateMatcher) stateMatcher {
	out := stateMatcher{key: m.GetKey()}
	switch s := m.GetMatcher().(type) {
	case *matcherv3.FilterStateMatcher_StringMatch:
		out.text = b.stringMatcher(path+".string_match", s.StringMatch)
	case *matcherv3.FilterStateMatcher_AddressMatch:
		out.isAddr, out.invert = true, s.AddressMatch.GetInvertMatch()
		for i, r := range s.AddressMatch.GetRanges() {
			a, err := netip.ParseAddr(r.GetAddressPrefix())
			if err == nil {
				var p netip.Prefix
				if p, err = a.Unmap().Prefix(int(r.GetPrefixLen().GetValue())); err == nil {
					out.ranges = append(out.ranges, p)
					continue
				}
			}
			b.fail(index(path+".address_match.ranges", i), fmt.Errorf("invalid address range: %w", err))
		}
	default:
		b.fail(path, errors.New("no kind of matcher is given: write string_match or address_match"))
	}
	return out
}

func (m *stateMatcher) match(info *filter.StreamInfo) bool {
	if info == nil {
		return false
	}
	v, ok := info.State[m.key]
	if !ok {
		return false
	}
	if m.isAddr {
		return m.address(v)
	}
	s, ok := stateText(v)
	return ok && m.text.Match(s)
}

func stateText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case fmt.Stringer:
		return v.String(), true
	}
	return "", false
}

func (m *stateMatcher) address(v any) bool {
	var ip netip.Addr
	switch v := v.(type) {
	case netip.Addr:
		ip = v
	case netip.AddrPort:
		ip = v.Addr()
	case filter.Address:
		ip = v.IP.Addr()
	case *filter.Address:
		ip = v.IP.Addr()
	default:
		return false
	}
	if !ip.IsValid() {
		return false
	}
	ip = ip.Unmap()
	for _, r := range m.ranges {
		if r.Contains(ip) {
			return !m.invert
		}
	}
	return m.invert
}

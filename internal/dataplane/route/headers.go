package route

import (
	"errors"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

type headerKind uint8

const (
	headerPresent headerKind = iota
	headerText
	headerRange
)

// headerMatcher is a HeaderMatcher (RT-05).
type headerMatcher struct {
	name       string
	id         header.ID
	kind       headerKind
	text       stringmatch.Matcher
	start, end int64
	present    bool // what headerPresent wants
	invert     bool
	emptyOK    bool // treat_missing_header_as_empty
}

// headerName is a name of the configuration as a header.Map has it.
func headerName(name string) string {
	name = strings.ToLower(name)
	if name == "host" {
		return ":authority"
	}
	return name
}

func (b *builder) headerMatchers(path string, ms []*routev3.HeaderMatcher) []headerMatcher {
	if len(ms) == 0 {
		return nil
	}
	out := make([]headerMatcher, len(ms))
	for i, m := range ms {
		out[i] = b.headerMatcher(index(path, i), m)
	}
	return out
}

func (b *builder) headerMatcher(path string, m *routev3.HeaderMatcher) headerMatcher {
	name := headerName(m.GetName())
	h := headerMatcher{
		name: name, id: header.KnownID(name), kind: headerText,
		invert: m.GetInvertMatch(), emptyOK: m.GetTreatMissingHeaderAsEmpty(),
	}
	if name == "" {
		b.fail(path+".name", errors.New("the header has no name"))
	}
	switch s := m.GetHeaderMatchSpecifier().(type) {
	case nil:
		h.kind, h.present = headerPresent, true
	case *routev3.HeaderMatcher_PresentMatch:
		h.kind, h.present = headerPresent, s.PresentMatch
	case *routev3.HeaderMatcher_RangeMatch:
		h.kind, h.start, h.end = headerRange, s.RangeMatch.GetStart(), s.RangeMatch.GetEnd()
	case *routev3.HeaderMatcher_StringMatch:
		h.text = b.stringMatcher(path+".string_match", s.StringMatch)
	case *routev3.HeaderMatcher_ExactMatch:
		h.text = b.legacyHeader(path+".exact_match", stringmatch.Exact(s.ExactMatch), nil) //nolint:staticcheck // deprecated fields still work (RT-31)
	case *routev3.HeaderMatcher_PrefixMatch:
		text, err := stringmatch.Prefix(s.PrefixMatch) //nolint:staticcheck // deprecated fields still work (RT-31)
		h.text = b.legacyHeader(path+".prefix_match", text, err)
	case *routev3.HeaderMatcher_SuffixMatch:
		text, err := stringmatch.Suffix(s.SuffixMatch) //nolint:staticcheck // deprecated fields still work (RT-31)
		h.text = b.legacyHeader(path+".suffix_match", text, err)
	case *routev3.HeaderMatcher_ContainsMatch:
		text, err := stringmatch.Contains(s.ContainsMatch) //nolint:staticcheck // deprecated fields still work (RT-31)
		h.text = b.legacyHeader(path+".contains_match", text, err)
	case *routev3.HeaderMatcher_SafeRegexMatch:
		b.warn("deprecated: write string_match", path+".safe_regex_match")
		h.text = b.regex(path+".safe_regex_match", s.SafeRegexMatch) //nolint:staticcheck // deprecated fields still work (RT-31)
	default:
		b.fail(path, errors.New("this header matcher is not built"))
	}
	return h
}

// legacyHeader is a matcher in the form before string_match (RT-31).
func (b *builder) legacyHeader(path string, text stringmatch.Matcher, err error) stringmatch.Matcher {
	b.warn("deprecated: write string_match", path)
	b.fail(path, err)
	return text
}

// match tells whether the headers fulfil the condition. The values of a header
// that occurs several times are tried one by one.
func (h *headerMatcher) match(m *header.Map) bool {
	var present bool
	if h.id != header.Other {
		present = m.HasID(h.id)
	} else {
		present = m.Has(h.name)
	}
	if h.kind == headerPresent {
		return (present || h.emptyOK) == h.present != h.invert
	}
	if !present {
		return h.emptyOK && h.value("") != h.invert
	}
	for v := range m.Values(h.name) {
		if h.value(v) {
			return !h.invert
		}
	}
	return h.invert
}

func (h *headerMatcher) value(v string) bool {
	if h.kind == headerRange {
		n, ok := parseInt(v)
		return ok && n >= h.start && n < h.end
	}
	return h.text.Match(v)
}

func matchHeaders(ms []headerMatcher, m *header.Map) bool {
	for i := range ms {
		if !ms[i].match(m) {
			return false
		}
	}
	return true
}

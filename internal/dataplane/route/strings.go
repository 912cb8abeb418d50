package route

import (
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// regex compiles a pattern that must match the whole text.
func (b *builder) regex(path string, m *matcherv3.RegexMatcher) stringmatch.Matcher {
	b.programSize(path, m)
	out, err := stringmatch.Regex(path, m)
	b.add(err)
	return out
}

func (b *builder) stringMatcher(path string, m *matcherv3.StringMatcher) stringmatch.Matcher {
	if r := m.GetSafeRegex(); r != nil {
		b.programSize(path+".safe_regex", r)
	}
	out, err := stringmatch.Compile(path, m)
	b.add(err)
	return out
}

func (b *builder) programSize(path string, m *matcherv3.RegexMatcher) {
	if m.GetGoogleRe2().GetMaxProgramSize() != nil { //nolint:staticcheck // deprecated fields still work (RT-31)
		b.warn("max_program_size has no effect: this engine runs in linear time", path)
	}
}

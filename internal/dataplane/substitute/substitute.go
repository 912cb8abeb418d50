// Package substitute replaces what a regular expression matches, by the rules of
// Envoy's type.matcher.v3.RegexMatchAndSubstitute.
package substitute

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Regex replaces every match. It is immutable and safe for concurrent use.
type Regex struct {
	re *regexp.Regexp
	by string // in the form of package regexp
}

// New compiles a substitution. An error begins with the field, pattern or
// substitution.
func New(m *matcherv3.RegexMatchAndSubstitute) (*Regex, error) {
	if m.GetPattern().GetRegex() == "" {
		return nil, errors.New("pattern: the regular expression is empty: write regex")
	}
	re, err := regexp.Compile(m.GetPattern().GetRegex())
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	by, err := replacement(m.GetSubstitution(), re.NumSubexp())
	if err != nil {
		return nil, fmt.Errorf("substitution: %w", err)
	}
	return &Regex{re, by}, nil
}

// Replace is text with every match replaced.
func (s *Regex) Replace(text string) string { return s.re.ReplaceAllString(text, s.by) }

// replacement turns a replacement of RE2, with \0 to \9, into one of package
// regexp.
func replacement(s string, groups int) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '$':
			b.WriteString("$$")
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(s) && s[i+1] == '\\':
			b.WriteByte('\\')
			i++
		case i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			if int(s[i+1]-'0') > groups {
				return "", fmt.Errorf("\\%c refers to a group that the pattern does not have: it has %d", s[i+1], groups)
			}
			b.WriteString("${" + s[i+1:i+2] + "}")
			i++
		default:
			return "", fmt.Errorf("a backslash must stand before a digit or a backslash in %q", s)
		}
	}
	return b.String(), nil
}

// Package stringmatch compares texts as Envoy's matchers say (BS-35). Source:
// type/matcher/v3/string.proto and regex.proto.
package stringmatch

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

type kind uint8

const (
	never kind = iota // the zero value
	exact
	prefix
	suffix
	contains
	regex
)

// Matcher is a StringMatcher that was understood. It does not change and may be
// used by any number of goroutines. The zero value matches nothing.
type Matcher struct {
	kind kind
	fold bool // ignore the case of ASCII letters; text is in lower case then
	text string
	re   *regexp.Regexp
}

// ErrUnset is that a StringMatcher says nothing.
var ErrUnset = errors.New("no match_pattern: set exact, prefix, suffix, contains or safe_regex")

// PatternError is a regular expression that is none.
type PatternError struct {
	Pattern string
	Err     error // of package regexp
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("invalid regular expression %q: %v", e.Pattern, e.Err)
}

func (e *PatternError) Unwrap() error { return e.Err }

// Compile compiles a StringMatcher. The path of its field begins the errors'
// texts; it may be empty.
func Compile(path string, m *matcherv3.StringMatcher) (Matcher, error) {
	var out Matcher
	var err error
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		out = Exact(p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		out, err = Prefix(p.Prefix)
	case *matcherv3.StringMatcher_Suffix:
		out, err = Suffix(p.Suffix)
	case *matcherv3.StringMatcher_Contains:
		out, err = Contains(p.Contains)
	case *matcherv3.StringMatcher_SafeRegex:
		return Regex(join(path, "safe_regex"), p.SafeRegex) // ignore_case is not for it
	case *matcherv3.StringMatcher_Custom:
		path, err = join(path, "custom"), errors.New("string matcher extensions are not built: use exact, prefix, suffix, contains or safe_regex")
	default:
		err = ErrUnset
	}
	if err != nil {
		return Matcher{}, at(path, err)
	}
	if m.GetIgnoreCase() {
		out.fold, out.text = true, Lower(out.text)
	}
	return out, nil
}

// Regex compiles an expression that must match the whole text.
func Regex(path string, m *matcherv3.RegexMatcher) (Matcher, error) {
	if m.GetRegex() == "" {
		return Matcher{}, at(path, errors.New("the regular expression is empty: write regex"))
	}
	// Alone first: "a)(b" must not become valid by what is put around it.
	_, err := regexp.Compile(m.GetRegex())
	if err == nil {
		var re *regexp.Regexp
		if re, err = regexp.Compile(`\A(?:` + m.GetRegex() + `)\z`); err == nil {
			return Matcher{kind: regex, text: m.GetRegex(), re: re}, nil
		}
	}
	return Matcher{}, at(path, &PatternError{m.GetRegex(), err})
}

// Exact matches one text.
func Exact(text string) Matcher { return Matcher{kind: exact, text: text} }

// Prefix matches texts that begin with one, which must not be empty.
func Prefix(text string) (Matcher, error) { return some(prefix, text) }

// Suffix matches texts that end with one, which must not be empty.
func Suffix(text string) (Matcher, error) { return some(suffix, text) }

// Contains matches texts that have one within, which must not be empty.
func Contains(text string) (Matcher, error) { return some(contains, text) }

func some(k kind, text string) (Matcher, error) {
	if text == "" {
		return Matcher{}, errors.New("the text is empty")
	}
	return Matcher{kind: k, text: text}, nil
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func at(path string, err error) error {
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Text is what is compared: in lower case if case does not matter; the pattern
// of a regular expression.
func (m *Matcher) Text() string { return m.text }

// Match tells whether a text matches.
func (m *Matcher) Match(s string) bool {
	n := len(m.text)
	switch m.kind {
	case exact:
		return len(s) == n && m.equal(s)
	case prefix:
		return len(s) >= n && m.equal(s[:n])
	case suffix:
		return len(s) >= n && m.equal(s[len(s)-n:])
	case contains:
		return m.within(s)
	case regex:
		return m.re.MatchString(s)
	}
	return false
}

func (m *Matcher) equal(s string) bool {
	if m.fold {
		return EqualFold(s, m.text)
	}
	return s == m.text
}

func (m *Matcher) within(s string) bool {
	if !m.fold {
		return strings.Contains(s, m.text)
	}
	for n := len(m.text); len(s) >= n; s = s[1:] {
		if EqualFold(s[:n], m.text) {
			return true
		}
	}
	return false
}

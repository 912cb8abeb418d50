package stringmatch

import (
	"errors"
	"strings"
	"testing"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/prototext"
)

func parse(t *testing.T, text string) *matcherv3.StringMatcher {
	t.Helper()
	m := &matcherv3.StringMatcher{}
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Each kind of pattern, with texts that match and texts that do not (BS-43).
// BS-35: a regular expression matches the whole text.
func TestMatch(t *testing.T) {
	for text, c := range map[string]struct{ yes, no []string }{
		`exact: "/a"`:                          {[]string{"/a"}, []string{"/a/", "", "/A"}},
		`exact: ""`:                            {[]string{""}, []string{"a"}},
		`exact: "/A" ignore_case: true`:        {[]string{"/a", "/A"}, []string{"/b", "/ab"}},
		`exact: "Ä" ignore_case: true`:         {[]string{"Ä"}, []string{"ä"}}, // only ASCII letters have case
		`prefix: "/a"`:                         {[]string{"/ab", "/a"}, []string{"b/a", "/"}},
		`suffix: "B" ignore_case: true`:        {[]string{"/Ab", "B"}, []string{"/ba", ""}},
		`contains: "x"`:                        {[]string{"/axb", "x"}, []string{"/ab", "X"}},
		`prefix: "/STATS" ignore_case: true`:   {[]string{"/stats?x"}, []string{"/stat"}},
		`contains: "Json" ignore_case: true`:   {[]string{"?FORMAT=JSON", "jsjson"}, []string{"?format=text", "jso"}},
		`safe_regex {regex: "/a|/b"}`:          {[]string{"/a", "/b"}, []string{"/bc", "x/a"}},
		`safe_regex {regex: "(?i)/READY.*"}`:   {[]string{"/ready?x"}, []string{"x/ready"}},
		`safe_regex {regex: "/stats(\\?.*)?"}`: {[]string{"/stats?a"}, []string{"/statsx"}},
		`safe_regex {regex: "(?m)a"}`:          {[]string{"a"}, []string{"a\nb", "b\na"}},
		// As the field says, this has no effect on regular expressions.
		`safe_regex {regex: "a"} ignore_case: true`: {[]string{"a"}, []string{"A"}},
	} {
		m, err := Compile("x", parse(t, text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, s := range c.yes {
			if !m.Match(s) {
				t.Errorf("%s does not match %q", text, s)
			}
		}
		for _, s := range c.no {
			if m.Match(s) {
				t.Errorf("%s matches %q", text, s)
			}
		}
	}
	if zero := (Matcher{}); zero.Match("") {
		t.Error("the zero value matches something")
	}
}

// What is wrong is refused by the name of its field.
func TestCompileErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "list[0]: no match_pattern",
		`ignore_case: true`:           "list[0]: no match_pattern",
		`prefix: ""`:                  "list[0]: the text is empty",
		`suffix: ""`:                  "list[0]: the text is empty",
		`contains: ""`:                "list[0]: the text is empty",
		`safe_regex {}`:               "list[0].safe_regex: the regular expression is empty",
		`safe_regex {regex: "("}`:     `list[0].safe_regex: invalid regular expression "("`,
		`safe_regex {regex: "a)(b"}`:  "list[0].safe_regex: invalid regular expression",
		`safe_regex {regex: "(?m)*"}`: "list[0].safe_regex: invalid regular expression",
		`custom {name: "x"}`:          "list[0].custom: ",
	} {
		_, err := Compile("list[0]", parse(t, text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q…", text, err, want)
		}
	}
	if _, err := Compile("", nil); !errors.Is(err, ErrUnset) || strings.HasPrefix(err.Error(), ":") {
		t.Errorf("nil without a path: %v", err)
	}
	var bad *PatternError
	if _, err := Compile("", parse(t, `safe_regex {regex: "["}`)); !errors.As(err, &bad) || bad.Pattern != "[" {
		t.Errorf("a wrong pattern: %v", err)
	}
}

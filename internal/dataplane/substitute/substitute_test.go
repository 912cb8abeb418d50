package substitute

import (
	"strings"
	"testing"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

func of(regex, by string) *matcherv3.RegexMatchAndSubstitute {
	return &matcherv3.RegexMatchAndSubstitute{Pattern: &matcherv3.RegexMatcher{Regex: regex}, Substitution: by}
}

func TestReplace(t *testing.T) {
	for _, tt := range [][4]string{
		{"a", "b", "banana", "bbnbnb"}, {"(a)(b)", `\2\1\0`, "abx", "baabx"}, {"a", `$1\\`, "a", `$1\`}, {"^x", "y", "ax", "ax"},
	} {
		r, err := New(of(tt[0], tt[1]))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Replace(tt[2]); got != tt[3] {
			t.Errorf("%q, want %q", got, tt[3])
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "", "pattern: the regular expression is empty"}, {"(", "", "pattern: "}, {"a", `\1`, "substitution: "}, {"a", `\x`, "substitution: "},
	} {
		if _, err := New(of(tt[0], tt[1])); err == nil || !strings.HasPrefix(err.Error(), tt[2]) {
			t.Errorf("%v, want %s", err, tt[2])
		}
	}
}

package configload

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/xds"
)

// suggester finds the message name that was probably meant. Its index is made
// on the first problem, its answers are kept.
type suggester struct {
	types   Resolver
	byShort map[string][]string // by lower-case short name
	all     []string
	answers map[string]string
}

// maxSearches bounds how many distinct unknown names of a file are compared
// with all known ones.
const maxSearches = 64

func (s *suggester) index() {
	if s.byShort != nil {
		return
	}
	s.byShort, s.answers = map[string][]string{}, map[string]string{}
	s.types.RangeMessages(func(mt protoreflect.MessageType) bool {
		name := string(mt.Descriptor().FullName())
		if !isV2(name) {
			short := strings.ToLower(string(mt.Descriptor().Name()))
			s.byShort[short] = append(s.byShort[short], name)
			s.all = append(s.all, name)
		}
		return true
	})
	slices.Sort(s.all)
	for _, names := range s.byShort {
		slices.Sort(names)
	}
}

// message finds a name near to an unknown one: the same short name in another
// package, or a spelling close by.
func (s *suggester) message(name protoreflect.FullName) (string, bool) {
	s.index()
	text := string(name)
	if answer, ok := s.answers[text]; ok || len(s.answers) >= maxSearches {
		return answer, answer != ""
	}
	answer, _ := closest(text, s.all)
	if answer == "" {
		answer, _ = s.successor(text[strings.LastIndexByte(text, '.')+1:])
	}
	s.answers[text] = answer
	return answer, answer != ""
}

// successor finds the known message with a short name: a resource type, or the
// only one of that name that is configuration.
func (s *suggester) successor(short string) (string, bool) {
	s.index()
	if t, ok := xds.LookupType(short); ok {
		return strings.TrimPrefix(t.URL, xds.TypePrefix), true
	}
	var found string
	for _, n := range s.byShort[strings.ToLower(short)] {
		if !strings.HasPrefix(n, "envoy.") || strings.HasPrefix(n, "envoy.admin.") || strings.HasPrefix(n, "envoy.data.") {
			continue
		}
		if found != "" {
			return "", false
		}
		found = n
	}
	return found, found != ""
}

// nearest finds the name that a misspelt one probably meant. Case and
// underscores count for nothing, so statPrefx finds stat_prefix.
func nearest(word string, names []string) (string, bool) {
	fold := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	folded := make([]string, len(names))
	for i, n := range names {
		folded[i] = fold(n)
	}
	near, i := closest(fold(word), folded)
	if near == "" {
		return "", false
	}
	return names[i], true
}

// closest finds the candidate with the fewest edits, if they are few for the
// word's length, and its index.
func closest(word string, candidates []string) (string, int) {
	if len(word) < 2 || len(word) > 128 {
		return "", -1
	}
	best, at := max(1, min(len(word)/4, 4))+1, -1
	for i, c := range candidates {
		if d := len(c) - len(word); d < best && -d < best {
			if n := editDistance(word, c); n < best {
				best, at = n, i
			}
		}
	}
	if at < 0 {
		return "", -1
	}
	return candidates[at], at
}

// editDistance counts insertions, deletions and replacements of bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

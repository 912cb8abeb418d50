package stats

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
)

// Tag is a part of a statistic's name that is a value of its own, such as the
// cluster's name.
type Tag struct{ Name, Value string }

// tagSet is the tags of one or many statistics, ready for the renderings.
// Immutable.
type tagSet struct {
	tags       []Tag
	prometheus string // a="b",c="d"
	dogstatsd  string // a:b,c:d
}

// labels are what a name says: the series, which is the name without what became
// tags, and the tags.
type labels struct {
	series string
	tags   *tagSet
}

// labeller finds out what names say, each once and not before somebody asks: to
// take a name apart costs more than to register it. Safe for concurrent use.
type labeller struct {
	rules *tagExtractor
	mu    sync.Mutex // guards known
	known interner
}

func (l *labeller) of(m metric) *labels {
	cell := m.labelled()
	if have := cell.Load(); have != nil {
		return have
	}
	series, tags := l.rules.extract(m.name())
	l.mu.Lock()
	made := &labels{l.known.name(series), l.known.set(tags)}
	l.mu.Unlock()
	cell.Store(made)
	return made
}

// interner keeps one copy of equal tag sets and tag-stripped names: a thousand
// clusters share the names, a hundred statistics of a cluster share the tags.
// Guarded by its owner.
type interner struct {
	names map[string]string
	sets  map[string]*tagSet
}

func newInterner() interner {
	return interner{names: make(map[string]string), sets: make(map[string]*tagSet)}
}

func (in *interner) name(s string) string {
	if have, ok := in.names[s]; ok {
		return have
	}
	s = strings.Clone(s)
	in.names[s] = s
	return s
}

func (in *interner) set(tags []Tag) *tagSet {
	var prom, dog []byte
	for i, t := range tags {
		if i > 0 {
			prom, dog = append(prom, ','), append(dog, ',')
		}
		prom = appendLabel(prom, t)
		dog = append(append(append(dog, t.Name...), ':'), t.Value...)
	}
	if have, ok := in.sets[string(prom)]; ok {
		return have
	}
	s := &tagSet{prometheus: string(prom), dogstatsd: string(dog)}
	for _, t := range tags {
		s.tags = append(s.tags, Tag{Name: t.Name, Value: strings.Clone(t.Value)})
	}
	in.sets[s.prometheus] = s
	return s
}

// tagRule finds one tag in a name.
type tagRule struct {
	tag   string
	first string // the name's first token, empty for any
	find  func(n *tokens) (span, bool)
}

// span is what a rule found: the value, and what leaves the name.
type span struct {
	value    string
	from, to int
}

// tagExtractor splits names into what they count and their tags (ST-09).
// Immutable. The order of the tags is Envoy's: rules for any name first, then
// those for the name's first token.
type tagExtractor struct {
	anywhere []tagRule
	byFirst  map[string][]tagRule
}

func newTagExtractor(cfg *metricsv3.StatsConfig) (*tagExtractor, error) {
	x := &tagExtractor{byFirst: make(map[string][]tagRule)}
	known := defaultTagRules()
	useAll := cfg.GetUseAllDefaultTags() == nil || cfg.GetUseAllDefaultTags().GetValue()
	if useAll {
		for _, r := range known {
			if !cfg.GetAllowDefaultTagOverrides().GetValue() || !overrides(cfg, r.tag) {
				x.add(r)
			}
		}
	}
	var errs []error
	for i, spec := range cfg.GetStatsTags() {
		rules, err := customRules(spec, known, useAll)
		if err != nil {
			errs = append(errs, fmt.Errorf("stats_tags[%d].%w", i, err))
		}
		for _, r := range rules {
			x.add(r)
		}
	}
	return x, errors.Join(errs...)
}

func overrides(cfg *metricsv3.StatsConfig, tag string) bool {
	return slices.ContainsFunc(cfg.GetStatsTags(), func(s *metricsv3.TagSpecifier) bool {
		return s.GetTagName() == tag && s.GetTagValue() != nil
	})
}

func (x *tagExtractor) add(r tagRule) {
	if r.first == "" {
		x.anywhere = append(x.anywhere, r)
		return
	}
	x.byFirst[r.first] = append(x.byFirst[r.first], r)
}

// customRules makes the rules of envoy.config.metrics.v3.TagSpecifier. One that
// gives neither a regex nor a value names a default tag.
func customRules(spec *metricsv3.TagSpecifier, known []tagRule, useAll bool) ([]tagRule, error) {
	name := spec.GetTagName()
	if name == "" {
		return nil, errors.New("tag_name: value length must be at least 1 characters")
	}
	if v, ok := spec.GetTagValue().(*metricsv3.TagSpecifier_FixedValue); ok {
		fixed := func(*tokens) (span, bool) { return span{value: v.FixedValue}, true }
		return []tagRule{{tag: name, find: fixed}}, nil
	}
	pattern := spec.GetRegex()
	if pattern != "" {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("regex: %s", RegexError(pattern, err))
		}
		if re.NumSubexp() == 0 {
			return nil, fmt.Errorf("regex: %s has no capture group: put parentheses around the tag's value", pattern)
		}
		return []tagRule{{tag: name, first: literalFirst(pattern), find: regexRule(re)}}, nil
	}
	var rules []tagRule
	for _, r := range known {
		if r.tag == name {
			rules = append(rules, r)
		}
	}
	if rules == nil {
		return nil, fmt.Errorf("regex: No regex specified for tag specifier and no default regex for name: '%s'", name)
	}
	if useAll {
		return nil, nil // they are there already
	}
	return rules, nil
}

// literalFirst is the first token that a pattern such as ^cluster\. asks for.
func literalFirst(pattern string) string {
	rest, ok := strings.CutPrefix(pattern, "^")
	if !ok {
		return ""
	}
	word, after := rest, ""
	if i := strings.IndexFunc(rest, func(c rune) bool { return c != '_' && !isAlnum(c) }); i >= 0 {
		word, after = rest[:i], rest[i:]
	}
	if !strings.HasPrefix(after, `\.`) || strings.Contains(pattern, "|") {
		return ""
	}
	return word
}

func isAlnum(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// regexRule takes the first group out of the name; the value is the second
// group if there is one, else the first.
func regexRule(re *regexp.Regexp) func(*tokens) (span, bool) {
	return func(n *tokens) (span, bool) {
		m := re.FindStringSubmatchIndex(n.name)
		if m == nil || m[2] < 0 {
			return span{}, false
		}
		s := span{value: n.name[m[2]:m[3]], from: m[2], to: m[3]}
		if len(m) >= 6 && m[4] >= 0 {
			s.value = n.name[m[4]:m[5]]
		}
		return s, true
	}
}

// extract returns the name without its tags, and the tags. All rules see the
// whole name; a tag is found at most once.
func (x *tagExtractor) extract(name string) (string, []Tag) {
	n := split(name)
	var tags []Tag
	var out []span
	try := func(rules []tagRule) {
		for _, r := range rules {
			if slices.ContainsFunc(tags, func(t Tag) bool { return t.Name == r.tag }) {
				continue
			}
			if s, ok := r.find(&n); ok {
				tags = append(tags, Tag{Name: r.tag, Value: s.value})
				out = append(out, s)
			}
		}
	}
	try(x.anywhere)
	try(x.byFirst[n.token(0)])
	return cut(name, out), tags
}

// cut removes the spans, which may overlap.
func cut(name string, out []span) string {
	slices.SortFunc(out, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, s := range out {
		if s.from > at {
			b.WriteString(name[at:s.from])
		}
		at = max(at, s.to)
	}
	if at == 0 {
		return name
	}
	b.WriteString(name[at:])
	return b.String()
}

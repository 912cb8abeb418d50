package stats

import (
	"errors"
	"fmt"
	"slices"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// settings is a StatsConfig that was understood. Immutable.
type settings struct {
	matcher  nameMatcher
	tags     *tagExtractor
	buckets  []bucketRule
	defaults []float64
}

type bucketRule struct {
	match   stringmatch.Matcher
	buckets []float64
}

func newSettings(cfg *metricsv3.StatsConfig) (settings, error) {
	var errs []error
	s := settings{defaults: defaultBuckets()}
	var err error
	if s.matcher, err = newNameMatcher(cfg.GetStatsMatcher()); err != nil {
		errs = append(errs, fmt.Errorf("stats_matcher.%w", err))
	}
	if s.tags, err = newTagExtractor(cfg); err != nil {
		errs = append(errs, err)
	}
	for i, b := range cfg.GetHistogramBucketSettings() {
		rule, err := newBucketRule(b)
		if err != nil {
			errs = append(errs, fmt.Errorf("histogram_bucket_settings[%d].%w", i, err))
		}
		s.buckets = append(s.buckets, rule)
	}
	return s, errors.Join(errs...)
}

func newBucketRule(b *metricsv3.HistogramBucketSettings) (bucketRule, error) {
	match, err := newStringMatch(b.GetMatch())
	if err != nil {
		return bucketRule{}, fmt.Errorf("match.%w", err)
	}
	if b.GetBins() != nil {
		return bucketRule{}, errors.New("bins: how finely a histogram counts cannot be chosen here; remove the field")
	}
	for j, v := range b.GetBuckets() {
		if !(v > 0) {
			return bucketRule{}, fmt.Errorf("buckets[%d]: %v must be greater than 0", j, v)
		}
	}
	buckets := slices.Clone(b.GetBuckets())
	if len(buckets) == 0 {
		return bucketRule{}, errors.New("buckets: value must contain at least 1 item")
	}
	slices.Sort(buckets)
	if len(slices.Compact(slices.Clone(buckets))) != len(buckets) {
		return bucketRule{}, errors.New("buckets: repeated value must contain unique items")
	}
	return bucketRule{match: match, buckets: buckets}, nil
}

// bucketsFor returns the upper bounds of a histogram's buckets (ST-11). The
// slice is shared.
func (s *settings) bucketsFor(name string) []float64 {
	for i := range s.buckets {
		r := &s.buckets[i]
		if r.match.Match(name) {
			return r.buckets
		}
	}
	return s.defaults
}

// bucketsOf is bucketsFor a histogram.
func (s *settings) bucketsOf(m metric) []float64 {
	if len(s.buckets) == 0 {
		return s.defaults
	}
	return s.bucketsFor(m.name())
}

// defaultBuckets are those of envoy.config.metrics.v3.StatsConfig.
func defaultBuckets() []float64 {
	return []float64{
		0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000,
		30000, 60000, 300000, 600000, 1800000, 3600000,
	}
}

// nameMatcher is envoy.config.metrics.v3.StatsMatcher (ST-10). The zero value
// rejects nothing.
type nameMatcher struct {
	rejectAll bool
	include   bool // the list says what stays, not what goes
	list      []stringmatch.Matcher
}

func newNameMatcher(m *metricsv3.StatsMatcher) (nameMatcher, error) {
	var patterns []*matcherv3.StringMatcher
	var out nameMatcher
	field := ""
	switch k := m.GetStatsMatcher().(type) {
	case nil:
		if m != nil {
			return out, errors.New("stats_matcher: value is required")
		}
		return out, nil
	case *metricsv3.StatsMatcher_RejectAll:
		out.rejectAll = k.RejectAll
		return out, nil
	case *metricsv3.StatsMatcher_InclusionList:
		out.include, field, patterns = true, "inclusion_list", k.InclusionList.GetPatterns()
	case *metricsv3.StatsMatcher_ExclusionList:
		field, patterns = "exclusion_list", k.ExclusionList.GetPatterns()
	}
	if len(patterns) == 0 {
		return out, fmt.Errorf("%s.patterns: value must contain at least 1 item", field)
	}
	for i, p := range patterns {
		match, err := newStringMatch(p)
		if err != nil {
			return out, fmt.Errorf("%s.patterns[%d].%w", field, i, err)
		}
		out.list = append(out.list, match)
	}
	return out, nil
}

// active reports whether some name may be rejected.
func (m *nameMatcher) active() bool { return m.rejectAll || m.list != nil }

func (m *nameMatcher) rejects(name string) bool {
	if m.rejectAll {
		return true
	}
	if m.list == nil {
		return false
	}
	for i := range m.list {
		if m.list[i].Match(name) {
			return !m.include
		}
	}
	return m.include
}

// newStringMatch compiles a matcher of names. Errors are in Envoy's words.
func newStringMatch(m *matcherv3.StringMatcher) (stringmatch.Matcher, error) {
	out, err := stringmatch.Compile("", m)
	var bad *stringmatch.PatternError
	switch {
	case errors.Is(err, stringmatch.ErrUnset):
		err = errors.New("match_pattern: value is required")
	case errors.As(err, &bad):
		err = fmt.Errorf("safe_regex: %s", RegexError(bad.Pattern, bad.Err))
	}
	return out, err //nolint:wrapcheck // it names the field
}

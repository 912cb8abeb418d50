package stats

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// orderCache remembers in which order names are listed: it changes only when
// there are more of them, or names were taken away.
type orderCache struct {
	mu     sync.Mutex
	text   listing
	series listing
}

// ref is one counter or gauge in a listing.
type ref struct {
	id   uint32
	kind kind
}

// listingSize is how many statistics there are, and how often some were taken away.
type listingSize struct {
	names         [kinds]int
	texts, sweeps int
}

// listing is an order for so many statistics.
type listing struct {
	n          listingSize
	scalars    []ref // of text: counters and gauges in one order
	counters   []ref
	gauges     []ref
	histograms []ref
	texts      []ref
}

// byName is the order of text and JSON.
func (s *Snapshot) byName() listing {
	c := &s.reg.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text.n != s.sizes {
		l := s.list(compareNames)
		l.scalars = append(slices.Clone(l.counters), l.gauges...)
		s.sort(l.scalars, compareNames)
		c.text = l
	}
	return c.text
}

// bySeries is the order of Prometheus: a series, then its names.
func (s *Snapshot) bySeries() listing {
	c := &s.reg.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.series.n != s.sizes {
		c.series = s.list(func(a, b metric) int {
			by := &s.reg.labels
			return cmp.Or(strings.Compare(by.of(a).series, by.of(b).series), compareNames(a, b))
		})
	}
	return c.series
}

func (s *Snapshot) list(order func(a, b metric) int) listing {
	l := listing{n: s.sizes}
	for k, list := range []*[]ref{&l.counters, &l.gauges, &l.histograms} {
		*list = make([]ref, 0, s.sizes.names[k])
		s.each(kind(k), nil, func(id uint32, m metric) { *list = append(*list, ref{id, m.kind}) })
	}
	for i := range s.texts {
		l.texts = append(l.texts, ref{uint32(i), kindText})
	}
	for _, refs := range [][]ref{l.counters, l.gauges, l.histograms, l.texts} {
		s.sort(refs, order)
	}
	return l
}

func (s *Snapshot) sort(refs []ref, order func(a, b metric) int) {
	slices.SortStableFunc(refs, func(a, b ref) int { return order(s.metric(a), s.metric(b)) })
}

func (s *Snapshot) metric(r ref) metric {
	if r.kind == kindText {
		return s.texts[r.id].metric
	}
	m, _ := s.find(r.kind, r.id) // it is listed
	return m
}

// used says whether the statistic was touched since start.
func (s *Snapshot) used(r ref) bool {
	switch r.kind {
	case kindCounter:
		return s.counterUsed(r.id)
	case kindGauge:
		return s.gaugeUsed(r.id)
	case kindHistogram:
		return s.total(r.id).count > 0
	default:
		return s.texts[r.id].used
	}
}

// value of a counter or gauge.
func (s *Snapshot) value(r ref) uint64 {
	if r.kind == kindCounter {
		return s.counter(r.id)
	}
	return s.gauge(r.id)
}

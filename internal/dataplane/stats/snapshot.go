package stats

import (
	"context"
	"fmt"
	"slices"
)

// Snapshot is the state of all listed statistics at one time: consistent for
// each worker, not between workers. Immutable and safe for concurrent use.
type Snapshot struct {
	reg    *Registry
	blocks [kinds][]*block // by page, as numbers have them
	texts  []textValue

	sizes   listingSize
	raw     values        // sums since start
	base    pages[uint64] // what to take off counters
	touched map[Counter]bool

	totals    pages[histView]
	intervals pages[histView]
}

type textValue struct {
	metric
	value string
	used  bool
}

// Snapshot asks every shard for its values and adds them up. It waits until
// all workers have answered; when ctx ends before, it returns an error that
// says how many have not. Before the first and after the last shard it works
// on what is known. It must not be called on a worker, which would wait for
// itself.
func (r *Registry) Snapshot(ctx context.Context) (*Snapshot, error) {
	r.mu.Lock()
	shards := slices.Clone(r.shards)
	sum := r.retired.clone(nil)
	r.mu.Unlock()

	if err := collect(ctx, shards, (*Shard).copy, func(v *values) { sum.add(v) }); err != nil {
		return nil, fmt.Errorf("statistics: %w", err)
	}
	touched := r.main.addTo(&sum)

	r.mu.Lock()
	defer r.mu.Unlock()
	// The metrics are listed last, so that every value has its name.
	s := &Snapshot{
		reg: r, raw: sum, touched: touched, base: r.base, intervals: r.intervals,
		sizes: listingSize{names: r.listed, texts: len(r.texts), sweeps: r.sweeps},
	}
	for k := range s.blocks {
		s.blocks[k] = slices.Clip(r.ids[k].blocks)
	}
	for _, t := range r.texts {
		v := textValue{metric: t.name}
		if p := t.text.value.Load(); p != nil {
			v.value, v.used = *p, true
		}
		s.texts = append(s.texts, v)
	}
	s.totals = views(sum.hists)
	return s, nil
}

func views(hists pages[*hist]) pages[histView] {
	out := make(pages[histView], len(hists))
	for i, p := range hists {
		if p == nil {
			continue
		}
		for j, h := range p {
			if h != nil {
				out.page(i)[j] = h.view()
			}
		}
	}
	return out
}

// each calls f for what is listed of a kind. Of pages for which skip is true
// nothing is.
func (s *Snapshot) each(k kind, skip func(page int) bool, f func(id uint32, m metric)) {
	for i, b := range s.blocks[k] {
		if b == nil || skip != nil && skip(i) {
			continue
		}
		first, list := uint32(i)<<pageBits, b.names.Load().leaves[k]                    //nolint:gosec // ids are
		for id := first; id < min(first+pageSize, b.first[k]+uint32(len(list))); id++ { //nolint:gosec // ids are
			if !list[id-b.first[k]].gone {
				f(id, metric{b, k, id - b.first[k]})
			}
		}
	}
}

// metric is a listed statistic; ok is false if there is none of the id.
func (s *Snapshot) find(k kind, id uint32) (m metric, ok bool) {
	if b := at(s.blocks[k], id>>pageBits); b != nil && id-b.first[k] < uint32(len(b.names.Load().leaves[k])) { //nolint:gosec // ids are
		return metric{b, k, id - b.first[k]}, true
	}
	return metric{}, false
}

// addTo adds main's values to sum and returns what was used without a value.
func (m *Main) addTo(sum *values) map[Counter]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum.add(&m.v)
	var touched map[Counter]bool
	for c := range m.touched {
		if touched == nil {
			touched = make(map[Counter]bool, len(m.touched))
		}
		touched[c] = true
	}
	return touched
}

// collect gets the values of all shards, each copied by its worker. A shard
// that closes meanwhile is read directly.
func collect(ctx context.Context, shards []*Shard, take func(*Shard) values, f func(*values)) error {
	answers := make([]chan values, len(shards))
	for i, s := range shards {
		answers[i] = make(chan values, 1)
		s.post(func() {
			if !s.done {
				answers[i] <- take(s)
			}
		})
	}
	for i, s := range shards {
		select {
		case v := <-answers[i]:
			f(&v)
		case <-s.closed:
			// The answer, if there is one, is older than what is left behind;
			// either is right.
			f(&s.v)
		case <-ctx.Done():
			return fmt.Errorf("%d of %d workers did not answer in time: %w", len(shards)-i, len(shards), ctx.Err())
		}
	}
	return nil
}

// counter returns the value since the last reset.
func (s *Snapshot) counter(id uint32) uint64 {
	return s.raw.counters.at(id) - s.base.at(id)
}

func (s *Snapshot) counterUsed(id uint32) bool {
	return s.raw.counters.at(id) != 0 || s.touched[Counter(id)]
}

// gauge is never negative to its readers: a worker may have taken away what
// another had added after it was asked.
func (s *Snapshot) gauge(id uint32) uint64 {
	g := s.raw.gauges.at(id)
	if g.unsigned {
		return uint64(g.v)
	}
	return uint64(max(g.v, 0))
}

func (s *Snapshot) gaugeUsed(id uint32) bool { return s.raw.gauges.at(id).used }

func (s *Snapshot) total(id uint32) histView    { return s.totals.at(id) }
func (s *Snapshot) interval(id uint32) histView { return s.intervals.at(id) }

// at is s[i], or zero where s does not reach.
func at[T any](s []T, i uint32) T {
	if int(i) < len(s) {
		return s[i]
	}
	var zero T
	return zero
}

// Counter returns the value of the counter since the last reset, 0 for a
// rejected one. Hidden counters are not reset.
func (s *Snapshot) Counter(c Counter) uint64 {
	if c == 0 {
		return 0
	}
	if _, listed := s.find(kindCounter, uint32(c)); !listed {
		return s.raw.counters.at(uint32(c))
	}
	return s.counter(uint32(c))
}

// Gauge returns the value of the gauge, 0 for a rejected one.
func (s *Snapshot) Gauge(g Gauge) uint64 {
	if g == 0 {
		return 0
	}
	return s.gauge(uint32(g))
}

// HistogramCount returns how many samples the histogram has had since start
// and their exact sum.
func (s *Snapshot) HistogramCount(h Histogram) (count, sum uint64) {
	v := s.total(uint32(h))
	return v.count, v.sum
}

// ResetCounters sets all counters to zero (POST /reset_counters). Gauges and
// histograms keep their values, as in Envoy, and so do the deltas of the sinks.
func (r *Registry) ResetCounters(ctx context.Context) error {
	s, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.base = s.raw.counters
	return nil
}

// merge ends the interval of histograms as a flush does, without a look at
// anything else. Errors are those of Snapshot.
func (r *Registry) merge(ctx context.Context) error {
	r.mu.Lock()
	shards := slices.Clone(r.shards)
	sum := values{hists: r.retired.cloneHists(nil)}
	r.mu.Unlock()
	if err := collect(ctx, shards, (*Shard).samples, func(v *values) { sum.add(v) }); err != nil {
		return fmt.Errorf("statistics: %w", err)
	}
	kept := r.main.addRecorded(&sum)
	r.endInterval(views(sum.hists), kept)
	return nil
}

// addRecorded adds the histograms to sum of pages in which something was recorded
// since the last call, or of which sum has some, and returns the others: in a proxy
// of ten thousand clusters nearly all of them.
func (m *Main) addRecorded(sum *values) (kept []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	recorded := values{hists: make(pages[*hist], len(m.v.hists))}
	m.samples = lengthen(m.samples, len(m.v.hists))
	for i, p := range m.v.hists {
		if p == nil {
			continue
		}
		n := uint64(0)
		for _, h := range p {
			if h != nil {
				n += h.n
			}
		}
		if n == m.samples[i] && (i >= len(sum.hists) || sum.hists[i] == nil) {
			kept = append(kept, i)
			continue
		}
		m.samples[i], recorded.hists[i] = n, p
	}
	sum.add(&recorded)
	return kept
}

// endInterval makes what histograms recorded since the last call the interval
// that renderings show beside the totals, and returns it. In the pages kept, nothing
// was recorded.
func (r *Registry) endInterval(totals pages[histView], kept []int) pages[histView] {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := make(pages[histView], len(totals))
	for i, p := range totals {
		if p == nil {
			continue
		}
		for j, v := range p {
			if v.count > 0 {
				in.page(i)[j] = v.minus(r.lastMerge.at(uint32(i<<pageBits + j))) //nolint:gosec // an id
			}
		}
	}
	for _, i := range kept {
		if i < len(r.lastMerge) && r.lastMerge[i] != nil {
			totals = lengthen(totals, i+1)
			totals[i] = r.lastMerge[i]
		}
	}
	r.intervals, r.lastMerge = in, totals
	return in
}

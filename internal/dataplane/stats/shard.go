package stats

import "sync"

// values are the numbers of one writer, by id. Entry 0 takes what is added to
// rejected statistics and is never read.
type values struct {
	counters pages[uint64]
	gauges   pages[gaugeCell]
	hists    pages[*hist] // nil until the first sample
}

// gaugeCell remembers that a gauge was used even if it is zero again.
type gaugeCell struct {
	v        int64
	used     bool
	unsigned bool // v is a uint64: a hash
}

// reach makes room for the lists of so many pages.
func (v *values) reach(counters, gauges int) {
	v.counters = lengthen(v.counters, counters)
	v.gauges = lengthen(v.gauges, gauges)
}

// add adds the values of o. Nothing of o is kept.
func (v *values) add(o *values) {
	for i, from := range o.counters {
		if from == nil {
			continue
		}
		to := v.counters.page(i)
		for j, c := range from {
			to[j] += c
		}
	}
	for i, from := range o.gauges {
		if from == nil {
			continue
		}
		to := v.gauges.page(i)
		for j := range from {
			to[j].v += from[j].v
			to[j].used = to[j].used || from[j].used
			to[j].unsigned = to[j].unsigned || from[j].unsigned
		}
	}
	for i, from := range o.hists {
		if from == nil {
			continue
		}
		to := v.hists.page(i)
		for j, h := range from {
			if h == nil {
				continue
			}
			if to[j] == nil {
				to[j] = new(hist)
			}
			to[j].add(h)
		}
	}
}

// clone copies the values, so that their writer can go on. Histograms that have
// had no sample since they were copied to before are taken from there: most
// are idle, and the writer waits meanwhile. Copies are never changed.
func (v *values) clone(before pages[*hist]) values {
	return values{counters: v.counters.clone(), gauges: v.gauges.clone(), hists: v.cloneHists(before)}
}

func (v *values) cloneHists(before pages[*hist]) pages[*hist] {
	c := v.hists.clone()
	for i, p := range c {
		if p == nil {
			continue
		}
		for j, h := range p {
			if h == nil {
				continue
			}
			if old := before.at(uint32(i<<pageBits + j)); old != nil && old.n == h.n { //nolint:gosec // an id
				p[j] = old
			} else {
				p[j] = h.clone()
			}
		}
	}
	return c
}

func (v *values) clear(counters []Counter, gauges []Gauge) {
	clearIDs(v.counters, counters)
	clearIDs(v.gauges, gauges)
}

// Shard counts for one worker. Worker-confined: only Registry.Snapshot reaches
// it from elsewhere, through the worker's own queue.
type Shard struct {
	v      values
	reg    *Registry
	post   func(func()) bool
	before func()        // see Before
	copies pages[*hist]  // histograms as they were last copied
	done   bool          // closed; for the worker
	closed chan struct{} // closed; for the others, who may then read v
}

// Inc adds one.
func (s *Shard) Inc(c Counter) {
	if i := int(c >> pageBits); i < len(s.v.counters) {
		if p := s.v.counters[i]; p != nil {
			p[c&pageMask]++
			return
		}
	}
	s.addSlow(c, 1)
}

// Add adds n.
func (s *Shard) Add(c Counter, n uint64) {
	if i := int(c >> pageBits); i < len(s.v.counters) {
		if p := s.v.counters[i]; p != nil {
			p[c&pageMask] += n
			return
		}
	}
	s.addSlow(c, n)
}

// GaugeAdd adds d, which may be negative. A gauge is the sum over all shards
// and Main, so what one worker added another may take away.
func (s *Shard) GaugeAdd(g Gauge, d int64) {
	if i := int(g >> pageBits); i < len(s.v.gauges) {
		if p := s.v.gauges[i]; p != nil {
			c := &p[g&pageMask]
			c.v += d
			c.used = true
			return
		}
	}
	s.gaugeSlow(g, d)
}

// Record adds a sample. The first sample of a magnitude allocates, later ones
// do not.
func (s *Shard) Record(h Histogram, sample uint64) {
	if i := int(h >> pageBits); i < len(s.v.hists) {
		if p := s.v.hists[i]; p != nil && p[h&pageMask] != nil {
			p[h&pageMask].record(sample)
			return
		}
	}
	s.v.recordSlow(h, sample)
}

// Before makes the worker run f whenever the shard's values are about to be read
// for a snapshot, and when it is closed: for gauges that nobody keeps meanwhile.
// It is called once, before the worker runs.
func (s *Shard) Before(f func()) { s.before = f }

// samples is what a flush gets that nobody wants more of.
func (s *Shard) samples() values {
	s.copies = s.v.cloneHists(s.copies)
	return values{hists: s.copies}
}

// copy is what a snapshot gets.
func (s *Shard) copy() values {
	if s.before != nil {
		s.before()
	}
	c := s.v.clone(s.copies)
	s.copies = c.hists
	return c
}

// The slow paths make the page.

//go:noinline
func (s *Shard) addSlow(c Counter, n uint64) { *s.v.counters.cell(uint32(c)) += n }

//go:noinline
func (s *Shard) gaugeSlow(g Gauge, d int64) {
	c := s.v.gauges.cell(uint32(g))
	c.v += d
	c.used = true
}

//go:noinline
func (v *values) recordSlow(h Histogram, sample uint64) {
	if h == 0 {
		return
	}
	c := v.hists.cell(uint32(h))
	if *c == nil {
		*c = new(hist)
	}
	(*c).record(sample)
}

// Close gives the shard's values to the registry, which keeps them. It is
// called once, on the worker; the shard must not be used afterwards.
func (s *Shard) Close() {
	if s.done {
		return
	}
	if s.before != nil {
		s.before()
	}
	s.done, s.copies = true, nil
	s.reg.retire(s)
	close(s.closed)
}

// Main counts for everything that is not a worker. Safe for concurrent use; it
// takes a lock, so it is not for the request path.
type Main struct {
	mu      sync.Mutex
	v       values
	touched map[Counter]bool // used, though nothing was added
	samples []uint64         // of the histograms of each page, as merge saw them last
}

// Inc adds one.
func (m *Main) Inc(c Counter) { m.Add(c, 1) }

// Add adds n. Adding 0 marks the counter as used.
func (m *Main) Add(c Counter, n uint64) {
	if c == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	*m.v.counters.cell(uint32(c)) += n
	if n == 0 {
		if m.touched == nil {
			m.touched = make(map[Counter]bool)
		}
		m.touched[c] = true
	}
}

// GaugeAdd adds d, which may be negative.
func (m *Main) GaugeAdd(g Gauge, d int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gauge(g).v += d
}

// GaugeSet sets what the goroutines off the workers contribute to the gauge.
// For gauges that workers do not add to, that is their value.
func (m *Main) GaugeSet(g Gauge, v int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gauge(g).v = v
}

// GaugeSetUint is GaugeSet for values that need all 64 bits: Envoy shows the
// hash of a version as a gauge. Nothing may be added to such a gauge.
func (m *Main) GaugeSetUint(g Gauge, v uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.gauge(g)
	c.v, c.unsigned = int64(v), true
}

func (m *Main) gauge(g Gauge) *gaugeCell {
	c := m.v.gauges.cell(uint32(g))
	c.used = true
	return c
}

// Record adds a sample.
func (m *Main) Record(h Histogram, sample uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.v.recordSlow(h, sample)
}

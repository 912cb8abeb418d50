package stats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
)

// Sink takes statistics at every flush. The Flusher calls it from one
// goroutine at a time. Flush must end by itself within a moment: what cannot be
// sent at once is dropped, and the error says so.
type Sink interface {
	Flush(b *Batch) error
	Close() error
}

// FlushInterval reads how often statistics go to the sinks (BS-44):
// stats_flush_interval, 5 seconds unless set, or onAdmin for
// stats_flush_on_admin, with which only [Flusher.Flush] flushes.
func FlushInterval(b *bootstrapv3.Bootstrap) (interval time.Duration, onAdmin bool, err error) {
	interval = 5 * time.Second
	if b.GetStatsFlushOnAdmin() {
		return interval, true, nil
	}
	if d := b.GetStatsFlushInterval(); d != nil {
		if err := d.CheckValid(); err != nil {
			return 0, false, fmt.Errorf("stats_flush_interval: %w", err)
		}
		interval = d.AsDuration()
	}
	if interval < time.Millisecond || interval >= 5*time.Minute {
		return 0, false, fmt.Errorf("stats_flush_interval: %v: value must be inside range [1ms, 5m0s)", interval)
	}
	return interval, false, nil
}

// FlusherOptions say what a Flusher does.
type FlusherOptions struct {
	Interval time.Duration // 0: only Flush flushes (stats_flush_on_admin)
	Sinks    []Sink        // closed when Run ends
	Before   func()        // called before each flush to sinks, to set gauges such as server.uptime; may be nil
	Logger   *slog.Logger
}

// Flusher sends statistics to the sinks and ends the intervals of histograms.
type Flusher struct {
	reg     *Registry
	opts    FlusherOptions
	dropped Counter

	mu      sync.Mutex    // held during a flush; guards what follows
	prev    pages[uint64] // counters of the flush before
	failing []bool        // by sink
}

// NewFlusher makes a flusher and the counter server.dropped_stat_flushes: the
// flushes that were skipped because one was still under way, or that a sink
// did not take in whole. It starts nothing.
func NewFlusher(r *Registry, opts FlusherOptions) *Flusher {
	return &Flusher{
		reg: r, opts: opts, failing: make([]bool, len(opts.Sinks)),
		dropped: r.Scope("server").Counter("dropped_stat_flushes"),
	}
}

// Run flushes until ctx ends, then once more, and closes the sinks.
func (f *Flusher) Run(ctx context.Context) error {
	var tick <-chan time.Time
	if f.opts.Interval > 0 {
		t := time.NewTicker(f.opts.Interval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-tick:
			f.flush(ctx)
		case <-ctx.Done():
			f.flush(context.WithoutCancel(ctx))
			return f.close()
		}
	}
}

func (f *Flusher) flush(ctx context.Context) {
	// A worker that is busy for this long is a fault, but no reason to hang.
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := f.Flush(bounded); err != nil && ctx.Err() == nil {
		f.opts.Logger.Warn("statistics were not flushed", "error", err)
	}
}

func (f *Flusher) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, s := range f.opts.Sinks {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Flush sends one batch now. Safe for concurrent use: while a flush is under
// way another is dropped and counted, not queued.
func (f *Flusher) Flush(ctx context.Context) error {
	if !f.mu.TryLock() {
		f.reg.main.Inc(f.dropped)
		return nil
	}
	defer f.mu.Unlock()
	if len(f.opts.Sinks) == 0 {
		// Nobody looks at a hundred thousand numbers: at rest that is most of what a
		// proxy would do.
		err := f.reg.merge(ctx)
		if err != nil {
			f.reg.main.Inc(f.dropped)
		}
		return err
	}
	if f.opts.Before != nil {
		f.opts.Before()
	}
	snap, err := f.reg.Snapshot(ctx)
	if err != nil {
		f.reg.main.Inc(f.dropped)
		return err
	}
	b := &Batch{snap: snap, prev: f.prev, samples: f.reg.endInterval(snap.totals, nil)}
	f.prev = snap.raw.counters
	failed := false
	for i, s := range f.opts.Sinks {
		err := s.Flush(b)
		failed = failed || err != nil
		f.report(i, err)
	}
	if failed {
		f.reg.main.Inc(f.dropped)
	}
	return nil
}

// report logs when a sink begins to drop and when it has recovered, not at
// every flush.
func (f *Flusher) report(sink int, err error) {
	switch was := f.failing[sink]; {
	case err != nil && !was:
		f.opts.Logger.Warn("a statistics sink drops lines", "sink", sink, "error", err)
	case err == nil && was:
		f.opts.Logger.Info("a statistics sink takes lines again", "sink", sink)
	}
	f.failing[sink] = err != nil
}

// Batch is what sinks get at a flush. Immutable, valid during the call.
type Batch struct {
	snap    *Snapshot
	prev    pages[uint64]
	samples pages[histView]
}

// Metric names a statistic to a sink.
type Metric struct {
	m  metric
	by *labeller
}

// Name is the full name.
func (m Metric) Name() string { return m.m.name() }

// Series is the name without its tags.
func (m Metric) Series() string { return m.by.of(m.m).series }

// Tags are what the name holds besides the series. Not to be changed.
func (m Metric) Tags() []Tag { return m.by.of(m.m).tags.tags }

// Unit is that of a histogram; of others it is Unspecified.
func (m Metric) Unit() Unit { return m.m.leaf().unit }

// Counters calls f with the increase of each counter since the last flush.
// Like Envoy it leaves out those that were never used and keeps those that did
// not move.
func (b *Batch) Counters(f func(m Metric, delta uint64)) {
	s := b.snap
	untouched := func(page int) bool { return at(s.raw.counters, uint32(page)) == nil && len(s.touched) == 0 } //nolint:gosec // not negative
	s.each(kindCounter, untouched, func(id uint32, m metric) {
		if s.counterUsed(id) {
			f(Metric{m, &s.reg.labels}, s.raw.counters.at(id)-b.prev.at(id))
		}
	})
}

// Gauges calls f with the value of each gauge that was ever used.
func (b *Batch) Gauges(f func(m Metric, v uint64)) {
	s := b.snap
	untouched := func(page int) bool { return at(s.raw.gauges, uint32(page)) == nil } //nolint:gosec // not negative
	s.each(kindGauge, untouched, func(id uint32, m metric) {
		if s.gaugeUsed(id) {
			f(Metric{m, &s.reg.labels}, s.gauge(id))
		}
	})
}

// Samples calls f for what histograms recorded since the last flush: n samples
// of about this value. Values up to 100 are exact, larger ones are the middle of
// what has the same first two digits.
func (b *Batch) Samples(f func(m Metric, value float64, n uint64)) {
	s := b.snap
	untouched := func(page int) bool { return at(b.samples, uint32(page)) == nil } //nolint:gosec // not negative
	s.each(kindHistogram, untouched, func(id uint32, m metric) {
		for _, x := range b.samples.at(id).bins {
			value := x.left
			if x.width > 1 {
				value += x.width / 2
			}
			f(Metric{m, &s.reg.labels}, value, x.n)
		}
	})
}

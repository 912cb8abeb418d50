package stats

import (
	"context"
	"fmt"
	"slices"
)

// Hidden hands out statistics that count like the others but have no name and
// appear in no listing: those of single hosts. Safe for concurrent use.
type Hidden struct{ reg *Registry }

type freeList struct {
	counters []Counter
	gauges   []Gauge
}

// Hidden returns the registry's unnamed statistics.
func (r *Registry) Hidden() Hidden { return Hidden{r} }

// Counter makes a new counter; it is never 0.
func (h Hidden) Counter() Counter {
	r := h.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.freed.counters); n > 0 {
		c := r.freed.counters[n-1]
		r.freed.counters = r.freed.counters[:n-1]
		return c
	}
	return Counter(r.ids[kindCounter].nameless())
}

// Gauge makes a new gauge; it is never 0.
func (h Hidden) Gauge() Gauge {
	r := h.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.freed.gauges); n > 0 {
		g := r.freed.gauges[n-1]
		r.freed.gauges = r.freed.gauges[:n-1]
		return g
	}
	return Gauge(r.ids[kindGauge].nameless())
}

// Sum returns the values of the given counters and gauges, in their order,
// asking all workers once. It also works for named ones. Errors are those of
// Snapshot.
func (h Hidden) Sum(ctx context.Context, counters []Counter, gauges []Gauge) ([]uint64, []int64, error) {
	c, g := make([]uint64, len(counters)), make([]int64, len(gauges))
	add := func(v *values) {
		for i, id := range counters {
			c[i] += v.counters.at(uint32(id))
		}
		for i, id := range gauges {
			g[i] += v.gauges.at(uint32(id)).v
		}
	}
	if err := h.reg.each(ctx, add); err != nil {
		return nil, nil, err
	}
	return c, g, nil
}

// each gives f the values of every writer: closed shards, shards, main.
func (r *Registry) each(ctx context.Context, f func(*values)) error {
	r.mu.Lock()
	shards := slices.Clone(r.shards)
	f(&r.retired)
	r.mu.Unlock()
	if err := collect(ctx, shards, (*Shard).copy, f); err != nil {
		return fmt.Errorf("statistics: %w", err)
	}
	r.main.mu.Lock()
	defer r.main.mu.Unlock()
	f(&r.main.v)
	return nil
}

// Discard notes that nothing counts by these counters any more: Reclaim makes
// them available again. It does not wait.
func (h Hidden) Discard(counters []Counter) {
	h.reg.mu.Lock()
	defer h.reg.mu.Unlock()
	h.reg.discarded = append(h.reg.discarded, counters...)
}

// Reclaim makes what was discarded available again, once every worker has
// forgotten the values, and takes away the names whose leases have ended. Errors are those of Release.
func (h Hidden) Reclaim(ctx context.Context) error {
	h.reg.sweep()
	h.reg.mu.Lock()
	counters := h.reg.discarded
	h.reg.discarded = nil
	h.reg.mu.Unlock()
	if len(counters) == 0 {
		return nil
	}
	return h.Release(ctx, counters, nil)
}

// Release gives statistics back when their host has gone. The caller has made
// sure that nothing adds to them any more. Their numbers are used again once
// every worker has forgotten the values; if ctx ends before, they are lost to
// use but nothing is miscounted.
func (h Hidden) Release(ctx context.Context, counters []Counter, gauges []Gauge) error {
	r := h.reg
	r.mu.Lock()
	shards := slices.Clone(r.shards)
	r.mu.Unlock()
	cleared := make([]chan struct{}, len(shards))
	for i, s := range shards {
		cleared[i] = make(chan struct{})
		s.post(func() {
			if !s.done {
				s.v.clear(counters, gauges)
				close(cleared[i])
			}
		})
	}
	for i, s := range shards {
		select {
		case <-cleared[i]:
		case <-s.closed:
		case <-ctx.Done():
			return fmt.Errorf("statistics of a host: a worker did not answer in time: %w", ctx.Err())
		}
	}
	r.main.mu.Lock()
	r.main.v.clear(counters, gauges)
	r.main.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired.clear(counters, gauges)
	r.freed.counters = append(r.freed.counters, counters...)
	r.freed.gauges = append(r.freed.gauges, gauges...)
	return nil
}

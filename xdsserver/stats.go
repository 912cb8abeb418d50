package xdsserver

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
)

// Stats is a reading of the server's counters (XS-94). Counters only grow.
type Stats struct {
	// Types holds a row per resource type and variant that was ever used. Types
	// the server does not know share the row with an empty TypeURL.
	Types []TypeStats
	// StreamsOpened counts discovery streams, StreamsRefused those that a limit
	// or the auth gate turned away.
	StreamsOpened, StreamsRefused uint64
	// NodesIgnored counts requests whose node contradicts the stream's (XS-06).
	NodesIgnored uint64
	// LeftOut counts, by type URL of v2, the contents that v2 of the API cannot say
	// and that clients who ask for it do without (XV-04).
	LeftOut map[string]uint64
}

// TypeStats counts what happened to one type in one variant.
type TypeStats struct {
	TypeURL string
	// Variant is "sotw", "delta" or, for clients that poll, "rest".
	Variant string
	// Subscriptions is how many streams, or clients that poll, subscribe to the type now; the rest are
	// counters.
	Subscriptions                         int64
	Requests, Responses, Resources, Bytes uint64
	Acks, Nacks, Stale                    uint64
	// GateTimeouts counts ordered steps that went on without an ACK (XS-69).
	GateTimeouts uint64
	// BodyHits and BodyMisses count large responses whose encoding was shared
	// with another stream's, or had to be made.
	BodyHits, BodyMisses uint64
	// Push is the time from a change's publication to its being sent, Answer
	// from a response's being sent to its ACK or NACK. Polls have neither.
	Push, Answer Histogram
}

// Histogram counts durations. Counts[i] is the number of those no longer than
// HistogramBounds()[i]; the last one counts the rest.
type Histogram struct {
	Counts []uint64
	Sum    time.Duration
}

// HistogramBounds returns the upper bounds of the histograms' buckets.
func HistogramBounds() []time.Duration {
	const us, ms = time.Microsecond, time.Millisecond
	return []time.Duration{
		100 * us, 300 * us, ms, 3 * ms, 10 * ms, 30 * ms, 100 * ms, 300 * ms,
		time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second,
	}
}

type histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64
	sum    atomic.Int64
}

func newHistogram() *histogram {
	b := HistogramBounds()
	return &histogram{bounds: b, counts: make([]atomic.Uint64, len(b)+1)}
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *histogram) read() Histogram {
	r := Histogram{Counts: make([]uint64, len(h.counts)), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		r.Counts[i] = h.counts[i].Load()
	}
	return r
}

// counters are the server's own; every field is safe for concurrent use.
type counters struct {
	types                         map[typeKey]*typeCounters // fixed at construction
	leftOut                       map[string]*atomic.Uint64 // by v2 type URL, fixed at construction
	opened, refused, nodesIgnored atomic.Uint64
}

type typeKey struct {
	url     string
	variant wire.Variant
}

type typeCounters struct {
	subscriptions                                             atomic.Int64
	requests, responses, resources, bytes, acks, nacks, stale atomic.Uint64
	gateTimeouts, bodyHits, bodyMisses                        atomic.Uint64
	push, answer                                              *histogram
}

func newTypeCounters() *typeCounters {
	return &typeCounters{push: newHistogram(), answer: newHistogram()}
}

func newCounters(types iter.Seq[string]) *counters {
	c := &counters{types: map[typeKey]*typeCounters{}, leftOut: map[string]*atomic.Uint64{}}
	for _, t := range xds.Types() {
		if v2 := xds.V2Type(t.URL); v2 != "" {
			c.leftOut[v2] = &atomic.Uint64{}
		}
	}
	for _, v := range []wire.Variant{wire.Sotw, wire.Delta, restVariant} {
		c.types[typeKey{"", v}] = newTypeCounters()
		for url := range types {
			c.types[typeKey{url, v}] = newTypeCounters()
		}
	}
	return c
}

func (c *counters) of(url string, v wire.Variant) *typeCounters {
	if t, ok := c.types[typeKey{url, v}]; ok {
		return t
	}
	return c.types[typeKey{"", v}]
}

func sortTypeStats(list []TypeStats) {
	slices.SortFunc(list, func(a, b TypeStats) int {
		return cmp.Or(strings.Compare(a.TypeURL, b.TypeURL), strings.Compare(a.Variant, b.Variant))
	})
}

// Stats reads the counters. Safe to call at any time.
func (s *Server) Stats() Stats {
	c := s.counters
	st := Stats{StreamsOpened: c.opened.Load(), StreamsRefused: c.refused.Load(), NodesIgnored: c.nodesIgnored.Load()}
	for k, t := range c.types {
		if t.requests.Load() == 0 {
			continue
		}
		st.Types = append(st.Types, TypeStats{
			TypeURL: k.url, Variant: variantWord(k.variant), Subscriptions: t.subscriptions.Load(),
			Requests: t.requests.Load(), Responses: t.responses.Load(), Resources: t.resources.Load(), Bytes: t.bytes.Load(),
			Acks: t.acks.Load(), Nacks: t.nacks.Load(), Stale: t.stale.Load(), GateTimeouts: t.gateTimeouts.Load(),
			BodyHits: t.bodyHits.Load(), BodyMisses: t.bodyMisses.Load(), Push: t.push.read(), Answer: t.answer.read(),
		})
	}
	sortTypeStats(st.Types)
	st.LeftOut = make(map[string]uint64, len(c.leftOut))
	for url, n := range c.leftOut {
		st.LeftOut[url] = n.Load()
	}
	return st
}

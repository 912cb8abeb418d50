package cluster

import "github.com/xebec-proxy/xebec/internal/dataplane/stats"

// hashGauges are those of a policy that hashes; both are nil of others.
type hashGauges struct {
	ring   *ringGauges
	maglev *maglevGauges
}

type ringGauges struct {
	Size      stats.Gauge `stat:"ring_hash_lb.size"`
	MinHashes stats.Gauge `stat:"ring_hash_lb.min_hashes_per_host"`
	MaxHashes stats.Gauge `stat:"ring_hash_lb.max_hashes_per_host"`
}

type maglevGauges struct {
	MinEntries stats.Gauge `stat:"maglev_lb.min_entries_per_host"`
	MaxEntries stats.Gauge `stat:"maglev_lb.max_entries_per_host"`
}

func (s *Stats) registerHash(reg Registry, p LBPolicy) {
	switch p {
	case RingHash:
		s.hash.ring = &ringGauges{}
		stats.Fill(reg, "", s.hash.ring)
	case Maglev:
		s.hash.maglev = &maglevGauges{}
		stats.Fill(reg, "", s.hash.maglev)
	}
}

// tell sets the gauges. Those of the last priority stay, as in Envoy.
func (g *hashGauges) tell(sink Sink, t *HashTable) {
	if r := g.ring; r != nil {
		sink.GaugeSet(r.Size, int64(t.size))
		sink.GaugeSet(r.MinHashes, int64(t.spread.Min))
		sink.GaugeSet(r.MaxHashes, int64(t.spread.Max))
	}
	if m := g.maglev; m != nil {
		sink.GaugeSet(m.MinEntries, int64(t.spread.Min))
		sink.GaugeSet(m.MaxEntries, int64(t.spread.Max))
	}
}

package consistent

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// RingConfig is how a ring is made.
type RingConfig struct {
	// Least and Most bound its entries (minimum_ring_size, maximum_ring_size).
	Least, Most uint64
	// Murmur hashes members with MurmurHash2 in place of xxHash.
	Murmur bool
}

// Ring has an entry for each of many hashes of each member; a hash leads to the
// entry with the next one (ketama).
type Ring struct {
	entries []ringEntry // by hash
	// starts is where the entries begin whose hashes have the upper bits i. With
	// about one entry each, a hash is found at once.
	starts []uint32
	shift  uint8

	// Size is how many entries were asked for, PerMember what members have of
	// them; as Envoy counts them.
	Size      uint64
	PerMember Spread
}

type ringEntry struct {
	hash   uint64
	member uint32
}

// NewRing makes the ring of members, in their order. It costs a hash for each
// entry.
func NewRing(ms []Member, c RingConfig) *Ring {
	r := &Ring{}
	if len(ms) == 0 {
		return r
	}
	least, _ := extremes(ms)
	// The member with the least weight has a whole number of entries.
	scale := min(math.Ceil(least*float64(c.Least))/least, float64(c.Most))
	r.Size = uint64(math.Ceil(scale))
	entries, counts := make([]ringEntry, 0, r.Size), make([]uint64, len(ms))
	var key []byte
	made, target := 0.0, 0.0
	for m := range ms {
		key = append(append(key[:0], ms[m].Key...), '_')
		prefix := len(key)
		target += float64(scale * ms[m].Weight) // converted: not fused with the sum, which would round otherwise
		for ; made < target; made++ {
			key = strconv.AppendUint(key[:prefix], counts[m], 10)
			entries = append(entries, ringEntry{c.hash(key), uint32(m)})
			counts[m]++
		}
	}
	r.PerMember = spreadOf(counts, r.Size)
	r.sort(entries)
	return r
}

func (c *RingConfig) hash(key []byte) uint64 {
	if c.Murmur {
		return murmur2(key, murmurSeed)
	}
	return xxhash.Sum64(key)
}

// sort puts entries in order: first by the upper bits, which spreads them evenly
// since they are hashes, then the few that have the same.
func (r *Ring) sort(entries []ringEntry) {
	if len(entries) == 0 {
		return
	}
	width := max(bits.Len(uint(len(entries)-1)), 1)
	r.shift = uint8(64 - width)
	r.starts = make([]uint32, 1<<width+1)
	for i := range entries {
		r.starts[entries[i].hash>>r.shift+1]++
	}
	for i := 1; i < len(r.starts); i++ {
		r.starts[i] += r.starts[i-1]
	}
	r.entries = make([]ringEntry, len(entries))
	for i := range entries { // afterwards each start is the next one's
		b := entries[i].hash >> r.shift
		r.entries[r.starts[b]] = entries[i]
		r.starts[b]++
	}
	copy(r.starts[1:], r.starts[:len(r.starts)-1])
	r.starts[0] = 0
	for b := range len(r.starts) - 1 {
		if same := r.entries[r.starts[b]:r.starts[b+1]]; len(same) > 1 {
			slices.SortStableFunc(same, compareEntries)
		}
	}
}

func compareEntries(a, b ringEntry) int {
	if a.hash < b.hash {
		return -1
	}
	if a.hash > b.hash {
		return 1
	}
	return 0
}

// Choose implements [Table]: the entry that many after the one with the next
// hash.
func (r *Ring) Choose(hash uint64, attempt uint32) int {
	n := len(r.entries)
	if n == 0 {
		return -1
	}
	b := hash >> r.shift
	lo, hi := int(r.starts[b]), int(r.starts[b+1])
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if r.entries[mid].hash < hash {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == n {
		lo = 0
	}
	if attempt > 0 {
		lo = (lo + int(attempt)) % n
	}
	return int(r.entries[lo].member)
}

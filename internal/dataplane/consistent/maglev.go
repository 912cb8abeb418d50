package consistent

import (
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Maglev is a table in which each member has about its share of the places, by
// an order of preference of its own; a hash leads to the place that it is modulo
// the size (Maglev: A Fast and Reliable Software Network Load Balancer, 3.4).
type Maglev struct {
	places places

	// PerMember is how many places members have.
	PerMember Spread
}

// places are the members of a table, in as few bytes as their number needs.
type places interface{ choose(hash uint64) int }

type placesOf[T uint8 | uint16 | uint32] []T

func (p placesOf[T]) choose(hash uint64) int { return int(p[hash%uint64(len(p))]) }

// candidate is a member that takes places.
type candidate struct {
	member       int
	weight       float64
	due          float64 // the next turn at which it takes one, times its weight
	place, skip  uint64  // the place that it prefers next, and the way to the one after that
	placesItTook uint64
}

// NewMaglev makes the table of members with so many places, a prime number. The
// order of members does not matter. It costs about size times the logarithm of
// size, however many members there are.
func NewMaglev(ms []Member, size uint64) *Maglev {
	t := &Maglev{}
	if len(ms) == 0 {
		return t
	}
	if len(ms) == 1 {
		size = 1 // as in Envoy: it has them all
	}
	cs := candidates(ms, size)
	switch {
	case len(ms) <= math.MaxUint8+1:
		t.places = fill[uint8](ms, cs, size)
	case len(ms) <= math.MaxUint16+1:
		t.places = fill[uint16](ms, cs, size)
	default:
		t.places = fill[uint32](ms, cs, size)
	}
	counts := make([]uint64, len(cs))
	for i := range cs {
		counts[i] = cs[i].placesItTook
	}
	t.PerMember = spreadOf(counts, size)
	return t
}

func candidates(ms []Member, size uint64) []candidate {
	cs := make([]candidate, len(ms))
	var d xxhash.Digest
	for i := range ms {
		d.ResetWithSeed(1)
		_, _ = d.WriteString(ms[i].Key)
		cs[i] = candidate{
			member: i, weight: ms[i].Weight,
			place: xxhash.Sum64String(ms[i].Key) % size, skip: d.Sum64()%max(size-1, 1) + 1,
		}
	}
	slices.SortStableFunc(cs, func(a, b candidate) int { return strings.Compare(ms[a.member].Key, ms[b.member].Key) })
	return cs
}

// fill lets candidates take places by turns: the one with the largest weight at
// each, the others at as many as their weight is a part of it.
func fill[T uint8 | uint16 | uint32](ms []Member, cs []candidate, size uint64) places {
	_, most := extremes(ms)
	table, taken := make(placesOf[T], size), make([]uint64, size/64+1)
	left := size
	for turn := 1.0; left > 0; turn++ {
		for i := 0; i < len(cs) && left > 0; i++ {
			c := &cs[i]
			if turn*c.weight < c.due {
				continue
			}
			c.due += most
			for taken[c.place/64]&(1<<(c.place%64)) != 0 {
				c.next(size)
			}
			table[c.place] = T(c.member)
			taken[c.place/64] |= 1 << (c.place % 64)
			c.next(size)
			c.placesItTook++
			left--
		}
	}
	return table
}

func (c *candidate) next(size uint64) {
	if c.place += c.skip; c.place >= size {
		c.place -= size
	}
}

// Choose implements [Table]. An attempt after the first changes the hash.
func (t *Maglev) Choose(hash uint64, attempt uint32) int {
	if t.places == nil {
		return -1
	}
	if attempt > 0 {
		hash ^= -uint64(attempt) // most bits change
	}
	return t.places.choose(hash)
}

// IsPrime reports whether n is a prime number, as sizes of tables are.
func IsPrime(n uint64) bool {
	if n < 2 {
		return false
	}
	for i := uint64(2); i*i <= n; i++ {
		if n%i == 0 {
			return false
		}
	}
	return true
}

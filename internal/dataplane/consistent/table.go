package consistent

// Member is one of those that a table chooses from.
type Member struct {
	// Key places the member. Two with the same key are in each other's way: a
	// hash leads to one of them only.
	Key string
	// Weight is the member's share, above 0; all add up to 1, or to less when
	// something that is not there has a share too.
	Weight float64
}

// Table leads from a hash to a member. Safe for concurrent use.
type Table interface {
	// Choose is the index of the member for a hash, or -1 if there is none.
	// attempt is 0, and n when n members were refused before.
	Choose(hash uint64, attempt uint32) int
}

// extremes are the least and the largest weight, as Envoy counts them.
func extremes(ms []Member) (least, most float64) {
	least = 1
	for i := range ms {
		least, most = min(least, ms[i].Weight), max(most, ms[i].Weight)
	}
	return least, most
}

// Spread is how many entries of a table members have.
type Spread struct{ Min, Max uint64 }

func spreadOf(counts []uint64, most uint64) Spread {
	s := Spread{Min: most}
	for _, n := range counts {
		s.Min, s.Max = min(s.Min, n), max(s.Max, n)
	}
	return s
}

package consistent

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

// members are n of equal weight.
func members(n int) []Member {
	ms := make([]Member, n)
	for i := range ms {
		ms[i] = Member{Key: fmt.Sprintf("10.%d.%d.%d:80", i>>16, i>>8&255, i&255), Weight: 1 / float64(n)}
	}
	return ms
}

// The values of std::hash in GNU's C++ library.
func TestMurmur2(t *testing.T) {
	for text, want := range map[string]uint64{"": 0x553e93901e462a6e, "a": 0x454ddee488c1ed6b, "hello": 0x26553298fdbe39c8, "127.0.0.1:80_12": 0x4031ff9ddb32886f} {
		if got := murmur2([]byte(text), murmurSeed); got != want {
			t.Errorf("%q: %#x, want %#x", text, got, want)
		}
	}
}

// The 10,000th number of the default seed is part of C++'s standard
// ([rand.predef]).
func TestMersenne(t *testing.T) {
	var m mersenne
	m.seed(5489)
	var last uint32
	for range 10000 {
		last = m.uint32()
	}
	if last != 4123659995 {
		t.Error(last)
	}
}

func TestShuffle(t *testing.T) {
	var s Shuffle
	order := func(hash uint64, n int) (all []int) {
		s.Start(hash, n)
		for i, ok := s.Next(); ok; i, ok = s.Next() {
			all = append(all, i)
		}
		return all
	}
	for n := range 20 {
		one, other := order(7, n), order(8, n)
		if !slices.Equal(one, order(7, n)) || n > 8 && slices.Equal(one, other) {
			t.Errorf("%d: %v and %v", n, one, other)
		}
		slices.Sort(one)
		for i, v := range one {
			if i != v || len(one) != n {
				t.Fatalf("%d: not all, or not once: %v", n, one)
			}
		}
	}
}

func TestIsPrime(t *testing.T) {
	for n, want := range map[uint64]bool{0: false, 1: false, 2: true, 3: true, 4: false, 9: false, 65537: true, 65536: false, 5000011: true, 25: false} {
		if IsPrime(n) != want {
			t.Error(n)
		}
	}
}

// TestRingAgainstSlow looks for the next entry one by one.
// Partly proves LB-05.
func TestRingAgainstSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 100), 1, 20).Draw(t, "weights")
		ms, total := members(len(weights)), 0
		for _, w := range weights {
			total += w
		}
		for i, w := range weights {
			ms[i].Weight = float64(w) / float64(total)
		}
		most := rapid.Uint64Range(1, 500).Draw(t, "most")
		r := NewRing(ms, RingConfig{Least: rapid.Uint64Range(1, most).Draw(t, "least"), Most: most})
		if !slices.IsSortedFunc(r.entries, compareEntries) || len(r.entries) == 0 {
			t.Fatalf("%d entries, or not in order", len(r.entries))
		}
		hashes := []uint64{0, 1, math.MaxUint64, rapid.Uint64().Draw(t, "hash")}
		for _, e := range r.entries {
			hashes = append(hashes, e.hash, e.hash-1, e.hash+1)
		}
		attempt := rapid.Uint32Range(0, 1000).Draw(t, "attempt")
		for _, h := range hashes {
			at := slices.IndexFunc(r.entries, func(e ringEntry) bool { return e.hash >= h })
			want := r.entries[(max(at, 0)+int(attempt))%len(r.entries)].member
			if got := r.Choose(h, attempt); got != int(want) {
				t.Fatalf("%d: %d, want %d", h, got, want)
			}
		}
	})
}

// Members with the same key get in each other's way, and nothing worse.
func TestSameKeys(t *testing.T) {
	ms := members(50)
	for i := range ms {
		ms[i].Key = "same"
	}
	for _, table := range []Table{NewRing(ms, RingConfig{Least: 1024, Most: 8 << 20}), NewMaglev(ms, 65537)} {
		for h := range uint64(1000) {
			if i := table.Choose(xxhash.Sum64String(fmt.Sprint(h)), 0); i < 0 || i >= len(ms) {
				t.Fatal(i)
			}
		}
	}
}

func TestNobody(t *testing.T) {
	for _, table := range []Table{NewRing(nil, RingConfig{Least: 1, Most: 1}), NewMaglev(nil, 7), NewRing(members(3), RingConfig{})} {
		if i := table.Choose(5, 2); i != -1 {
			t.Error(i)
		}
	}
}

// tables makes both kinds.
func tables(ms []Member) map[string]Table {
	return map[string]Table{"ring": NewRing(ms, RingConfig{Least: 1024, Most: 8 << 20}), "maglev": NewMaglev(ms, 65537)}
}

// When one of many members goes, hashes that led elsewhere mostly still do.
// Proves LB-07.
func TestDisruption(t *testing.T) {
	all := members(100)
	without := append(slices.Clone(all[:40]), all[41:]...)
	for i := range without {
		without[i].Weight = 1.0 / 99
	}
	before, after := tables(all), tables(without)
	for kind, most := range map[string]int{"ring": 0, "maglev": 400} {
		moved, gone := 0, 0
		const n = 10000
		for i := range n {
			h := xxhash.Sum64String(fmt.Sprint(i))
			was, is := before[kind].Choose(h, 0), after[kind].Choose(h, 0)
			switch {
			case was == 40:
				gone++
			case all[was].Key != without[is].Key:
				moved++
			}
		}
		if moved > most || gone == 0 || gone > 2*n/100 {
			t.Errorf("%s: %d of %d lead elsewhere, and %d led to what is gone", kind, moved, n, gone)
		}
	}
}

// An attempt leads to another member.
// Partly proves LB-07.
func TestAttempts(t *testing.T) {
	for kind, table := range tables(members(10)) {
		other := 0
		for h := range uint64(1000) {
			hash := xxhash.Sum64String(fmt.Sprint(h))
			if table.Choose(hash, 1) != table.Choose(hash, 0) {
				other++
			}
		}
		if other < 800 {
			t.Errorf("%s: %d of 1000 lead to another", kind, other)
		}
	}
}

// The places of a table are kept in as few bytes as they need.
func TestManyMembers(t *testing.T) {
	for _, n := range []int{256, 257, 65536, 65537} {
		table := NewMaglev(members(n), 1000003)
		seen := map[int]bool{}
		for h := range uint64(1000003) {
			seen[table.Choose(h, 0)] = true
		}
		if len(seen) != n || table.PerMember.Min < uint64(1000003/n) || table.PerMember.Max > uint64(1000003/n)+1 {
			t.Errorf("%d members: %d are chosen, %+v", n, len(seen), table.PerMember)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		ms := members(n)
		b.Run(fmt.Sprintf("ring/%d", n), func(b *testing.B) {
			for b.Loop() {
				NewRing(ms, RingConfig{Least: 1024, Most: 8 << 20})
			}
		})
		b.Run(fmt.Sprintf("ring-of-1M/%d", n), func(b *testing.B) {
			for b.Loop() {
				NewRing(ms, RingConfig{Least: 1 << 20, Most: 8 << 20})
			}
		})
		b.Run(fmt.Sprintf("maglev/%d", n), func(b *testing.B) {
			for b.Loop() {
				NewMaglev(ms, 65537)
			}
		})
		b.Run(fmt.Sprintf("maglev-of-5M/%d", n), func(b *testing.B) {
			for b.Loop() {
				NewMaglev(ms, 5000011)
			}
		})
	}
}

func BenchmarkChoose(b *testing.B) {
	ms := members(10000)
	for name, table := range map[string]Table{
		"ring": NewRing(ms, RingConfig{Least: 1024, Most: 8 << 20}), "ring-of-1M": NewRing(ms, RingConfig{Least: 1 << 20, Most: 8 << 20}),
		"maglev": NewMaglev(ms, 65537), "maglev-of-5M": NewMaglev(ms, 5000011),
	} {
		b.Run(name, func(b *testing.B) {
			h := uint64(0)
			for b.Loop() {
				h = h*6364136223846793005 + 1442695040888963407
				if table.Choose(h, 0) < 0 {
					b.Fatal("nobody")
				}
			}
		})
	}
}

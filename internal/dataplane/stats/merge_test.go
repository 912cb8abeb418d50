package stats

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestMergeLooksAtWhatWasRecorded: intervals and totals are the same whether all
// histograms are merged or, as merge does, those of pages with new samples.
func TestMergeLooksAtWhatWasRecorded(t *testing.T) {
	r := registry(t, `{}`)
	sh := r.NewShard(func(f func()) bool { go f(); return true })
	var all []Histogram
	for range 5 * pageSize {
		all = append(all, r.Scope("s").Histogram(fmt.Sprint("h", len(all)), Milliseconds))
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's
	want := make([]uint64, len(all))
	for round := range 40 {
		before := append([]uint64(nil), want...)
		for range random.IntN(3) {
			i := random.IntN(len(all))
			want[i]++
			if i < pageSize && random.IntN(2) == 0 {
				sh.Record(all[i], 3)
			} else {
				r.Main().Record(all[i], 3)
			}
		}
		if err := r.merge(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, h := range all {
			total, in := r.lastMerge.at(uint32(h)).count, r.intervals.at(uint32(h)).count
			if total != want[i] || in != want[i]-before[i] {
				t.Fatalf("round %d: histogram %d has %d samples, %d in the interval; want %d, %d", round, i, total, in, want[i], want[i]-before[i])
			}
		}
	}
}

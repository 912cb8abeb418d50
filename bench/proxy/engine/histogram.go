package engine

import (
	"math"
	"math/bits"
	"time"
)

// steps is how many linear steps a power of two is divided into: a quantile is
// at most 1/64 too small.
const steps = 64

// Histogram counts durations. Its zero value is empty.
type Histogram struct{ counts [64 * steps]int64 }

func (h *Histogram) add(ns int64) { h.counts[bucket(max(ns, 0))]++ }

func bucket(ns int64) int {
	e := bits.Len64(uint64(ns))
	if e <= 7 {
		return int(ns) // below 128 ns each has its own
	}
	return (e-7)*steps + int(ns>>(e-7))
}

// lower is the smallest duration in a bucket.
func lower(i int) int64 {
	if i < 2*steps {
		return int64(i)
	}
	e := i/steps - 1
	return int64(i-e*steps) << e
}

// Quantile is the duration that a share q of all, in (0, 1], does not exceed;
// 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	var total, sum int64
	for _, n := range h.counts {
		total += n
	}
	want := int64(math.Ceil(q * float64(total)))
	for i, n := range h.counts {
		if sum += n; n > 0 && sum >= want {
			return time.Duration(lower(i))
		}
	}
	return 0
}

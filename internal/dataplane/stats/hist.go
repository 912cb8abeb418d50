package stats

import (
	"math"
	"math/bits"
)

// hist counts samples in log-linear bins of two significant decimal digits, as
// Envoy's circllhist: 0, 1 … 9 and then 90 bins for each power of ten. It grows
// by 720 bytes for each magnitude that occurs.
type hist struct {
	small [10]uint64 // samples 0 to 9
	tens  [19]*[90]uint64
	sum   uint64 // exact
	n     uint64 // samples, which tells whether a copy is still right
}

// pow10 is 10^n for n up to 19, which still fits 64 bits.
func pow10(n int) uint64 {
	p, base := uint64(1), uint64(10)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= base
		}
		base *= base
	}
	return p
}

func (h *hist) record(v uint64) {
	h.sum += v
	h.n++
	if v < 10 {
		h.small[v]++
		return
	}
	e, digits := magnitude(v)
	t := h.tens[e]
	if t == nil {
		t = new([90]uint64)
		h.tens[e] = t
	}
	t[digits-10]++
}

// magnitude splits v >= 10 into its first two digits and the number of digits
// after them. Divisions by constants are cheap, and most samples are small.
func magnitude(v uint64) (e int, digits uint64) {
	switch {
	case v < 1e2:
		return 0, v
	case v < 1e3:
		return 1, v / 1e1
	case v < 1e4:
		return 2, v / 1e2
	case v < 1e5:
		return 3, v / 1e3
	case v < 1e6:
		return 4, v / 1e4
	case v < 1e7:
		return 5, v / 1e5
	}
	// 1233/4096 is just above log10(2): the estimate is right or one too high.
	e = (bits.Len64(v)*1233)>>12 - 1
	p := pow10(e)
	if v/p < 10 {
		e--
		p /= 10
	}
	return e, v / p
}

// add adds the samples of o.
func (h *hist) add(o *hist) {
	h.sum += o.sum
	h.n += o.n
	for i, n := range o.small {
		h.small[i] += n
	}
	for e, t := range o.tens {
		if t == nil {
			continue
		}
		if h.tens[e] == nil {
			h.tens[e] = new([90]uint64)
		}
		for i, n := range t {
			h.tens[e][i] += n
		}
	}
}

func (h *hist) clone() *hist {
	c := *h
	for e, t := range h.tens {
		if t != nil {
			d := *t
			c.tens[e] = &d
		}
	}
	return &c
}

// view lists the bins that have samples.
func (h *hist) view() histView {
	v := histView{sum: h.sum}
	for i, n := range h.small {
		if n > 0 {
			w := 0.1
			if i == 0 {
				w = 0
			}
			v.push(bin{left: float64(i), width: w, n: n})
		}
	}
	for e, t := range h.tens {
		if t == nil {
			continue
		}
		p := float64(pow10(e))
		for i, n := range t {
			if n > 0 {
				v.push(bin{left: float64(i+10) * p, width: p, n: n})
			}
		}
	}
	return v
}

// bin is the samples from left to below left+width.
type bin struct {
	left, width float64
	n           uint64
}

// histView is a histogram to read: its bins in ascending order. Immutable.
type histView struct {
	bins  []bin
	count uint64
	sum   uint64
}

func (v *histView) push(b bin) {
	v.bins = append(v.bins, b)
	v.count += b.n
}

// minus returns the samples that v has and the earlier view has not.
func (v histView) minus(earlier histView) histView {
	d := histView{sum: v.sum - earlier.sum}
	old := earlier.bins
	for _, b := range v.bins {
		for len(old) > 0 && old[0].left < b.left {
			old = old[1:]
		}
		if len(old) > 0 && old[0].left == b.left {
			b.n -= min(b.n, old[0].n)
		}
		if b.n > 0 {
			d.push(b)
		}
	}
	return d
}

// below counts the samples of the bins up to the one that contains x, so a
// sample equal to a bucket's bound is in the bucket, as Prometheus asks.
func (v histView) below(x float64) uint64 {
	n := uint64(0)
	for _, b := range v.bins {
		if b.left > x {
			break
		}
		n += b.n
	}
	return n
}

// quantile estimates the q-quantile (0 to 1) as circllhist does: the n samples
// of a bin are taken to lie at 1/(n+1), 2/(n+1) … of its width. NaN if empty.
func (v histView) quantile(q float64) float64 {
	if v.count == 0 {
		return math.NaN()
	}
	want := q * float64(v.count)
	lower := 0.0
	for i, b := range v.bins {
		upper := lower + float64(b.n)
		if upper >= want || i == len(v.bins)-1 {
			k := math.Min(math.Max(math.Ceil(want-lower), 1), float64(b.n))
			return b.left + k/float64(b.n+1)*b.width
		}
		lower = upper
	}
	return math.NaN()
}

package stats

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// observe records n samples of each value.
func observe(counts map[uint64]int) *hist {
	h := new(hist)
	for v, n := range counts {
		for range n {
			h.record(v)
		}
	}
	return h
}

// Proves ST-11: what Envoy 1.40 answered for the same samples.
func TestQuantilesAreEnvoys(t *testing.T) {
	for name, tc := range map[string]struct {
		samples map[uint64]int
		want    string
	}{
		"empty":  {nil, "nan nan nan nan nan nan nan nan nan nan"},
		"one":    {map[uint64]int{10: 1}, "10.5 10.5 10.5 10.5 10.5 10.5 10.5 10.5 10.5 10.5"},
		"zeroes": {map[uint64]int{0: 42}, "0 0 0 0 0 0 0 0 0 0"},
		"nine of 250": {
			map[uint64]int{250: 9},
			"251 253 255 257 259 259 259 259 259 259",
		},
		"42 of 11": {
			map[uint64]int{11: 42},
			"11.023255813953488 11.255813953488373 11.488372093023255 11.744186046511627 11.883720930232558 11.930232558139535 11.976744186046512 11.976744186046512 11.976744186046512 11.976744186046512",
		},
		"six apart": {
			map[uint64]int{17: 1, 20: 1, 22: 1, 28: 1, 60: 1, 66: 1},
			"17.5 20.5 22.5 60.5 66.5 66.5 66.5 66.5 66.5 66.5",
		},
		"large": {
			map[uint64]int{0: 43, 345000: 1, 1048576: 1},
			"0 0 0 0 0 0 1050000 1050000 1050000 1050000",
		},
		"many": {map[uint64]int{
			1: 1, 2: 2, 3: 1, 5: 3, 7: 1, 10: 1, 11: 1, 13: 4, 14: 2, 17: 1, 18: 1, 19: 2, 22: 2, 25: 1, 26: 2, 27: 1,
			28: 1, 29: 1, 44: 1, 49: 1, 50: 1, 51: 2, 56: 1, 58: 1, 62: 1, 65: 2, 66: 1, 67: 1, 70: 2,
		}, "1.05 13.2 22.333333333333332 51.333333333333336 65.66666666666667 67.5 70.66666666666667 70.66666666666667 70.66666666666667 70.66666666666667"},
	} {
		t.Run(name, func(t *testing.T) {
			v := observe(tc.samples).view()
			var got []string
			for _, q := range quantiles() {
				got = append(got, string(appendShortest(nil, v.quantile(q))))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got  %s\nwant %s", s, tc.want)
			}
		})
	}
}

// Proves ST-11: a bucket holds the samples of the bin its bound is in, as in
// Envoy.
func TestCumulativeBucketsAreEnvoys(t *testing.T) {
	h := observe(map[uint64]int{1: 1, 2: 2, 3: 1, 5: 4, 7: 1, 8: 1, 11: 2, 13: 1, 15: 2, 17: 2, 18: 1, 20: 1, 21: 2, 22: 1, 24: 2, 28: 3, 29: 1, 46: 1, 73: 9})
	bounds := []float64{1, 10, 20.5, 30, 100}
	got := appendBuckets(nil, bounds, h.view().disjoint(bounds), h.view().cumulative(bounds))
	if want := " B1(1,1) B10(9,10) B20.5(9,19) B30(9,28) B100(10,38)"; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Proves ST-11: every sample is in the bin of its first two digits.
func TestEverySampleIsInItsBin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Draw the bits first, so that all magnitudes are met.
		v := rapid.Uint64().Draw(t, "v") >> rapid.IntRange(0, 63).Draw(t, "shift")
		h := new(hist)
		h.record(v)
		bins := h.view().bins
		if len(bins) != 1 || bins[0].n != 1 {
			t.Fatalf("bins of one sample: %v", bins)
		}
		b, x := bins[0], float64(v)
		if x < b.left*(1-1e-12) || x > (b.left+b.width)*(1+1e-12) {
			t.Fatalf("%d is not in [%v,%v)", v, b.left, b.left+b.width)
		}
		if b.width > x/10*(1+1e-12) {
			t.Fatalf("bin of %d is %v wide: fewer than two digits", v, b.width)
		}
	})
}

// Proves ST-11: the edges of bins, where an estimate of the logarithm is off
// by one first.
func TestMagnitudeAtPowersOfTen(t *testing.T) {
	for n := 1; n < 20; n++ {
		p := pow10(n)
		for _, v := range []uint64{p - 1, p, p + 1, p*2 - 1} {
			if v < 10 {
				continue
			}
			e, d := magnitude(v)
			if d < 10 || d > 99 || v/pow10(e) != d {
				t.Errorf("magnitude(%d) = %d, %d", v, e, d)
			}
		}
	}
	if e, d := magnitude(math.MaxUint64); e != 18 || d != 18 {
		t.Errorf("magnitude(max) = %d, %d", e, d)
	}
}

// Proves ST-11: interval = now - before, and merging loses nothing.
func TestHistogramsAddAndSubtract(t *testing.T) {
	samples := rapid.SliceOfN(rapid.Uint64Range(0, 5000), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		a, b := samples.Draw(t, "a"), samples.Draw(t, "b")
		first, second, both := new(hist), new(hist), new(hist)
		for _, v := range a {
			first.record(v)
			both.record(v)
		}
		for _, v := range b {
			second.record(v)
			both.record(v)
		}
		sum := first.clone()
		sum.add(second)
		equalViews(t, sum.view(), both.view())
		equalViews(t, both.view().minus(first.view()), second.view())
		v, last := both.view(), uint64(0)
		for _, x := range defaultBuckets() {
			n := v.below(x)
			if n < last || n > v.count {
				t.Fatalf("below(%v) = %d after %d of %d", x, n, last, v.count)
			}
			last = n
		}
	})
}

func equalViews(t *rapid.T, got, want histView) {
	t.Helper()
	if got.count != want.count || got.sum != want.sum || len(got.bins) != len(want.bins) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range got.bins {
		if got.bins[i] != want.bins[i] {
			t.Fatalf("bin %d: got %+v, want %+v", i, got.bins[i], want.bins[i])
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, tc := range []struct {
		v                       float64
		shortest, six, js, full string
	}{
		{0.5, "0.5", "0.5", "0.5", "0.5"},
		{300000, "300000", "300000", "3e+05", "300000"},
		{1.8e6, "1800000", "1.8e+06", "1800000", "1800000"},
		{60000, "60000", "60000", "60000", "60000"},
		{1e16, "1e+16", "1e+16", "1e+16", "10000000000000000"},
		{0.00001, "1e-05", "1e-05", "1e-05", "1.0000000000000000818030539140313e-05"},
		{212.0 / 3, "70.66666666666667", "70.6667", "70.66666666666667", "70.666666666666671403618238400668"},
	} {
		got := [4]string{
			string(appendShortest(nil, tc.v)), string(appendSixDigits(nil, tc.v)),
			string(appendJSONNumber(nil, tc.v)), string(appendExact(nil, tc.v)),
		}
		if want := [4]string{tc.shortest, tc.six, tc.js, tc.full}; got != want {
			t.Errorf("%v: got %q, want %q", tc.v, got, want)
		}
	}
}

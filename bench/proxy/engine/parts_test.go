package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBucketsAreInOrderAndClose(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		ns := r.Int64() >> r.IntN(63)
		low := lower(bucket(ns))
		if low > ns || float64(ns-low) > float64(ns)/steps {
			t.Fatalf("%d ns is counted as %d", ns, low)
		}
	}
	if i := bucket(math.MaxInt64); i >= len(Histogram{}.counts) {
		t.Errorf("the longest duration has bucket %d", i)
	}
}

func TestQuantiles(t *testing.T) {
	var h Histogram
	if got := h.Quantile(.5); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	r := rand.New(rand.NewPCG(2, 2))
	var all []int64
	for range 10_000 {
		ns := r.Int64N(1e9)
		all = append(all, ns)
		h.add(ns)
	}
	slices.Sort(all)
	for _, q := range []float64{.001, .5, .9, .99, .999, 1} {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if got := int64(h.Quantile(q)); got > want || float64(want-got) > float64(want)/steps {
			t.Errorf("quantile %g: %d, want %d", q, got, want)
		}
	}
}

func TestContentLength(t *testing.T) {
	for head, want := range map[string]int{
		"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n":               12,
		"HTTP/1.1 200 OK\r\nX: y\r\ncontent-length:3\r\nA: b\r\n\r\n": 3,
		"HTTP/1.1 200 OK\r\nX-Content-Length: 12\r\n\r\n":             -1,
		"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n":              -1,
		"HTTP/1.1 200 OK\r\n\r\n":                                     -1,
	} {
		if got := contentLength([]byte(head)); got != want {
			t.Errorf("%q: %d, want %d", head, got, want)
		}
	}
}

func TestBlockStatus200(t *testing.T) {
	for block, want := range map[string]bool{
		"\x88": true, "\x88\x01": true, "\x20\x88": true, "\x3f\xe1\x1f\x88": true, "\x3f\xe1\x1f\x20\x88": true,
		"": false, "\x89": false, "\x3f": false, "\x3f\xe1": false, "\x20": false, "\x48\x03503": false,
	} {
		if got := blockStatus200([]byte(block)); got != want {
			t.Errorf("%x: %t", block, got)
		}
	}
}

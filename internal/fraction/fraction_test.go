package fraction

import (
	"testing"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		in   *typev3.FractionalPercent
		n, d uint64
	}{
		{nil, 0, 100},
		{&typev3.FractionalPercent{Numerator: 5}, 5, 100},
		{&typev3.FractionalPercent{Numerator: 7, Denominator: typev3.FractionalPercent_TEN_THOUSAND}, 7, 10_000},
		{&typev3.FractionalPercent{Numerator: 9, Denominator: typev3.FractionalPercent_MILLION}, 9, 1_000_000},
		{&typev3.FractionalPercent{Numerator: 1, Denominator: 77}, 1, 100},
	} {
		n, d := Of(c.in)
		if n != c.n || d != c.d {
			t.Errorf("%v: %d of %d, want %d of %d", c.in, n, d, c.n, c.d)
		}
		on := uint64(0)
		for random := range d {
			if On(random, n, d) {
				on++
			}
		}
		if on != n {
			t.Errorf("%v takes in %d of %d numbers", c.in, on, d)
		}
	}
}

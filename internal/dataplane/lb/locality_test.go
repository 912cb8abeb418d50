package lb

import "testing"

// Proves LB-11: the table of the documentation: locality weights 1 and 2, the
// first in part healthy. Its numbers are rounded either way.
func TestLocalityTable(t *testing.T) {
	for healthy, want := range map[int]float64{100: 33, 70: 33, 69: 32, 50: 26, 25: 15, 0: 0} {
		x, y := LocalityShare(1, healthy, 100, 0, 140), LocalityShare(2, 100, 100, 0, 140)
		if got := 100 * x / (x + y); got < want-1 || got > want+1 {
			t.Errorf("%d%% healthy takes %.2f%%, want %v%%", healthy, got, want)
		}
	}
	if LocalityShare(3, 0, 5, 5, 140) != 0 || LocalityShare(0, 5, 5, 0, 140) != 0 || LocalityShare(8, 2, 4, 2, 140) != 8 {
		t.Error("excluded hosts or weight 0")
	}
}

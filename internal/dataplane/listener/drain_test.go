package listener

import (
	"testing"
	"time"
)

// TestDrainStrategies holds the chance of a response against the time that has
// gone by, with every random number there is. Partly proves LM-07.
func TestDrainStrategies(t *testing.T) {
	const whole = 600 * time.Nanosecond // so that all numbers can be tried
	for _, tc := range []struct {
		immediate bool
		gone      time.Duration
		want      int // of whole
	}{
		{false, 0, 0},
		{false, 1, 1},
		{false, 150, 150},
		{false, 300, 300},
		{false, 599, 599},
		{false, 600, 600},
		{false, 10000, 600},
		{true, 0, 600},
		{true, 10, 600},
	} {
		d := &Draining{Since: 1000, Time: whole, Immediate: tc.immediate}
		got := 0
		for random := range uint64(whole) {
			if d.Ends(d.Since+tc.gone, random<<20*uint64(whole)+random) {
				got++
			}
		}
		if got != tc.want {
			t.Errorf("after %v, immediate %v: %d of %d responses end", tc.gone, tc.immediate, got, int(whole))
		}
	}
	none := &Draining{}
	if !none.Ends(0, 5) {
		t.Error("without time, all end at once")
	}
}

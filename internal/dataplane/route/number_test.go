package route

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestNumbersFollowStrconv(t *testing.T) {
	check := func(s string) (ok bool) {
		u, err := strconv.ParseUint(s, 10, 64)
		i, err2 := strconv.ParseInt(s, 10, 64)
		gotU, okU := parseUint(" " + s + "\t")
		gotI, okI := parseInt(s)
		return okU == (err == nil) && (err != nil || gotU == u) && okI == (err2 == nil) && (err2 != nil || gotI == i)
	}
	for _, s := range []string{"", "-", "--1", "-9223372036854775808", "-9223372036854775809", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1x", "0x1", "1_0", "007"} {
		if !check(s) {
			t.Errorf("%q is read otherwise", s)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if s := rapid.StringMatching(`-?[0-9]{0,20}`).Draw(t, "number"); !check(s) {
			t.Fatalf("%q is read otherwise", s)
		}
	})
	for s, want := range map[string]bool{"+5": true, "-+5": false, "+-5": false} {
		if _, ok := parseInt(s); ok != want {
			t.Errorf("%q: %t", s, ok)
		}
	}
}

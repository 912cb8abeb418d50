package listdiff

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func kept(before, now string) []int32 {
	return Kept([]byte(before), []byte(now), func(a, b byte) bool { return a == b }, func(b byte) byte { return b }, func(b byte) byte { return b })
}

// What has stayed is found where it was, wherever it is now, and once.
func TestKept(t *testing.T) {
	for _, tc := range []struct {
		before, now string
		want        []int32
	}{
		{"", "", []int32{}},
		{"", "ab", []int32{-1, -1}},
		{"abc", "", []int32{}},
		{"abc", "abc", []int32{0, 1, 2}},
		{"abc", "axc", []int32{0, -1, 2}},
		{"abc", "xabc", []int32{-1, 0, 1, 2}},
		{"abc", "bc", []int32{1, 2}},
		{"abc", "ac", []int32{0, 2}},
		{"abcde", "axcye", []int32{0, -1, 2, -1, 4}},
		{"abcd", "dcba", []int32{3, 2, 1, 0}},
		{"ab", "aba", []int32{0, 1, -1}},
		{"a", "aa", []int32{0, -1}},
		{"ab", "xaa", []int32{-1, 0, -1}},
	} {
		if got := kept(tc.before, tc.now); !slices.Equal(got, tc.want) {
			t.Errorf("%s to %s: %v, want %v", tc.before, tc.now, got, tc.want)
		}
	}
}

// Of lists at random: what is told is the same, none is told twice, and none that
// has stayed is overlooked.
func TestKeptAtRandom(t *testing.T) {
	letters := func() string {
		var b strings.Builder
		for _, i := range rand.Perm(26)[:rand.IntN(12)] {
			b.WriteByte(byte('a' + i))
		}
		return b.String()
	}
	for range 2000 {
		before, now := letters(), letters()
		seen := map[int32]bool{}
		for i, from := range kept(before, now) {
			was := strings.IndexByte(before, now[i])
			if int(from) != was {
				t.Fatalf("%s to %s: place %d from %d, want %d", before, now, i, from, was)
			}
			if from >= 0 && seen[from] {
				t.Fatalf("%s to %s: %d twice", before, now, from)
			}
			seen[from] = true
		}
	}
}

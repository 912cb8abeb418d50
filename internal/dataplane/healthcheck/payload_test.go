package healthcheck

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// Partly proves HK-04: blocks are found in their order, with anything around them.
func TestFinder(t *testing.T) {
	for _, tt := range []struct {
		stream string
		blocks []string
		want   bool
	}{
		{"", nil, true},
		{"", []string{"a"}, false},
		{"xaxbx", []string{"a", "b"}, true},
		{"xbxax", []string{"a", "b"}, false},
		{"aa", []string{"aa", "a"}, false},
		{"aaa", []string{"aa", "a"}, true},
		{"abab", []string{"abab"}, true},
		{"aabab", []string{"abab"}, true},
	} {
		var blocks [][]byte
		for _, b := range tt.blocks {
			blocks = append(blocks, []byte(b))
		}
		f := newFinder(blocks)
		f.add([]byte(tt.stream))
		if f.done() != tt.want {
			t.Errorf("%q in %q: %v", tt.blocks, tt.stream, f.done())
		}
	}
}

// Partly proves HK-04: however the stream is cut, the same is found, and little of it is kept.
func TestFinderOfPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 0, 40)
		stream := text.Draw(t, "stream")
		blocks := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 1, 4), 0, 4).Draw(t, "blocks")
		want, rest := true, stream
		for _, b := range blocks {
			_, after, ok := bytes.Cut(rest, b)
			want, rest = want && ok, after
		}
		f := newFinder(blocks)
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "piece")
			f.add(stream[:n])
			stream = stream[n:]
			if !f.done() && len(f.tail) >= len(f.blocks[0]) {
				t.Fatalf("%d bytes are kept for a block of %d", len(f.tail), len(f.blocks[0]))
			}
		}
		if f.done() != want {
			t.Errorf("found: %v, want %v", f.done(), want)
		}
	})
}

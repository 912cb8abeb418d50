package filter_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter"
)

// A buffer behaves as a byte slice does, whatever is done to it, and never
// writes to bytes that it only shows.
func TestBufferFollowsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b, other filter.Buffer
		var want, wantOther []byte
		var shown, copies [][]byte
		data := func(t *rapid.T) []byte { return rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data") }
		t.Repeat(map[string]func(*rapid.T){
			"view": func(t *rapid.T) {
				d := data(t)
				shown, copies = append(shown, d), append(copies, slices.Clone(d))
				b.View(d)
				want = slices.Clone(d)
			},
			"append":  func(t *rapid.T) { d := data(t); b.Append(d); want = append(want, d...) },
			"string":  func(t *rapid.T) { d := data(t); b.AppendString(string(d)); want = append(want, d...) },
			"prepend": func(t *rapid.T) { d := data(t); b.Prepend(d); want = append(slices.Clone(d), want...) },
			"drain": func(t *rapid.T) {
				n := rapid.IntRange(0, 12).Draw(t, "n")
				b.Drain(n)
				want = want[min(n, len(want)):]
			},
			"reset": func(*rapid.T) { b.Reset(); want = nil },
			"own":   func(*rapid.T) { b.Own() },
			"move": func(*rapid.T) {
				other.Move(&b)
				wantOther, want = append(wantOther, want...), nil
			},
			"back": func(*rapid.T) {
				b.Move(&other)
				want, wantOther = append(want, wantOther...), nil
			},
			"": func(t *rapid.T) {
				if !bytes.Equal(b.Bytes(), want) || b.Len() != len(want) || !bytes.Equal(other.Bytes(), wantOther) {
					t.Fatalf("%q and %q, want %q and %q", b.Bytes(), other.Bytes(), want, wantOther)
				}
				for i := range shown {
					if !bytes.Equal(shown[i], copies[i]) {
						t.Fatalf("wrote to %q, which was only shown", copies[i])
					}
				}
			},
		})
	})
}

// What is own survives a change of the bytes that were shown.
func TestBufferOwns(t *testing.T) {
	data := []byte("shown")
	var b filter.Buffer
	b.View(data)
	b.Own()
	copy(data, "other")
	if string(b.Bytes()) != "shown" {
		t.Errorf("%q", b.Bytes())
	}
}

func TestBufferAllocatesOnce(t *testing.T) {
	var b filter.Buffer
	data := bytes.Repeat([]byte("x"), 1000)
	b.Append(data)
	if n := testing.AllocsPerRun(100, func() { b.Reset(); b.Append(data) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

package hpack

import (
	"slices"
	"strings"
	"testing"

	xhpack "golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter/header"
)

// TestKnownListsAreSentAsTheyAre has lists that came again and again, changed by
// what lies between decoder and encoder, sent by one encoder that knows them and by
// one that sees only copies: another implementation reads the same of both, but for
// the order of pseudo-headers.
func TestKnownListsAreSentAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var knows, copies Encoder
		knows.Init(DefaultTableSize)
		copies.Init(DefaultTableSize)
		a, b := xhpack.NewDecoder(DefaultTableSize, nil), xhpack.NewDecoder(DefaultTableSize, nil)
		var lists []*header.Frozen
		for range rapid.IntRange(1, 12).Draw(t, "lists") {
			var m header.Map
			for _, f := range rapid.SliceOfN(rapid.Custom(genField), 1, maxRun+2).Draw(t, "list") {
				m.Add(f.n, f.v)
			}
			lists = append(lists, m.Freeze())
		}
		for range rapid.IntRange(1, 100).Draw(t, "blocks") {
			var m, c header.Map
			m.Thaw(rapid.SampledFrom(lists).Draw(t, "which"))
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				change(t, &m)
			}
			c.CopyFrom(&m)
			if limit := rapid.IntRange(0, 60).Draw(t, "limit"); limit < 3 {
				n := []uint32{0, 120, DefaultTableSize}[limit]
				knows.SetLimit(n)
				copies.SetLimit(n)
			}
			got, err := a.DecodeFull(knows.Append(nil, &m))
			want, err2 := b.DecodeFull(copies.Append(nil, &c))
			sortPseudo(got)
			sortPseudo(want)
			if err != nil || err2 != nil || !slices.Equal(got, want) {
				t.Fatalf("%v, %v: sent\n%v, of a copy\n%v", err, err2, got, want)
			}
		}
	})
}

// sortPseudo sorts the pseudo-headers that a list begins with.
func sortPseudo(list []xhpack.HeaderField) {
	n := slices.IndexFunc(list, func(f xhpack.HeaderField) bool { return !f.IsPseudo() })
	if n < 0 {
		n = len(list)
	}
	slices.SortStableFunc(list[:n], func(a, b xhpack.HeaderField) int { return strings.Compare(a.Name, b.Name) })
}

// change is one of what filters do to a list.
func change(t *rapid.T, m *header.Map) {
	f := genField(t)
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		m.Set(f.n, f.v)
	case 1:
		m.Del(f.n)
	case 2:
		m.Add(f.n, f.v)
	case 3:
		if n := len(m.Fields()); n > 0 {
			m.DelAt(rapid.IntRange(0, n-1).Draw(t, "at"))
		}
	default:
		m.AppendValue(f.n, ",", f.v)
	}
}

// TestKnownListIsSentAtOnce once all of its fields are in the tables, and what was
// put into the table by the same list does not mislead.
func TestKnownListIsSentAtOnce(t *testing.T) {
	var e Encoder
	e.Init(DefaultTableSize)
	var m header.Map
	for _, f := range [][2]string{{":method", "GET"}, {":path", "/a"}, {"user-agent", "b"}, {"x-c", "d"}} {
		m.Add(f[0], f[1])
	}
	list := m.Freeze()
	var last []byte
	for range 4 {
		m.Reset()
		m.Thaw(list)
		last = e.Append(nil, &m)
	}
	k := e.indices(list)
	if k.known != k.all || k.all != 0xf || string(last) != string(k.at[:4]) {
		t.Errorf("sent %x, known %b of %b: %x", last, k.known, k.all, k.at[:4])
	}
	m.Reset()
	m.Thaw(list)
	m.Set(":path", "/b")
	if got := e.Append(nil, &m); len(got) <= 4 || got[0] != last[0] {
		t.Errorf("with another path: %x", got)
	}
}

// TestLongListsAreNotSentAtOnce, although the indices of their first fields are known.
func TestLongListsAreNotSentAtOnce(t *testing.T) {
	var e Encoder
	e.Init(DefaultTableSize)
	d := xhpack.NewDecoder(DefaultTableSize, nil)
	var m header.Map
	for i := range maxRun + 3 {
		m.Add(string(rune('a'+i%26))+string(rune('a'+i/26)), "v")
	}
	list := m.Freeze()
	for range 4 {
		m.Reset()
		m.Thaw(list)
		got, err := d.DecodeFull(e.Append(nil, &m))
		if err != nil || len(got) != list.Len() {
			t.Fatalf("%d fields, %v", len(got), err)
		}
	}
}

// TestRunLength at every place of what ends a run.
func TestRunLength(t *testing.T) {
	for _, end := range []byte{0x00, 0x40, 0x7f, 0xff} {
		for n := range maxRun + 9 {
			for _, index := range []byte{0x80, 0x81, 0xfe} {
				b := append(slices.Repeat([]byte{index}, n), end, 0xff, index, 0x00)
				if got := runLength(b); got != min(n, maxRun) {
					t.Errorf("%d indices %x before %x: %d", n, index, end, got)
				}
				if got := runLength(b[:n]); got != min(n, maxRun) {
					t.Errorf("%d indices %x: %d", n, index, got)
				}
			}
		}
	}
}

// TestDecodersShareLists of the same fields, and only those.
func TestDecodersShareLists(t *testing.T) {
	var l Lists
	list := func(kv ...string) *header.Frozen {
		var m header.Map
		for i := 0; i < len(kv); i += 2 {
			m.Add(kv[i], kv[i+1])
		}
		return l.freeze(&m)
	}
	first := list("a", "b", "c", "d")
	if list("a", "b", "c", "d") != first {
		t.Error("two copies of the same fields")
	}
	for _, other := range [][]string{{"a", "b"}, {"a", "b", "c", "e"}, {"a", "b", "c", "d", "e", "f"}, {"c", "d", "a", "b"}, {"a", "bc", "d", ""}} {
		f := list(other...)
		if f == first || f.Len() != len(other)/2 {
			t.Errorf("%q is %d fields", other, f.Len())
		}
	}
	for i := range 1000 {
		list("x", string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	if n := len(l.lists); n != numLists {
		t.Errorf("%d lists are kept", n)
	}
}

package hpack

import (
	"slices"
	"testing"

	xhpack "golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter/header"
)

// TestRememberedRunsAreWhatTheBlockSays has a decoder that remembers beside one
// of another implementation, through blocks of which many come again, changes of
// the table between them, and limits.
func TestRememberedRunsAreWhatTheBlockSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Encoder
		var d, forgetful Decoder
		e.Init(DefaultTableSize)
		d.Init()
		forgetful.Init()
		oracle := xhpack.NewDecoder(DefaultTableSize, nil)
		lists := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(genField), 1, 8), 1, 3).Draw(t, "lists")
		var m header.Map // used again, as a stream's is
		for range rapid.IntRange(100, 400).Draw(t, "blocks") {
			var in header.Map
			for _, f := range rapid.SampledFrom(lists).Draw(t, "list") {
				in.Add(f.n, f.v)
			}
			if rapid.IntRange(0, 150).Draw(t, "more") == 0 {
				in.Add("user-agent", rapid.StringMatching(`[a-z]{1,12}`).Draw(t, "agent"))
			}
			if rapid.IntRange(0, 150).Draw(t, "resize") == 0 {
				e.SetLimit(rapid.SampledFrom([]uint32{0, 100, DefaultTableSize}).Draw(t, "limit"))
			}
			block := e.Append(nil, &in)
			want, err := oracle.DecodeFull(block)
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, f := range want {
				size += len(f.Name) + len(f.Value)
			}
			limit := rapid.SampledFrom([]int{1 << 16, size, max(0, size-1)}).Draw(t, "bytes")
			m.Reset()
			flags, err := d.Decode(block, &m, limit, 100)
			if err != nil || (flags&TooLarge != 0) != (size > limit) {
				t.Fatalf("%d bytes of %d: flags %b, %v", size, limit, flags, err)
			}
			forgetful.memory = memory{}
			if want, err := forgetful.Decode(block, &header.Map{}, limit, 100); flags != want {
				t.Fatalf("flags %b, without a memory %b, %v", flags, want, err)
			}
			if flags&TooLarge != 0 {
				continue
			}
			var got []xhpack.HeaderField
			for _, f := range m.Fields() {
				if f.ID() != header.KnownID(f.Name) || m.Get(f.Name) == "" && f.Value != "" && m.Count(f.Name) == 1 {
					t.Fatalf("%q has id %d and value %q", f.Name, f.ID(), m.Get(f.Name))
				}
				got = append(got, xhpack.HeaderField{Name: f.Name, Value: f.Value})
			}
			for i := range want {
				want[i].Sensitive = false
			}
			if !slices.Equal(got, want) || m.Size() != size || m.Len() != len(want) {
				t.Fatalf("decoded %q, want %q", got, want)
			}
		}
	})
}

// knows tells whether the decoder remembers the run that a block begins with.
func knows(d *Decoder, block []byte) bool {
	n := runLength(block)
	if n < minRun || d.memory.gen != d.t.gen {
		return false
	}
	e := d.memory.runs[slot(block[:n])]
	return e != nil && e.gen == d.t.gen && e.b == string(block[:n])
}

// TestRunsAreRemembered once they came often enough, until the table changes, and
// the list is filled with what they stand for.
func TestRunsAreRemembered(t *testing.T) {
	var d Decoder
	d.Init()
	var m header.Map
	decode := func(block []byte, want string) {
		t.Helper()
		m.Reset()
		if _, err := d.Decode(block, &m, 1<<16, 100); err != nil || m.String() != want {
			t.Fatalf("%v, got\n%swant\n%s", err, &m, want)
		}
	}
	decode([]byte{0x40, 1, 'a', 1, 'b'}, "a: b\n")
	run := []byte{0x82, 0xbe}
	for range 2 * runsBetween {
		decode(run, ":method: GET\na: b\n")
	}
	if !knows(&d, run) {
		t.Fatal("a run that came again and again is not remembered")
	}
	decode(append(run, 0x0f, 0x06, 1, '7'), ":method: GET\na: b\nage: 7\n") // 15 + 6 is age
	decode([]byte{0x40, 1, 'c', 1, 'd'}, "c: d\n")
	if knows(&d, run) {
		t.Error("it is remembered although the table has changed")
	}
	decode(run, ":method: GET\nc: d\n")
}

// TestLongIndicesAreNotOfARun: they take more than a byte.
func TestLongIndicesAreNotOfARun(t *testing.T) {
	var d Decoder
	d.Init()
	var m header.Map
	for i := range byte(70) {
		if _, err := d.Decode([]byte{0x40, 3, 'x', '-', '0' + i, 1, '0' + i}, &m, 1<<16, 100); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 * runsBetween {
		m.Reset()
		flags, err := d.Decode([]byte{0x82, 0x84, 0xff, 2, 0x88}, &m, 1<<16, 100) // 127 + 2 is the third of 70
		if want := ":method: GET\n:path: /\nx-2: 2\n:status: 200\n"; err != nil || flags != 0 || m.String() != want {
			t.Fatalf("flags %b, %v, got\n%swant\n%s", flags, err, &m, want)
		}
	}
}

// TestMemoryIsBounded by the number of runs and the size of each, whatever a
// peer sends, and learns little of blocks that do not come again.
func TestMemoryIsBounded(t *testing.T) {
	var d Decoder
	d.Init()
	var m header.Map
	value := make([]byte, 600)
	for i := range value {
		value[i] = 'v'
	}
	block := appendString(appendString([]byte{0x40}, "x-long", false), string(value), false)
	if _, err := d.Decode(block, &m, 1<<16, 100); err != nil {
		t.Fatal(err)
	}
	for range 10 * runsBetween {
		m.Reset()
		if _, err := d.Decode([]byte{0xbe, 0xbe, 0xbe}, &m, 1<<16, 100); err != nil {
			t.Fatal(err)
		}
	}
	if knows(&d, []byte{0xbe, 0xbe, 0xbe}) {
		t.Error("a list of 1 818 bytes is remembered")
	}
	for i := range byte(60) {
		for j := range byte(60) {
			m.Reset()
			if _, err := d.Decode([]byte{0x81 + i, 0x81 + j}, &m, 1<<16, 100); err != nil {
				t.Fatal(err)
			}
		}
	}
	short := make([]byte, 3)
	n := testing.AllocsPerRun(10, func() {
		for i := range byte(60) {
			m.Reset()
			short[0], short[1], short[2] = 0x81+i, 0x82, 0x81+i
			if _, err := d.Decode(short, &m, 1<<16, 100); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 7*(60/runsBetween+1) {
		t.Errorf("%v allocations for 60 blocks that are not known, of which %d are to be learned", n, 60/runsBetween)
	}
}

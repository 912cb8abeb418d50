package hpack

import (
	"errors"
	"testing"

	xhpack "golang.org/x/net/http2/hpack"

	"github.com/xebec-proxy/xebec/filter/header"
)

// FuzzHPACK decodes anything twice as another implementation does, whole and in
// two parts, with bounded memory; what was decoded survives encoding.
func FuzzHPACK(f *testing.F) {
	var e Encoder
	e.Init(DefaultTableSize)
	var m header.Map
	m.Add(":path", "/x")
	m.Add("user-agent", "curl/8.0")
	m.Add("x-y", "z")
	f.Add(e.Append(nil, &m), e.Append(nil, &m), uint(3))
	f.Add([]byte{0x20, 0x3f, 0xe1, 0x1f, 0x82}, []byte{0x40, 1, 'a', 1, 'b', 0xbe}, uint(0))
	f.Add([]byte{0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff}, []byte{0x10, 0x81, 0xff, 0}, uint(1))
	f.Fuzz(func(t *testing.T, a, b []byte, cut uint) {
		var whole, parts Decoder
		whole.Init()
		parts.Init()
		oracle := xhpack.NewDecoder(DefaultTableSize, nil)
		for _, block := range [][]byte{a, b} {
			var m, m2 header.Map
			flags, err := whole.Decode(block, &m, 1<<20, 1<<12)
			flags2, err2 := inParts(&parts, block, &m2, int(cut%uint(len(block)+1)))
			if !errors.Is(err2, err) || err == nil && (flags != flags2 || m.String() != m2.String()) {
				t.Fatalf("whole %v %b\n%s\nparts %v %b\n%s", err, flags, &m, err2, flags2, &m2)
			}
			if whole.t.size > whole.t.max || cap(whole.t.buf) > 4*DefaultTableSize || len(whole.t.ring) > DefaultTableSize/entryOverhead {
				t.Fatalf("a table of %d bytes has %d, %d entries", whole.t.size, cap(whole.t.buf), len(whole.t.ring))
			}
			want, werr := oracle.DecodeFull(block)
			if err != nil {
				return // the oracle is laxer with size updates, and reads integers that are too large
			}
			if werr != nil {
				if len(block) > 0 && block[0]>>5 == 1 {
					return // two updates for a table with entries, which the oracle does not take
				}
				t.Fatalf("taken, but the oracle says %v", werr)
			}
			if flags&(BadName|TooLarge|TooMany) != 0 {
				return
			}
			if len(want) != m.Len() {
				t.Fatalf("%d fields, want %d", m.Len(), len(want))
			}
			for i, f := range m.Fields() {
				if f.Name != want[i].Name || f.Value != want[i].Value || f.ID() != header.KnownID(f.Name) {
					t.Fatalf("field %d is %q: %q, want %v", i, f.Name, f.Value, want[i])
				}
			}
			reencode(t, &m)
		}
	})
}

func inParts(d *Decoder, block []byte, m *header.Map, cut int) (Flags, error) {
	d.Begin()
	rest, flags, err := d.Part(block[:cut], false, m, 1<<20, 1<<12)
	if err != nil {
		return flags, err
	}
	_, more, err := d.Part(block[cut-rest:], true, m, 1<<20-m.Size(), 1<<12-m.Len())
	return flags | more, err
}

func reencode(t *testing.T, m *header.Map) {
	for id := header.Method; id <= header.Protocol; id++ {
		if m.Count(id.Name()) > 1 {
			return // no message has that
		}
	}
	var e Encoder
	var d Decoder
	e.Init(DefaultTableSize)
	d.Init()
	for range 3 {
		var back header.Map
		if _, err := d.Decode(e.Append(nil, m), &back, 1<<30, 1<<20); err != nil || !same(pairs(&back), wire(m)) {
			t.Fatalf("encoded and decoded: %v\n%s\nwant\n%s", err, &back, m)
		}
	}
}

// TestErrors lists what ends a connection.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		block []byte
		want  error
	}{
		"index 0":               {[]byte{0x80}, ErrIndex},
		"index beyond":          {[]byte{0xbe}, ErrIndex},
		"name index beyond":     {[]byte{0x7e, 0}, ErrIndex},
		"integer overflow":      {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, ErrInteger},
		"integer with zeros":    {[]byte{0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, ErrInteger},
		"integer cut":           {[]byte{0xff, 0x80}, ErrTruncated},
		"string cut":            {[]byte{0x40, 5, 'a'}, ErrTruncated},
		"no value":              {[]byte{0x40, 1, 'a'}, ErrTruncated},
		"Huffman end of string": {[]byte{0x40, 0x84, 0xff, 0xff, 0xff, 0xff, 0}, ErrHuffman},
		"Huffman padding of 0":  {[]byte{0x40, 0x81, 0x18, 0}, ErrHuffman},
		"Huffman long padding":  {[]byte{0x40, 0x82, 0x1f, 0xff, 0}, ErrHuffman},
		"update too large":      {[]byte{0x3f, 0xe2, 0x1f}, ErrTableSize},
		"update in the middle":  {[]byte{0x82, 0x20}, ErrSizeUpdate},
	} {
		var d Decoder
		d.Init()
		if _, err := d.Decode(c.block, &header.Map{}, 1000, 100); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestUpdateIsOwed after the acknowledgement of a smaller table.
func TestUpdateIsOwed(t *testing.T) {
	var d Decoder
	d.Init()
	d.SetLimit(100)
	if _, err := d.Decode([]byte{0x82}, &header.Map{}, 1000, 100); !errors.Is(err, ErrSizeUpdate) {
		t.Errorf("got %v", err)
	}
	d.Init()
	d.SetLimit(100)
	if _, err := d.Decode([]byte{0x3f, 0x45, 0x82}, &header.Map{}, 1000, 100); err != nil {
		t.Error(err)
	}
}

// TestLimits cuts a list short without losing what it does to the table.
func TestLimits(t *testing.T) {
	block := []byte{0x40, 1, 'a', 3, 'b', 'b', 'b', 0x40, 1, 'c', 3, 'd', 'd', 'd'}
	for _, c := range []struct {
		bytes, count, fields int
		flags                Flags
	}{{8, 2, 2, 0}, {7, 2, 1, TooLarge}, {8, 1, 1, TooMany}, {3, 2, 0, TooLarge}} {
		var d Decoder
		d.Init()
		var m, next header.Map
		flags, err := d.Decode(block, &m, c.bytes, c.count)
		if err != nil || flags != c.flags || m.Len() != c.fields {
			t.Errorf("%d bytes, %d fields: %d decoded, flags %b, %v", c.bytes, c.count, m.Len(), flags, err)
		}
		if _, err := d.Decode([]byte{0xbe, 0xbf}, &next, 100, 100); err != nil || next.Get("a") != "bbb" || next.Get("c") != "ddd" {
			t.Errorf("%d bytes, %d fields: the table has %q, %v", c.bytes, c.count, &next, err)
		}
	}
}

// TestSecretsAreNeverIndexed and so cannot be guessed by the size of a block.
func TestSecretsAreNeverIndexed(t *testing.T) {
	var e Encoder
	e.Init(DefaultTableSize)
	for _, n := range []string{"authorization", "proxy-authorization", "set-cookie", "cookie", "x-api-key"} {
		var m header.Map
		m.Add(n, "short secret")
		for range 3 {
			fs, err := xhpack.NewDecoder(DefaultTableSize, nil).DecodeFull(e.Append(nil, &m))
			if err != nil || len(fs) != 1 || !fs[0].Sensitive {
				t.Errorf("%s: %v, %v", n, fs, err)
			}
		}
	}
	if e.t.len() != 0 {
		t.Errorf("the table has %d entries", e.t.len())
	}
}

func benchMap() *header.Map {
	m := &header.Map{}
	for _, f := range [][2]string{
		{":method", "GET"},
		{":scheme", "https"},
		{":authority", "www.example.com"},
		{":path", "/resources/of/this?kind=some"},
		{"user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
		{"accept", "*/*"},
		{"accept-language", "en-US,en;q=0.5"},
		{"accept-encoding", "gzip, deflate, br"},
		{"x-request-id", "7f0f3a4c-91a6-4ba5-8bd6-1a2b3c4d5e6f"},
		{"cookie", "session=0123456789abcdef0123456789abcdef"},
		{"x-custom", "some value"},
	} {
		m.Add(f[0], f[1])
	}
	return m
}

func BenchmarkEncode(b *testing.B) {
	var e Encoder
	e.Init(DefaultTableSize)
	m := benchMap()
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = e.Append(out[:0], m)
	}
	b.ReportMetric(float64(len(out)), "wire-bytes")
}

func BenchmarkDecode(b *testing.B) {
	var e Encoder
	var d Decoder
	e.Init(DefaultTableSize)
	d.Init()
	var m header.Map
	var block []byte
	for range 3 {
		block = e.Append(block[:0], benchMap())
		_, _ = d.Decode(block, &m, 1<<16, 100)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Reset()
		if _, err := d.Decode(block, &m, 1<<16, 100); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHuffmanDecode(b *testing.B) {
	s := "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	code := appendHuffman(nil, s)
	out := make([]byte, 0, 200)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		out, _ = decodeHuffman(out[:0], code)
	}
}

// TestSteadyStateDoesNotAllocate with tables that turn over.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	var e Encoder
	var d Decoder
	e.Init(DefaultTableSize)
	d.Init()
	var m header.Map
	maps := make([]*header.Map, 50)
	for i := range maps {
		maps[i] = benchMap()
		maps[i].Set("user-agent", "agent with a name that fills the table "+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	var block []byte
	i := 0
	run := func() {
		m.Reset()
		block = e.Append(block[:0], maps[i%len(maps)])
		if _, err := d.Decode(block, &m, 1<<16, 100); err != nil {
			t.Fatal(err)
		}
		i++
	}
	for range 1000 {
		run()
	}
	if n := testing.AllocsPerRun(1000, run); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}

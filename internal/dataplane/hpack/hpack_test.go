package hpack

import (
	"bytes"
	"testing"

	xhpack "golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter/header"
)

type pair struct{ n, v string }

func pairs(m *header.Map) []pair {
	var out []pair
	for n, v := range m.All() {
		out = append(out, pair{n, v})
	}
	return out
}

func TestKnownIDsFitTheChains(t *testing.T) {
	for i := range static[1:] {
		f := static[i+1]
		if header.KnownID(f.name) != f.id {
			t.Errorf("static entry %d %q has id %d, want %d", i+1, f.name, f.id, header.KnownID(f.name))
		}
	}
	for id, at := range staticIndex {
		if at != 0 && static[at].id != header.ID(id) {
			t.Errorf("static index of id %d is %d (%s)", id, at, static[at].name)
		}
		if at != 0 && static[at-1].id == header.ID(id) {
			t.Errorf("static index of id %d is not its first", id)
		}
	}
	if header.GRPCAcceptEncoding >= 128 {
		t.Error("ids overlap the chains of other names")
	}
}

func TestHuffmanAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "s"))
		got := appendHuffman(nil, s)
		want := xhpack.AppendHuffmanString(nil, s)
		if !bytes.Equal(got, want) || huffmanLen(s) != len(want) {
			t.Fatalf("%q: %x, want %x", s, got, want)
		}
		back, err := decodeHuffman(nil, got)
		if err != nil || string(back) != s {
			t.Fatalf("decoded %q, %v, want %q", back, err, s)
		}
	})
}

func TestHuffmanRefusesAsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.Just(byte(0xff))), 0, 12).Draw(t, "b")
		got, err := decodeHuffman(nil, b)
		want, werr := xhpack.HuffmanDecodeToString(b)
		if (err != nil) != (werr != nil) || err == nil && string(got) != want {
			t.Fatalf("%x: %q %v, oracle %q %v", b, got, err, want, werr)
		}
	})
}

var someNames = []string{":path", ":method", ":status", "content-type", "x-foo", "x_bar", "cookie", "authorization", "x-request-id", "user-agent", "zzz", "te", "etag", "x-api-key"}

func genField(t *rapid.T) pair {
	n := rapid.OneOf(rapid.SampledFrom(someNames), rapid.StringMatching(`[a-z][a-z0-9-]{0,12}`)).Draw(t, "name")
	v := rapid.OneOf(rapid.SampledFrom([]string{"", "GET", "200", "404", "trailers", "aaaa", "gzip"}), rapid.StringMatching(`[ -~]{0,60}`)).Draw(t, "value")
	return pair{n, v}
}

// TestDecodesWhatOracleEncodes has one table on each side through several blocks and sizes.
func TestDecodesWhatOracleEncodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var buf bytes.Buffer
		enc := xhpack.NewEncoder(&buf)
		var d Decoder
		d.Init()
		d.Allow(8192)
		enc.SetMaxDynamicTableSizeLimit(8192)
		var m header.Map
		for range rapid.IntRange(1, 12).Draw(t, "blocks") {
			if rapid.IntRange(0, 3).Draw(t, "resize") == 0 {
				enc.SetMaxDynamicTableSize(uint32(rapid.IntRange(0, 8192).Draw(t, "size")))
			}
			buf.Reset()
			m.Reset()
			var want []pair
			for range rapid.IntRange(0, 20).Draw(t, "fields") {
				f := genField(t)
				want = append(want, f)
				if err := enc.WriteField(xhpack.HeaderField{Name: f.n, Value: f.v, Sensitive: rapid.IntRange(0, 5).Draw(t, "s") == 0}); err != nil {
					t.Fatal(err)
				}
			}
			flags, err := d.Decode(buf.Bytes(), &m, 1<<20, 1000)
			if err != nil || flags&^Underscore != 0 {
				t.Fatalf("flags %b, %v", flags, err)
			}
			equal(t, pairs(&m), want)
		}
	})
}

// TestOracleDecodesWhatIsEncoded changes the table's size at times.
func TestOracleDecodesWhatIsEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Encoder
		e.Init(uint32(rapid.SampledFrom([]int{0, 100, 4096, 65536}).Draw(t, "own")))
		var d Decoder
		d.Init()
		d.Allow(65536)
		dec := xhpack.NewDecoder(4096, nil)
		dec.SetAllowedMaxDynamicTableSize(65536)
		for range rapid.IntRange(1, 12).Draw(t, "blocks") {
			for range rapid.IntRange(0, 2).Draw(t, "resizes") {
				e.SetLimit(uint32(rapid.IntRange(0, 9000).Draw(t, "size")))
			}
			var m, back header.Map
			for range rapid.IntRange(0, 20).Draw(t, "fields") {
				f := genField(t)
				if f.n[0] == ':' && m.Has(f.n) {
					continue
				}
				m.Add(f.n, f.v)
			}
			block := e.Append(nil, &m)
			got, err := dec.DecodeFull(block)
			if err != nil {
				t.Fatal(err)
			}
			var gp []pair
			for _, f := range got {
				gp = append(gp, pair{f.Name, f.Value})
				if f.Name == "authorization" && !f.Sensitive {
					t.Fatal("authorization is not marked as never indexed")
				}
			}
			equal(t, gp, wire(&m))
			if _, err := d.Decode(block, &back, 1<<20, 1000); err != nil {
				t.Fatal(err)
			}
			equal(t, pairs(&back), wire(&m))
		}
	})
}

// wire is what of a list is sent, in its order.
func wire(m *header.Map) []pair {
	var first, rest []pair
	for id := header.Method; id <= header.Protocol; id++ {
		if v, ok := m.LookupID(id); ok {
			first = append(first, pair{id.Name(), v})
		}
	}
	for _, f := range pairs(m) {
		switch {
		case f.n[0] == ':':
		case f.n == "te" && f.v != "trailers", f.n == "connection", f.n == "upgrade", f.n == "keep-alive", f.n == "proxy-connection", f.n == "transfer-encoding":
		default:
			rest = append(rest, f)
		}
	}
	return append(first, rest...)
}

func equal(t *rapid.T, got, want []pair) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v\nwant %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("field %d is %v, want %v", i, got[i], want[i])
		}
	}
}

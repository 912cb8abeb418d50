package http2

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// result is all that can be seen of a connection that was fed some bytes.
type result struct {
	log    []string
	bodies map[uint32]string
	wire   []string // what was received of streams when they were told of heads and trailers
	out    []byte
	err    string
}

// play feeds a connection in pieces whose lengths follow from cut. Its handler
// answers, and may meddle with streams from within callbacks of others.
func play(t *testing.T, role Role, o *Options, in, cut []byte, meddling bool) result {
	p := newPeer(t, role, o)
	depth := 0
	var meddle func()
	var wire []string
	received := func(s *Stream) {
		_, n := s.Wire()
		wire = append(wire, fmt.Sprint(s.ID, n))
	}
	p.onHeaders = func(s *Stream, _ bool) {
		received(s)
		defer meddle()
		switch s.ID % 16 {
		case 1: // answer, and go on with the request
			if role == Server {
				s.SendHeaders(fields(":status", "200"), false)
				s.SendData(bytes.Repeat([]byte("x"), 40000), true)
			}
		case 3:
			s.Reset(Cancel)
		case 5:
			s.ResetWhenSent(NoError)
			if role == Server {
				s.SendHeaders(fields(":status", "204"), true)
			}
		}
	}
	events := 0
	meddle = func() { // with another stream, from within a callback
		if !meddling {
			return
		}
		events++
		other := p.streams[uint32(events*7%16)|1]
		if other == nil {
			return
		}
		switch events % 8 {
		case 0:
			other.Reset(InternalError)
		case 1:
			other.SendData(bytes.Repeat([]byte("z"), 3000), false)
		case 2:
			other.SendTrailers(fields("t", "u"))
		case 3:
			p.c.SetWriteBlocked(events%16 == 3)
		case 4:
			other.ResetWhenSent(NoError)
		}
	}
	p.onTrailers = func(s *Stream) { received(s); meddle() }
	p.onReset = func(*Stream) { meddle() }
	p.onWritable = func(s *Stream) { s.SendData([]byte("more"), true) }
	p.onClosed = func(s *Stream) {
		meddle()
		if role == Client && meddling && depth < 3 && p.c.CanOpen() {
			depth++
			p.start(get("/again"), s.ID%2 == 0)
			depth--
		}
	}
	if role == Client {
		for i := range 4 {
			s := p.start(get("/"), i%2 == 0)
			if i%2 == 1 {
				s.SendData(bytes.Repeat([]byte("y"), 30000), true)
			}
		}
	}
	var err error
	for len(in) > 0 && err == nil {
		n := len(in)
		if len(cut) > 0 {
			n = min(n, int(cut[0]%40)+1)
			cut = append(cut[1:len(cut):len(cut)], cut[0])
		}
		err = p.c.Feed(bytes.Clone(in[:n]))
		in = in[n:]
	}
	if e := p.c.Err(); (err == nil) != (e == nil) {
		t.Fatalf("Feed says %v, Err %v", err, e)
	}
	r := result{bodies: map[uint32]string{}, wire: wire, out: bytes.Clone(p.out)}
	if err != nil {
		r.err = err.Error()
	}
	p.c.Close(InternalError, "end")
	if p.c.Unsent() != 0 || p.open != 0 || p.c.Active() != 0 || p.c.ready.first != nil {
		t.Fatalf("%d streams open after the end, %d active", p.open, p.c.Active())
	}
	if n := cap(p.c.pend) + cap(p.c.block); n > 4<<20 {
		t.Fatalf("%d bytes kept", n)
	}
	r.log = p.log
	for id, b := range p.bodies {
		r.bodies[id] = b.String()
	}
	return r
}

func checkSplit(t *testing.T, role Role, in, cut []byte) {
	o := &Options{MaxConcurrentStreams: 8, StreamWindow: 1000, ConnWindow: 70000, StreamBufferHigh: 5000}
	if len(cut) > 0 {
		o.StreamErrors = cut[0]&1 != 0
		o.Underscores = Underscores(cut[0] >> 1 % 3)
	}
	checkBatch(t, role, *o, in, cut)
	whole, split := play(t, role, o, in, nil, true), play(t, role, o, in, cut, true)
	if whole.err != split.err || !slices.Equal(whole.log, split.log) || fmt.Sprint(whole.bodies) != fmt.Sprint(split.bodies) {
		t.Fatalf("whole: %s\n%q\n%v\nsplit: %s\n%q\n%v", whole.err, whole.log, whole.bodies, split.err, split.log, split.bodies)
	}
	if !bytes.Equal(whole.out, split.out) {
		t.Fatalf("output of the whole:\n%x\nof the parts:\n%x", whole.out, split.out)
	}
	checkOutput(t, role, whole.out)
}

// checkBatch shows that a stream hears the same of its peer whether it is told at
// once or in batches, whatever the split.
func checkBatch(t *testing.T, role Role, o Options, in, cut []byte) {
	want := play(t, role, &o, in, cut, false)
	o.Batch = true
	checkOutput(t, role, play(t, role, &o, in, nil, true).out)
	for _, cut := range [][]byte{nil, cut} {
		got := play(t, role, &o, in, cut, false)
		if got.err != want.err || fmt.Sprint(byStream(got.log)) != fmt.Sprint(byStream(want.log)) || fmt.Sprint(got.bodies) != fmt.Sprint(want.bodies) || fmt.Sprint(byStream(got.wire)) != fmt.Sprint(byStream(want.wire)) {
			t.Fatalf("at once: %s\n%q\n%v %q\nin batches: %s\n%q\n%v %q", want.err, want.log, want.bodies, want.wire, got.err, got.log, got.bodies, got.wire)
		}
	}
}

// byStream sorts a log by its first word.
func byStream(log []string) []string {
	log = slices.Clone(log)
	slices.SortStableFunc(log, func(a, b string) int {
		a, _, _ = strings.Cut(a, " ")
		b, _, _ = strings.Cut(b, " ")
		return strings.Compare(a, b)
	})
	return log
}

// checkOutput shows that what is sent is well-formed for another implementation.
func checkOutput(t *testing.T, role Role, out []byte) {
	if role == Client {
		out = out[len(preface):]
	}
	fr := http2.NewFramer(nil, bytes.NewReader(out))
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		_, err := fr.ReadFrame()
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("the output is no HTTP/2: %v", err)
			}
			return
		}
	}
}

func seeds(role Role) [][]byte {
	var all [][]byte
	add := func(f func(fr *http2.Framer, enc func(kv ...string) []byte)) {
		var b, hb bytes.Buffer
		if role == Server {
			b.WriteString(preface)
		}
		fr := http2.NewFramer(&b, nil)
		fr.AllowIllegalWrites = true
		_ = fr.WriteSettings()
		e := hpack.NewEncoder(&hb)
		f(fr, func(kv ...string) []byte {
			hb.Reset()
			for i := 0; i < len(kv); i += 2 {
				_ = e.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]})
			}
			return bytes.Clone(hb.Bytes())
		})
		all = append(all, b.Bytes())
	}
	headOf := []string{":method", "POST", ":scheme", "http", ":path", "/x", ":authority", "a", "x_a", "b"}
	if role == Client {
		headOf = []string{":status", "200", "server", "x"}
	}
	for _, id := range []uint32{1, 3, 5, 7} {
		add(func(fr *http2.Framer, enc func(kv ...string) []byte) {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: enc(headOf...), EndHeaders: true, PadLength: 3})
			_ = fr.WriteDataPadded(id, false, bytes.Repeat([]byte("d"), 700), make([]byte, 9))
			_ = fr.WriteData(id, true, bytes.Repeat([]byte("e"), 200))
			_ = fr.WriteWindowUpdate(id, 100000)
			_ = fr.WriteWindowUpdate(0, 100000)
			_ = fr.WritePing(false, [8]byte{1})
			_ = fr.WriteGoAway(id, http2.ErrCodeNo, []byte("bye"))
		})
		add(func(fr *http2.Framer, enc func(kv ...string) []byte) {
			b := enc(headOf...)
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:3]})
			_ = fr.WriteContinuation(id, true, b[3:])
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: enc("x-t", "1"), EndHeaders: true, EndStream: true})
			_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
			_ = fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
			_ = fr.WritePriority(id, http2.PriorityParam{StreamDep: id})
			_ = fr.WriteRawFrame(0x77, 1, id, []byte("?"))
		})
	}
	return all
}

// FuzzServer shows that how bytes are cut changes nothing, that nothing
// panics or is left behind, and that what is sent is HTTP/2. Partly proves OV-10.
func FuzzServer(f *testing.F) {
	for _, s := range seeds(Server) {
		f.Add(s, []byte{7, 0, 30})
	}
	f.Fuzz(func(t *testing.T, in, cut []byte) {
		if !bytes.HasPrefix(in, []byte(preface)) && len(in)%2 == 0 { // mostly beyond the preface
			in = append([]byte(preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"), in...)
		}
		checkSplit(t, Server, in, cut)
	})
}

// FuzzClient is FuzzServer for the other side.
func FuzzClient(f *testing.F) {
	for _, s := range seeds(Client) {
		f.Add(s, []byte{7, 0, 30})
	}
	f.Fuzz(func(t *testing.T, in, cut []byte) { checkSplit(t, Client, in, cut) })
}

// TestSplitsOfSeeds runs the seeds of the fuzz targets cut in every length.
func TestSplitsOfSeeds(t *testing.T) {
	for role := Server; role <= Client; role++ {
		for _, s := range seeds(role) {
			for n := range 40 {
				checkSplit(t, role, s, []byte{byte(n)})
			}
		}
	}
}

// TestUnknownFramesAreIgnored also within a connection that goes on.
func TestUnknownFramesAreIgnored(t *testing.T) {
	p := newPeer(t, Server, nil)
	in := []byte(preface)
	in = appendHead(in, 0, typeSettings, 0, 0)
	for typ := 10; typ < 256; typ++ {
		in = append(appendHead(in, 3, byte(typ), 0xff, uint32(typ)), "abc"...)
	}
	in = append(appendHead(in, 8, typePing, 0, 0), "12345678"...)
	if err := p.c.Feed(in); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(p.out, append(appendHead(nil, 8, typePing, flagAck, 0), "12345678"...)) {
		t.Errorf("no answer to the PING: %x", p.out)
	}
}

// frames is the frames of an output, as text.
func frames(t *testing.T, out []byte) []string {
	t.Helper()
	var l []string
	for len(out) > 0 {
		h := parseHead(out)
		p := out[frameHead : frameHead+h.length]
		out = out[frameHead+h.length:]
		switch h.typ {
		case typeRST:
			l = append(l, fmt.Sprintf("RST %d %s", h.id, ErrCode(binary.BigEndian.Uint32(p))))
		case typeGoAway:
			l = append(l, fmt.Sprintf("GOAWAY %d %s", binary.BigEndian.Uint32(p), ErrCode(binary.BigEndian.Uint32(p[4:]))))
		case typeWindowUpdate:
			l = append(l, fmt.Sprintf("WINDOW %d %d", h.id, binary.BigEndian.Uint32(p)))
		case typeSettings:
			l = append(l, fmt.Sprintf("SETTINGS %x %d", p, h.flags))
		case typeData:
			l = append(l, fmt.Sprintf("DATA %d %d %d", h.id, h.length, h.flags))
		case typeHeaders:
			l = append(l, fmt.Sprintf("HEADERS %d %d", h.id, h.flags))
		case typePing:
			l = append(l, fmt.Sprintf("PING %d", h.flags))
		default:
			l = append(l, fmt.Sprintf("frame %d", h.typ))
		}
	}
	return l
}

package http2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"
)

// writeRandomFrame appends a frame that is mostly what a peer could send.
func writeRandomFrame(t *rapid.T, role Role, fr *http2.Framer, enc *hpack.Encoder, hb *bytes.Buffer) {
	id := uint32(rapid.IntRange(0, 7).Draw(t, "stream"))*2 + 1
	if rapid.IntRange(0, 60).Draw(t, "odd") == 0 {
		id = uint32(rapid.IntRange(0, 40).Draw(t, "any stream"))
	}
	n := rapid.SampledFrom([]int{0, 1, 3, 50, 200, 999, 1000, 1001}).Draw(t, "length")
	end := rapid.Bool().Draw(t, "end")
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 0, 1, 2, 3, 4:
		hb.Reset()
		f := randomHead(t, role)
		for i := 0; i < len(f); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: f[i], Value: f[i+1]})
		}
		b := hb.Bytes()
		k := len(b)
		if rapid.IntRange(0, 3).Draw(t, "continued") == 0 {
			k = rapid.IntRange(0, len(b)).Draw(t, "first")
		}
		_ = fr.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: b[:k], EndHeaders: k == len(b), EndStream: end,
			PadLength: uint8(rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "pad")),
		})
		if k < len(b) {
			_ = fr.WriteContinuation(id, true, b[k:])
		}
	case 5, 6, 7:
		_ = fr.WriteData(id, end, make([]byte, n))
	case 8:
		_ = fr.WriteDataPadded(id, end, make([]byte, n), make([]byte, n%256))
	case 9:
		_ = fr.WriteRSTStream(id, http2.ErrCode(rapid.IntRange(0, 14).Draw(t, "code")))
	case 10:
		if rapid.Bool().Draw(t, "connection") {
			id = 0
		}
		_ = fr.WriteWindowUpdate(id, uint32(max(1, n*50)))
	case 11:
		_ = fr.WriteSettings(http2.Setting{
			ID:  http2.SettingID(rapid.SampledFrom([]int{1, 3, 4, 4, 5, 99}).Draw(t, "setting")),
			Val: uint32(rapid.SampledFrom([]int{0, 100, 16384, 40000, 100000}).Draw(t, "value")),
		})
	case 12:
		_ = fr.WriteGoAway(id, http2.ErrCodeNo, nil)
	default:
		_ = fr.WritePriority(id, http2.PriorityParam{StreamDep: uint32(n)})
	}
}

func randomHead(t *rapid.T, role Role) []string {
	f := []string{":method", "POST", ":scheme", "http", ":path", "/x", ":authority", "a"}
	if role == Client {
		f = []string{":status", rapid.SampledFrom([]string{"200", "100", "103", "204", "404", "101"}).Draw(t, "status")}
	}
	if rapid.IntRange(0, 4).Draw(t, "trailers") == 0 {
		f = nil
	}
	switch rapid.IntRange(0, 12).Draw(t, "extra") {
	case 0:
		f = append(f, "content-length", fmt.Sprint(rapid.SampledFrom([]int{0, 1, 3, 50, 200}).Draw(t, "length")))
	case 1:
		f = append(f, "cookie", "a=b", "cookie", "c=d")
	case 2:
		f = append(f, "x_y", "z")
	case 3:
		f = append(f, "connection", "close")
	case 4:
		f = append(f, "X-Y", "z")
	case 5:
		f = append(f, "x-y", rapid.StringN(0, 20, 40).Draw(t, "value"))
	}
	return f
}

// TestRandomFrames plays random frames whole and cut: as in the fuzz targets,
// with inputs that go deeper.
func TestRandomFrames(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		role := Role(rapid.IntRange(0, 1).Draw(rt, "role"))
		var b, hb bytes.Buffer
		if role == Server {
			b.WriteString(preface)
		}
		fr := http2.NewFramer(&b, nil)
		fr.AllowIllegalWrites = true
		_ = fr.WriteSettings()
		enc := hpack.NewEncoder(&hb)
		for range rapid.IntRange(1, 30).Draw(rt, "frames") {
			writeRandomFrame(rt, role, fr, enc, &hb)
		}
		cut := rapid.SliceOfN(rapid.Byte(), 1, 5).Draw(rt, "cut")
		checkSplit(t, role, b.Bytes(), cut)
	})
}

// flowSide is what one side of TestFlowControl has still to send.
type flowSide struct {
	*peer
	todo  map[uint32]int // bytes not yet given to the codec
	given map[uint32]int
}

// TestFlowControl sends bodies of many streams in a random order through
// windows and blocked sockets: neither side ever sends more than it may, and in
// the end everything arrives.
// Partly proves HC-04.
func TestFlowControl(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		opts := func() *Options {
			return &Options{
				StreamWindow:     uint32(rapid.IntRange(1, 3000).Draw(rt, "stream window")),
				ConnWindow:       uint32(rapid.IntRange(65535, 70000).Draw(rt, "conn window")),
				StreamBufferHigh: rapid.IntRange(1, 5000).Draw(rt, "high"), MaxFrameSize: 16384,
				OutputHigh:               rapid.IntRange(1, 30000).Draw(rt, "output"),
				MaxOutboundControlFrames: 1 << 20, MaxWindowUpdateFrames: 1 << 20, MaxOutboundFrames: 1 << 20,
			}
		}
		cl := flowSide{newPeer(t, Client, opts()), map[uint32]int{}, map[uint32]int{}}
		sv := flowSide{newPeer(t, Server, opts()), map[uint32]int{}, map[uint32]int{}}
		cl.consume, sv.consume = false, false
		sizes := rapid.SliceOfN(rapid.IntRange(0, 20000), 1, 6).Draw(rt, "sizes")
		n := 0
		sv.onHeaders = func(s *Stream, _ bool) {
			s.SendHeaders(fields(":status", "200"), false)
			sv.todo[s.ID] = sizes[n%len(sizes)] / 2
			n++
		}
		for _, size := range sizes {
			s := cl.start(get("/"), false)
			cl.todo[s.ID] = size
		}
		for i := 0; len(cl.streams)+len(sv.streams)+len(cl.todo)+len(sv.todo) > 0; i++ {
			if i > 200000 {
				rt.Fatalf("stuck: client %v %v server %v %v", cl.todo, cl.c.sendWindow, sv.todo, sv.c.sendWindow)
			}
			from, to := &cl, &sv
			if i%2 == 0 {
				from, to = &sv, &cl
			}
			fair := i > 2000 // towards the end, nothing is held back
			flowStep(rt, from, to, fair)
		}
		for _, p := range []*flowSide{&cl, &sv} {
			if n := p.c.Unsent(); n != 0 {
				rt.Fatalf("%d bytes unsent", n)
			}
			for _, l := range p.log {
				if strings.Contains(l, "reset") {
					rt.Fatalf("a stream was reset: %s", l)
				}
			}
			for id, want := range p.given {
				other := &sv
				if p == &sv {
					other = &cl
				}
				got := 0
				if b := other.bodies[id]; b != nil {
					got = b.Len()
				}
				if got != want {
					rt.Fatalf("stream %d: %d bytes arrived of %d", id, got, want)
				}
			}
		}
	})
}

// flowStep does one thing; the receiving codec judges what is sent against the windows.
func flowStep(rt *rapid.T, from, to *flowSide, fair bool) {
	kind := 0
	if !fair {
		kind = rapid.IntRange(0, 4).Draw(rt, "step")
	}
	if kind == 1 {
		from.c.SetWriteBlocked(!from.c.blocked)
	}
	if fair {
		from.c.SetWriteBlocked(false)
	}
	for id, s := range from.streams {
		if left, ok := from.todo[id]; ok && (fair || kind == 2) && s.Buffered() < 6000 {
			k := left
			if !fair {
				k = min(left, 700)
			}
			from.given[id] += k
			if from.todo[id] -= k; from.todo[id] == 0 {
				delete(from.todo, id)
			}
			s.SendData(make([]byte, k), k == left)
		}
		if s := from.streams[id]; s != nil && (fair || kind == 3) {
			s.Consumed(s.Unread())
		}
	}
	if fair || kind == 4 || kind == 0 {
		out := bytes.Clone(from.out)
		from.written()
		if err := to.c.Feed(out); err != nil {
			rt.Fatalf("the peer sent too much: %v", err)
		}
	}
}

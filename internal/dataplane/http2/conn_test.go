package http2

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/xebec-proxy/xebec/filter/header"
)

// TestConnectionErrors lists what ends a connection (RFC 9113), on the server's
// side unless said otherwise.
func TestConnectionErrors(t *testing.T) {
	raw1 := func(typ http2.FrameType, flags http2.Flags, id uint32, n int) func(r *raw) {
		return func(r *raw) { _ = r.WriteRawFrame(typ, flags, id, make([]byte, n)) }
	}
	for _, c := range []struct {
		name string
		role Role
		code ErrCode
		f    func(r *raw)
	}{
		{"large frame", Server, FrameSizeError, raw1(http2.FrameHeaders, 0, 1, 16385)},
		{"DATA on 0", Server, ProtocolError, raw1(http2.FrameData, 0, 0, 1)},
		{"DATA on idle", Server, ProtocolError, raw1(http2.FrameData, 0, 1, 1)},
		{"HEADERS on 0", Server, ProtocolError, raw1(http2.FrameHeaders, 4, 0, 1)},
		{"HEADERS on even", Server, ProtocolError, raw1(http2.FrameHeaders, 4, 2, 1)},
		{"HEADERS with long padding", Server, ProtocolError, func(r *raw) { _ = r.WriteRawFrame(http2.FrameHeaders, 0xc, 1, []byte{5, 0x82}) }},
		{"DATA with long padding", Server, ProtocolError, func(r *raw) {
			r.head(1, false, with()...)
			_ = r.WriteRawFrame(http2.FrameData, 8, 1, []byte{5, 0, 0})
		}},
		{"HEADERS too short for priority", Server, FrameSizeError, raw1(http2.FrameHeaders, 0x24, 1, 4)},
		{"self-dependency", Server, ProtocolError, func(r *raw) {
			_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.block(with()...), EndHeaders: true, Priority: http2.PriorityParam{StreamDep: 1, Weight: 1}})
		}},
		{"bad HPACK", Server, CompressionError, func(r *raw) {
			_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0x7f}, EndHeaders: true})
		}},
		{"PRIORITY on 0", Server, ProtocolError, raw1(http2.FramePriority, 0, 0, 5)},
		{"RST_STREAM on idle", Server, ProtocolError, raw1(http2.FrameRSTStream, 0, 1, 4)},
		{"RST_STREAM on 0", Server, ProtocolError, raw1(http2.FrameRSTStream, 0, 0, 4)},
		{"RST_STREAM of 3 bytes", Server, FrameSizeError, raw1(http2.FrameRSTStream, 0, 1, 3)},
		{"SETTINGS on 1", Server, ProtocolError, raw1(http2.FrameSettings, 0, 1, 0)},
		{"SETTINGS of 5 bytes", Server, FrameSizeError, raw1(http2.FrameSettings, 0, 0, 5)},
		{"SETTINGS ack with bytes", Server, FrameSizeError, raw1(http2.FrameSettings, 1, 0, 6)},
		{"ENABLE_PUSH 2", Server, ProtocolError, func(r *raw) { _ = r.WriteSettings(http2.Setting{ID: 2, Val: 2}) }},
		{"ENABLE_PUSH 1 of a server", Client, ProtocolError, func(r *raw) { _ = r.WriteSettings(http2.Setting{ID: 2, Val: 1}) }},
		{"INITIAL_WINDOW", Server, FlowControlError, func(r *raw) { _ = r.WriteSettings(http2.Setting{ID: 4, Val: 1 << 31}) }},
		{"MAX_FRAME_SIZE small", Server, ProtocolError, func(r *raw) { _ = r.WriteSettings(http2.Setting{ID: 5, Val: 16383}) }},
		{"MAX_FRAME_SIZE large", Server, ProtocolError, func(r *raw) { _ = r.WriteSettings(http2.Setting{ID: 5, Val: 1 << 24}) }},
		{"ENABLE_CONNECT_PROTOCOL 2", Server, ProtocolError, func(r *raw) { _ = r.WriteSettings(http2.Setting{ID: 8, Val: 2}) }},
		{"PUSH_PROMISE to a server", Server, ProtocolError, raw1(http2.FramePushPromise, 4, 1, 8)},
		{"PUSH_PROMISE to a client", Client, ProtocolError, raw1(http2.FramePushPromise, 4, 1, 8)},
		{"HEADERS of a stream the client did not open", Client, ProtocolError, raw1(http2.FrameHeaders, 4, 1, 1)},
		{"PING on 1", Server, ProtocolError, raw1(http2.FramePing, 0, 1, 8)},
		{"PING of 7 bytes", Server, FrameSizeError, raw1(http2.FramePing, 0, 0, 7)},
		{"GOAWAY on 1", Server, ProtocolError, raw1(http2.FrameGoAway, 0, 1, 8)},
		{"GOAWAY of 7 bytes", Server, FrameSizeError, raw1(http2.FrameGoAway, 0, 0, 7)},
		{"WINDOW_UPDATE of 3 bytes", Server, FrameSizeError, raw1(http2.FrameWindowUpdate, 0, 0, 3)},
		{"WINDOW_UPDATE of 0", Server, ProtocolError, raw1(http2.FrameWindowUpdate, 0, 0, 4)},
		{"WINDOW_UPDATE on idle", Server, ProtocolError, func(r *raw) { _ = r.WriteWindowUpdate(1, 1) }},
		{"WINDOW_UPDATE overflow", Server, FlowControlError, func(r *raw) { _ = r.WriteWindowUpdate(0, 1<<31-1) }},
		{"CONTINUATION alone", Server, ProtocolError, raw1(http2.FrameContinuation, 4, 1, 1)},
		{"header block interrupted", Server, ProtocolError, func(r *raw) {
			_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.block(with()...)})
			_ = r.WritePing(false, [8]byte{})
		}},
		{"CONTINUATION of another stream", Server, ProtocolError, func(r *raw) {
			_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.block(with()...)})
			_ = r.WriteContinuation(3, true, nil)
		}},
		{"smaller stream id", Server, ProtocolError, func(r *raw) {
			r.head(5, true, with()...)
			r.head(3, true, with()...)
		}},
		{"HEADERS after the end of both sides", Server, StreamClosed, func(r *raw) {
			r.head(1, true, with("x-answer", "1")...)
			r.head(1, true, with()...)
		}},
		{"HEADERS after RST_STREAM", Server, StreamClosed, func(r *raw) {
			r.head(1, false, with()...)
			_ = r.WriteRSTStream(1, http2.ErrCodeCancel)
			r.head(1, true, with()...)
		}},
		{"DATA beyond the connection's window", Server, FlowControlError, func(r *raw) {
			r.head(1, false, with()...)
			for range 5 {
				_ = r.WriteData(1, false, make([]byte, 16384))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, c.role, &Options{ConnWindow: 65535})
			p.consume = false
			p.onHeaders = func(s *Stream, _ bool) {
				if s.Headers.Has("x-answer") {
					s.SendHeaders(fields(":status", "200"), true)
				}
			}
			r := newRaw(c.role)
			c.f(r)
			sent, err := r.feed(t, p)
			if err == nil || err.Code != c.code {
				t.Fatalf("got %v, want %s", err, c.code)
			}
			if last := sent[len(sent)-1]; !strings.HasPrefix(last, "GOAWAY ") || !strings.HasSuffix(last, " "+c.code.String()) {
				t.Errorf("sent %q", sent)
			}
			if err2 := p.c.Feed([]byte("x")); !errors.Is(err2, err) {
				t.Errorf("the next Feed says %v", err2)
			}
			n := len(p.out)
			p.c.Ping([8]byte{})
			p.c.Close(InternalError, "closed")
			if len(p.out) != n || p.open != 0 {
				t.Errorf("%d bytes sent after the end, %d streams left", len(p.out)-n, p.open)
			}
		})
	}
}

// TestStreamErrors lists what ends one stream only.
func TestStreamErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		want string
		f    func(r *raw)
	}{
		{"WINDOW_UPDATE of 0", "RST 1 PROTOCOL_ERROR", func(r *raw) { _ = r.WriteRawFrame(8, 0, 1, make([]byte, 4)) }},
		{"WINDOW_UPDATE overflow", "RST 1 FLOW_CONTROL_ERROR", func(r *raw) { _ = r.WriteWindowUpdate(1, 1<<31-1) }},
		{"DATA beyond the window", "RST 1 FLOW_CONTROL_ERROR", func(r *raw) {
			_ = r.WriteSettingsAck()
			_ = r.WriteData(1, false, make([]byte, 1001))
		}},
		{"self-dependency", "RST 1 PROTOCOL_ERROR", func(r *raw) { _ = r.WritePriority(1, http2.PriorityParam{StreamDep: 1}) }},
		{"PRIORITY of 4 bytes", "RST 1 FRAME_SIZE_ERROR", func(r *raw) { _ = r.WriteRawFrame(2, 0, 1, make([]byte, 4)) }},
		{"DATA after END_STREAM", "RST 1 STREAM_CLOSED", func(r *raw) {
			_ = r.WriteData(1, true, nil)
			_ = r.WriteData(1, true, nil)
		}},
		{"HEADERS after END_STREAM", "RST 1 STREAM_CLOSED", func(r *raw) {
			_ = r.WriteData(1, true, nil)
			r.head(1, true, "x", "y")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, Server, &Options{StreamWindow: 1000})
			r := newRaw(Server)
			r.head(1, false, with()...)
			c.f(r)
			r.head(3, true, with()...)
			sent, err := r.feed(t, p)
			if err != nil || !slices.Contains(sent, c.want) || p.c.Active() != 1 {
				t.Errorf("sent %q, %v, %d streams, log %q", sent, err, p.c.Active(), p.log)
			}
		})
	}
}

// TestFramesOfClosedStreamsAreTolerated after our own reset, which the peer may
// not know of: their bytes count for the connection's window and are given back.
func TestFramesOfClosedStreamsAreTolerated(t *testing.T) {
	p := newPeer(t, Server, &Options{ConnWindow: 65535, Underscores: UnderscoresReject})
	p.onHeaders = func(s *Stream, _ bool) { s.Reset(Cancel) }
	r := newRaw(Server)
	r.head(1, false, with()...)
	for range 8 {
		_ = r.WriteDataPadded(1, false, make([]byte, 16000), make([]byte, 99))
	}
	_ = r.WriteWindowUpdate(1, 5)
	r.head(1, true, "new-in-table", "1")
	_ = r.WriteRSTStream(1, http2.ErrCodeCancel)
	r.head(3, true, with("new-in-table", "1")...)
	sent, err := r.feed(t, p)
	if err != nil || !strings.Contains(strings.Join(p.log, "|"), "new-in-table=1") {
		t.Errorf("sent %q, %v, %q", sent, err, p.log)
	}
	if p.c.recvWindow+p.c.credit != 65535 {
		t.Errorf("the window lost %d bytes", 65535-p.c.recvWindow-p.c.credit)
	}
}

// TestUnreadBytesOfClosedStreamsAreGivenBack to the connection's window.
func TestUnreadBytesOfClosedStreamsAreGivenBack(t *testing.T) {
	p := newPeer(t, Server, &Options{ConnWindow: 65535})
	p.consume = false
	r := newRaw(Server)
	r.head(1, false, with()...)
	_ = r.WriteData(1, false, make([]byte, 10000))
	_ = r.WriteRSTStream(1, http2.ErrCodeCancel)
	if _, err := r.feed(t, p); err != nil || p.c.recvWindow+p.c.credit != 65535 {
		t.Errorf("%v; the window lost %d bytes", err, 65535-p.c.recvWindow-p.c.credit)
	}
}

// TestRefusedStream proves HC-05.
func TestRefusedStream(t *testing.T) {
	p := newPeer(t, Server, &Options{MaxConcurrentStreams: 100})
	r := newRaw(Server)
	for i := range 101 {
		r.head(uint32(2*i+1), true, with("x-n", fmt.Sprint(i))...)
	}
	sent, err := r.feed(t, p)
	if err != nil || p.c.Active() != 100 || !slices.Contains(sent, "RST 201 REFUSED_STREAM") || len(sent) != 2 {
		t.Fatalf("%d streams, sent %q, %v", p.c.Active(), sent, err)
	}
	p.streams[1].SendHeaders(fields(":status", "200"), true)
	r.head(203, true, with("x-n", "100")...) // indexed by the block that was refused
	if _, err := r.feed(t, p); err != nil || p.c.Active() != 100 || !strings.Contains(p.log[len(p.log)-1], "203 headers") {
		t.Errorf("%d streams, %v, %q", p.c.Active(), err, p.log[len(p.log)-1])
	}
}

// TestFloods partly proves HC-06: one attack of each kind.
func TestFloods(t *testing.T) {
	for _, c := range []struct {
		name string
		want Flood
		f    func(r *raw)
	}{
		{"PING", FloodOutboundControl, func(r *raw) {
			for range 1100 {
				_ = r.WritePing(false, [8]byte{1})
			}
		}},
		{"SETTINGS", FloodOutboundControl, func(r *raw) {
			for range 1100 {
				_ = r.WriteSettings()
			}
		}},
		{"empty DATA", FloodInboundEmpty, func(r *raw) {
			r.head(1, false, with()...)
			_ = r.WriteData(1, false, nil)
			_ = r.WriteData(1, false, nil)
		}},
		{"padded empty DATA", FloodInboundEmpty, func(r *raw) {
			r.head(1, false, with()...)
			_ = r.WriteDataPadded(1, false, nil, make([]byte, 5))
			_ = r.WriteDataPadded(1, false, nil, make([]byte, 5))
		}},
		{"empty CONTINUATION", FloodInboundEmpty, func(r *raw) {
			_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.block(with()...)})
			_ = r.WriteContinuation(1, false, nil)
			_ = r.WriteContinuation(1, false, nil)
		}},
		{"CONTINUATION", FloodInboundContinued, func(r *raw) {
			_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.block(with()...)})
			for range 3000 {
				_ = r.WriteContinuation(1, false, []byte{0x82})
			}
		}},
		{"large CONTINUATION", FloodInboundContinued, func(r *raw) {
			_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0, 0x7f, 0xff, 0xff, 0xff, 0x3f}})
			for range 30 {
				_ = r.WriteContinuation(1, false, make([]byte, 16384))
			}
		}},
		{"PRIORITY", FloodInboundPriority, func(r *raw) {
			for range 101 {
				_ = r.WritePriority(1, http2.PriorityParam{StreamDep: 3})
			}
		}},
		{"WINDOW_UPDATE", FloodInboundWindow, func(r *raw) {
			for range 6 {
				_ = r.WriteWindowUpdate(0, 1)
			}
		}},
		{"responses", FloodOutbound, func(r *raw) {
			for i := range 5200 {
				r.head(uint32(2*i+1), true, with("x-answer", "1")...)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, Server, nil)
			p.onHeaders = func(s *Stream, _ bool) {
				if s.Headers.Has("x-answer") {
					s.SendHeaders(fields(":status", "200"), false)
					s.SendData([]byte("x"), true)
				}
			}
			r := newRaw(Server)
			c.f(r)
			err := p.c.Feed(r.b.Bytes()[:len(preface)+9]) // something is in the output, and stays
			if err != nil {
				t.Fatal(err)
			}
			err = p.c.Feed(r.b.Bytes()[len(preface)+9:])
			var ce *ConnError
			if !errors.As(err, &ce) || ce.Flood != c.want || ce.Code != EnhanceYourCalm {
				t.Errorf("got %v, want flood %d", err, c.want)
			}
		})
	}
}

// TestNoFloodWhenOutputIsWritten shows that the guards of HC-06 forget what
// left, and judge what one read asks for only by its excess.
func TestNoFloodWhenOutputIsWritten(t *testing.T) {
	p := newPeer(t, Server, nil)
	r := newRaw(Server)
	for range 50 {
		for range 900 {
			_ = r.WritePing(false, [8]byte{1})
		}
		if _, err := r.feed(t, p); err != nil {
			t.Fatal(err)
		}
	}
	p.out = p.out[:0]
	for range 3000 {
		_ = r.WritePing(false, [8]byte{1})
	}
	if err := p.c.Feed(r.b.Bytes()); err != nil {
		t.Fatal(err)
	}
	r.b.Reset()
	p.out = p.out[:len(p.out)/6] // partly written
	for range 400 {
		_ = r.WritePing(false, [8]byte{1})
	}
	if err := p.c.Feed(r.b.Bytes()); err != nil {
		t.Fatal(err)
	}
	r.b.Reset()
	for range 400 {
		_ = r.WritePing(false, [8]byte{1})
	}
	if err := p.c.Feed(r.b.Bytes()); err == nil {
		t.Error("1300 answers wait and the guard is silent")
	}
}

// TestGoAwayOfServer partly proves CM-21 and CM-23 for the codec: unprocessed streams
// end as refused, the others go on, and no new ones are opened.
func TestGoAwayOfServer(t *testing.T) {
	p := newPeer(t, Client, nil)
	r := newRaw(Client)
	if _, err := r.feed(t, p); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.start(get("/"), true)
	}
	_ = r.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil)
	_ = r.WriteGoAway(3, http2.ErrCodeNo, nil)
	r.head(3, true, ":status", "200")
	if _, err := r.feed(t, p); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"settings", "goaway 2147483647 NO_ERROR", "goaway 3 NO_ERROR",
		"5 reset REFUSED_STREAM remote=true " + DetailRemoteRefuse, "5 closed",
		"3 headers :status=200 end=true", "3 closed",
	}
	if got := p.take(); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if _, err := p.c.OpenStream(get("/"), true, &header.Map{}, &header.Map{}, nil); !errors.Is(err, ErrGoAway) || p.c.CanOpen() {
		t.Errorf("OpenStream says %v", err)
	}
}

// TestPeerLimitOfStreams keeps to what a server announces. Partly proves CM-21.
func TestPeerLimitOfStreams(t *testing.T) {
	p := newPeer(t, Client, nil)
	r := newRaw(Client)
	_ = r.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
	if _, err := r.feed(t, p); err != nil {
		t.Fatal(err)
	}
	p.start(get("/"), true)
	p.start(get("/"), true)
	if _, err := p.c.OpenStream(get("/"), true, &header.Map{}, &header.Map{}, nil); !errors.Is(err, ErrNoStreams) || p.c.CanOpen() {
		t.Errorf("OpenStream says %v", err)
	}
	r.head(1, true, ":status", "200")
	if _, err := r.feed(t, p); err != nil || !p.c.CanOpen() {
		t.Errorf("%v, no stream may be opened after one ended", err)
	}
}

// TestDrain partly proves HC-25, its two steps: streams that come before the second
// GOAWAY are served, later ones ignored.
func TestDrain(t *testing.T) {
	p := newPeer(t, Server, nil)
	r := newRaw(Server)
	r.head(1, true, with()...)
	if _, err := r.feed(t, p); err != nil {
		t.Fatal(err)
	}
	p.out = p.out[:0]
	p.c.Shutdown()
	if got := frames(t, p.out); !slices.Equal(got, []string{"GOAWAY 2147483647 NO_ERROR"}) {
		t.Errorf("sent %q", got)
	}
	r.head(3, true, with()...)
	if _, err := r.feed(t, p); err != nil || p.c.Active() != 2 {
		t.Errorf("%v, %d streams", err, p.c.Active())
	}
	p.out = p.out[:0]
	p.c.GoAway(NoError, p.c.LastPeerStream(), "")
	if got := frames(t, p.out); !slices.Equal(got, []string{"GOAWAY 3 NO_ERROR"}) {
		t.Errorf("sent %q", got)
	}
	r.head(5, false, with("x", "y")...)
	_ = r.WriteData(5, true, []byte("abc"))
	r.head(7, false, with("x", "y")...)
	sent, err := r.feed(t, p)
	if err != nil || p.c.Active() != 2 || len(sent) != 0 {
		t.Errorf("%v, %d streams, sent %q", err, p.c.Active(), sent)
	}
}

// TestResetWhenSent partly proves HC-56 for the codec: the end of the response, also
// when it waits for the window, is followed by RST_STREAM NO_ERROR if the
// request is unfinished.
func TestResetWhenSent(t *testing.T) {
	p := newPeer(t, Server, nil)
	p.onHeaders = func(s *Stream, _ bool) {
		s.SendHeaders(fields(":status", "200"), false)
		s.SendData(make([]byte, 70000), true)
		s.ResetWhenSent(NoError)
	}
	r := newRaw(Server)
	r.head(1, false, with()...)
	sent, err := r.feed(t, p)
	if err != nil || p.c.Active() != 1 || slices.Contains(sent, "RST 1 NO_ERROR") {
		t.Fatalf("%v, sent %q", err, sent)
	}
	_ = r.WriteWindowUpdate(0, 10000)
	_ = r.WriteWindowUpdate(1, 10000)
	sent, err = r.feed(t, p)
	if want := []string{"DATA 1 4465 1", "RST 1 NO_ERROR"}; err != nil || !slices.Equal(sent, want) || p.c.Active() != 0 {
		t.Errorf("%v, sent %q, want %q", err, sent, want)
	}
}

// TestBlockedSocket keeps bodies in their streams, and then sends them in turn.
func TestBlockedSocket(t *testing.T) {
	p := newPeer(t, Server, &Options{StreamBufferHigh: 30000})
	r := newRaw(Server)
	for _, id := range []uint32{1, 3} {
		r.head(id, true, with()...)
	}
	if _, err := r.feed(t, p); err != nil {
		t.Fatal(err)
	}
	p.out, p.log = p.out[:0], nil
	p.c.SetWriteBlocked(true)
	a, b := p.streams[1], p.streams[3]
	for _, s := range []*Stream{a, b} {
		s.SendHeaders(fields(":status", "200"), false)
		s.SendData(make([]byte, 20000), false)
		s.SendData(make([]byte, 12000), false)
	}
	b.SendTrailers(fields("x", "y"))
	if got := frames(t, p.out); !slices.Equal(got, []string{"HEADERS 1 4", "HEADERS 3 4"}) || a.Buffered() != 32000 {
		t.Errorf("sent %q, %d waiting", got, a.Buffered())
	}
	if p.c.Unsent() != 64000 {
		t.Errorf("%d bytes unsent", p.c.Unsent())
	}
	p.out = p.out[:0]
	p.c.SetWriteBlocked(false)
	want := []string{"DATA 1 16384 0", "DATA 3 16384 0", "DATA 1 15616 0", "DATA 3 15616 0", "HEADERS 3 5"}
	if got := frames(t, p.out); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	if want := []string{"1 writable", "3 closed"}; !slices.Equal(p.log, want) {
		t.Errorf("log %q, want %q", p.log, want)
	}
}

// TestOutputHigh keeps bodies in their streams while much output waits, however
// much the peer would take, and sends them when it was written.
func TestOutputHigh(t *testing.T) {
	const high = 100_000
	p := newPeer(t, Server, &Options{OutputHigh: high})
	r := newRaw(Server)
	_ = r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	_ = r.WriteWindowUpdate(0, 1<<30)
	for _, id := range []uint32{1, 3} {
		r.head(id, true, with()...)
	}
	if _, err := r.feed(t, p); err != nil {
		t.Fatal(err)
	}
	p.out = p.out[:0]
	for _, id := range []uint32{1, 3} {
		s := p.streams[id]
		s.SendHeaders(fields(":status", "200"), false)
		s.SendData(make([]byte, 250_000), false)
		s.SendData(make([]byte, 50_000), true)
	}
	turns, bytes := 0, 0
	for ; len(p.out) > 0; turns++ {
		if n := len(p.out); n > high+20_000 {
			t.Fatalf("%d bytes wait in the output", n)
		}
		bytes += len(p.out)
		p.written()
	}
	if bytes < 600_000 || turns != 6 || p.c.Unsent() != 0 || p.c.Active() != 0 {
		t.Errorf("%d bytes in %d turns, %d unsent, %d active", bytes, turns, p.c.Unsent(), p.c.Active())
	}
}

// TestSettingsOfPeer changes windows of open streams, also below zero, and the
// size of frames.
func TestSettingsOfPeer(t *testing.T) {
	p := newPeer(t, Server, &Options{MaxFrameSize: 1 << 20})
	r := newRaw(Server)
	r.head(1, true, with()...)
	_ = r.WriteWindowUpdate(0, 1<<20)
	if _, err := r.feed(t, p); err != nil {
		t.Fatal(err)
	}
	s := p.streams[1]
	s.SendHeaders(fields(":status", "200"), false)
	s.SendData(make([]byte, 65535+30000), true)
	for _, step := range []struct {
		window, frame uint32
		want          []string
	}{
		{1000, 16384, nil},
		{65535, 20000, nil},
		{65535 + 29999, 20000, []string{"DATA 1 16384 0", "DATA 1 13615 0"}}, // what waits is kept in pieces
		{65535 + 30000, 20000, []string{"DATA 1 1 1"}},
	} {
		_ = r.WriteSettings(http2.Setting{ID: 4, Val: step.window}, http2.Setting{ID: 5, Val: step.frame})
		sent, err := r.feed(t, p)
		if err != nil || !slices.Equal(sent[1:], step.want) {
			t.Errorf("window %d: %v, sent %q, want %q", step.window, err, sent, step.want)
		}
	}
}

// TestLongHeadersAreContinued and read by the oracle.
func TestLongHeadersAreContinued(t *testing.T) {
	cl, sv := newPeer(t, Client, nil), newPeer(t, Server, nil)
	h := get("/")
	for i := range 40 {
		h.Add(fmt.Sprint("x-", i), strings.Repeat(fmt.Sprint(i), 700))
	}
	cl.start(h, true)
	fr := http2.NewFramer(nil, bytes.NewReader(cl.out[len(preface):]))
	n := 0
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			break
		}
		if f.Header().Type == http2.FrameContinuation {
			n++
		}
	}
	exchange(t, cl, sv)
	if got := strings.Join(sv.log, "|"); n != 3 || !strings.Contains(got, "x-39="+strings.Repeat("39", 700)) {
		t.Errorf("%d CONTINUATION frames, log of %d bytes", n, len(got))
	}
}

// TestPing answers, and hears the answer. Partly proves HC-04.
func TestPing(t *testing.T) {
	cl, sv := newPeer(t, Client, nil), newPeer(t, Server, nil)
	cl.c.Ping([8]byte{1, 2, 3})
	exchange(t, cl, sv)
	if !slices.Contains(cl.log, "ping ack 0102030000000000") {
		t.Errorf("log %q", cl.log)
	}
}

// TestStreamsAreUsedAgain only after the callbacks that know them.
func TestStreamsAreUsedAgain(t *testing.T) {
	cl, sv := newPeer(t, Client, nil), newPeer(t, Server, nil)
	var pool Pool
	cl.c.UsePool(&pool)
	sv.onHeaders = func(s *Stream, _ bool) { s.SendHeaders(fields(":status", "200"), true) }
	seen := map[*Stream]int{}
	cl.onHeaders = func(s *Stream, _ bool) {
		seen[s]++
		if s.ID < 99 {
			if n := cl.start(get("/"), true); n == s {
				t.Error("a stream is used again while a callback has it")
			}
		}
	}
	cl.start(get("/"), true)
	exchange(t, cl, sv)
	if len(seen) != 2 || len(pool.free) != 2 {
		t.Errorf("50 requests used %d streams, %d in the pool", len(seen), len(pool.free))
	}
}

// TestCounts partly proves ST-08, the counters of the codec.
func TestCounts(t *testing.T) {
	p := newPeer(t, Server, &Options{MaxConcurrentStreams: 5, StreamErrors: true, Underscores: UnderscoresDrop})
	r := newRaw(Server)
	r.head(1, false, with("a_b", "1", "c_d", "2")...)
	r.head(1, true, "x", "y") // trailers
	r.head(3, false, with()...)
	_ = r.WriteRSTStream(3, http2.ErrCodeCancel)
	r.head(5, true, with("te", "gzip")...) // invalid
	r.head(5, true, "x", "y")              // nobody's
	for id := uint32(7); id <= 17; id += 2 {
		r.head(id, true, with()...) // two more than allowed
	}
	if _, err := r.feed(t, p); err != nil {
		t.Fatal(err)
	}
	p.c.Shutdown()
	want := Counts{RxReset: 1, TxReset: 3, RxMessagingError: 1, Refused: 2, HeadersNoStream: 1, Trailers: 1, GoAwaySent: 1, DroppedUnderscores: 2}
	if p.c.Counts != want {
		t.Errorf("got  %+v\nwant %+v", p.c.Counts, want)
	}
	for f := FloodOutbound; f < FloodInboundContinued; f++ {
		if !strings.HasSuffix(f.Counter(), "_flood") {
			t.Errorf("flood %d has the counter %q", f, f.Counter())
		}
	}
}

// TestDetailsOfClosedConnection are of the stream at fault, and Envoy's general
// ones for the others.
func TestDetailsOfClosedConnection(t *testing.T) {
	p := newPeer(t, Server, nil)
	r := newRaw(Server)
	r.head(1, false, with()...)
	r.head(3, true, with("X", "y")...)
	_, err := r.feed(t, p)
	if err == nil {
		t.Fatal("no error")
	}
	p.log = nil
	p.c.Close(err.Code, err.Details)
	want := []string{
		"1 reset PROTOCOL_ERROR remote=true " + DetailCodec, "1 closed",
		"3 reset PROTOCOL_ERROR remote=true " + DetailHeaderField, "3 closed",
	}
	if !slices.Equal(p.log, want) {
		t.Errorf("got %q\nwant %q", p.log, want)
	}
	if !strings.Contains(err.Error(), "PROTOCOL_ERROR") || p.c.Err() != err {
		t.Errorf("%v", err)
	}
}

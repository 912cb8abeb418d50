//go:build interop

package proxy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// hello answers as a server should.
func hello(s *server2, id uint32) {
	s.headers(id, false, ":status", "200")
	s.data(id, true, "hello")
}

// playing is a misbehaviour of HTTP/2.
func playing(name string, play func(s *server2, id uint32)) misbehaviour {
	return misbehaviour{name: name, play: script2(play)}
}

// resets2 are streams that the server resets in each of their states.
func resets2() []misbehaviour {
	var out []misbehaviour
	for _, code := range []http2.ErrCode{
		http2.ErrCodeNo, http2.ErrCodeProtocol, http2.ErrCodeInternal, http2.ErrCodeFlowControl, http2.ErrCodeStreamClosed,
		http2.ErrCodeRefusedStream, http2.ErrCodeCancel, http2.ErrCodeEnhanceYourCalm, http2.ErrCodeHTTP11Required, 0xff,
	} {
		out = append(out, playing(fmt.Sprintf("reset %v before the head", code), func(s *server2, id uint32) {
			_ = s.f.WriteRSTStream(id, code)
		}), playing(fmt.Sprintf("reset %v after the head", code), func(s *server2, id uint32) {
			s.headers(id, false, ":status", "200")
			s.data(id, false, "hello")
			time.Sleep(20 * time.Millisecond) // the answer must be on its way first
			_ = s.f.WriteRSTStream(id, code)
		}))
	}
	return append(out, playing("reset after the end", func(s *server2, id uint32) {
		hello(s, id)
		_ = s.f.WriteRSTStream(id, http2.ErrCodeNo)
	}), playing("reset of another stream", func(s *server2, id uint32) {
		_ = s.f.WriteRSTStream(id+100, http2.ErrCodeCancel)
		hello(s, id)
	}))
}

func goaways() []misbehaviour {
	return []misbehaviour{
		playing("GOAWAY after the answer", func(s *server2, id uint32) {
			hello(s, id)
			_ = s.f.WriteGoAway(id, http2.ErrCodeNo, nil)
		}),
		playing("GOAWAY before the answer", func(s *server2, id uint32) {
			_ = s.f.WriteGoAway(id, http2.ErrCodeNo, nil)
			hello(s, id)
		}),
		playing("GOAWAY that leaves the stream out", func(s *server2, id uint32) {
			_ = s.f.WriteGoAway(0, http2.ErrCodeNo, nil)
			_ = s.c.CloseWrite()
		}),
		playing("GOAWAY with an error", func(s *server2, id uint32) {
			_ = s.f.WriteGoAway(id, http2.ErrCodeEnhanceYourCalm, []byte("calm"))
			_ = s.c.CloseWrite()
		}),
		playing("GOAWAY within the answer", func(s *server2, id uint32) {
			s.headers(id, false, ":status", "200")
			_ = s.f.WriteGoAway(id, http2.ErrCodeNo, nil)
			s.data(id, true, "hello")
		}),
	}
}

func heads2() []misbehaviour {
	head := func(name string, fields ...string) misbehaviour {
		return playing(name, func(s *server2, id uint32) { s.headers(id, true, fields...) })
	}
	out := []misbehaviour{
		playing("fine", hello),
		head("no status", "x", "y"), head("status letters", ":status", "abc"), head("status 099", ":status", "099"),
		head("two statuses", ":status", "200", ":status", "200"), head("status last", "x", "y", ":status", "200"),
		head("upper case", ":status", "200", "X", "y"), head("connection", ":status", "200", "connection", "close"),
		head("transfer-encoding", ":status", "200", "transfer-encoding", "chunked"), head("unknown pseudo", ":status", "200", ":x", "y"),
		head("request pseudo", ":status", "200", ":path", "/"), head("CR in a value", ":status", "200", "x", "a\rb"),
		head("NUL in a value", ":status", "200", "x", "a\x00b"), head("space in a name", ":status", "200", "x y", "z"), head("empty name", ":status", "200", "", "z"),
		head("length without body", ":status", "200", "content-length", "5"), head("length letters", ":status", "200", "content-length", "x"),
		head("304 with length", ":status", "304", "content-length", "5"), head("204", ":status", "204"),
		head("too long fields", ":status", "200", "x", strings.Repeat("x", 70_000)),
		playing("101", func(s *server2, id uint32) { s.headers(id, false, ":status", "101"); hello(s, id) }),
		playing("100 with end", func(s *server2, id uint32) { s.headers(id, true, ":status", "100") }),
		playing("flood of 1xx", func(s *server2, id uint32) {
			for range 200 {
				s.headers(id, false, ":status", "103", "link", "a")
			}
			hello(s, id)
		}),
	}
	for i := range out {
		if out[i].name == "status 099" {
			out[i].differs, out[i].want = "Envoy passes on what no client can read", "502 with 0 bytes, 502 with 0 bytes; UPE, UPE"
		}
	}
	var many []string
	for range 200 {
		many = append(many, "x", "y")
	}
	return append(out, head("too many fields", append([]string{":status", "200"}, many...)...))
}

func bodies2() []misbehaviour {
	lie := func(name, length string) misbehaviour {
		return playing(name, func(s *server2, id uint32) {
			s.headers(id, false, ":status", "200", "content-length", length)
			time.Sleep(20 * time.Millisecond) // the head must be on its way first
			s.data(id, true, "hello")
		})
	}
	return []misbehaviour{
		lie("less than said", "50"), lie("more than said", "3"),
		playing("body before the head", func(s *server2, id uint32) { s.data(id, false, "hello"); hello(s, id) }),
		playing("body after the end", func(s *server2, id uint32) { hello(s, id); s.data(id, true, "more") }),
		playing("two heads", func(s *server2, id uint32) { s.headers(id, false, ":status", "200"); hello(s, id) }),
		playing("trailers", func(s *server2, id uint32) {
			s.headers(id, false, ":status", "200")
			s.data(id, false, "hello")
			s.headers(id, true, "x", "y")
		}),
		playing("204 with a body", func(s *server2, id uint32) {
			s.headers(id, false, ":status", "204")
			s.data(id, true, "hello")
		}),
		playing("empty frames", func(s *server2, id uint32) {
			s.headers(id, false, ":status", "200")
			for range 1000 {
				s.data(id, false, "")
			}
			s.data(id, true, "hello")
		}),
	}
}

func frames2() []misbehaviour {
	raw := func(name, bytes string) misbehaviour {
		return playing(name, func(s *server2, id uint32) { _, _ = io.WriteString(s.c, bytes); hello(s, id) })
	}
	return []misbehaviour{
		raw("unknown frame", "\x00\x00\x03\xee\x00\x00\x00\x00\x01abc"),
		raw("frame too long", "\x00\xff\xff\x00\x00\x00\x00\x00\x01"+strings.Repeat("x", 0xffff)),
		raw("window update of 0", "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		raw("window overflow", "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff"),
		raw("push", "\x00\x00\x05\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02\x88"),
		raw("even stream", "\x00\x00\x01\x01\x05\x00\x00\x00\x02\x88"),
		raw("settings of a stream", "\x00\x00\x00\x04\x00\x00\x00\x00\x01"),
		raw("settings too short", "\x00\x00\x05\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		raw("settings: window too large", "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\xff\xff\xff\xff"),
		raw("settings: frame too small", "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01"),
		raw("broken compression", "\x00\x00\x02\x01\x05\x00\x00\x00\x01\xff\xff"),
		raw("continuation alone", "\x00\x00\x01\x09\x04\x00\x00\x00\x01\x88"),
		raw("head interrupted", "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x88\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
		playing("settings: window 0", func(s *server2, id uint32) {
			_ = s.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			hello(s, id)
		}),
		playing("pings", func(s *server2, id uint32) {
			for range 500 {
				_ = s.f.WritePing(false, [8]byte{1})
			}
			hello(s, id)
		}),
	}
}

func timing2() []misbehaviour {
	return []misbehaviour{
		{name: "speaks HTTP/1", play: func(c *net.TCPConn) {
			_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}},
		{name: "says nothing", play: untilClosed},
		{name: "closes after the preface", play: func(c *net.TCPConn) { _, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface))) }, racy: true},
		playing("never answers", func(*server2, uint32) {}),
		playing("closes after the request", func(s *server2, _ uint32) { _ = s.c.CloseWrite() }),
		playing("resets after the request", func(s *server2, _ uint32) { harness.Reset(s.c) }),
		playing("head alone", func(s *server2, id uint32) { s.headers(id, false, ":status", "200") }),
		playing("stops in the body", func(s *server2, id uint32) { s.headers(id, false, ":status", "200"); s.data(id, false, "hello") }),
		playing("closes in the body", func(s *server2, id uint32) {
			s.headers(id, false, ":status", "200")
			s.data(id, false, "hello")
			time.Sleep(20 * time.Millisecond) // the answer must be on its way first
			_ = s.c.CloseWrite()
		}),
	}
}

// The same of HTTP/2 upstream servers.
func TestUpstreamHTTP2(t *testing.T) {
	var list []misbehaviour
	for _, part := range [][]misbehaviour{resets2(), goaways(), heads2(), bodies2(), frames2(), timing2()} {
		list = append(list, part...)
	}
	compare(t, list, true)
}

// An HTTP/2 connection is cut off after each byte that the server sends.
func TestUpstreamHTTP2CutAnywhere(t *testing.T) {
	answer := "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + // SETTINGS
		"\x00\x00\x00\x04\x01\x00\x00\x00\x00" + // its acknowledgement
		"\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88" + // :status 200
		"\x00\x00\x05\x00\x01\x00\x00\x00\x01hello"
	var list []misbehaviour
	for n := range len(answer) {
		m := misbehaviour{name: fmt.Sprintf("%d bytes", n)}
		if got := n - (len(answer) - len("hello")); got > 0 {
			text := fmt.Sprintf("200 with %d bytes cut off", got)
			m.differs, m.want = "Envoy drops the beginning of a frame", text+", "+text+"; UC, UC"
		}
		m.play = func(c *net.TCPConn) {
			f := http2.NewFramer(c, c)
			_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				if frame.Header().Type == http2.FrameHeaders && frame.Header().Flags.Has(http2.FlagHeadersEndStream) || frame.Header().Type == http2.FrameData {
					_, _ = io.WriteString(c, answer[:n])
					return
				}
			}
		}
		list = append(list, m)
	}
	compare(t, list, true)
}

package http2

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// raw writes frames of a peer, also wrong ones, with the oracle's framer.
type raw struct {
	*http2.Framer
	b   bytes.Buffer
	hb  bytes.Buffer
	enc *hpack.Encoder
}

func newRaw(role Role) *raw {
	r := &raw{}
	if role == Server { // of the codec that will read it
		r.b.WriteString(preface)
	}
	r.Framer = http2.NewFramer(&r.b, nil)
	r.AllowIllegalWrites = true
	r.enc = hpack.NewEncoder(&r.hb)
	_ = r.WriteSettings()
	return r
}

func (r *raw) block(kv ...string) []byte {
	r.hb.Reset()
	for i := 0; i < len(kv); i += 2 {
		_ = r.enc.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]})
	}
	return bytes.Clone(r.hb.Bytes())
}

func (r *raw) head(id uint32, end bool, kv ...string) {
	_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.block(kv...), EndHeaders: true, EndStream: end})
}

// feed gives a codec what was written, and returns what it said and sent.
func (r *raw) feed(t *testing.T, p *peer) (sent []string, err *ConnError) {
	t.Helper()
	p.out = p.out[:0]
	e := p.c.Feed(r.b.Bytes())
	r.b.Reset()
	if e != nil && !errors.As(e, &err) {
		t.Fatalf("%T is no *ConnError", e)
	}
	return frames(t, p.out), err
}

func with(kv ...string) []string {
	return append([]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.example"}, kv...)
}

// replaced is a plain request with one field changed, or left out.
func replaced(name string, value ...string) []string {
	f := with()
	i := slices.Index(f, name)
	if len(value) == 0 {
		return slices.Delete(f, i, i+2)
	}
	f[i+1] = value[0]
	return f
}

// TestRequestRules partly proves HC-09 and HC-03: what Envoy 1.40 takes and refuses of
// a request's head, with both settings for invalid messages.
func TestRequestRules(t *testing.T) {
	const field, rule = DetailHeaderField, DetailMessaging
	for _, c := range []struct {
		name    string
		head    []string
		details string // "" to be taken
		seen    string // part of what the handler gets
	}{
		{"plain", with(), "", ":authority=a.example"},
		{"authority wins over host", with("host", "b"), "", ":authority=a.example end"},
		{"host alone", append(replaced(":authority"), "host", "b"), "", ":authority=b end"},
		{"two hosts", append(replaced(":authority"), "host", "b", "host", "b"), field, ""},
		{"no authority", replaced(":authority"), rule, ""},
		{"empty authority", replaced(":authority", ""), field, ""},
		{"space in authority", replaced(":authority", "a b"), field, ""},
		{"angle in authority", replaced(":authority", "a<b>"), field, ""},
		{"userinfo", replaced(":authority", "u@[::1]:80"), field, ""},
		{"spaces around a value", with("x-v", "  a\t "), "", "x-v=  a\t "},
		{"control", with("x-v", "12345678\x01"), field, ""},
		{"NUL", with("x-v", "a\x00"), field, ""},
		{"DEL", with("x-v", "12345\x7f78"), field, ""},
		{"CR LF", with("x-v", "a\r\nb: c"), field, ""},
		{"tab and high bytes", with("x-v", "a\tb\xff\x80345678"), "", "x-v=a\tb\xff\x80345678"},
		{"space in path", replaced(":path", "/a b"), field, ""},
		{"high byte in path", replaced(":path", "/\xff"), "", ":path=/\xff"},
		{"path without slash", replaced(":path", "foo"), rule, ""},
		{"star", replaced(":path", "*"), rule, ""},
		{"star of OPTIONS", []string{":method", "OPTIONS", ":scheme", "http", ":path", "*", ":authority", "a"}, "", ":path=*"},
		{"empty path", replaced(":path", ""), field, ""},
		{"no path", replaced(":path"), rule, ""},
		{"another scheme", replaced(":scheme", "ftp"), "", ":scheme=ftp"},
		{"wrong scheme", replaced(":scheme", "h t"), field, ""},
		{"no scheme", replaced(":scheme"), rule, ""},
		{"wrong method", replaced(":method", "G T"), field, ""},
		{"empty method", replaced(":method", ""), field, ""},
		{"no method", replaced(":method"), rule, ""},
		{"upper case", with("X-Up", "1"), field, ""},
		{"no token", with("x(y", "1"), field, ""},
		{"empty name", with("", "1"), field, ""},
		{"connection", with("connection", "close"), field, ""},
		{"keep-alive", with("keep-alive", "1"), field, ""},
		{"proxy-connection", with("proxy-connection", "x"), field, ""},
		{"transfer-encoding", with("transfer-encoding", "chunked"), field, ""},
		{"upgrade", with("upgrade", "websocket"), field, ""},
		{"te", with("te", "gzip"), field, ""},
		{"te: trailers", with("te", "Trailers"), "", "te=Trailers"},
		{"cookies are joined", with("cookie", "a=1", "cookie", "b=2", "x", "y", "cookie", "", "cookie", "c=3"), "", "cookie=a=1; b=2; ; c=3 x=y end"},
		{"underscore", with("x_y", "1"), "", "x_y=1"},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "a:80"}, "", ":method=CONNECT"},
		{"CONNECT with path", []string{":method", "CONNECT", ":authority", "a:80", ":scheme", "http", ":path", "/"}, rule, ""},
		{"extended CONNECT", []string{":method", "CONNECT", ":authority", "a", ":scheme", "http", ":path", "/", ":protocol", "websocket"}, field, ""},
		{"content-length and no body", with("content-length", "5"), rule, ""},
		{"content-length 0", with("content-length", "0"), "", "content-length=0"},
		{"two content-lengths", with("content-length", "0", "content-length", "0"), field, ""},
		{"list of content-lengths", with("content-length", "0, 0"), field, ""},
		{"content-length with sign", with("content-length", "+0"), field, ""},
		{"huge content-length", with("content-length", "99999999999999999999"), field, ""},
		{":status", with(":status", "200"), field, ""},
		{"late pseudo-header", []string{":method", "GET", ":scheme", "http", "x", "y", ":path", "/", ":authority", "a"}, field, ""},
		{"repeated pseudo-header", with(":path", "/"), field, ""},
		{"unknown pseudo-header", append([]string{":foo", "x"}, with()...), field, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, streamErrors := range []bool{false, true} {
				p := newPeer(t, Server, &Options{StreamErrors: streamErrors})
				r := newRaw(Server)
				r.head(1, true, c.head...)
				sent, err := r.feed(t, p)
				log := strings.Join(p.log, "|")
				switch {
				case c.details == "":
					if err != nil || !strings.Contains(log, "1 headers") || !strings.Contains(log, c.seen) {
						t.Errorf("got %q, %v", log, err)
					}
				case streamErrors:
					if err != nil || !slices.Contains(sent, "RST 1 PROTOCOL_ERROR") || !strings.HasSuffix(log, "1 reset PROTOCOL_ERROR remote=false "+c.details+"|1 closed") {
						t.Errorf("stream: got %q, sent %q, %v", log, sent, err)
					}
				default:
					if err == nil || err.Details != c.details || err.Stream != 1 || !slices.Contains(sent, "GOAWAY 1 PROTOCOL_ERROR") {
						t.Errorf("connection: got %q, sent %q, %v", log, sent, err)
					}
				}
			}
		})
	}
}

// TestExtendedConnectWhenAllowed is the only case in which :protocol is taken.
func TestExtendedConnectWhenAllowed(t *testing.T) {
	p := newPeer(t, Server, &Options{AllowConnect: true})
	r := newRaw(Server)
	r.head(1, false, ":method", "CONNECT", ":authority", "a", ":scheme", "http", ":path", "/", ":protocol", "websocket")
	if _, err := r.feed(t, p); err != nil || p.c.Active() != 1 {
		t.Errorf("%v, %q", err, p.log)
	}
}

// TestResponseRules partly proves HC-55 for the codec: bodies where there are none,
// and lengths that do not match, end the stream.
func TestResponseRules(t *testing.T) {
	const field, rule = DetailHeaderField, DetailMessaging
	for _, c := range []struct {
		name, method string
		write        func(r *raw)
		want         string // the end of the log
	}{
		{"plain", "GET", func(r *raw) { r.head(1, true, ":status", "200") }, "1 headers :status=200 end=true|1 closed"},
		{"length", "GET", func(r *raw) {
			r.head(1, false, ":status", "200", "content-length", "3")
			_ = r.WriteData(1, true, []byte("abc"))
		}, "1 body 3 end|1 closed"},
		{"too long", "GET", func(r *raw) {
			r.head(1, false, ":status", "200", "content-length", "2")
			_ = r.WriteData(1, true, []byte("abc"))
		}, "1 reset PROTOCOL_ERROR remote=false " + rule + "|1 closed"},
		{"too short", "GET", func(r *raw) {
			r.head(1, false, ":status", "200", "content-length", "4")
			_ = r.WriteData(1, true, []byte("abc"))
		}, "1 reset PROTOCOL_ERROR remote=false " + rule + "|1 closed"},
		{"too short before trailers", "GET", func(r *raw) {
			r.head(1, false, ":status", "200", "content-length", "4")
			_ = r.WriteData(1, false, []byte("abc"))
			r.head(1, true, "x", "y")
		}, "1 reset PROTOCOL_ERROR remote=false " + rule + "|1 closed"},
		{"HEAD with length", "HEAD", func(r *raw) { r.head(1, true, ":status", "200", "content-length", "3") }, "end=true|1 closed"},
		{"HEAD with body", "HEAD", func(r *raw) {
			r.head(1, false, ":status", "200", "content-length", "3")
			_ = r.WriteData(1, true, []byte("abc"))
		}, "1 reset PROTOCOL_ERROR remote=false " + rule + "|1 closed"},
		{"304 with length", "GET", func(r *raw) { r.head(1, true, ":status", "304", "content-length", "3") }, "end=true|1 closed"},
		{"204 with length", "GET", func(r *raw) { r.head(1, true, ":status", "204", "content-length", "3") }, "1 reset PROTOCOL_ERROR remote=false " + field + "|1 closed"},
		{"204 with body", "GET", func(r *raw) {
			r.head(1, false, ":status", "204")
			_ = r.WriteData(1, true, []byte("abc"))
		}, "1 reset PROTOCOL_ERROR remote=false " + rule + "|1 closed"},
		{"informational", "GET", func(r *raw) {
			r.head(1, false, ":status", "100")
			r.head(1, false, ":status", "103", "link", "x")
			r.head(1, true, ":status", "200")
		}, "1 informational :status=100|1 informational :status=103 link=x|1 headers :status=200 end=true|1 closed"},
		{"informational end", "GET", func(r *raw) { r.head(1, true, ":status", "100") }, rule + "|1 closed"},
		{"101", "GET", func(r *raw) { r.head(1, false, ":status", "101") }, field + "|1 closed"},
		{"no status", "GET", func(r *raw) { r.head(1, false, "x", "y") }, rule + "|1 closed"},
		{"wrong status", "GET", func(r *raw) { r.head(1, false, ":status", "20") }, field + "|1 closed"},
		{"status 099", "GET", func(r *raw) { r.head(1, false, ":status", "099") }, field + "|1 closed"},
		{"path", "GET", func(r *raw) { r.head(1, false, ":status", "200", ":path", "/") }, field + "|1 closed"},
		{"data first", "GET", func(r *raw) { _ = r.WriteData(1, false, []byte("x")) }, rule + "|1 closed"},
		{"two heads", "GET", func(r *raw) {
			r.head(1, false, ":status", "200")
			r.head(1, false, ":status", "200")
		}, "1 closed"},
		{"trailers", "GET", func(r *raw) {
			r.head(1, false, ":status", "200")
			r.head(1, true, "grpc-status", "0")
		}, "1 trailers grpc-status=0|1 closed"},
		{"pseudo-header in trailers", "GET", func(r *raw) {
			r.head(1, false, ":status", "200")
			r.head(1, true, ":status", "200")
		}, field + "|1 closed"},
		{"refused", "GET", func(r *raw) { _ = r.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, "1 reset REFUSED_STREAM remote=true " + DetailRemoteRefuse + "|1 closed"},
		{"reset", "GET", func(r *raw) { _ = r.WriteRSTStream(1, http2.ErrCodeInternal) }, "1 reset INTERNAL_ERROR remote=true " + DetailRemoteReset + "|1 closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, Client, &Options{StreamErrors: true})
			p.start(fields(":method", c.method, ":scheme", "http", ":path", "/", ":authority", "a"), true)
			r := newRaw(Client)
			c.write(r)
			_, err := r.feed(t, p)
			if log := strings.Join(p.log, "|"); err != nil || !strings.HasSuffix(log, c.want) {
				t.Errorf("got %q, %v, want the end %q", log, err, c.want)
			}
		})
	}
}

// TestHeaderLimits partly proves HC-13: the limits are inclusive, a breach resets the
// stream only, and the connection's tables stay in step.
func TestHeaderLimits(t *testing.T) {
	big := func(kb, extra int) []string {
		f := with()
		size := len(strings.Join(f, ""))
		for i := range kb {
			v := strings.Repeat("#", 1024-7)
			if i == 0 {
				v = v[:1024-7-size+extra]
			}
			f = append(f, fmt.Sprintf("x-big%02d", i), v)
		}
		return f
	}
	many := func(n int) []string {
		f := with()
		for i := range n - 4 {
			f = append(f, "cookie", fmt.Sprint("c=", i))
		}
		return f
	}
	for _, c := range []struct {
		name    string
		head    []string
		details string
	}{
		{"60 KiB", big(60, 0), ""},
		{"60 KiB and a byte", big(60, 1), DetailTooLarge},
		{"300 KiB", big(300, 0), DetailTooLarge},
		{"100 fields", many(100), ""},
		{"101 fields", many(101), DetailTooMany},
	} {
		for _, piece := range []int{16384, 3000} {
			t.Run(fmt.Sprint(c.name, " in frames of ", piece), func(t *testing.T) {
				p := newPeer(t, Server, nil)
				r := newRaw(Server)
				b := r.block(c.head...)
				k := min(piece, len(b))
				_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:k], EndHeaders: k == len(b), EndStream: true})
				for b = b[k:]; len(b) > 0; b = b[k:] {
					k = min(piece, len(b))
					_ = r.WriteContinuation(1, k == len(b), b[:k])
				}
				r.head(3, true, with("x-last", "1")...)
				sent, err := r.feed(t, p)
				if err != nil {
					t.Fatal(err)
				}
				log := strings.Join(p.log, "|")
				if !strings.Contains(log, "3 headers") || !strings.Contains(log, "x-last=1") {
					t.Errorf("the next stream did not work: %q", log[:min(len(log), 300)])
				}
				refused := slices.Contains(sent, "RST 1 INTERNAL_ERROR") && strings.Contains(log, "1 reset INTERNAL_ERROR remote=false "+c.details)
				if refused != (c.details != "") {
					t.Errorf("sent %q, log %q", sent, log[:min(len(log), 300)])
				}
			})
		}
	}
}

// TestTrailerLimits partly proves HC-13 and HC-17: limits hold for trailers.
func TestTrailerLimits(t *testing.T) {
	p := newPeer(t, Server, &Options{MaxHeaders: 5})
	r := newRaw(Server)
	r.head(1, false, with()...)
	r.head(1, true, "a", "1", "b", "1", "c", "1", "d", "1", "e", "1", "f", "1")
	sent, err := r.feed(t, p)
	if err != nil || !slices.Contains(sent, "RST 1 INTERNAL_ERROR") {
		t.Errorf("sent %q, %v", sent, err)
	}
}

// TestUnderscores partly proves HC-14.
func TestUnderscores(t *testing.T) {
	for action, want := range map[Underscores]string{
		UnderscoresAllow:  "x_y=1 a-b=2 end=true",
		UnderscoresDrop:   ":scheme=http a-b=2 end=true",
		UnderscoresReject: "1 reset INTERNAL_ERROR remote=false " + DetailUnderscore,
	} {
		p := newPeer(t, Server, &Options{Underscores: action})
		dropped := -1
		p.onHeaders = func(s *Stream, _ bool) { dropped = s.Dropped() }
		r := newRaw(Server)
		r.head(1, true, ":method", "GET", ":path", "/", ":authority", "a", ":scheme", "http", "x_y", "1", "a-b", "2")
		if _, err := r.feed(t, p); err != nil || !strings.Contains(strings.Join(p.log, "|"), want) {
			t.Errorf("action %d: %q, %v", action, p.log, err)
		}
		if action == UnderscoresDrop && dropped != 1 {
			t.Errorf("%d headers counted as dropped", dropped)
		}
	}
}

package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter/header"
)

func seeds(f *testing.F, role string) {
	f.Helper()
	text, err := os.ReadFile("testdata/refused.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if p := strings.SplitN(line, " | ", 3); len(p) == 3 && strings.HasPrefix(p[0], role) {
			in, err := strconv.Unquote(p[2])
			if err != nil {
				f.Fatal(err)
			}
			f.Add([]byte(in), uint16(len(in)/2), byte(0))
		}
	}
}

// options picks settings by the bits of a byte.
func options(bits byte) Options {
	return Options{
		AcceptHTTP10: bits&1 != 0, EnableTrailers: bits&2 != 0, AllowChunkedLength: bits&4 != 0,
		RefuseAbsoluteURL: bits&8 != 0, CustomMethods: bits&16 != 0, MaxHeadersKB: uint32(bits >> 5 & 1), MaxHeadersCount: uint32(bits>>6&1) * 3,
	}
}

// pieces cuts an input at a place, and what follows at every 7th byte.
func pieces(in []byte, at int) [][]byte {
	at %= len(in) + 1
	out := [][]byte{in[:at]}
	for rest := in[at:]; len(rest) > 0; {
		n := min(7, len(rest))
		out = append(out, rest[:n])
		rest = rest[n:]
	}
	return out
}

func sameHowever(t *testing.T, s *setup, in []byte, at int) {
	t.Helper()
	want := s.run(in)
	if got := s.run(pieces(in, at)...); got != want {
		t.Fatalf("%q cut at %d and behind:\n%s\nwhole:\n%s", in, at, got, want)
	}
	single := make([][]byte, len(in))
	for i := range in {
		single[i] = in[i : i+1]
	}
	if got := s.run(single...); got != want {
		t.Fatalf("%q byte by byte:\n%s\nwhole:\n%s", in, got, want)
	}
}

// message reads one message: its head, body and trailers, and how long it is.
// ok is false if it is refused, unfinished, or turns into raw data.
type parsed struct {
	h, trailers header.Map
	body        []byte
	n           int
	version     Version
	bodiless    bool
}

func parse(s *setup, in []byte, eof bool) (p *parsed, ok bool) {
	var d Decoder
	d.Init(s.role, &s.o)
	if s.role == Client {
		d.ExpectResponseTo(s.method, s.upgrade)
	}
	p = &parsed{}
	h := &p.h
	for {
		ev, n, data, end, err := d.Next(in[p.n:], h)
		p.n += n
		if err != nil {
			return nil, false
		}
		switch ev {
		case Headers:
			p.version, p.bodiless, h = d.Version(), end, &p.trailers
		case Informational:
			h.Reset()
		case Data:
			p.body = append(p.body, data...)
		case NeedMore:
			if !eof || d.EOF() != nil {
				return nil, false
			}
			continue
		}
		if d.HasUpgrade() {
			return nil, false
		}
		if end {
			return p, true
		}
	}
}

// FuzzRequest: any cut gives the same events; what is accepted is framed as
// net/http frames it; what is written again is read the same.
//
// Proves HC-10.
func FuzzRequest(f *testing.F) {
	seeds(f, "request")
	f.Add([]byte("POST /a?b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n\r\n"), uint16(70), byte(2))
	f.Add([]byte("PUT http://u@h:1/ HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcdef"), uint16(3), byte(0))
	f.Add([]byte("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), uint16(3), byte(1))
	f.Fuzz(func(t *testing.T, in []byte, at uint16, bits byte) {
		s := &setup{o: options(bits)}
		sameHowever(t, s, in, int(at))
		p, ok := parse(s, in, false)
		if !ok {
			return
		}
		if !s.o.AllowChunkedLength {
			likeNetHTTPRequest(t, in, p)
		}
		if path := p.h.Path(); path[0] == '/' {
			rewriteRequest(t, s, p)
		}
	})
}

func likeNetHTTPRequest(t *testing.T, in []byte, p *parsed) {
	t.Helper()
	// Its ideas of request targets and methods are not at issue.
	in = bytes.TrimLeft(in, "\r\n")
	total := len(in)
	i := bytes.IndexByte(in, '\n')
	plain := append([]byte("POST / "+p.version.String()+"\r\n"), in[i+1:]...)
	r := bufio.NewReader(bytes.NewReader(plain))
	req, err := http.ReadRequest(r)
	if err != nil {
		if p.h.Has("trailer") {
			return
		}
		t.Fatalf("net/http refuses %q: %v", in, err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil && (p.trailers.Len() > 0 || errors.Is(err, http.ErrBodyReadAfterClose)) {
		return
	}
	rest, _ := io.ReadAll(r)
	if err != nil || !bytes.Equal(body, p.body) || p.h.HasID(header.TransferEncoding) == (len(req.TransferEncoding) == 0) {
		t.Fatalf("%q: net/http reads body %q, %v, instead of %q", in, body, err, p.body)
	}
	if want := total - len(rest); len(in)-len(rest) != want || !bytes.HasSuffix(in, rest) {
		t.Fatalf("%q: net/http leaves %q", in, rest)
	}
}

func rewriteRequest(t *testing.T, s *setup, p *parsed) {
	t.Helper()
	write := func(p *parsed) []byte {
		var e Encoder
		e.Init(Client, &s.o)
		out := e.RequestHead(nil, &p.h, p.bodiless)
		if p.bodiless {
			return out
		}
		if len(p.body) > 0 {
			out = e.DataSuffix(append(e.DataPrefix(out, len(p.body)), p.body...))
		}
		return e.End(out, &p.trailers)
	}
	first := write(p)
	o := setup{o: s.o}
	o.o.MaxHeadersKB, o.o.MaxHeadersCount = 8192, 10000
	again, ok := parse(&o, first, false)
	if !ok || again.n != len(first) {
		t.Fatalf("%q is not read again", first)
	}
	if second := write(again); !bytes.Equal(first, second) || !bytes.Equal(p.body, again.body) {
		t.Fatalf("written again:\n%q\nis\n%q", first, second)
	}
}

// FuzzResponse is FuzzRequest for responses.
//
// Proves HC-10 and HC-55.
func FuzzResponse(f *testing.F) {
	seeds(f, "response")
	f.Add([]byte("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"), uint16(30), byte(2))
	f.Add([]byte("HTTP/1.0 404 \r\nA: b\r\n\r\nabc"), uint16(3), byte(128))
	f.Fuzz(func(t *testing.T, in []byte, at uint16, bits byte) {
		s := &setup{role: Client, method: "GET", o: options(bits)}
		if bits&128 != 0 {
			s.method = "HEAD"
		}
		sameHowever(t, s, in, int(at))
		p, ok := parse(s, in, true)
		if !ok {
			return
		}
		// net/http gives a 1xx as if it were the response.
		if !s.o.AllowChunkedLength && p.version == HTTP11 && in[9] != '1' {
			likeNetHTTPResponse(t, in, p, s.method)
		}
		rewriteResponse(t, s, p)
	})
}

func likeNetHTTPResponse(t *testing.T, in []byte, p *parsed, method string) {
	t.Helper()
	in = in[:p.n]
	r := bufio.NewReader(bytes.NewReader(in))
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		if p.h.Has("trailer") {
			return
		}
		t.Fatalf("net/http refuses %q: %v", in, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil && p.h.HasID(header.TransferEncoding) {
		return // it has opinions on trailers
	}
	rest, _ := io.ReadAll(r)
	if err != nil || !bytes.Equal(body, p.body) || len(rest) > 0 {
		t.Fatalf("%q: net/http reads body %q, %v, and leaves %q", in, body, err, rest)
	}
}

func rewriteResponse(t *testing.T, s *setup, p *parsed) {
	t.Helper()
	o := setup{role: Client, method: s.method, o: s.o}
	o.o.MaxHeadersKB, o.o.MaxHeadersCount = 8192, 10000
	write := func(p *parsed) []byte {
		var e Encoder
		e.Init(Server, &s.o)
		out := e.ResponseHead(nil, &p.h, s.method, HTTP11, p.bodiless, false)
		if p.bodiless || e.DropsBody() {
			return out
		}
		if len(p.body) > 0 {
			out = e.DataSuffix(append(e.DataPrefix(out, len(p.body)), p.body...))
		}
		return e.End(out, &p.trailers)
	}
	first := write(p)
	again, ok := parse(&o, first, true)
	if !ok || again.n != len(first) {
		t.Fatalf("%q is not read again", first)
	}
	if second := write(again); !bytes.Equal(first, second) || !bytes.Equal(p.body, again.body) {
		t.Fatalf("written again:\n%q\nis\n%q", first, second)
	}
}

// Messages put together from parts, most of them in order, cut at random.
func TestAnyCut(t *testing.T) {
	lines := rapid.SampledFrom([]string{
		"Host: a", "A: b", "Content-Length: 3", "Transfer-Encoding: chunked", "Connection: close", "Connection: upgrade",
		"Upgrade: x", "X-Long: " + strings.Repeat("v", 300), "Te: trailers", "A:", " fold", "a_b: c", "Connection: keep-alive",
	})
	starts := rapid.SampledFrom([]string{"GET / HTTP/1.1", "POST /a HTTP/1.1", "HEAD http://h/ HTTP/1.1", "CONNECT h:1 HTTP/1.1", "GET / HTTP/1.0", "HTTP/1.1 200 OK", "HTTP/1.1 204 N", "HTTP/1.1 100 C", ""})
	bodies := rapid.SampledFrom([]string{"", "abc", "3\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: u\r\n\r\n", "3\r\nabcd"})
	rapid.Check(t, func(t *rapid.T) {
		var in []byte
		for range rapid.IntRange(1, 3).Draw(t, "messages") {
			in = append(append(in, starts.Draw(t, "start")...), "\r\n"...)
			for _, l := range rapid.SliceOfN(lines, 0, 6).Draw(t, "lines") {
				in = append(append(in, l...), "\r\n"...)
			}
			in = append(append(in, "\r\n"...), bodies.Draw(t, "body")...)
		}
		s := &setup{o: options(rapid.Byte().Draw(t, "options")), role: Role(rapid.IntRange(0, 1).Draw(t, "role")), method: "GET", upgrade: rapid.Bool().Draw(t, "upgrade")}
		want := s.run(in)
		var cut [][]byte
		for rest := in; len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 40).Draw(t, "piece"))
			cut, rest = append(cut, rest[:n]), rest[n:]
		}
		if got := s.run(cut...); got != want {
			t.Fatalf("cut %q:\n%s\nwhole:\n%s", cut, got, want)
		}
	})
}

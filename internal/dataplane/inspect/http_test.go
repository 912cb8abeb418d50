package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

type httpCase struct {
	in   string
	want HTTPOutcome
}

// What Envoy 1.40 made of each first line.
func httpCases() []httpCase {
	out := []httpCase{{preface, HTTP2}, {preface + "xx", HTTP2}}
	for want, lines := range map[HTTPOutcome][]string{
		HTTP11: {
			"GET / HTTP/1.1\r\n", "GET / HTTP/1.1\n", "GET  / HTTP/1.1\r\n", "GET /  HTTP/1.1\r\n", "GET / HTTP/1.1 \r\n", "GET\t/\tHTTP/1.1\r\n",
			"get / HTTP/1.1\r\n", "BLAH / HTTP/1.1\r\n", strings.Repeat("M", 70) + " / HTTP/1.1\r\n", "G-T_x / HTTP/1.1\r\n", "* / HTTP/1.1\r\n",
			"GET /\x01 HTTP/1.1\r\n", "GET * HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "CONNECT a:443 HTTP/1.1\r\n", "CONNECT / HTTP/1.1\r\n",
			"GET http://a/ HTTP/1.1\r\n", "GET http:/// HTTP/1.1\r\n", "GET / HTTP/1.1\r\r\n", "GET / HTTP/1.1\x00\r\n", "PRI * HTTP/1.1\r\n", "PRX / HTTP/1.1\r\n",
			"GET / HTTP/1.1\r\nBad Header\r\n\r\n", "GET /" + strings.Repeat("a", MaxRequestLine-15) + " HTTP/1.1\n",
		},
		HTTP10: {
			"GET / HTTP/1.0\r\n", "GET / HTTP/2.0\r\n", "GET / HTTP/0.9\r\n", "GET / HTTP/1.2\r\n", "GET / HTTP/3.0\r\n", "GET /\r\n", "GET / \r\n", "GET /\n",
			"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
		},
		HTTPNotFound: {
			"GET / HTTP/11\r\n", "GET / HTTP/1.11\r\n", "GET / HTTP/1.\r\n", "GET / http/1.1\r\n", "GET / HTTPS/1.1\r\n", "GET / FOO/1.1\r\n", "GET\r\n", "GET \r\n",
			" GET / HTTP/1.1\r\n", "\r\nGET / HTTP/1.1\r\n", "\nGET / HTTP/1.1\r\n", "G@T / HTTP/1.1\r\n", "G(T / HTTP/1.1\r\n", "GET /a b HTTP/1.1\r\n",
			"GET /\xff HTTP/1.1\r\n", "GET foo HTTP/1.1\r\n", "GET :// HTTP/1.1\r\n", "GET /\rfoo HTTP/1.1\r\n", "hello\n", "hello\r\n", "hello world\n",
			"hello world foo\n", "\x16\x03\x01\x00\x05", "\x00\x01\x02", "HTTP/1.1 200 OK\r\n", "SSH-2.0-foo bar\r\n", "{\"a\": 1 }\n", "a b\n", "a b c d\n",
			"A HTTP/1.1\r\n", "GET / HTTP/1.1;\r\n", "GET / HTTP/ 1.1\r\n", "GET / HTTP/a.b\r\n", strings.Repeat("\x00", MaxRequestLine),
		},
		HTTPTooLong: {
			strings.Repeat("a", MaxRequestLine), "GET /" + strings.Repeat("a", MaxRequestLine-14) + " HTTP/1.1\n",
		},
	} {
		for _, l := range lines {
			out = append(out, httpCase{l, want})
		}
	}
	return out
}

func feedHTTP(in []byte, step int) (HTTPOutcome, Verdict) {
	var scan HTTPScan
	for n := min(step, len(in)); ; n = min(n+step, len(in)) {
		buf := slices.Clone(in[:n])
		o, verdict := scan.Inspect(buf)
		if verdict != NeedMore || n == len(in) {
			return o, verdict
		}
	}
}

// Proves LF-10.
func TestHTTPFirstLines(t *testing.T) {
	for _, c := range httpCases() {
		for _, step := range []int{len(c.in), max(1, len(c.in)/200), 5000} {
			got, verdict := feedHTTP([]byte(c.in), step)
			if got != c.want || verdict == NeedMore || (verdict == Reject) != (c.want == HTTPTooLong) {
				t.Errorf("%.60q by %d: %v %v, want %v", c.in, step, got, verdict, c.want)
			}
		}
	}
}

func TestHTTPUndecided(t *testing.T) {
	for _, in := range []string{"", "G", "GET / HTTP/1.1", "GET / HTTP/1.1\r", "hello", "PRI * HTTP/2.0\r\n", preface[:23], "P", strings.Repeat("a", MaxRequestLine-1)} {
		if o, verdict := feedHTTP([]byte(in), max(1, len(in))); verdict != NeedMore {
			t.Errorf("%.40q: %v %v", in, o, verdict)
		}
	}
}

// Proves LF-10 (names of protocols and counters).
func TestHTTPNames(t *testing.T) {
	for o, want := range map[HTTPOutcome][2]string{
		HTTP10: {"http/1.0", "http10_found"}, HTTP11: {"http/1.1", "http11_found"}, HTTP2: {"h2c", "http2_found"},
		HTTPNotFound: {"", "http_not_found"}, HTTPTooLong: {"", "read_error"},
	} {
		if got := [2]string{o.ApplicationProtocol(), o.Counter()}; got != want {
			t.Errorf("%d: %q", o, got)
		}
	}
}

func TestHTTPDoesNotAllocate(t *testing.T) {
	in := []byte("GET /some/path?with=query HTTP/1.1\r\nhost: a\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() {
		var scan HTTPScan
		scan.Inspect(in[:10])
		scan.Inspect(in)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Proves OV-10 for the first line: no panic, the same result for any split, an
// end after MaxRequestLine bytes.
func FuzzHTTPFirstLine(f *testing.F) {
	for _, c := range httpCases() {
		if len(c.in) < 200 {
			f.Add([]byte(c.in), uint16(3))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint16) {
		whole, verdict := feedHTTP(in, max(1, len(in)))
		split, splitVerdict := feedHTTP(in, int(step)+1)
		if whole != split || verdict != splitVerdict {
			t.Fatalf("whole %v %v, split %v %v", whole, verdict, split, splitVerdict)
		}
		if verdict == NeedMore && (len(in) >= MaxRequestLine || bytes.IndexByte(in, '\n') >= 0 && !strings.HasPrefix(preface, string(in))) {
			t.Fatal("undecided")
		}
	})
}

func BenchmarkHTTPFirstLine(b *testing.B) {
	in := []byte("GET /some/path?with=query HTTP/1.1\r\nhost: a\r\n\r\n")
	b.ReportAllocs()
	for b.Loop() {
		var scan HTTPScan
		if o, _ := scan.Inspect(in); o != HTTP11 {
			b.Fatal(o)
		}
	}
}

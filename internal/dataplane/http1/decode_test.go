package http1

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/filter/header"
)

type decodeCase struct {
	name string
	in   string
	want string
	s    setup
}

func runDecode(t *testing.T, cases []decodeCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.s.runAll([]byte(c.in))
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

func request(fields ...string) string {
	return "headers HTTP/1.1\n" + strings.Join(fields, "\n") + "\n"
}

const (
	get   = ":method: GET\n:path: /\n:authority: a"
	post  = ":method: POST\n:path: /\n:authority: a"
	keep  = "end keep=true\n"
	ended = "end keep=false\n"
)

// Proves HC-03, HC-18: pseudo-headers, and requests one behind the other.
func TestDecodeRequests(t *testing.T) {
	const h = "Host: a\r\n"
	runDecode(t, []decodeCase{
		{name: "plain", in: "GET / HTTP/1.1\r\n" + h + "\r\n", want: request(get) + keep},
		{
			name: "names and values", in: "GET /a?b HTTP/1.1\r\nX-Foo:\t a \t b \r\nHost: a:80\r\nEmpty:\r\nUser-Agent: \xff\r\nx-foo: 2\r\n\r\n",
			want: request(":method: GET\n:path: /a?b\n:authority: a:80\nx-foo: a \t b\nempty: \nuser-agent: \xff\nx-foo: 2") + keep,
		},
		{name: "empty lines first", in: "\r\n\r\nGET / HTTP/1.1\r\n" + h + "\r\n\r\n", want: request(get) + keep},
		{name: "long name", in: "GET / HTTP/1.1\r\n" + h + strings.Repeat("Ab", 50) + ": c\r\n\r\n", want: request(get, strings.Repeat("ab", 50)+": c") + keep},
		{
			name: "pipelined", in: "POST / HTTP/1.1\r\n" + h + "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n" + h + "Connection: close\r\n\r\n",
			want: request(post, "content-length: 3") + "data \"abc\"\n" + keep + request(get, "connection: close") + ended,
		},
		{name: "length 0", in: "POST / HTTP/1.1\r\n" + h + "Content-Length: 0\r\n\r\n", want: request(post, "content-length: 0") + keep},
		{name: "GET with a body", in: "GET / HTTP/1.1\r\n" + h + "Content-Length: 1\r\n\r\nx", want: request(get, "content-length: 1") + "data \"x\"\n" + keep},
		{name: "cut body", in: "POST / HTTP/1.1\r\n" + h + "Content-Length: 3\r\n\r\nab", want: request(post, "content-length: 3") + "data \"ab\"\nerror 400 http1.codec_error: the connection ended within a message\n"},
		{name: "no Host", in: "GET / HTTP/1.1\r\n\r\n", want: request(":method: GET\n:path: /") + keep},
		{name: "Host that Connection names", in: "GET / HTTP/1.1\r\n" + h + "Connection: Host\r\n\r\n", want: request(":method: GET\n:path: /", "connection: Host") + keep},
		{name: "empty Host", in: "GET / HTTP/1.1\r\nHost:\r\n\r\n", want: request(":method: GET\n:path: /\n:authority: ") + keep},
		{name: "asterisk", in: "OPTIONS * HTTP/1.1\r\n" + h + "\r\n", want: request(":method: OPTIONS\n:path: *\n:authority: a") + keep},
		{name: "two slashes", in: "GET //h/x HTTP/1.1\r\n" + h + "\r\n", want: request(":method: GET\n:path: //h/x\n:authority: a") + keep},
		{name: "nothing", in: "", want: ""},
		{name: "empty lines only", in: "\r\n\r\n", want: ""},
	})
}

// Proves HC-11 and HC-51: the absolute form names the authority, and userinfo
// is dropped.
func TestDecodeAbsoluteForm(t *testing.T) {
	one := func(target, path, authority, scheme string) decodeCase {
		return decodeCase{
			name: target, in: "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n",
			want: request(":method: GET\n:path: "+path+"\n:authority: "+authority+"\n:scheme: "+scheme) + keep,
		}
	}
	off := setup{o: Options{RefuseAbsoluteURL: true}}
	runDecode(t, []decodeCase{
		one("http://h/p?q", "/p?q", "h", "http"),
		one("http://h", "/", "h", "http"),
		one("http://h?q", "?q", "h", "http"),
		one("http://u:p@h:80/x", "/x", "h:80", "http"),
		one("HTTPS://H:443/x", "/x", "H:443", "https"),
		one("http://[::1]:80/x", "/x", "[::1]:80", "http"),
		one("http://[::1]/x", "/x", "[::1]", "http"),
		one("http://h:0/x@y", "/x@y", "h:0", "http"),
		{name: "off", s: off, in: "GET http://h/x HTTP/1.1\r\nHost: a\r\n\r\n", want: request(":method: GET\n:path: http://h/x\n:authority: a") + keep},
		{name: "off, asterisk", s: off, in: "GET * HTTP/1.1\r\nHost: a\r\n\r\n", want: request(":method: GET\n:path: *\n:authority: a") + keep},
		{name: "off, neither", s: off, in: "GET foo HTTP/1.1\r\nHost: a\r\n\r\n", want: "error 400 http1.codec_error: a request target that is neither a path nor a URL\n"},
	})
}

// Proves HC-11: HTTP/1.0, custom methods and trailers are options.
func TestDecodeOptions(t *testing.T) {
	old := setup{o: Options{AcceptHTTP10: true, DefaultHost10: "d"}}
	v10 := "headers HTTP/1.0\n:method: GET\n:path: /\n"
	chunks := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\nContent-Length: 3\r\nExpect: z\r\n\r\n"
	chunked := request(post, "transfer-encoding: chunked") + "data \"abc\"\n"
	runDecode(t, []decodeCase{
		{name: "1.0", s: old, in: "GET / HTTP/1.0\r\n\r\n", want: v10 + ":authority: d\n" + ended},
		{name: "1.0 with Host", s: old, in: "GET / HTTP/1.0\r\nHost: a\r\n\r\n", want: v10 + ":authority: a\n" + ended},
		{name: "1.0 kept", s: old, in: "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", want: v10 + ":authority: d\nconnection: Keep-Alive\n" + keep},
		{name: "1.0 upgrade", s: old, in: "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", want: v10 + ":authority: d\nconnection: upgrade\nupgrade: x\n" + ended},
		{name: "1.0 refused", in: "GET / HTTP/1.0\r\n\r\n", want: "error 426 low_version: an HTTP version that is not served\n"},
		{name: "0.9", s: old, in: "GET / HTTP/0.9\r\n\r\n", want: "error 426 low_version: an HTTP version that is not served\n"},
		{name: "custom", s: setup{o: Options{CustomMethods: true}}, in: "f-O / HTTP/1.1\r\nHost: a\r\n\r\n", want: request(":method: f-O\n:path: /\n:authority: a") + keep},
		{name: "trailers dropped", in: chunks, want: chunked + keep},
		{name: "trailers", s: setup{o: Options{EnableTrailers: true}}, in: chunks, want: chunked + "trailers\nx: y\nexpect: z\n" + keep},
		{
			name: "both framings", s: setup{o: Options{AllowChunkedLength: true}},
			in: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", want: chunked + keep,
		},
	})
}

// Proves HC-10: extensions of chunks are ignored.
func TestDecodeChunks(t *testing.T) {
	for _, body := range []string{"3\r\nabc\r\n0\r\n\r\n", "3;a=b;c=\"d\te\"\r\nabc\r\n00;x\r\n\r\n", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "000000000000000000003\r\nabc\r\n0\r\n\r\n", "3;\r\nabc\r\n0\r\nA: b\r\n\r\n"} {
		runDecode(t, []decodeCase{{
			name: body, in: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n" + body,
			want: request(post, "transfer-encoding: Chunked") + "data \"abc\"\n" + keep,
		}})
	}
}

// Proves HC-43: an upgrade makes the rest raw data; h2c, and Upgrade without
// Connection, do not.
func TestDecodeUpgrade(t *testing.T) {
	const start = "GET / HTTP/1.1\r\nHost: a\r\n"
	ignore := setup{o: Options{IgnoreUpgrade: func(v string) bool { return v == "foo" }}}
	ws := request(get, "connection: keep-alive, Upgrade", "upgrade: websocket")
	runDecode(t, []decodeCase{
		{name: "websocket", in: start + "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nabc\x00\r\n", want: ws + "data \"abc\\x00\\r\\n\"\n" + ended},
		{
			name: "with a body", in: start + "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabcdef",
			want: request(get, "connection: upgrade\nupgrade: websocket\ncontent-length: 3") + "data \"abcdef\"\n" + ended,
		},
		{
			name: "with chunks", in: start + "Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\ndef",
			want: request(get, "connection: upgrade\nupgrade: websocket\ntransfer-encoding: chunked") + "data \"abcdef\"\n" + ended,
		},
		{name: "h2c", in: start + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n", want: request(get) + keep},
		{name: "h2c among others", in: start + "Connection: Upgrade, x , close,HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", want: request(get, "connection: x,close") + ended},
		{name: "ignored", s: ignore, in: start + "Connection: Upgrade\r\nUpgrade: foo\r\n\r\n", want: request(get) + keep},
		{name: "not nominated", in: start + "Upgrade: websocket\r\n\r\n", want: request(get, "upgrade: websocket") + keep},
		{name: "CONNECT", in: "CONNECT h:80 HTTP/1.1\r\nHost: q\r\nContent-Length: 0\r\n\r\nabc", want: request(":method: CONNECT\n:authority: h:80") + "data \"abc\"\n" + ended},
	})
}

// Proves HC-14.
func TestUnderscores(t *testing.T) {
	const in = "GET / HTTP/1.1\r\nHost: a\r\nA_b: c\r\nd: e\r\n\r\n"
	runDecode(t, []decodeCase{
		{name: "allow", in: in, want: request(get, "a_b: c\nd: e") + keep},
		{name: "drop", s: setup{o: Options{Underscores: DropUnderscores}}, in: in, want: request(get, "d: e") + keep},
		{name: "reject", s: setup{o: Options{Underscores: RejectUnderscores}}, in: in, want: "error 400 http1.unexpected_underscore: an underscore in a header name\n"},
	})
	var d Decoder
	var h header.Map
	d.Init(Server, &Options{Underscores: DropUnderscores})
	if _, _, _, _, err := d.Next([]byte(in), &h); err != nil || d.Dropped() != 1 {
		t.Errorf("%d headers dropped, error %v", d.Dropped(), err)
	}
}

// Proves HC-16, HC-55: what frames a response.
func TestDecodeResponses(t *testing.T) {
	client := func(method string) setup { return setup{role: Client, method: method} }
	r := client("GET")
	up := setup{role: Client, method: "GET", upgrade: true}
	runDecode(t, []decodeCase{
		{name: "length", s: r, in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", want: "headers HTTP/1.1\n:status: 200\ncontent-length: 3\ndata \"abc\"\n" + keep},
		{name: "no reason", s: r, in: "HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", want: "headers HTTP/1.1\n:status: 404\ncontent-length: 0\n" + keep},
		{name: "until close", s: r, in: "HTTP/1.1 200 O\xff K\r\n\r\nabc", want: "headers HTTP/1.1\n:status: 200\ndata \"abc\"\n" + ended},
		{name: "until close, empty", s: r, in: "HTTP/1.0 200 OK\r\n\r\n", want: "headers HTTP/1.0\n:status: 200\n" + ended},
		{name: "chunks", s: r, in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", want: "headers HTTP/1.1\n:status: 200\ntransfer-encoding: chunked\ndata \"abc\"\n" + keep},
		{name: "1.2", s: r, in: "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", want: "headers HTTP/1.0\n:status: 200\ncontent-length: 0\n" + ended},
		{name: "1.2 kept", s: r, in: "HTTP/1.2 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", want: "headers HTTP/1.0\n:status: 200\nconnection: keep-alive\ncontent-length: 0\n" + keep},
		{name: "1.0 chunks", s: r, in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: "headers HTTP/1.0\n:status: 200\nconnection: keep-alive\ntransfer-encoding: chunked\n" + ended},
		{name: "close", s: r, in: "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", want: "headers HTTP/1.1\n:status: 200\nconnection: Close\ncontent-length: 0\n" + ended},
		{name: "HEAD", s: client("HEAD"), in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", want: "headers HTTP/1.1\n:status: 200\ncontent-length: 3\n" + keep},
		{name: "HEAD chunked", s: client("HEAD"), in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", want: "headers HTTP/1.1\n:status: 200\ntransfer-encoding: chunked\n" + keep},
		{name: "304", s: r, in: "HTTP/1.1 304 N\r\nContent-Length: 3\r\n\r\n", want: "headers HTTP/1.1\n:status: 304\ncontent-length: 3\n" + keep},
		{name: "204", s: r, in: "HTTP/1.1 204 N\r\nContent-Length: 0\r\n\r\n", want: "headers HTTP/1.1\n:status: 204\n" + keep},
		{
			name: "informational", s: r, in: "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\nHTTP/1.1 199 ?\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			want: "informational\n:status: 100\ninformational\n:status: 103\nlink: x\ninformational\n:status: 199\nheaders HTTP/1.1\n:status: 200\ncontent-length: 0\n" + keep,
		},
		{name: "101", s: up, in: "HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\nabc", want: "headers HTTP/1.1\n:status: 101\nupgrade: x\ndata \"abc\"\n" + ended},
		{name: "upgrade refused", s: up, in: "HTTP/1.1 400 B\r\nContent-Length: 3\r\n\r\nabc", want: "headers HTTP/1.1\n:status: 400\ncontent-length: 3\ndata \"abc\"\n" + keep},
		{name: "CONNECT", s: client("CONNECT"), in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", want: "headers HTTP/1.1\n:status: 200\ndata \"abcd\"\n" + ended},
		{name: "CONNECT refused", s: client("CONNECT"), in: "HTTP/1.1 403 F\r\nContent-Length: 3\r\n\r\nabc", want: "headers HTTP/1.1\n:status: 403\ncontent-length: 3\ndata \"abc\"\n" + keep},
		{name: "nothing", s: r, in: "", want: "error 502 http1.codec_error: the connection ended within a message\n"},
		{name: "cut chunks", s: r, in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc", want: "headers HTTP/1.1\n:status: 200\ntransfer-encoding: chunked\ndata \"abc\"\nerror 502 http1.codec_error: the connection ended within a message\n"},
	})
}

// Proves HC-13: the limits, to the byte.
func TestLimits(t *testing.T) {
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "h%d: x\r\n", i)
		}
		return b.String()
	}
	pad := func(total int, rest string) string { return strings.Repeat("y", total-len(rest)) }
	const x, p = "GET / HTTP/1.1\r\nHost: a\r\nx: \r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, c := range []struct {
		name, in, want string
		s              setup
	}{
		{name: "value", in: "GET / HTTP/1.1\r\nHost: a\r\nx: " + pad(61440, x) + "\r\n\r\n"},
		{name: "value+1", in: "GET / HTTP/1.1\r\nHost: a\r\nx: " + pad(61441, x) + "\r\n\r\n", want: "431 http1.headers_too_large"},
		{name: "path", in: "GET /" + pad(61440, p) + " HTTP/1.1\r\nHost: a\r\n\r\n"},
		{name: "path+1", in: "GET /" + pad(61441, p) + " HTTP/1.1\r\nHost: a\r\n\r\n", want: "431 http1.headers_too_large"},
		{name: "no end", in: "GET /" + strings.Repeat("y", 61440), want: "431 http1.headers_too_large"},
		{name: "no end of a name", in: "GET / HTTP/1.1\r\n" + strings.Repeat("y", 61440), want: "431 http1.headers_too_large"},
		{name: "configured", in: "GET / HTTP/1.1\r\nHost: a\r\nx: " + pad(1025, x) + "\r\n\r\n", want: "431 http1.headers_too_large", s: setup{o: Options{MaxHeadersKB: 1}}},
		{name: "count", in: "GET / HTTP/1.1\r\nHost: a\r\n" + fields(99) + "\r\n"},
		{name: "count+1", in: "GET / HTTP/1.1\r\nHost: a\r\n" + fields(100) + "\r\n", want: "431 http1.too_many_headers"},
		{name: "trailers", in: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + fields(100) + "\r\n"},
		{name: "trailers+1", in: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + fields(101) + "\r\n", want: "431 http1.too_many_trailers"},
		{name: "large trailers", in: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: " + strings.Repeat("y", 61440), want: "431 http1.headers_too_large"},
		{name: "chunk extension", in: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0;" + strings.Repeat("y", 4100), want: "400 http1.codec_error"},
		{name: "response", in: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx: " + strings.Repeat("y", 81000) + "\r\n\r\n", s: setup{role: Client}},
		{name: "response+", in: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx: " + strings.Repeat("y", 82000) + "\r\n\r\n", want: "502 http1.headers_too_large", s: setup{role: Client}},
		{name: "response count+1", in: "HTTP/1.1 200 OK\r\n" + fields(101) + "\r\n", want: "502 http1.too_many_headers", s: setup{role: Client}},
	} {
		single := make([][]byte, len(c.in))
		for i := range single {
			single[i] = []byte(c.in[i : i+1])
		}
		for _, got := range []string{c.s.run([]byte(c.in)), c.s.run([]byte(c.in[:100]), []byte(c.in[100:]))} {
			_, got, _ = strings.Cut(got, "error ")
			if !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("%s: got error %q, want %q", c.name, got, c.want)
			}
		}
	}
}

// Input that trickles in costs no more than input that comes at once.
func TestTrickleIsLinear(t *testing.T) {
	in := []byte("GET / HTTP/1.1\r\nHost: a\r\nx: " + strings.Repeat("y", 60000) + "\r\n\r\n")
	var d Decoder
	var h header.Map
	d.Init(Server, &Options{})
	from := 0
	for to := range len(in) + 1 {
		ev, n, _, _, err := d.Next(in[from:to], &h)
		if err != nil {
			t.Fatal(err)
		}
		from += n
		if ev == NeedMore && to > from && d.scan != to-from {
			t.Fatalf("after %d bytes only %d of %d are done with", to, d.scan, to-from)
		}
	}
	if h.Get("x") == "" || from != len(in) {
		t.Error("the request was not read")
	}
}

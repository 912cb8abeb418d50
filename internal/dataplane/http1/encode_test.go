package http1

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/filter/header"
)

func headers(nv ...string) *header.Map {
	var h header.Map
	for i := 0; i < len(nv); i += 2 {
		h.Add(nv[i], nv[i+1])
	}
	return &h
}

// Proves HC-12 and HC-03: heads of requests, and how their bodies are framed.
func TestEncodeRequests(t *testing.T) {
	pseudo := func(method string, more ...string) *header.Map {
		return headers(append([]string{":method", method, ":path", "/p", ":scheme", "http", ":authority", "a"}, more...)...)
	}
	for _, c := range []struct {
		name string
		o    Options
		h    *header.Map
		end  bool
		want string
	}{
		{name: "GET", h: pseudo("GET", "x-a", "1", "x-a", "2"), end: true, want: "GET /p HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nx-a: 2\r\n\r\n"},
		{name: "GET with body", h: pseudo("GET"), want: "GET /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{name: "POST without body", h: pseudo("POST"), end: true, want: "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"},
		{name: "DELETE without body", h: pseudo("DELETE"), end: true, want: "DELETE /p HTTP/1.1\r\nhost: a\r\n\r\n"},
		{name: "length", h: pseudo("POST", "content-length", "3"), want: "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"},
		{name: "length and chunked", h: pseudo("POST", "content-length", "3", "transfer-encoding", "chunked"), want: "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"},
		{name: "chunked once", h: pseudo("POST", "transfer-encoding", "chunked"), want: "POST /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{name: "two lengths", h: pseudo("POST", "content-length", "3", "content-length", "4"), want: "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"},
		{name: "a length without body", h: pseudo("POST", "content-length", "3"), end: true, want: "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"},
		{name: "host and authority", h: pseudo("GET", "host", "b"), end: true, want: "GET /p HTTP/1.1\r\nhost: a\r\n\r\n"},
		{name: "upgrade", h: pseudo("GET", "connection", "Upgrade", "upgrade", "websocket"), want: "GET /p HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\nabc"},
		{name: "CONNECT", h: headers(":method", "CONNECT", ":authority", "h:80"), want: "CONNECT h:80 HTTP/1.1\r\nhost: h:80\r\n\r\nabc"},
		{name: "absolute", o: Options{SendFullyQualifiedURL: true}, h: pseudo("GET"), end: true, want: "GET http://a/p HTTP/1.1\r\nhost: a\r\n\r\n"},
		{
			name: "proper case", o: Options{HeaderCase: ProperCaseWords}, h: pseudo("GET", "x-foo_bar", "1", "x--a1b", "2", "te", "3"), end: true,
			want: "GET /p HTTP/1.1\r\nHost: a\r\nX-Foo_Bar: 1\r\nX--A1b: 2\r\nTe: 3\r\n\r\n",
		},
		{name: "no new line", h: pseudo("GET", "x", "a\r\nb: c\x00\td"), end: true, want: "GET /p HTTP/1.1\r\nhost: a\r\nx: a  b: c \td\r\n\r\n"},
		{name: "no new line in the target", h: headers(":method", "GET", ":path", "/a b\r\nc", ":authority", "a\r\nb"), end: true, want: "GET /a%20b%0D%0Ac HTTP/1.1\r\nhost: a  b\r\n\r\n"},
	} {
		var e Encoder
		e.Init(Client, &c.o)
		out := e.RequestHead(nil, c.h, c.end)
		if !c.end {
			out = e.End(e.DataSuffix(append(e.DataPrefix(out, 3), "abc"...)), nil)
		}
		if diff := cmp.Diff(c.want, string(out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Proves HC-12, HC-17, HC-55: heads of responses, and how their bodies are framed.
func TestEncodeResponses(t *testing.T) {
	trailers := headers("x-t", "1", ":bad", "2")
	for _, c := range []struct {
		name   string
		o      Options
		h      *header.Map
		method string
		v      Version
		end    bool
		close  bool
		want   string
	}{
		{name: "length", h: headers(":status", "200", "content-length", "3"), want: "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"},
		{name: "chunks", h: headers(":status", "404"), want: "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{name: "trailers", o: Options{EnableTrailers: true}, h: headers(":status", "200"), want: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-t: 1\r\n\r\n"},
		{name: "no body", h: headers(":status", "200"), end: true, want: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"},
		{name: "204", h: headers(":status", "204", "content-length", "0"), end: true, want: "HTTP/1.1 204 No Content\r\n\r\n"},
		{name: "304", h: headers(":status", "304"), end: true, want: "HTTP/1.1 304 Not Modified\r\n\r\n"},
		{name: "304 with length", h: headers(":status", "304", "content-length", "3"), end: true, want: "HTTP/1.1 304 Not Modified\r\ncontent-length: 3\r\n\r\n"},
		{name: "HEAD", method: "HEAD", h: headers(":status", "200"), end: true, want: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"},
		{name: "HEAD with length", method: "HEAD", h: headers(":status", "200", "content-length", "3"), end: true, want: "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"},
		{name: "close", h: headers(":status", "599", "connection", "x"), end: true, close: true, want: "HTTP/1.1 599 Last Unassigned Server Error Code\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"},
		{name: "unknown status", h: headers(":status", "299"), end: true, want: "HTTP/1.1 299 Unknown\r\ncontent-length: 0\r\n\r\n"},
		{name: "1.0", o: Options{AcceptHTTP10: true}, v: HTTP10, h: headers(":status", "200"), close: true, want: "HTTP/1.0 200 OK\r\nconnection: close\r\n\r\nabc"},
		{name: "1.0 kept, without length", o: Options{AcceptHTTP10: true}, v: HTTP10, h: headers(":status", "200"), want: "HTTP/1.0 200 OK\r\nconnection: close\r\n\r\nabc"},
		{name: "1.0 kept", o: Options{AcceptHTTP10: true}, v: HTTP10, h: headers(":status", "200", "content-length", "3"), want: "HTTP/1.0 200 OK\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\nabc"},
		{name: "1.0 HEAD", o: Options{AcceptHTTP10: true}, v: HTTP10, method: "HEAD", h: headers(":status", "200"), end: true, close: true, want: "HTTP/1.0 200 OK\r\nconnection: close\r\n\r\n"},
		{name: "101", h: headers(":status", "101", "connection", "Upgrade", "upgrade", "x", "content-length", "3"), close: true, want: "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: x\r\n\r\nabc"},
		{name: "CONNECT", method: "CONNECT", h: headers(":status", "200"), want: "HTTP/1.1 200 OK\r\n\r\nabc"},
		{name: "proper case", o: Options{HeaderCase: ProperCaseWords}, h: headers(":status", "200", "x-custom-header", "1"), end: true, want: "HTTP/1.1 200 OK\r\nX-Custom-Header: 1\r\nContent-Length: 0\r\n\r\n"},
	} {
		var e Encoder
		e.Init(Server, &c.o)
		out := e.ResponseHead(nil, c.h, c.method, c.v, c.end, c.close)
		if !c.end && !e.DropsBody() {
			out = e.End(e.DataSuffix(append(e.DataPrefix(out, 3), "abc"...)), trailers)
		}
		if diff := cmp.Diff(c.want, string(out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestEncodeInformational(t *testing.T) {
	var e Encoder
	e.Init(Server, &Options{})
	got := string(e.InformationalHead(nil, headers(":status", "103", "link", "x", "content-length", "3")))
	if want := "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBodilessResponses(t *testing.T) {
	var e Encoder
	e.Init(Server, &Options{})
	for _, c := range []struct{ method, status string }{{"HEAD", "200"}, {"GET", "204"}, {"GET", "304"}} {
		e.ResponseHead(nil, headers(":status", c.status), c.method, HTTP11, false, false)
		if !e.DropsBody() || len(e.DataPrefix(nil, 3))+len(e.End(nil, nil)) != 0 {
			t.Errorf("%s %s has a body", c.method, c.status)
		}
	}
}

func TestOverhead(t *testing.T) {
	var e Encoder
	e.Init(Server, &Options{})
	e.ResponseHead(nil, headers(":status", "200"), "GET", HTTP11, false, false)
	for _, n := range []int{1, 15, 16, 255, 256, 1 << 20} {
		if got, want := e.Overhead(n), len(e.DataSuffix(e.DataPrefix(nil, n))); got != want {
			t.Errorf("overhead of %d bytes: %d, want %d", n, got, want)
		}
	}
}

// Proves HC-12: preserve_case writes names as they came, and the reason phrase
// when it is asked for.
func TestPreserveCase(t *testing.T) {
	o := Options{HeaderCase: PreserveCase, ForwardReason: true}
	var d Decoder
	var e Encoder
	var h header.Map
	d.Init(Server, &o)
	if _, _, _, _, err := d.Next([]byte("GET / HTTP/1.1\r\nX-A: 1\r\nhOST: a\r\ntE: x\r\nX-a: 2\r\n\r\n"), &h); err != nil {
		t.Fatal(err)
	}
	h.Add("x-new", "3")
	e.Init(Client, &o)
	e.SetCases(d.Cases())
	if got, want := string(e.RequestHead(nil, &h, true)), "GET / HTTP/1.1\r\nhOST: a\r\ntE: x\r\nX-A: 1\r\nX-A: 2\r\nx-new: 3\r\n\r\n"; sorted(got) != sorted(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	h.Reset()
	d.Init(Client, &o)
	d.ExpectResponseTo("GET", false)
	if _, _, _, _, err := d.Next([]byte("HTTP/1.1 200 Fine, thanks\r\nX-A: 1\r\nCONTENT-LENGTH: 0\r\n\r\n"), &h); err != nil {
		t.Fatal(err)
	}
	var kept Cases
	d.Cases().CopyTo(&kept)
	d.Init(Client, &o)
	e.Init(Server, &o)
	e.SetCases(&kept)
	if got, want := string(e.ResponseHead(nil, &h, "GET", HTTP11, true, false)), "HTTP/1.1 200 Fine, thanks\r\nX-A: 1\r\nCONTENT-LENGTH: 0\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// sorted is a head with its lines in order.
func sorted(head string) string {
	lines := strings.Split(head, "\r\n")
	slices.Sort(lines)
	return strings.Join(lines, "\r\n")
}

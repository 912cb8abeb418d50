package http1

import (
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

// browser is a request as browsers send it.
const browser = "GET /assets/js/app.4f2a9c.js?v=1234567 HTTP/1.1\r\n" +
	"Host: www.example.com\r\n" +
	"Connection: keep-alive\r\n" +
	"sec-ch-ua: \"Chromium\";v=\"130\", \"Google Chrome\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\n" +
	"sec-ch-ua-mobile: ?0\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
	"Sec-Fetch-Site: same-origin\r\n" +
	"Sec-Fetch-Mode: no-cors\r\n" +
	"Sec-Fetch-Dest: script\r\n" +
	"Referer: https://www.example.com/some/page/with/a/path\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; _ga=GA1.1.1234567890.1234567890\r\n\r\n"

const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\nDate: Sat, 01 Jan 2000 00:00:00 GMT\r\n" +
	"Server: upstream\r\nCache-Control: no-store\r\nX-Request-Id: 0123456789\r\n\r\nhello"

const upload = "POST /u HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-T: 1\r\n\r\n"

// exchange is what a proxy does with one request and its response.
type exchange struct {
	server, client   Decoder
	toClient, toHost Encoder
	req, resp        header.Map
	out              []byte
	in, answer       []byte
}

func newExchange(o *Options, in string) *exchange {
	x := &exchange{in: []byte(in), answer: []byte(answer)}
	x.server.Init(Server, o)
	x.client.Init(Client, o)
	x.toClient.Init(Server, o)
	x.toHost.Init(Client, o)
	return x
}

func (x *exchange) request() bool {
	x.req.Reset()
	x.out = x.out[:0]
	for in := x.in; ; {
		ev, n, data, end, err := x.server.Next(in, &x.req)
		if err != nil || ev == NeedMore {
			return false
		}
		in = in[n:]
		switch ev {
		case Headers:
			x.out = x.toHost.RequestHead(x.out, &x.req, end)
		case Data:
			x.out = x.toHost.DataSuffix(append(x.toHost.DataPrefix(x.out, len(data)), data...))
		}
		if end {
			x.out = x.toHost.End(x.out, nil)
			return len(in) == 0
		}
	}
}

func (x *exchange) response() bool {
	x.resp.Reset()
	x.out = x.out[:0]
	x.client.ExpectResponseTo("GET", false)
	_, n, _, _, err := x.client.Next(x.answer, &x.resp)
	_, _, data, end, err2 := x.client.Next(x.answer[n:], &x.resp)
	if err != nil || err2 != nil || !end {
		return false
	}
	x.out = x.toClient.ResponseHead(x.out, &x.resp, "GET", HTTP11, false, false)
	x.out = x.toClient.End(append(x.out, data...), nil)
	return true
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, in := range []string{browser, upload, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"} {
		for _, o := range []Options{{}, {EnableTrailers: true}, {HeaderCase: ProperCaseWords}, {HeaderCase: PreserveCase}} {
			x := newExchange(&o, in)
			ok := true
			if n := testing.AllocsPerRun(100, func() { ok = ok && x.request() && x.response() }); n != 0 || !ok {
				t.Errorf("%v allocations, works: %t, for %q", n, ok, in)
			}
		}
	}
}

func benchExchange(b *testing.B, in string, f func(*exchange) bool) {
	x := newExchange(&Options{}, in)
	b.ReportAllocs()
	for b.Loop() {
		if !f(x) {
			b.Fatal("not understood")
		}
	}
}

func BenchmarkBrowserRequest(b *testing.B) { benchExchange(b, browser, (*exchange).request) }
func BenchmarkSmallRequest(b *testing.B) {
	benchExchange(b, "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n", (*exchange).request)
}
func BenchmarkChunkedUpload(b *testing.B) { benchExchange(b, upload, (*exchange).request) }
func BenchmarkResponse(b *testing.B)      { benchExchange(b, browser, (*exchange).response) }

func BenchmarkBrowserDecode(b *testing.B) {
	benchExchange(b, browser, func(x *exchange) bool {
		x.req.Reset()
		_, _, _, end, err := x.server.Next(x.in, &x.req)
		return end && err == nil
	})
}

func BenchmarkBrowserEncode(b *testing.B) {
	x := newExchange(&Options{}, browser)
	x.request()
	b.ReportAllocs()
	for b.Loop() {
		x.out = x.toHost.RequestHead(x.out[:0], &x.req, true)
	}
}

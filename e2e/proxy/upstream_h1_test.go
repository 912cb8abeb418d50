//go:build interop

package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

const ok5 = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func statusLines() []misbehaviour {
	return []misbehaviour{
		{name: "fine", play: answers(ok5)},
		{name: "garbage", play: ends("\x00\x01garbage\r\n\r\n")},
		{name: "another protocol", play: ends("SSH-2.0-OpenSSH_9.6\r\n")},
		{name: "TLS alert", play: ends("\x15\x03\x01\x00\x02\x02\x46")},
		{name: "HTTP/2 frames", play: ends("\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
		{name: "status letters", play: ends("HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n")},
		{
			name: "status of two digits", play: ends("HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
			differs: "Envoy passes on what no client can read", want: "502 with 0 bytes, 502 with 0 bytes; UPE, UPE",
		},
		{
			name: "status 099", play: ends("HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"),
			differs: "Envoy passes on what no client can read", want: "502 with 0 bytes, 502 with 0 bytes; UPE, UPE",
		},
		{name: "status 600", play: ends("HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n")},
		{
			name: "status 1000", play: ends("HTTP/1.1 1000 OK\r\nContent-Length: 0\r\n\r\n"),
			differs: "Envoy passes on what no client can read", want: "502 with 0 bytes, 502 with 0 bytes; UPE, UPE",
		},
		{
			name: "version 2.0", play: ends("HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
			differs: "docs/differences.md: a response is HTTP/1.0 or HTTP/1.1", want: "502 with 0 bytes, 502 with 0 bytes; UPE, UPE",
		},
		{
			name: "version 0.9", play: ends("HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n"),
			differs: "docs/differences.md: a response is HTTP/1.0 or HTTP/1.1", want: "502 with 0 bytes, 502 with 0 bytes; UPE, UPE",
		},
		{name: "no reason", play: answers("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n")},
		{name: "no space after status", play: answers("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n")},
		{name: "endless reason", play: ends("HTTP/1.1 200 " + strings.Repeat("x", 100_000) + "\r\n\r\n")},
		{name: "request instead", play: ends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")},
	}
}

func fieldLies() []misbehaviour {
	return []misbehaviour{
		{name: "no colon", play: ends("HTTP/1.1 200 OK\r\nno colon\r\n\r\n")},
		{name: "NUL in a value", play: ends("HTTP/1.1 200 OK\r\nx: a\x00b\r\nContent-Length: 0\r\n\r\n")},
		{name: "space before colon", play: ends("HTTP/1.1 200 OK\r\nx : a\r\nContent-Length: 0\r\n\r\n")},
		{name: "two lengths", play: ends("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")},
		{name: "list of lengths", play: ends("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello")},
		{name: "negative length", play: ends("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello")},
		{name: "length with sign", play: ends("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello")},
		{name: "length beyond 64 bits", play: ends("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello")},
		{name: "length and chunks", play: ends("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")},
		{name: "unknown encoding", play: ends("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello")},
		{name: "too long fields", play: ends("HTTP/1.1 200 OK\r\nx: " + strings.Repeat("x", 100_000) + "\r\n\r\n")},
		{name: "too many fields", play: ends("HTTP/1.1 200 OK\r\n" + strings.Repeat("x: y\r\n", 200) + "Content-Length: 0\r\n\r\n")},
	}
}

func bodyLies() []misbehaviour {
	return []misbehaviour{
		{name: "less than said", play: ends("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")},
		{name: "more than said", play: answers(ok5 + "trailing")},
		{name: "a second response", play: answers(ok5 + ok5)},
		{name: "until the end", play: ends("HTTP/1.1 200 OK\r\n\r\nhello")},
		{name: "until the end, 1.0", play: ends("HTTP/1.0 200 OK\r\n\r\nhello")},
		{
			name: "chunk size wrong", play: ends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n"),
			differs: "Envoy drops what came before", want: "200 with 5 bytes cut off, 200 with 5 bytes cut off; UPE, UPE",
		},
		{name: "chunk size overflows", play: ends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello")},
		{
			name: "chunk without end", play: ends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n0\r\n\r\n"),
			differs: "docs/differences.md: a chunk ends with CRLF", want: "200 with 5 bytes cut off, 200 with 5 bytes cut off; UPE, UPE",
		},
		{name: "no last chunk", play: ends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")},
		{name: "trailers", play: answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n")},
		{name: "bad trailers", play: ends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx y\r\n\r\n")},
		{name: "204 with length", play: ends("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello")},
		{name: "204 with chunks", play: ends("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")},
		{name: "304 with length", play: answers("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n")},
		{name: "100 before", play: answers("HTTP/1.1 100 Continue\r\n\r\n" + ok5)},
		{name: "flood of 1xx", play: answers(strings.Repeat("HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n", 1000) + ok5)},
		{
			name: "unasked 101", play: ends("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nhello"),
			differs: "docs/differences.md: an answer that nobody asked for is none", want: "502 with 0 bytes, 502 with 0 bytes; UPE, UPE",
		},
		{
			name: "bare line feeds", play: ends("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"),
			differs: "docs/differences.md: lines end with CRLF", want: "502 with 0 bytes, 502 with 0 bytes; UPE, UPE",
		},
		{
			name: "folded field", play: ends("HTTP/1.1 200 OK\r\nx: a\r\n b\r\nContent-Length: 5\r\n\r\nhello"),
			differs: "docs/differences.md: no folded fields", want: "502 with 0 bytes, 502 with 0 bytes; UPE, UPE",
		},
	}
}

// timing are servers whose fault is when they do something.
func timing() []misbehaviour {
	return []misbehaviour{
		{name: "closes on accept", play: func(*net.TCPConn) {}},
		{name: "resets on accept", play: func(c *net.TCPConn) { harness.Reset(c) }, racy: true},
		{name: "closes after the request", play: ends("")},
		{name: "resets after the request", play: func(c *net.TCPConn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			harness.Reset(c)
		}},
		{name: "never answers", play: untilClosed},
		{name: "stops in the head", play: answers("HTTP/1.1 200 OK\r\nContent-Le")},
		{name: "stops in the body", play: answers("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")},
		{name: "resets in the body", play: func(c *net.TCPConn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")
			time.Sleep(100 * time.Millisecond) // the answer must be on its way first
			harness.Reset(c)
		}},
		{name: "one byte at a time", play: func(c *net.TCPConn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_ = c.SetNoDelay(true)
			for _, b := range []byte(ok5) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
			untilClosed(c)
		}},
		{name: "late bytes after the answer", play: func(c *net.TCPConn) {
			r := bufio.NewReader(c)
			_, _ = http.ReadRequest(r)
			_, _ = io.WriteString(c, ok5)
			_, _ = http.ReadRequest(r) // before it, the connection would not be used again
			_, _ = io.WriteString(c, "late")
			untilClosed(c)
		}},
	}
}

// Partly proves RQ-04, RT-46 and CB-08: whatever an HTTP/1 upstream server does wrong, the client
// gets Envoy's status and the log Envoy's flags, the next request is served, and
// nothing stays behind.
func TestUpstreamHTTP1(t *testing.T) {
	list := append(append(append(statusLines(), fieldLies()...), bodyLies()...), timing()...)
	compare(t, list, false)
}

// cuts is a response that a server cuts off after so many bytes of it.
func cuts(name, response string) []misbehaviour {
	var out []misbehaviour
	for n := range len(response) {
		out = append(out, misbehaviour{name: fmt.Sprintf("%s, %d bytes", name, n), play: ends(response[:n])})
	}
	return out
}

// An HTTP/1 response is cut off after each of its bytes.
func TestUpstreamHTTP1CutAnywhere(t *testing.T) {
	list := cuts("with length", ok5)
	list = append(list, cuts("in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")...)
	compare(t, list, false)
}

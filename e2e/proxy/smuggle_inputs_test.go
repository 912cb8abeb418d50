//go:build interop

package proxy

import (
	"fmt"
	"strings"
)

// smuggle is an input that some parsers read another way than others. If the
// proxy takes it, these are the bodies of the requests it may pass on, in order;
// it may refuse it at any point. PATH stands for where the recorder is.
type smuggle struct {
	raw    string
	bodies []string
}

// hidden is a request within the body of another.
const hidden = "0\r\n\r\nGET /PATH/hidden HTTP/1.1\r\nHost: hidden\r\nX: "

// encodings hide a request behind Content-Length or Transfer-Encoding.
func encodings() []smuggle {
	var out []smuggle
	body := strings.ReplaceAll(hidden, "/PATH", "") + "\r\n\r\n"
	both := func(field string) {
		out = append(out, smuggle{fmt.Sprintf("POST /PATH HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n\r\n%s", len(body), field, body), []string{body}})
	}
	for _, value := range []string{
		"chunked", " chunked", "chunked ", "\tchunked", "chunked\t", "CHUNKED", "Chunked", "xchunked", "chunkedx", "chunked,", ",chunked", "chunked, chunked",
		"chunked, identity", "identity, chunked", "identity", "gzip, chunked", "chunked, gzip", "\"chunked\"", "'chunked'", "chunked;q=1", "chunked\v", "\vchunked",
		"chunked\x00", "\x00chunked", "chun\rked", "chunk", "", "chunked\x85", "\xe2\x80\x8bchunked", "c\\hunked",
	} {
		both("Transfer-Encoding:" + value)
	}
	for _, field := range []string{
		"Transfer-Encoding : chunked", " Transfer-Encoding: chunked", "\tTransfer-Encoding: chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding\r\n : chunked",
		"Transfer-Encoding:\r\n chunked", "Transfer-Encoding\x00: chunked", "\x00Transfer-Encoding: chunked", "Transfer-Encoding chunked", "Transfer_Encoding: chunked",
		"X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked", "X: y\n\rTransfer-Encoding: chunked", "X: y\r\r\nTransfer-Encoding: chunked",
		"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-encoding: x\r\ntransfer-Encoding: chunked",
		"Transfer-Encoding:\r\nTransfer-Encoding: chunked", "(Transfer-Encoding: chunked", "Transfer-Encoding(x): chunked", "Transfer-Encoding;x: chunked", ": Transfer-Encoding: chunked",
		"Connection: transfer-encoding\r\nTransfer-Encoding: chunked", "Trailer: transfer-encoding", "TE: chunked", "TE: trailers, chunked", "Connection: te\r\nTE: chunked",
		"X: \x00\r\nTransfer-Encoding: chunked", "\nTransfer-Encoding: chunked", "\rTransfer-Encoding: chunked",
	} {
		both(field)
	}
	return out
}

// lengths are lengths that parsers understand differently.
func lengths() []smuggle {
	var out []smuggle
	for _, field := range []string{
		"Content-Length: +5", "Content-Length: -5", "Content-Length: 0x5", "Content-Length: 5,5", "Content-Length: 5, 5", "Content-Length: 5 5", "Content-Length: 5\v",
		"Content-Length: \v5", "Content-Length: 05", "Content-Length: 000000000000000000000005", "Content-Length: 5.0", "Content-Length: 5e0", "Content-Length: ", "Content-Length: 5\x00",
		"Content-Length: 5;", "Content-Length: \"5\"", "Content-Length: 18446744073709551621", "Content-Length: 4294967301", "Content-Length: 9223372036854775808",
		"Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 0", "Content-Length: 0\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length:",
		"Content-Length : 5", "Content-Length\t: 5", " Content-Length: 5", "Content-Length:\r\n 5", "Content-Length\x00: 5", "Content-Length\r\n: 5", "Content-Length 5",
		"X: y\nContent-Length: 5", "X: y\rContent-Length: 5", "Connection: content-length\r\nContent-Length: 5", "Connection: close, content-length\r\nContent-Length: 5",
		"Connection: host\r\nContent-Length: 5", "Content_Length: 0\r\nContent-Length: 5", "Content-Length: 5\r\nX-Content-Length: 0", "Content-Length: 5\r\n\x0bContent-Length: 0",
	} {
		out = append(out, smuggle{"POST /PATH HTTP/1.1\r\nHost: a\r\n" + field + "\r\n\r\nhello", []string{"hello"}})
	}
	return out
}

// chunks are chunked bodies that parsers understand differently.
func chunks() []smuggle {
	var out []smuggle
	for _, body := range []string{
		"5 \r\nhello\r\n0\r\n\r\n", "5\t\r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n",
		"5\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r0\r\n\r\n", "5\r\nhello\r\n0\n\n", "5\r\nhello\r\n0\n\r\n", "5\r\nhello\r\n0\r\n\n",
		"5;a\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\n\r\n", "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n", "5;\nhello\r\n0\r\n\r\n", "5;a\nb\r\nhello\r\n0\r\n\r\n", "5;a\rb\r\nhello\r\n0\r\n\r\n",
		"5 ;a\r\nhello\r\n0\r\n\r\n", "5;\x00\r\nhello\r\n0\r\n\r\n", "05\r\nhello\r\n0\r\n\r\n", "0000000000000005\r\nhello\r\n0\r\n\r\n", "00000000000000000000000005\r\nhello\r\n0\r\n\r\n",
		"10000000000000005\r\nhello\r\n0\r\n\r\n", "100000005\r\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhello\r\n00\r\n\r\n", "5\r\nhello\r\n0;x\r\n\r\n",
		"5\r\nhello\r\n\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nContent-Length: 7\r\n\r\n", "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\nHost: b\r\n\r\n",
		"5\r\nhello\r\n0\r\n x: y\r\n\r\n", "5\r\nhello\r\n0\r\nx y\r\n\r\n", "5\r\nhello\r\n0\r\nx: a\nb\r\n\r\n", "5\r\nhello\r\n0\r\n\x00: a\r\n\r\n", "5\r\nhello\r\n;\r\n\r\n", "\r\n5\r\nhello\r\n0\r\n\r\n",
		"5\r\nhello\r\n0\r\n\rX", "5,5\r\nhello\r\n0\r\n\r\n", "5\x00\r\nhello\r\n0\r\n\r\n", "５\r\nhello\r\n0\r\n\r\n", "5g\r\nhello\r\n0\r\n\r\n",
	} {
		out = append(out, smuggle{"POST /PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body, []string{"hello"}})
	}
	return out
}

// heads are other ambiguities of requests.
func heads() []smuggle {
	one := []string{""}
	two := []string{"", ""}
	hello := []string{"hello"}
	next := "GET /PATH HTTP/1.1\r\nHost: a\r\n\r\n"
	return []smuggle{
		{next + next, two},
		{"\r\n" + next, one},
		{"\r\n\r\n\r\n" + next, one},
		{"\n" + next, one},
		{"GET /PATH HTTP/1.1\nHost: a\n\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\n\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n", nil},
		{"GET /PATH\tHTTP/1.1\r\nHost: a\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\n Host: a\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\n Host: b\r\n\r\n", nil},
		{"GET http://b/PATH HTTP/1.1\r\nHost: a\r\n\r\n", one},
		{"GET /PATH HTTP/1.1\r\n\r\n", nil},
		{"GET /PATH\x00 HTTP/1.1\r\nHost: a\r\n\r\n", nil},
		{"GET /PATH\r HTTP/1.1\r\nHost: a\r\n\r\n", nil},
		{"GET /PATH?\x7f HTTP/1.1\r\nHost: a\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", hello},
		{"HEAD /PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", hello},
		{"DELETE /PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + next, []string{"hello", ""}},
		{"OPTIONS /PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + next, []string{"hello", ""}},
		{"GET /PATH HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", nil},
		{"POST /PATH HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", hello},
		{"POST /PATH HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 5\r\n\r\nhello", hello},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade, http2-settings\r\nHTTP2-Settings: AAMAAABk\r\n\r\n" + next, two},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" + next, one},
		{"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n" + next, nil},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + next, nil},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nKeep-Alive: x\r\nProxy-Connection: close\r\n\r\n" + next, two},
		{"POST /PATH HTTP/1.1\r\nHost: a\r\n\r\n" + next, two},
		{"POST /PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" + next, two},
		{"GET /PATH HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + next, one},
	}
}

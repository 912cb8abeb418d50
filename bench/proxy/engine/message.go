package engine

import (
	"bytes"
	"strconv"
)

// What a browser and an API server might send: the head of the request is
// about 400 bytes, that of the response 170.
const (
	userAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0"
	accept    = "application/json, text/plain, */*"
	cookie    = "session=0123456789abcdef0123456789abcdef; theme=dark"
	traceID   = "4bf92f3577b34da6a3ce929d0e0e4736"
	path      = "/api/v1/items?id=123"
	authority = "bench.example"
)

// http1Request is the whole request, a POST if it has a body.
func http1Request(body int) []byte {
	method, length := "GET", ""
	if body > 0 {
		method, length = "POST", "Content-Length: "+strconv.Itoa(body)+"\r\n"
	}
	head := method + " " + path + " HTTP/1.1\r\nHost: " + authority + "\r\nUser-Agent: " + userAgent +
		"\r\nAccept: " + accept + "\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: en-US,en;q=0.9\r\nCookie: " +
		cookie + "\r\nX-Trace-Id: " + traceID + "\r\n" + length + "\r\n"
	return append([]byte(head), make([]byte, body)...)
}

// http1Response is the whole response of the upstream.
func http1Response(body int) []byte {
	head := "HTTP/1.1 200 OK\r\nServer: load\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: application/json\r\n" +
		"Cache-Control: no-store\r\nX-Upstream: bench\r\nContent-Length: " + strconv.Itoa(body) + "\r\n\r\n"
	return append([]byte(head), make([]byte, body)...)
}

// headLength is where the body begins, -1 if the head is not complete.
func headLength(b []byte) int {
	i := bytes.Index(b, []byte("\r\n\r\n"))
	if i < 0 {
		return -1
	}
	return i + 4
}

// contentLength finds the field in a head; -1 if there is none.
func contentLength(head []byte) int {
	const name = "content-length"
	for {
		i := bytes.IndexByte(head, '\n')
		if i < 0 {
			return -1
		}
		head = head[i+1:]
		if len(head) <= len(name) || head[len(name)] != ':' || !bytes.EqualFold(head[:len(name)], []byte(name)) {
			continue
		}
		value, _, _ := bytes.Cut(head[len(name)+1:], []byte("\r"))
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil {
			return -1
		}
		return n
	}
}

// is200 looks at the status line of a complete head.
func is200(head []byte) bool { return len(head) > 12 && string(head[9:12]) == "200" }

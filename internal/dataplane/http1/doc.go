// Package http1 is an HTTP/1 codec without I/O, clock or goroutine: bytes go
// in, events come out, and messages are appended to buffers of the caller.
//
// A [Decoder] reads one connection in one role: as a server it decodes
// requests, as a client responses. [Decoder.Next] gives one event at a time and
// says how many bytes it consumed; the caller gives the rest again with more
// bytes behind. Input may be cut anywhere: the events are the same.
//
// An [Encoder] writes the head of a message and frames its body.
//
// Both speak in header lists with lower-case names and pseudo-headers. The rules
// are Envoy's for HTTP/1, stricter where leniency lets two parsers disagree
// about where a message ends: lines end in CRLF only, nothing is folded, one
// space parts the elements of the first line, Host occurs once, Transfer-Encoding
// is "chunked" alone and never beside Content-Length.
package http1

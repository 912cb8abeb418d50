package http1

import (
	"slices"
	"strconv"

	"github.com/xebec-proxy/xebec/filter/header"
)

type framing uint8

const (
	frNone    framing = iota // no body may be written
	frLength                 // Content-Length
	frChunked                // chunks
	frClose                  // until the connection ends
	frRaw                    // behind an upgrade
)

// Encoder writes the messages of one connection, one after the other. Every
// method appends to dst and returns it. Init makes it ready; it is reusable. It
// is confined to the connection's worker.
type Encoder struct {
	o       *Options
	role    Role
	framing framing
	cases   *Cases
}

// Init makes an encoder ready for a new connection.
func (e *Encoder) Init(role Role, o *Options) { *e = Encoder{o: o, role: role} }

// SetCases gives the names' case for the next head, which goes before the
// configured one, as in Envoy; nil for none. It must stay valid until that head is written.
func (e *Encoder) SetCases(c *Cases) { e.cases = c }

// RequestHead writes the head of a request from its pseudo-headers and headers.
// end tells that no body follows. Transfer-Encoding is never taken from the map:
// a body without Content-Length is sent in chunks.
func (e *Encoder) RequestHead(dst []byte, h *header.Map, end bool) []byte {
	method := h.Method()
	dst = append(append(dst, method...), ' ')
	start := len(dst)
	switch path := h.Path(); {
	case method == "CONNECT":
		dst = append(dst, h.Authority()...)
	case e.o.SendFullyQualifiedURL && path != "" && path[0] == '/':
		dst = append(append(dst, h.Scheme()...), "://"...)
		dst = append(append(dst, h.Authority()...), path...)
	default:
		dst = append(dst, path...)
	}
	if i := outOfTarget(dst, start); i < len(dst) {
		dst = escapeTarget(dst, i)
	}
	dst = append(dst, " HTTP/1.1\r\n"...)
	e.framing = requestFraming(method, h, end)
	dst = e.fields(dst, h, false)
	switch {
	case e.framing == frChunked:
		dst = e.field(dst, "transfer-encoding", "chunked")
	case end && e.framing == frNone && h.GetID(header.ContentLength) != "0" && (mayHaveBody(method) || h.HasID(header.ContentLength)):
		dst = e.field(dst, "content-length", "0")
	}
	return append(dst, "\r\n"...)
}

// escapeTarget escapes what no target can have from an index on: it must not end
// the line.
func escapeTarget(dst []byte, from int) []byte {
	const hex = "0123456789ABCDEF"
	tail := string(dst[from:])
	dst = dst[:from]
	for i := range len(tail) {
		if c := tail[i]; c <= 0x20 || c >= 0x7f {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

func requestFraming(method string, h *header.Map, end bool) framing {
	switch {
	case method == "CONNECT":
		return frRaw
	case end:
		return frNone
	case h.HasID(header.ContentLength):
		return frLength
	case h.HasID(header.Upgrade) && h.HasID(header.Connection):
		return frRaw
	}
	return frChunked
}

// mayHaveBody tells the methods whose requests say that they have no body.
func mayHaveBody(method string) bool {
	switch method {
	case "GET", "HEAD", "DELETE", "TRACE", "CONNECT":
		return false
	}
	return true
}

// ResponseHead writes the head of the response to a request of a method and a
// version. end tells that no body follows; closeAfter says so in Connection.
func (e *Encoder) ResponseHead(dst []byte, h *header.Map, toMethod string, v Version, end, closeAfter bool) []byte {
	status := h.Status()
	if v == HTTP10 && e.o.AcceptHTTP10 {
		dst = append(dst, "HTTP/1.0 "...)
	} else {
		dst = append(dst, "HTTP/1.1 "...)
	}
	dst = e.status(dst, h, status)
	e.framing = responseFraming(h, toMethod, v, status, end)
	closing := e.framing != frRaw && (closeAfter || e.framing == frClose)
	keeping := e.framing != frRaw && v == HTTP10 && !closing
	dst = e.fields(dst, h, closing || keeping)
	switch {
	case e.framing == frChunked:
		dst = e.field(dst, "transfer-encoding", "chunked")
	case e.framing == frNone && status >= 200 && status != 204 && status != 304 && !h.HasID(header.ContentLength):
		if toMethod != "HEAD" {
			dst = e.field(dst, "content-length", "0")
		} else if v == HTTP11 {
			dst = e.field(dst, "transfer-encoding", "chunked")
		}
	}
	switch {
	case closing:
		dst = e.field(dst, "connection", "close")
	case keeping:
		dst = e.field(dst, "connection", "keep-alive")
	}
	return append(dst, "\r\n"...)
}

func responseFraming(h *header.Map, toMethod string, v Version, status int, end bool) framing {
	switch {
	case status == 101, toMethod == "CONNECT" && status/100 == 2:
		return frRaw
	case end, toMethod == "HEAD", status < 200, status == 204, status == 304:
		return frNone
	case h.HasID(header.ContentLength):
		return frLength
	case v == HTTP10:
		return frClose
	}
	return frChunked
}

// status writes the rest of a status line.
func (e *Encoder) status(dst []byte, h *header.Map, status int) []byte {
	if status == 200 && e.cases == nil {
		return append(dst, "200 OK\r\n"...)
	}
	dst = append(append(dst, h.GetID(header.Status)...), ' ')
	if e.cases != nil && e.o.ForwardReason && len(e.cases.reason) > 0 {
		dst = append(dst, e.cases.reason...)
	} else {
		dst = append(dst, Reason(status)...)
	}
	return append(dst, "\r\n"...)
}

// InformationalHead writes a whole 1xx response.
func (e *Encoder) InformationalHead(dst []byte, h *header.Map) []byte {
	dst = e.status(append(dst, "HTTP/1.1 "...), h, h.Status())
	e.framing = frNone
	return append(e.fields(dst, h, false), "\r\n"...)
}

// fields writes the headers of a head; without Connection if the encoder writes
// its own.
func (e *Encoder) fields(dst []byte, h *header.Map, ownConnection bool) []byte {
	fields := h.Fields()
	lengths := 0
	plain := e.o.HeaderCase == LowerCase && e.cases == nil
	dst = slices.Grow(dst, h.Size()+4*h.Len()+headRoom)
	for i := range fields {
		f := &fields[i]
		name := f.Name
		if name == "" {
			continue
		}
		switch f.ID() {
		case header.Method, header.Path, header.Scheme, header.Status, header.Protocol, header.TransferEncoding:
			continue
		case header.Authority:
			name = "host"
		case header.Host:
			if h.HasID(header.Authority) {
				continue
			}
		case header.ContentLength:
			if e.dropsLength(f.Value, h, lengths) {
				continue
			}
			lengths++
		case header.Connection:
			if ownConnection {
				continue
			}
		}
		if !plain {
			dst = e.field(dst, name, f.Value)
			continue
		}
		n := len(dst)
		b := dst[:n+len(name)+len(f.Value)+4]
		n += copy(b[n:], name)
		b[n], b[n+1] = ':', ' '
		n += 2
		start := n
		n += copy(b[n:], f.Value)
		if !clean(b[start:n]) {
			blank(b[start:n])
		}
		b[n], b[n+1] = '\r', '\n'
		dst = b
	}
	return dst
}

// headRoom is enough for "host" in place of ":authority" and for what an encoder
// adds to a head.
const headRoom = 64

// dropsLength reports that a Content-Length is not written: a further one, one
// where none can be, or one that promises a body to a message that has none.
func (e *Encoder) dropsLength(value string, h *header.Map, before int) bool {
	if before > 0 || e.framing == frRaw {
		return true
	}
	if e.role == Client {
		return e.framing == frNone && value != "0"
	}
	status := h.Status()
	return status < 200 || status == 204
}

// field writes one header with its name in the case that is asked for.
func (e *Encoder) field(dst []byte, name, value string) []byte {
	if e.cases != nil {
		if as, ok := e.cases.find(name); ok {
			name = as
		}
		dst = append(dst, name...)
	} else if e.o.HeaderCase == ProperCaseWords {
		dst = appendProper(dst, name)
	} else {
		dst = append(dst, name...)
	}
	dst = append(dst, ": "...)
	return append(appendValue(dst, value), "\r\n"...)
}

// appendValue writes a value. Decoders refuse control characters; one that came
// in another way must not begin a new line, so it becomes a space.
func appendValue(dst []byte, value string) []byte {
	start := len(dst)
	dst = append(dst, value...)
	blank(dst[start:])
	return dst
}

func blank(b []byte) {
	for i, c := range b {
		if c < 0x20 && c != '\t' {
			b[i] = ' '
		}
	}
}

// DataPrefix writes what stands before n bytes of a body, n > 0.
func (e *Encoder) DataPrefix(dst []byte, n int) []byte {
	if e.framing != frChunked {
		return dst
	}
	return append(strconv.AppendUint(dst, uint64(n), 16), "\r\n"...)
}

// DataSuffix writes what stands behind a part of a body.
func (e *Encoder) DataSuffix(dst []byte) []byte {
	if e.framing != frChunked {
		return dst
	}
	return append(dst, "\r\n"...)
}

// End writes the end of a message whose head was written with end unset.
// Trailers, which may be nil, are only sent with Options.EnableTrailers and when
// the body is in chunks.
func (e *Encoder) End(dst []byte, trailers *header.Map) []byte {
	if e.framing != frChunked {
		return dst
	}
	dst = append(dst, "0\r\n"...)
	if trailers != nil && e.o.EnableTrailers {
		for name, value := range trailers.All() {
			if name[0] != ':' {
				dst = e.field(dst, name, value)
			}
		}
	}
	return append(dst, "\r\n"...)
}

// DropsBody reports that the message whose head was written last cannot have a
// body: the caller must not write one.
func (e *Encoder) DropsBody() bool { return e.framing == frNone }

// UntilClose reports that the body of the message whose head was written last
// ends with the connection, which the caller must close behind it.
func (e *Encoder) UntilClose() bool { return e.framing == frClose }

// Overhead is how many bytes DataPrefix and DataSuffix add to n bytes.
func (e *Encoder) Overhead(n int) int {
	if e.framing != frChunked {
		return 0
	}
	digits := 1
	for n >>= 4; n > 0; n >>= 4 {
		digits++
	}
	return digits + 4
}

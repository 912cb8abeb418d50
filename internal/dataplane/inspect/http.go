package inspect

import (
	"bytes"
	"strings"
)

const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// MaxRequestLine is how many bytes an HTTPScan reads in search of the end of
	// the first line.
	MaxRequestLine = 64 * 1024
)

// HTTPOutcome is the protocol that the first bytes show.
type HTTPOutcome uint8

const (
	// HTTPNotFound means anything but HTTP.
	HTTPNotFound HTTPOutcome = iota
	// HTTP10 stands for every HTTP/1 request line that is not HTTP/1.1, one
	// without a version included.
	HTTP10
	// HTTP11 is an HTTP/1.1 request line.
	HTTP11
	// HTTP2 is the preface of HTTP/2 with prior knowledge.
	HTTP2
	// HTTPTooLong means that no line ended within MaxRequestLine bytes.
	HTTPTooLong
)

// ApplicationProtocol is the name to match filter chains with: http/1.0,
// http/1.1 or h2c, empty for none.
func (o HTTPOutcome) ApplicationProtocol() string {
	switch o {
	case HTTP10:
		return "http/1.0"
	case HTTP11:
		return "http/1.1"
	case HTTP2:
		return "h2c"
	default:
		return ""
	}
}

// Counter is the name, without "http_inspector.", of the counter that the
// outcome adds one to.
func (o HTTPOutcome) Counter() string {
	switch o {
	case HTTP10:
		return "http10_found"
	case HTTP11:
		return "http11_found"
	case HTTP2:
		return "http2_found"
	case HTTPTooLong:
		return "read_error"
	default:
		return "http_not_found"
	}
}

// HTTPScan is the state of one connection's inspection for HTTP; its zero value
// is ready. It is a value, confined to the connection's worker. It must not be
// used on a connection that is TLS. Source:
// envoy/extensions/filters/listener/http_inspector/v3/http_inspector.proto;
// spec LF-10.
type HTTPScan struct {
	at         int  // bytes looked at
	notPreface bool // the bytes differ from the preface
	pastMethod bool
}

// Inspect looks at everything peeked so far. Reject means a first line that
// does not end within MaxRequestLine bytes; bytes that are not HTTP are Done.
func (s *HTTPScan) Inspect(peeked []byte) (HTTPOutcome, Verdict) {
	if !s.notPreface {
		n := min(len(peeked), len(preface))
		if string(peeked[:n]) == preface[:n] {
			if n == len(preface) {
				return HTTP2, Done
			}
			return HTTPNotFound, NeedMore
		}
		s.notPreface = true
	}
	window := peeked[:min(len(peeked), MaxRequestLine)]
	for !s.pastMethod && s.at < len(window) {
		switch c := window[s.at]; {
		case isToken(c):
			s.at++
		case isSpace(c) && s.at > 0:
			s.pastMethod = true
		default:
			return HTTPNotFound, Done
		}
	}
	if end := bytes.IndexByte(window[s.at:], '\n'); end >= 0 {
		return requestLine(window[:s.at+end]), Done
	}
	s.at = len(window)
	if s.at == MaxRequestLine {
		return HTTPTooLong, Reject
	}
	return HTTPNotFound, NeedMore
}

// requestLine judges a line without its line feed as Envoy's parser does:
// fields are separated by any run of control characters and spaces.
func requestLine(line []byte) HTTPOutcome {
	line = trimSpace(line)
	method, rest := cutField(line)
	target, version := cutField(rest)
	if len(target) == 0 || !validTarget(method, target) {
		return HTTPNotFound
	}
	switch {
	case string(version) == "HTTP/1.1":
		return HTTP11
	case len(version) == 0 || validVersion(version):
		return HTTP10
	}
	return HTTPNotFound
}

func cutField(b []byte) (field, rest []byte) {
	i := 0
	for i < len(b) && !isSpace(b[i]) {
		i++
	}
	field = b[:i]
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return field, b[i:]
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func validVersion(v []byte) bool {
	return len(v) == 8 && string(v[:5]) == "HTTP/" && isDigit(v[5]) && v[6] == '.' && isDigit(v[7])
}

// validTarget accepts a path, "*", an absolute URI, and for CONNECT an
// authority.
func validTarget(method, target []byte) bool {
	for _, c := range target {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	if target[0] == '/' || target[0] == '*' || string(method) == "CONNECT" {
		return true
	}
	scheme, _, ok := bytes.Cut(target, []byte("://"))
	if !ok || len(scheme) == 0 {
		return false
	}
	for _, c := range scheme {
		if !isLetter(c) {
			return false
		}
	}
	return true
}

func isSpace(c byte) bool  { return c <= ' ' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isToken(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

package http2

import (
	"strings"
	"unsafe"

	"github.com/xebec-proxy/xebec/filter/header"
)

// methodConnect is the method of tunnels.
const methodConnect = "CONNECT"

// fault is what is wrong with a message; the zero value is nothing.
type fault struct{ details, why string }

// messaging is a fault of a message, badField one of a single header: Envoy
// tells them apart in its details.
func messaging(why string) fault { return fault{DetailMessaging, why} }
func badField(why string) fault  { return fault{DetailHeaderField, why} }

// checkRequest judges a request's head (RFC 9113 section 8.3.1), and leaves
// its host as :authority.
func (c *Conn) checkRequest(s *Stream) fault {
	m := s.Headers
	if c.good.allow(m) {
		return fault{}
	}
	if f := checkFields(m, header.Status); f.why != "" {
		return f
	}
	method, path, scheme := m.Method(), m.Path(), m.Scheme()
	hasPath, hasScheme, hasProtocol := m.HasID(header.Path), m.HasID(header.Scheme), m.HasID(header.Protocol)
	switch {
	case !m.HasID(header.Method):
		return messaging("a request has no :method")
	case !isToken(method):
		return badField(":method is no token")
	case hasProtocol && (!c.o.AllowConnect || m.GetID(header.Protocol) == ""):
		return badField(":protocol, which is not allowed or empty")
	case hasProtocol && method != methodConnect:
		return messaging(":protocol, and the method is not CONNECT")
	case hasScheme && !isScheme(scheme):
		return badField(":scheme is no scheme")
	case hasPath && !isPath(path):
		return badField(":path is empty or has a character that no path has")
	}
	if f := takeAuthority(m); f.why != "" {
		return f
	}
	s.connect = method == methodConnect
	switch {
	case !m.HasID(header.Authority):
		return messaging("a request has neither :authority nor host")
	case s.connect && !hasProtocol:
		if hasPath || hasScheme {
			return messaging("CONNECT has :path or :scheme")
		}
	case !hasScheme || !hasPath:
		return messaging("a request has no :scheme or :path")
	case path[0] != '/' && (path != "*" || method != "OPTIONS"):
		return messaging(":path does not begin with a slash")
	}
	if !s.connect {
		c.good.learn(m, header.Method, header.Path, header.Scheme, header.Authority)
	}
	return s.takeLength()
}

// takeAuthority makes host, which HTTP/1 has, :authority unless there is one.
func takeAuthority(m *header.Map) fault {
	a, has := m.LookupID(header.Authority)
	if has && !isAuthority(a) {
		return badField(":authority is empty or has a character that no host has")
	}
	h, hasHost := m.LookupID(header.Host)
	if !hasHost {
		return fault{}
	}
	if m.Count("host") > 1 || !isAuthority(h) {
		return badField("host is repeated, empty or has a character that no host has")
	}
	m.DelID(header.Host)
	if !has {
		m.AddID(header.Authority, h)
	}
	return fault{}
}

// checkResponse judges a response's head.
func (c *Conn) checkResponse(s *Stream, end bool) (informational bool, f fault) {
	m := s.Headers
	if !s.connect && !s.noBody && c.good.allow(m) {
		return false, fault{}
	}
	if f := checkFields(m, header.Method); f.why != "" {
		return false, f
	}
	for id := header.Method; id <= header.Protocol; id++ {
		if id != header.Status && m.HasID(id) {
			return false, badField("a response has a pseudo-header of requests")
		}
	}
	status := m.Status()
	switch {
	case !m.HasID(header.Status):
		return false, messaging("a response has no :status")
	case status < 100:
		return false, badField(":status is no status")
	case status == 101:
		return false, badField("status 101, which HTTP/2 does not have")
	case status < 200 && end:
		return false, messaging("an informational head ends the stream")
	case status < 200:
		return true, fault{}
	}
	if f := s.takeLength(); f.why != "" {
		return false, f
	}
	if status == 200 {
		c.good.learn(m, header.Status)
	}
	switch {
	case s.connect && status < 300:
		s.length = -1
	case s.noBody || status == 304:
		s.length = 0
	case status == 204:
		if s.length > 0 {
			return false, badField("a 204 has a content-length")
		}
		s.length = 0
	}
	return false, fault{}
}

// checkFields judges what both kinds of heads have in common; foreign is a
// pseudo-header that this kind has not.
func checkFields(m *header.Map, foreign header.ID) fault {
	fields := m.Fields()
	var seen uint64
	regular, cookies := false, 0
	for i := range fields {
		f := &fields[i]
		id := f.ID()
		switch {
		case id == header.Other || id > header.TE:
			regular = true
			if id == header.Cookie {
				cookies++
			}
		case id <= header.Protocol:
			if regular || seen&(1<<id) != 0 || id == foreign {
				return badField("a pseudo-header is repeated, misplaced or not of this kind of message")
			}
			seen |= 1 << id
		case id == header.TE:
			regular = true
			if f.Value != "trailers" && !strings.EqualFold(f.Value, "trailers") {
				return badField("te is not trailers")
			}
		case id != header.Host:
			return badField("a connection-specific header")
		default:
			regular = true
		}
	}
	if cookies > 1 {
		joinCookies(m)
	}
	return fault{}
}

// joinCookies makes one field of the crumbs of a cookie (RFC 9113 section 8.2.3).
func joinCookies(m *header.Map) {
	arena := m.Arena()
	start := len(arena)
	for v := range m.Values("cookie") {
		if len(arena) > start {
			arena = append(arena, "; "...)
		}
		arena = append(arena, v...)
	}
	m.SetArena(arena)
	m.SetID(header.Cookie, unsafe.String(unsafe.SliceData(arena[start:]), len(arena)-start))
}

// checkTrailers judges trailers.
func checkTrailers(m *header.Map) fault {
	fields := m.Fields()
	for i := range fields {
		switch id := fields[i].ID(); {
		case id == header.ContentLength:
			return messaging("a content-length in trailers")
		case id == header.Other || id > header.TE || id == header.Host:
		case id <= header.Protocol:
			return badField("trailers have a pseudo-header")
		case id != header.TE || !strings.EqualFold(fields[i].Value, "trailers"):
			return badField("a connection-specific header in trailers")
		}
	}
	return fault{}
}

// takeLength reads content-length.
func (s *Stream) takeLength() fault {
	v, ok := s.Headers.LookupID(header.ContentLength)
	if !ok {
		return fault{}
	}
	if v == "" || len(v) > 18 || s.Headers.Count("content-length") > 1 {
		return badField("content-length is repeated or no number")
	}
	n := int64(0)
	for i := range len(v) {
		d := v[i] - '0'
		if d > 9 {
			return badField("content-length is no number")
		}
		n = n*10 + int64(d)
	}
	s.length = n
	return fault{}
}

// underscores applies HC-14; false if the stream is reset for it.
func (c *Conn) underscores(s *Stream, m *header.Map) bool {
	if c.o.Underscores == UnderscoresReject {
		c.Counts.RejectedUnderscores++
		c.streamError(s, InternalError, DetailUnderscore)
		return false
	}
	n := m.Len()
	m.DelFunc(func(name string) bool { return strings.IndexByte(name, '_') >= 0 })
	s.dropped = n - m.Len()
	c.Counts.DroppedUnderscores += uint64(s.dropped)
	return true
}

// Dropped is how many headers of the last list were dropped for an underscore
// in their name.
func (s *Stream) Dropped() int { return s.dropped }

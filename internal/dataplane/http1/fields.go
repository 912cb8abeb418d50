package http1

import (
	"bytes"
	"strings"

	"github.com/xebec-proxy/xebec/filter/header"
)

// fieldLine reads one line of a head or of trailers: k bytes of it, or none if
// it is unfinished. done tells that it was the empty line.
func (d *Decoder) fieldLine(b []byte, h *header.Map) (k int, done bool, err *Error) {
	if d.scan > 0 {
		// An earlier call saw a part of this line: do not read it again before
		// it is whole.
		if bytes.IndexByte(b[d.scan:], '\n') < 0 {
			return 0, false, d.unfinished(b)
		}
		d.scan = 0
	}
	if len(b) >= 2 && b[0] == '\r' && b[1] == '\n' {
		if d.size += 2; d.size > d.maxSize {
			return 0, false, d.tooLarge()
		}
		return 2, true, nil
	}
	colon, from, to, k, reason := d.splitField(b)
	if k == 0 || reason != "" {
		// A fault counts when its line is whole, so that it does not matter how
		// the input was cut.
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return 0, false, d.unfinished(b)
		}
		k = i + 1
	}
	if d.size += k; d.size > d.maxSize {
		return 0, false, d.tooLarge()
	}
	if reason != "" {
		details := DetailCodec
		if reason == reasonValue || bytes.IndexByte(b[:k], 0) >= 0 {
			details = DetailInvalidCharacters
		}
		return 0, false, d.fail(400, details, reason)
	}
	if d.count++; d.count > d.maxCount {
		details := DetailTooManyHeaders
		if d.state == stTrailers {
			details = DetailTooManyTrailers
		}
		return 0, false, d.fail(431, details, "more headers than the limit")
	}
	return k, false, d.field(b[:colon], b[from:to], h)
}

// unfinished notes that a line goes on behind the input.
func (d *Decoder) unfinished(b []byte) *Error {
	d.scan = len(b)
	if d.size+d.scan > d.maxSize {
		return d.tooLarge()
	}
	return nil
}

const reasonValue = "a control character in a header value"

// splitField finds the parts of a header line: b[:colon] is the name,
// b[from:to] the value, k the length of the line with its CRLF; 0 if it is
// unfinished. It leaves the first bytes of the name in nameRoom, in lower case.
func (d *Decoder) splitField(b []byte) (colon, from, to, k int, reason string) {
	i := 0
	room := &d.nameRoom
	for i < len(b) {
		c := lowerToken[b[i]]
		if c == 0 {
			break
		}
		room[uint(i)%uint(len(room))] = c
		i++
	}
	if i == len(b) {
		return 0, 0, 0, 0, ""
	}
	if b[i] != ':' || i == 0 {
		return 0, 0, 0, 0, nameFault(b, i)
	}
	colon = i
	i++
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	from = i
	for {
		i = control(b, i)
		if i >= len(b) || b[i] != '\t' {
			break
		}
		i++
	}
	if i+1 >= len(b) {
		if i < len(b) && b[i] != '\r' {
			return 0, 0, 0, 0, valueFault(b[i])
		}
		return 0, 0, 0, 0, ""
	}
	if b[i] != '\r' || b[i+1] != '\n' {
		return 0, 0, 0, 0, valueFault(b[i])
	}
	to = i
	for to > from && (b[to-1] == ' ' || b[to-1] == '\t') {
		to--
	}
	return colon, from, to, i + 2, ""
}

func nameFault(b []byte, i int) string {
	switch c := b[i]; {
	case i == 0 && (c == ' ' || c == '\t'):
		return "a folded header line"
	case i == 0 && c == ':':
		return "a header without a name"
	case c == '\r' || c == '\n':
		return "a header line without a colon"
	}
	return "a character that no header name can have"
}

func valueFault(c byte) string {
	switch c {
	case '\r':
		return "CR without LF"
	case '\n':
		return "LF without CR"
	}
	return reasonValue
}

// field takes one header or trailer into the map.
func (d *Decoder) field(name, value []byte, h *header.Map) *Error {
	if d.o.Underscores != AllowUnderscores && d.role == Server && bytes.IndexByte(name, '_') >= 0 {
		if d.o.Underscores == RejectUnderscores {
			return d.fail(400, DetailUnderscore, "an underscore in a header name")
		}
		d.dropped++
		return nil
	}
	if d.state == stTrailers && !d.o.EnableTrailers {
		return nil
	}
	if d.o.HeaderCase == PreserveCase {
		d.cases.add(name)
	}
	if len(name) > len(d.nameRoom) {
		h.AddOwned(keepLower(name, h), h.Keep(value), header.Other)
		return nil
	}
	lower := d.nameRoom[:len(name)]
	id := header.KnownID(view(lower))
	if id == header.Other {
		h.AddOwned(h.Keep(lower), h.Keep(value), id)
		return nil
	}
	if d.state == stTrailers {
		return d.trailer(id, value, h)
	}
	return d.known(id, h.Keep(value), h)
}

// keepLower takes a name into the map's memory, in lower case.
func keepLower(name []byte, h *header.Map) string {
	arena := h.Arena()
	start := len(arena)
	for _, c := range name {
		arena = append(arena, lowerToken[c])
	}
	h.SetArena(arena)
	return view(arena[start:])
}

// trailer takes a trailer of a known name. Those that frame or route a message
// mean nothing behind it and are left out.
func (d *Decoder) trailer(id header.ID, value []byte, h *header.Map) *Error {
	switch id {
	case header.ContentLength, header.TransferEncoding, header.Host, header.Connection, header.Upgrade, header.TE, header.Trailer:
	default:
		h.AddIDBytes(id, value)
	}
	return nil
}

// known takes a header of a known name, and notes what framing depends on.
func (d *Decoder) known(id header.ID, value string, h *header.Map) *Error {
	m := &d.msg
	switch id {
	case header.Host:
		if d.role == Client {
			break
		}
		if m.hosts++; m.hosts > 1 {
			return d.bad("more than one Host")
		}
		if !m.absolute && m.method != "CONNECT" {
			h.SetAt(d.authority, value)
		}
		return nil
	case header.ContentLength:
		n, ok := parseLength(value)
		if !ok {
			return d.bad("a Content-Length that is no number")
		}
		if m.lengths++; m.lengths > 1 {
			return d.bad("more than one Content-Length")
		}
		m.length = n
	case header.TransferEncoding:
		m.codings++
	case header.Connection:
		if err := d.connection(value); err != nil {
			return err
		}
	}
	h.AddOwned(id.Name(), value, id)
	return nil
}

// connection notes the options of a Connection header.
func (d *Decoder) connection(value string) *Error {
	m := &d.msg
	for rest := value; rest != ""; {
		var option string
		option, rest = NextElement(rest)
		switch {
		case equalFold(option, "keep-alive"):
			m.keepAlive = true
		case equalFold(option, "close"):
			m.close = true
		case equalFold(option, "upgrade"):
			m.upgradeNom = true
		case equalFold(option, "http2-settings"):
			m.settingsNom = true
		case d.role == Client:
		case equalFold(option, "host"):
			m.hostNom = true
		case mayNotBeNominated(option):
			return d.fail(400, DetailConnection, "a Connection header that names "+strings.ToLower(option))
		}
	}
	return nil
}

// mayNotBeNominated tells the headers that a request's Connection must not ask
// to remove.
func mayNotBeNominated(option string) bool {
	switch {
	case option == "":
		return false
	case option[0] == ':', equalFold(option, "x-forwarded-for"),
		equalFold(option, "x-forwarded-host"), equalFold(option, "x-forwarded-proto"):
		return true
	}
	return false
}

package http1

import (
	"bytes"

	"github.com/xebec-proxy/xebec/filter/header"
)

// requestLine reads "METHOD SP target SP HTTP/1.x".
func (d *Decoder) requestLine(b []byte, h *header.Map) *Error {
	if bytes.IndexByte(b, 0) >= 0 {
		return d.fail(400, DetailInvalidCharacters, "NUL in the request line")
	}
	i := bytes.IndexByte(b, ' ')
	if i <= 0 {
		return d.bad("a request line without a method and a target")
	}
	method, ok := knownMethod(b[:i])
	if !ok {
		if !d.o.CustomMethods || !isToken(view(b[:i])) {
			return d.bad("a method that is not known")
		}
		method = h.Keep(b[:i])
	}
	b = b[i+1:]
	i = outOfTarget(b, 0)
	target := b[:i]
	switch {
	case i < len(b) && b[i] == '\t', i < len(b) && b[i] > 0x7f, i == 0:
		return d.bad("a request target that is none")
	case i < len(b) && b[i] != ' ':
		return d.fail(400, DetailInvalidCharacters, "a control character in the request target")
	}
	if i == len(b) {
		return d.lowVersion()
	}
	if err := d.version(b[i+1:]); err != nil {
		return err
	}
	d.msg.method = method
	h.AddID(header.Method, method)
	return d.target(target, h)
}

func (d *Decoder) lowVersion() *Error {
	return d.fail(426, DetailLowVersion, "an HTTP version that is not served")
}

// version reads "HTTP/1.1" of a request.
func (d *Decoder) version(b []byte) *Error {
	if string(b) == "HTTP/1.1" {
		return nil
	}
	if len(b) != 8 || string(b[:5]) != "HTTP/" || b[5]-'0' > 9 || b[6] != '.' || b[7]-'0' > 9 {
		return d.bad("an HTTP version that is none")
	}
	if string(b) != "HTTP/1.0" || !d.o.AcceptHTTP10 {
		return d.lowVersion()
	}
	d.msg.version = HTTP10
	return nil
}

// target makes :path, :authority and :scheme of a request target, in this order;
// :authority may stay empty for Host.
func (d *Decoder) target(t []byte, h *header.Map) *Error {
	if d.msg.method == "CONNECT" {
		return d.connectTarget(t, h)
	}
	relative := t[0] == '/' || t[0] == '*' && d.msg.method == "OPTIONS"
	if !relative && t[0] != '*' && !plausibleURL(t) {
		return d.bad("a request target that is neither a path nor a URL")
	}
	if relative || d.o.RefuseAbsoluteURL {
		h.AddIDBytes(header.Path, t)
		d.authority = len(h.Fields())
		h.AddID(header.Authority, "")
		return nil
	}
	u, ok := splitURL(t)
	if !ok {
		return d.fail(400, DetailInvalidURL, "a request target that is no valid URL")
	}
	scheme := ""
	switch {
	case equalFold(view(u.scheme), "http"):
		scheme = "http"
	case equalFold(view(u.scheme), "https"):
		scheme = "https"
	default:
		return d.fail(400, DetailInvalidScheme, "a request target with a scheme other than http and https")
	}
	d.msg.absolute = true
	if len(u.path) == 0 {
		h.AddID(header.Path, "/")
	} else {
		h.AddIDBytes(header.Path, u.path)
	}
	d.authority = len(h.Fields())
	h.AddIDBytes(header.Authority, u.host)
	h.AddID(header.Scheme, scheme)
	return nil
}

// connectTarget makes :authority of the target of a CONNECT: host and port.
func (d *Decoder) connectTarget(t []byte, h *header.Map) *Error {
	port := portOf(t)
	if port <= 0 || !validPort(t[port:]) || !plausibleAuthority(t) || bytes.IndexByte(t, '@') >= 0 {
		return d.fail(400, DetailInvalidURL, "a CONNECT target without host and port")
	}
	d.authority = len(h.Fields())
	h.AddIDBytes(header.Authority, t)
	return nil
}

// requestHead settles what the head of a request means once it is complete.
func (d *Decoder) requestHead(h *header.Map) (end bool, err *Error) {
	m := &d.msg
	if m.hostNom && m.hosts > 0 && !m.absolute && m.method != "CONNECT" {
		h.DelAt(d.authority) // Connection asks to remove it: the request has none
	} else if m.hosts == 0 && !m.absolute && m.method != "CONNECT" {
		if m.version == HTTP10 && d.o.DefaultHost10 != "" {
			h.SetAt(d.authority, d.o.DefaultHost10)
		} else {
			h.DelAt(d.authority)
		}
	} else if !validAuthority(h.Authority()) {
		return false, d.fail(400, DetailInvalidAuthority, "an authority with a character that none can have")
	}
	d.findUpgrade(h)
	if err := d.coding(h); err != nil {
		return false, err
	}
	if m.method == "CONNECT" {
		return false, d.connect(h)
	}
	switch {
	case m.codings > 0:
		d.state, d.size, d.count = stChunkSize, 0, 0
	case m.lengths > 0 && m.length > 0:
		d.state, d.remain = stLength, m.length
	default:
		d.finish()
		return !m.upgrade, nil
	}
	return false, nil
}

// coding checks Transfer-Encoding and Content-Length against each other.
func (d *Decoder) coding(h *header.Map) *Error {
	m := &d.msg
	if m.codings == 0 {
		return nil
	}
	chunked := m.codings == 1 && equalFold(h.GetID(header.TransferEncoding), "chunked")
	if m.lengths > 0 {
		if !chunked || !d.o.AllowChunkedLength {
			return d.fail(400, DetailLengthAndChunked, "both Content-Length and Transfer-Encoding")
		}
		h.DelID(header.ContentLength)
		m.lengths, m.length = 0, 0
	}
	if !chunked || m.method == "CONNECT" {
		return d.fail(501, DetailTransferEncoding, "a Transfer-Encoding other than chunked")
	}
	if m.version == HTTP10 && d.role == Server {
		return d.fail(400, DetailTransferEncoding, "Transfer-Encoding in an HTTP/1.0 message")
	}
	return nil
}

func (d *Decoder) connect(h *header.Map) *Error {
	if d.msg.length > 0 {
		return d.fail(400, DetailBodyDisallowed, "a CONNECT with a Content-Length")
	}
	h.DelID(header.ContentLength)
	d.msg.upgrade = true
	d.finish()
	return nil
}

// findUpgrade notes the upgrade that a message asks for or grants, and takes
// out one that is not to be seen.
func (d *Decoder) findUpgrade(h *header.Map) {
	m := &d.msg
	if !m.upgradeNom || m.version == HTTP10 || !h.HasID(header.Upgrade) {
		return
	}
	value := h.GetID(header.Upgrade)
	if d.role == Server && (equalFold(value, "h2c") || d.o.IgnoreUpgrade != nil && d.o.IgnoreUpgrade(value)) {
		d.stripUpgrade(h)
		return
	}
	m.upgrade = d.role == Server
}

// stripUpgrade removes Upgrade and what Connection says about it.
func (d *Decoder) stripUpgrade(h *header.Map) {
	h.DelID(header.Upgrade)
	h.Del("http2-settings")
	fields := h.Fields()
	for i := range fields {
		if fields[i].ID() != header.Connection {
			continue
		}
		arena := h.Arena()
		start := len(arena)
		for rest := fields[i].Value; rest != ""; {
			var option string
			option, rest = NextElement(rest)
			if option == "" || equalFold(option, "upgrade") || equalFold(option, "http2-settings") {
				continue
			}
			if len(arena) > start {
				arena = append(arena, ',')
			}
			arena = append(arena, option...)
		}
		h.SetArena(arena)
		if kept := view(arena[start:]); kept == "" {
			h.DelAt(i)
		} else {
			h.SetAt(i, kept)
		}
	}
}

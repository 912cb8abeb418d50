package edge

import (
	"strings"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/escape"
)

const detailPath = "path_normalization_failed"

// path applies the path rules (HC-39, HC-40): fragment, escaped slashes,
// normalisation, several slashes in a row.
func (r *Rules) path(h *header.Map) Verdict {
	p := h.Path()
	if i := strings.IndexByte(p, '#'); i >= 0 {
		if r.fragments == nil || !r.fragments() {
			return Verdict{Status: 400, Details: detailPath}
		}
		p = p[:i]
		h.SetID(header.Path, p)
	}
	if r.plainPathOnly || p == "" {
		return Verdict{}
	}
	end := strings.IndexByte(p, '?')
	if end < 0 {
		end = len(p)
	}
	if r.plain(p[:end]) {
		return Verdict{}
	}
	var room [512]byte
	return r.rewrite(h, append(room[:0], p[:end]...), p[end:])
}

// plain reports whether no rule changes a path.
func (r *Rules) plain(p string) bool {
	last := byte(0)
	for i := range len(p) {
		c := p[i]
		if c == '%' || c == '/' && last == '/' || c == '.' && last == '/' || c != '/' && !urlByteFast(c) {
			return false
		}
		last = c
	}
	return true
}

// urlByteFast is urlByte, letters first.
func urlByteFast(c byte) bool {
	return alpha(c) || c >= '0' && c <= '9' || urlByte(c)
}

// rewrite applies the rules to a path that they may change; query begins with
// its question mark.
func (r *Rules) rewrite(h *header.Map, path []byte, query string) Verdict {
	v := Verdict{}
	if r.escaped > hcmv3.HttpConnectionManager_KEEP_UNCHANGED {
		n := len(path)
		path = unescapeSlashes(path)
		if len(path) != n {
			v = r.unescaped()
		}
	}
	ok := true
	if v.Status != 400 {
		var room [512]byte
		if r.normalize {
			path, ok = normalize(room[:0], path)
		}
		if ok && r.mergeSlash {
			path = mergeSlashes(path)
		}
	}
	if !ok {
		return Verdict{Status: 400, Details: detailPath}
	}
	h.SetIDBytes(header.Path, append(path, query...))
	if v.Status == 307 {
		v.Location = h.Path()
	}
	return v
}

// unescaped is what becomes of a request with an escaped slash.
func (r *Rules) unescaped() Verdict {
	switch r.escaped {
	case hcmv3.HttpConnectionManager_REJECT_REQUEST:
		return Verdict{Status: 400, Details: detailPath}
	case hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT:
		return Verdict{Status: 307, Details: detailPath}
	}
	return Verdict{}
}

// unescapeSlashes decodes %2F and %5C in place.
func unescapeSlashes(p []byte) []byte {
	n := 0
	for i := 0; i < len(p); i++ {
		c := p[i]
		if v, ok := escape.At(p, i); ok && (v == '/' || v == '\\') {
			c = v
			i += 2
		}
		p[n] = c
		n++
	}
	return p[:n]
}

// normalize appends the canonical form of a path that begins with a slash:
// escapes of unreserved characters decoded, characters that a path cannot hold
// escaped, backslashes made slashes, and dot segments removed (RFC 3986 section
// 5.2.4), also those with parameters ("..;x"), which some servers take for dot
// segments. An escaped NUL makes it fail.
//
// The form of a canonical path is the path itself. Envoy's is not where a stray
// percent sign meets a decoded digit ("%%341" gives "%41" there) or where the
// dots before a semicolon were escaped.
func normalize(dst, p []byte) ([]byte, bool) {
	stray := -3 // where the last percent sign stands that escapes nothing
	segment := 0
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case c == '/' || c == '\\':
			if segment > 0 && dotSegment(dst[segment:]) > 0 {
				dst = dropDots(dst, segment)
			} else {
				dst = append(dst, '/')
			}
			segment = len(dst)
			stray = -3 // nothing joins across a slash, and dots may have taken it away
		case c == '%':
			v, ok := escape.At(p, i)
			switch {
			case !ok:
				stray = len(dst)
				dst = append(dst, c)
				continue
			case v == 0:
				return nil, false
			case unreserved(v) && (len(dst)-stray > 2 || !escape.Digit(v)):
				dst = append(dst, v)
			default:
				dst = append(dst, p[i:i+3]...)
			}
			i += 2
		case urlByteFast(c):
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	if segment > 0 && dotSegment(dst[segment:]) > 0 {
		dst = dropDots(dst, segment)
	}
	return dst, true
}

const upperHex = "0123456789ABCDEF"

func unreserved(c byte) bool {
	return alpha(c) || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// dotSegment is the number of dots of a dot segment, or 0.
func dotSegment(s []byte) int {
	n := 0
	for n < len(s) && s[n] == '.' {
		n++
	}
	if n > 2 || n < len(s) && s[n] != ';' {
		return 0
	}
	return n
}

// dropDots removes the dot segment at the end of a path, and the segment before
// it if there are two dots; what stays ends with a slash.
func dropDots(dst []byte, segment int) []byte {
	two := dotSegment(dst[segment:]) == 2
	dst = dst[:segment]
	if !two || segment <= 1 {
		return dst
	}
	for segment--; segment > 0 && dst[segment-1] != '/'; {
		segment--
	}
	return dst[:max(segment, 1)]
}

// mergeSlashes makes one slash of several, in place. Of a path that is all
// slashes two stay, as in Envoy.
func mergeSlashes(p []byte) []byte {
	n := 0
	for i := range p {
		if p[i] == '/' && n > 0 && p[n-1] == '/' {
			continue
		}
		p[n] = p[i]
		n++
	}
	if n == 1 && len(p) > 1 && p[0] == '/' {
		n = 2
	}
	return p[:n]
}

package xds

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The characters beside letters, digits and "-._~" that each part of a URN
// carries as they are. They are RFC 3986's for that part, less the separators
// that the part itself is split at.
const (
	rawInAuthority = "!$&'()*+,;=:@[]"
	rawInID        = "!$&'()*+,;=:@/"
	rawInParam     = "!$'()*+,;:@/?"
	rawInDirective = "!$&'()*+;=:@/?"
)

// String is the canonical form: parameters sorted by key, and percent-encoding
// in upper case where, and only where, a part needs it. Equal URNs, and only
// they, have the same form, and [ParseURN] reads it back.
func (u URN) String() string {
	var b strings.Builder
	b.WriteString(urnPrefix)
	escape(&b, u.Authority, rawInAuthority)
	b.WriteString("/" + u.Type + "/")
	escape(&b, u.ID, rawInID)
	sep := byte('?')
	for _, k := range u.paramKeys() {
		b.WriteByte(sep)
		escape(&b, k, rawInParam)
		b.WriteByte('=')
		escape(&b, u.Params[k], rawInParam)
		sep = '&'
	}
	return b.String()
}

func (u URN) paramKeys() []string { return slices.Sorted(maps.Keys(u.Params)) }

// escape appends s with every byte percent-encoded that is neither unreserved
// in RFC 3986 nor in raw.
func escape(b *strings.Builder, s, raw string) {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if unreserved(c) || strings.IndexByte(raw, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// unescape decodes percent-encoding. A plus is a plus: the parts of a URN are
// not form data.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 {
		return checkUTF8(s)
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0 {
			return "", errors.New("a % must be followed by two hexadecimal digits; write a plain % as %25")
		}
		out = append(out, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
		i += 2
	}
	return checkUTF8(string(out))
}

func checkUTF8(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", errors.New("is not UTF-8 once decoded")
	}
	return s, nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

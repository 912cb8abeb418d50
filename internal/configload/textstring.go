package configload

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// literal reads one quoted string of the text format into b. The content is
// bytes: whether they must be UTF-8 depends on the field.
func (r *textReader) literal(b *strings.Builder) {
	quote := r.data[r.i]
	r.i++
	for !r.end() {
		switch c := r.data[r.i]; c {
		case quote:
			r.i++
			return
		case '\n', 0:
			r.fail("the string has no end on its line")
			return
		case '\\':
			r.escape(b)
			if r.err != nil {
				return
			}
		default:
			b.WriteByte(c)
			r.i++
		}
	}
	r.fail("the string has no end")
}

func (r *textReader) escape(b *strings.Builder) {
	r.i++
	if r.end() {
		r.fail("the string has no end")
		return
	}
	c := r.data[r.i]
	r.i++
	switch {
	case '0' <= c && c <= '7':
		r.i--
		r.number(b, 8, 3)
	case c == 'x' || c == 'X':
		r.number(b, 16, 2)
	case c == 'u':
		r.runeEscape(b, 4)
	case c == 'U':
		r.runeEscape(b, 8)
	default:
		plain := strings.IndexByte(`"'\?abfnrtv`, c)
		if plain < 0 {
			r.fail("unknown escape \\%c in a string", c)
			return
		}
		b.WriteByte("\"'\\?\a\b\f\n\r\t\v"[plain])
	}
}

// number reads an octal or a hexadecimal escape of up to longest digits.
func (r *textReader) number(b *strings.Builder, base, longest int) {
	end := r.i
	for end < len(r.data) && end-r.i < longest && isDigit(r.data[end], base) {
		end++
	}
	v, err := strconv.ParseUint(string(r.data[r.i:end]), base, 8)
	if err != nil {
		r.fail("malformed number in an escape")
		return
	}
	b.WriteByte(byte(v))
	r.i = end
}

func isDigit(c byte, base int) bool {
	switch base {
	case 8:
		return '0' <= c && c <= '7'
	case 10:
		return '0' <= c && c <= '9'
	}
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// runeEscape reads the digits of \u or \U; two surrogates make one character.
func (r *textReader) runeEscape(b *strings.Builder, digits int) {
	u, ok := r.hex(digits)
	if ok && utf16.IsSurrogate(u) {
		var low rune
		if ok = strings.HasPrefix(string(r.data[r.i:min(r.i+2, len(r.data))]), `\u`); ok {
			r.i += 2
			low, ok = r.hex(4)
		}
		u = utf16.DecodeRune(u, low)
		ok = ok && u != utf8.RuneError
	}
	if !ok || !utf8.ValidRune(u) {
		r.fail("malformed \\u escape in a string")
		return
	}
	b.WriteRune(u)
}

func (r *textReader) hex(digits int) (rune, bool) {
	if r.i+digits > len(r.data) {
		return 0, false
	}
	u, err := strconv.ParseUint(string(r.data[r.i:r.i+digits]), 16, 32)
	r.i += digits
	return rune(u), err == nil && u <= utf8.MaxRune
}

package format

import (
	"strconv"
	"strings"
	"time"
)

// timeLayout is a compiled strftime format.
type timeLayout []timePart

// timePart is a literal, and what follows it.
type timePart struct {
	literal string
	write   func(dst []byte, t time.Time) []byte // nil at the end
}

func (l timeLayout) append(dst []byte, t time.Time) []byte {
	for i := range l {
		dst = append(dst, l[i].literal...)
		if l[i].write != nil {
			dst = l[i].write(dst, t)
		}
	}
	return dst
}

// spec is a conversion: flags, width, and the letter.
type spec struct {
	pad   byte // '-', '_', '0' or 0
	upper bool
	swap  bool
	width int
}

// parseTime compiles strftime's conversions, those of C's library and Envoy's:
// %s, %f and %1f to %9f, %E*S, %E3S, %E*f, %E4Y, %Ez, %:z. Unknown ones are
// literals. A newline is an error.
func parseTime(text string) (timeLayout, error) {
	for i := range len(text) {
		if text[i] == '%' && hasNewline(text[i:]) {
			return nil, errNewline()
		}
	}
	var l timeLayout
	var literal strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '%' {
			literal.WriteByte(text[i])
			i++
			continue
		}
		write, n := conversion(text[i+1:])
		if write == nil {
			literal.WriteString(text[i : i+1+n])
		} else {
			l = append(l, timePart{literal.String(), write})
			literal.Reset()
		}
		i += 1 + n
	}
	if literal.Len() > 0 {
		l = append(l, timePart{literal: literal.String()})
	}
	return l, nil
}

// hasNewline recognises the conversion to a newline, as Envoy does.
func hasNewline(s string) bool {
	s = strings.TrimLeft(s[1:], "-_0^#")
	s = strings.TrimLeft(s, "123456789")
	if s != "" && (s[0] == 'E' || s[0] == 'O') {
		s = s[1:]
	}
	return strings.HasPrefix(s, "n")
}

// conversion compiles what follows a percent sign, and tells how long it is;
// nil is a literal of that length.
func conversion(s string) (func([]byte, time.Time) []byte, int) {
	if s == "" {
		return nil, 0
	}
	if write, n := extended(s); write != nil {
		return write, n
	}
	var p spec
	i := 0
	for ; i < len(s) && strings.IndexByte("-_0^#", s[i]) >= 0; i++ {
		switch s[i] {
		case '^':
			p.upper = true
		case '#':
			p.swap = true
		default:
			p.pad = s[i]
		}
	}
	const widest = 1024
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		p.width = min(p.width*10+int(s[i]-'0'), widest)
	}
	if i+1 < len(s) && (s[i] == 'O' && strings.IndexByte("BdeHImMSuUVwWy", s[i+1]) >= 0 ||
		s[i] == 'E' && strings.IndexByte("cCxXyY", s[i+1]) >= 0) {
		i++ // another alphabet, which the C locale has not
	}
	if i == len(s) {
		return nil, i
	}
	if write := p.letter(s[i]); write != nil {
		return write, i + 1
	}
	return nil, i // the letter may start another conversion
}

// extended are the conversions that strftime has not.
func extended(s string) (func([]byte, time.Time) []byte, int) {
	for n := range 3 {
		if strings.HasPrefix(s, strings.Repeat(":", n+1)+"z") {
			return zone(n + 1), n + 2
		}
	}
	if s[0] >= '1' && s[0] <= '9' && len(s) > 1 && s[1] == 'f' {
		return fraction(int(s[0]-'0'), false), 2
	}
	if s[0] == 'f' {
		return fraction(9, false), 1
	}
	if s[0] != 'E' || len(s) < 2 {
		return nil, 0
	}
	switch s[1] {
	case 'z':
		return zone(1), 2
	case 'T':
		return func(dst []byte, _ time.Time) []byte { return append(dst, 'T') }, 2
	}
	switch {
	case strings.HasPrefix(s, "E*z"):
		return zone(2), 3
	case strings.HasPrefix(s, "E4Y"):
		return func(dst []byte, t time.Time) []byte { return padded(dst, t.Year(), 4, '0') }, 3
	}
	return digits(s)
}

// digits are %E*S, %E3S and the same with f.
func digits(s string) (func([]byte, time.Time) []byte, int) {
	i, n, all := 1, 0, false
	if s[i] == '*' {
		i, all = 2, true
	} else {
		for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			n = min(n*10+int(s[i]-'0'), 15)
		}
		if i == 1 {
			return nil, 0
		}
	}
	if i == len(s) {
		return nil, 0
	}
	sub := fraction(n, all)
	switch s[i] {
	case 'f':
		return func(dst []byte, t time.Time) []byte {
			if all && t.Nanosecond() == 0 {
				return append(dst, '0')
			}
			return sub(dst, t)
		}, i + 1
	case 'S':
		return func(dst []byte, t time.Time) []byte {
			dst = padded(dst, t.Second(), 2, '0')
			if all && t.Nanosecond() == 0 || !all && n == 0 {
				return dst
			}
			return sub(append(dst, '.'), t)
		}, i + 1
	}
	return nil, 0
}

// fraction are digits of the second: so many, or all but zeros at the end.
func fraction(n int, all bool) func([]byte, time.Time) []byte {
	return func(dst []byte, t time.Time) []byte {
		start := len(dst)
		dst = padded(dst, t.Nanosecond(), 9, '0')
		if all {
			for len(dst) > start && dst[len(dst)-1] == '0' {
				dst = dst[:len(dst)-1]
			}
			return dst
		}
		for len(dst)-start < n {
			dst = append(dst, '0')
		}
		return dst[:start+n]
	}
}

// zone is the offset: +0100 with no colons, +01:00 with one, +01:00:00 with
// two, and as short as can be with three.
func zone(colons int) func([]byte, time.Time) []byte {
	return func(dst []byte, t time.Time) []byte {
		_, off := t.Zone()
		if off < 0 {
			dst, off = append(dst, '-'), -off
		} else {
			dst = append(dst, '+')
		}
		dst = padded(dst, off/3600, 2, '0')
		if colons == 3 && off%3600 == 0 {
			return dst
		}
		if colons > 0 {
			dst = append(dst, ':')
		}
		dst = padded(dst, off/60%60, 2, '0')
		if colons == 2 || colons == 3 && off%60 != 0 {
			dst = padded(append(dst, ':'), off%60, 2, '0')
		}
		return dst
	}
}

// padded appends a number with at least so many digits.
func padded(dst []byte, v, width int, pad byte) []byte {
	var b [20]byte
	s := strconv.AppendInt(b[:0], int64(v), 10)
	for n := len(s); n < width; n++ {
		dst = append(dst, pad)
	}
	return append(dst, s...)
}

// Package escape reads percent escapes (RFC 3986 section 2.1).
package escape

// At is the byte that the escape %XX at an index stands for, if there is one.
func At[T string | []byte](s T, i int) (c byte, ok bool) {
	if i+2 >= len(s) || s[i] != '%' {
		return 0, false
	}
	hi, lo := digit(s[i+1]), digit(s[i+2])
	return hi<<4 | lo&15, hi < 16 && lo < 16
}

func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}

// Digit tells whether a byte is a digit of an escape.
func Digit(c byte) bool { return digit(c) < 16 }

package http1

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// lowerToken has for each byte of a field name its lower case, and 0 for bytes
// that a token (RFC 9110 section 5.6.2) cannot have. It is a string so that
// nothing can change it.
const lowerToken = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00!\x00#$%&'\x00\x00*+\x00-.\x00" +
	"0123456789\x00\x00\x00\x00\x00\x00" +
	"\x00abcdefghijklmno" +
	"pqrstuvwxyz\x00\x00\x00^_" +
	"`abcdefghijklmno" +
	"pqrstuvwxyz\x00|\x00~\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// view is the bytes as a string, without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// control is the index of the first byte below 0x20 or equal to 0x7f from an
// index on, or len(b).
func control(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		del := x ^ lows*0x7f
		// The lowest mark is exact; carries spoil only those above it.
		if m := ((x-lows*0x20)&^x | (del-lows)&^del) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == 0x7f {
			break
		}
	}
	return i
}

// clean reports whether no byte is below 0x20, such as CR, LF and NUL.
func clean(b []byte) bool {
	if len(b) < 8 {
		for _, c := range b {
			if c < 0x20 {
				return false
			}
		}
		return true
	}
	last := binary.LittleEndian.Uint64(b[len(b)-8:])
	mark := (last - lows*0x20) &^ last
	for ; len(b) > 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		mark |= (x - lows*0x20) &^ x
	}
	return mark&highs == 0
}

// outOfTarget is the index of the first byte that is no visible ASCII character
// from an index on, or len(b).
func outOfTarget(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		del := x ^ lows*0x7f
		if m := ((x-lows*0x21)&^x | (del-lows)&^del | x) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c <= 0x20 || c >= 0x7f {
			break
		}
	}
	return i
}

// isToken reports whether a string is a token of RFC 9110.
func isToken(s string) bool {
	for i := range len(s) {
		if lowerToken[s[i]] == 0 {
			return false
		}
	}
	return s != ""
}

// equalFold reports whether s is the lower-case ASCII word w in any case.
func equalFold(s, w string) bool {
	if len(s) != len(w) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c-'A' < 26 {
			c |= 0x20
		}
		if c != w[i] {
			return false
		}
	}
	return true
}

// trim cuts spaces and tabs off both ends.
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// NextElement takes the first element of a comma-separated list, such as the
// options of Connection, without the spaces around it; it may be empty.
func NextElement(list string) (element, rest string) {
	for i := range len(list) {
		if list[i] == ',' {
			return trim(list[:i]), list[i+1:]
		}
	}
	return trim(list), ""
}

// hexDigit is the value of a hexadecimal digit, or 16 and more.
func hexDigit(c byte) uint64 {
	switch {
	case c-'0' < 10:
		return uint64(c - '0')
	case c|0x20-'a' < 6:
		return uint64(c|0x20-'a') + 10
	}
	return 16
}

// parseLength is a Content-Length: digits only, at most maxLength.
func parseLength(s string) (uint64, bool) {
	n := uint64(0)
	for i := range len(s) {
		c := uint64(s[i] - '0')
		if c > 9 || n > maxLength/10 {
			return 0, false
		}
		n = n*10 + c
	}
	return n, s != "" && n <= maxLength
}

// maxLength is the longest body or chunk that is counted: what fits an int64.
const maxLength = 1<<63 - 1

// Package clip bounds texts that others have a say in.
package clip

import "unicode/utf8"

// Text shortens s to at most n bytes, at the edge of a character.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

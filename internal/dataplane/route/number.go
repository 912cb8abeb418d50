package route

import "strings"

// parseUint reads a decimal number with white space around it. Unlike
// strconv's, it does not allocate for what is no number.
func parseUint(s string) (uint64, bool) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "+")
	if s == "" {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// parseInt is parseUint for numbers that may be negative.
func parseInt(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		n, ok := parseUint(rest)
		return -int64(n), ok && n <= 1<<63 && rest[0] != '+'
	}
	n, ok := parseUint(s)
	return int64(n), ok && n < 1<<63
}

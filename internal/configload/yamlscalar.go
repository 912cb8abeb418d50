package configload

import (
	"math"
	"strconv"
	"strings"
)

// plainScalar types an unquoted YAML scalar by the rules of Envoy's parser
// (BS-10), which are those of yaml-cpp: more words are booleans than in
// YAML 1.2, a leading 0 means octal, and integers outside int32 travel as
// strings, which every numeric field takes as well.
func plainScalar(s string) (kind, string) {
	if len(s) <= 5 {
		if k, ok := plainWord(s); ok {
			return k, s
		}
	}
	if s == "" || !strings.ContainsRune("+-.0123456789", rune(s[0])) {
		return stringNode, s
	}
	if i, ok := plainInt(s); ok {
		if i < math.MinInt32 || i > math.MaxInt32 {
			return stringNode, strconv.FormatInt(i, 10)
		}
		return numberNode, strconv.FormatInt(i, 10)
	}
	if isPlainFloat(s) {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return numberNode, s
		}
	}
	return stringNode, s
}

func plainWord(s string) (kind, bool) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return nullNode, true
	}
	lower := strings.ToLower(s)
	if s != lower && s != strings.ToUpper(s) && s != strings.ToUpper(s[:1])+lower[1:] {
		return nullNode, false
	}
	switch lower {
	case "true", "yes", "on", "y":
		return trueNode, true
	case "false", "no", "off", "n":
		return falseNode, true
	}
	return nullNode, false
}

// plainInt reads a decimal, 0x or octal (leading 0) integer with a sign.
func plainInt(s string) (int64, bool) {
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" {
		return 0, false
	}
	sign := s[:len(s)-len(digits)]
	base := 10
	switch {
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0X"):
		base, digits = 16, digits[2:]
	case digits[0] == '0' && len(digits) > 1:
		base, digits = 8, digits[1:]
	}
	if digits == "" || digits[0] == '+' || digits[0] == '-' {
		return 0, false
	}
	i, err := strconv.ParseInt(sign+digits, base, 64)
	return i, err == nil
}

// isPlainFloat is digits with an optional fraction and an optional exponent.
func isPlainFloat(s string) bool {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "+"), "-")
	whole := countDigits(s)
	s = s[whole:]
	frac := 0
	if strings.HasPrefix(s, ".") {
		frac = countDigits(s[1:])
		s = s[1+frac:]
	}
	if whole+frac == 0 {
		return false
	}
	if s == "" {
		return true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return s != "" && countDigits(s) == len(s)
}

func countDigits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

package stringmatch

// EqualFold compares a text with one of the same length in lower case. Only
// ASCII letters have case here.
func EqualFold(s, lower string) bool {
	for i := range len(s) {
		if LowerByte(s[i]) != lower[i] {
			return false
		}
	}
	return true
}

// Lower is a text with its ASCII letters in lower case.
func Lower(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = LowerByte(b[i])
	}
	return string(b)
}

// LowerByte is an ASCII letter in lower case, and any other byte as it is.
func LowerByte(c byte) byte {
	if c-'A' < 26 {
		return c + 'a' - 'A'
	}
	return c
}

package http2

// set is a set of ASCII characters.
type set [2]uint64

func (s *set) has(c byte) bool { return c < 0x80 && s[c>>6]&(1<<(c&63)) != 0 }

func setOf(chars string) (s set) {
	for i := range len(chars) {
		s[chars[i]>>6] |= 1 << (chars[i] & 63)
	}
	return s
}

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

//nolint:gochecknoglobals // constant sets
var (
	tokenChars     = setOf(alphanumeric + "!#$%&'*+-.^_`|~")
	schemeChars    = setOf(alphanumeric + "+-.")
	authorityChars = setOf(alphanumeric + "!$%&'()*+,-.:;=[]_~") // RFC 3986 section 3.2, without userinfo
)

func all(s string, of *set) bool {
	for i := range len(s) {
		if !of.has(s[i]) {
			return false
		}
	}
	return s != ""
}

func isToken(s string) bool { return s == "GET" || s == "POST" || all(s, &tokenChars) }

func isScheme(s string) bool {
	return s == "http" || s == "https" || all(s, &schemeChars) && s[0]|0x20 >= 'a'
}

func isAuthority(s string) bool { return all(s, &authorityChars) }

// isPath takes every byte but controls and spaces, as Envoy does.
func isPath(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= 0x20 || c == 0x7f {
			return false
		}
	}
	return s != ""
}

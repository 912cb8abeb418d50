package edge

import "strings"

// validReferer accepts an absolute URL without userinfo and fragment, or a
// relative reference whose first segment has no colon; Envoy removes what is
// neither.
func validReferer(v string) bool {
	if ok, private := absoluteURL(v); ok {
		return !private
	}
	slash := false
	for i := range len(v) {
		switch c := v[i]; {
		case c == ':' && !slash:
			return false
		case c == '/':
			slash = true
		case c == '#' || !urlByte(c):
			return false
		}
	}
	return true
}

// urlByte accepts the characters that a URL may hold.
func urlByte(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte("\"<>\\^`{|}", c) < 0
}

// absoluteURL reports whether v is an absolute URL, and whether that has
// userinfo or a fragment. Its path is not looked at closely.
func absoluteURL(v string) (ok, private bool) {
	i := strings.Index(v, "://")
	if i <= 0 || !alpha(v[0]) {
		return false, false
	}
	for _, c := range []byte(v[1:i]) {
		if !alpha(c) && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' {
			return false, false
		}
	}
	end := i + 3
	for end < len(v) && v[end] != '/' && v[end] != '?' && v[end] != '#' {
		end++
	}
	host, path := v[i+3:end], v[end:]
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f {
			return false, false
		}
	}
	at := strings.LastIndexByte(host, '@')
	fragment := strings.IndexByte(path, '#')
	return urlHost(host[at+1:]), at >= 0 || fragment >= 0 && fragment < len(path)-1
}

// urlHost accepts a host with or without port.
func urlHost(s string) bool {
	at := portAt(s)
	host, port := s[:at], s[at:]
	if port != "" {
		n := 0
		for _, c := range []byte(port[1:]) {
			if c < '0' || c > '9' || n > 65535 {
				return false
			}
			n = n*10 + int(c-'0')
		}
		if n > 65535 || len(port) == 1 {
			return false
		}
	}
	literal := strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") && len(host) > 2
	if literal {
		host = host[1 : len(host)-1]
	}
	for _, c := range []byte(host) {
		digit := c >= '0' && c <= '9' || c == '.'
		switch {
		case digit, literal && (c == ':' || c|0x20 >= 'a' && c|0x20 <= 'f'), !literal && (c == '-' || alpha(c)):
		default:
			return false
		}
	}
	return host != ""
}

func alpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

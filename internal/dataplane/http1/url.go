package http1

import "bytes"

type url struct{ scheme, host, path []byte }

// splitURL takes a target in absolute form apart. Userinfo is dropped. The path
// begins with "/" or "?", or is empty.
func splitURL(t []byte) (u url, ok bool) {
	i := bytes.Index(t, []byte("://"))
	if i <= 0 {
		return u, false
	}
	u.scheme = t[:i]
	u.host = t[i+3:]
	if j := bytes.IndexAny(u.host, "/?"); j >= 0 {
		u.host, u.path = u.host[:j], u.host[j:]
	}
	if j := bytes.IndexByte(u.host, '@'); j >= 0 {
		u.host = u.host[j+1:]
	}
	port := portOf(u.host)
	switch {
	case len(u.host) == 0, port == 0, bytes.IndexByte(u.host, '@') >= 0:
		return u, false
	case port > 0 && !validPort(u.host[port:]):
		return u, false
	}
	return u, true
}

// portOf is the index of the colon before the port, or -1.
func portOf(host []byte) int {
	i := bytes.LastIndexByte(host, ':')
	if i >= 0 && bytes.IndexByte(host[i:], ']') >= 0 {
		return -1
	}
	return i
}

// validPort checks ":" and a number below 65536.
func validPort(b []byte) bool {
	n, ok := parseLength(view(b[1:]))
	return ok && n <= 65535 && len(b) <= 6
}

// plausibleURL checks the form of a URL: a scheme, "://", and an authority.
func plausibleURL(t []byte) bool {
	i := 0
	for i < len(t) && (t[i]|0x20-'a' < 26 || i > 0 && (t[i]-'0' < 10 || t[i] == '+' || t[i] == '-' || t[i] == '.')) {
		i++
	}
	if i == 0 || !bytes.HasPrefix(t[i:], []byte("://")) {
		return false
	}
	rest := t[i+3:]
	if j := bytes.IndexAny(rest, "/?"); j >= 0 {
		rest = rest[:j]
	}
	return plausibleAuthority(rest)
}

// plausibleAuthority checks the characters of an authority with userinfo.
func plausibleAuthority(b []byte) bool {
	for _, c := range b {
		if !inAuthority(c) {
			return false
		}
	}
	return true
}

// validAuthority checks the characters of :authority.
func validAuthority(s string) bool {
	for i := range len(s) {
		if !inAuthority(s[i]) {
			return false
		}
	}
	return true
}

// inAuthority tells the characters of RFC 3986's authority.
func inAuthority(c byte) bool {
	switch {
	case c|0x20-'a' < 26, c-'0' < 10:
		return true
	}
	switch c {
	case '-', '.', '_', '~', '%', '!', '$', '&', '\'', '(', ')', '*', '+', ',', ';', '=', ':', '@', '[', ']':
		return true
	}
	return false
}

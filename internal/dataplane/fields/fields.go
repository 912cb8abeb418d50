// Package fields finds values within fields of a request's head: cookies and
// parameters of the query. It is pure and does not allocate.
package fields

import (
	"strings"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Query is the first value of a parameter of a path, as it is written.
func Query(path, name string) (string, bool) {
	_, query, _ := strings.Cut(path, "?")
	for query != "" {
		var p string
		p, query, _ = strings.Cut(query, "&")
		if k, v, _ := strings.Cut(p, "="); k == name {
			return v, true
		}
	}
	return "", false
}

// Cookie is the first value of a cookie, without the quotes around it.
func Cookie(m *header.Map, name string) (string, bool) {
	for line := range m.Values("cookie") {
		for line != "" {
			var p string
			p, line, _ = strings.Cut(line, ";")
			k, v, ok := strings.Cut(strings.TrimLeft(p, " "), "=")
			if !ok || k != name {
				continue
			}
			if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
				v = v[1 : len(v)-1]
			}
			return v, true
		}
	}
	return "", false
}

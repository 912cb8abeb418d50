package format

import (
	"errors"
	"fmt"
	"strings"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/escape"
)

// field is a header by its known id, or by its name.
type field struct {
	id   header.ID
	name string
}

func fieldOf(name string) field {
	name = strings.ToLower(name)
	return field{header.KnownID(name), name}
}

func (f *field) in(m *header.Map) (string, bool) {
	if f.name == "" || m == nil {
		return "", false
	}
	if f.id != header.Other {
		return m.LookupID(f.id)
	}
	return m.Lookup(f.name)
}

// either is a header, or another one where that is missing.
type either struct{ first, second field }

func (e *either) in(m *header.Map) (string, bool) {
	if v, ok := e.first.in(m); ok {
		return v, true
	}
	return e.second.in(m)
}

// eitherOf reads "X?Y".
func eitherOf(param string) (e either, err error) {
	name, rest, _ := strings.Cut(param, "?")
	if strings.Contains(rest, "?") {
		return e, fmt.Errorf("More than 1 alternative header specified in token: %s", param) //nolint:staticcheck // Envoy's text
	}
	e = either{fieldOf(name), fieldOf(rest)}
	if !validName(name) || !validName(rest) {
		return e, errors.New("Invalid header configuration. Format string contains invalid characters.") //nolint:revive,staticcheck // Envoy's text
	}
	return e, nil
}

// validName tells whether a header may have this name, or there is none.
func validName(name string) bool {
	name = strings.TrimPrefix(name, ":")
	for i := range len(name) {
		c := name[i] | 0x20
		if c >= 'a' && c <= 'z' || name[i] >= '0' && name[i] <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", name[i]) < 0 {
			return false
		}
	}
	return true
}

func requestHeader(t *token, _ *Options) (*op, error) {
	e, err := eitherOf(t.param)
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		v, ok := e.in(c.Req)
		return append(dst, v...), ok
	}}, err
}

func responseHeader(t *token, _ *Options) (*op, error) {
	e, err := eitherOf(t.param)
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		v, ok := e.in(c.Resp)
		return append(dst, v...), ok
	}}, err
}

func responseTrailer(t *token, _ *Options) (*op, error) {
	e, err := eitherOf(t.param)
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		v, ok := e.in(c.RespTrailers)
		return append(dst, v...), ok
	}}, err
}

func requestWithoutQuery(t *token, _ *Options) (*op, error) {
	e, err := eitherOf(t.param)
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		v, ok := e.in(c.Req)
		return append(dst, withoutQuery(v)...), ok
	}}, err
}

func withoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// option picks a word of a parameter; no word is the first. The error is
// Envoy's.
func option(name, got string, words ...string) (int, error) {
	if got == "" {
		return 0, nil
	}
	for i, w := range words {
		if w == got {
			return i, nil
		}
	}
	return 0, fmt.Errorf("Invalid %s option: '%s', only '%s' are allowed", name, got, strings.Join(words, "'/'")) //nolint:staticcheck // Envoy's text
}

func pathOp(t *token, _ *Options) (*op, error) {
	query, rest, _ := strings.Cut(t.param, ":")
	from, _, _ := strings.Cut(rest, ":")
	form, err := option(t.name, query, "WQ", "NQ")
	if err != nil {
		return nil, err
	}
	e := either{fieldOf("x-envoy-original-path"), fieldOf(":path")}
	switch from {
	case "", "ORIG_OR_PATH":
	case "ORIG":
		e.second = field{}
	case "PATH":
		e.first = field{}
	default:
		_, err = option(t.name, from, "ORIG", "PATH", "ORIG_OR_PATH")
		return nil, err
	}
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		v, ok := e.in(c.Req)
		if form == 1 {
			v = withoutQuery(v)
		}
		return append(dst, v...), ok
	}}, nil
}

func queryParams(t *token, _ *Options) (*op, error) {
	form, err := option(t.name, t.param, "ORIG", "DECODED")
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		if c.Req == nil {
			return dst, false
		}
		_, query, ok := strings.Cut(c.Req.Path(), "?")
		if form == 1 {
			return appendReadable(dst, query), ok
		}
		return append(dst, query...), ok
	}}, err
}

func queryParam(t *token, _ *Options) (*op, error) {
	name := t.param
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		if c.Req == nil {
			return dst, false
		}
		_, query, _ := strings.Cut(c.Req.Path(), "?")
		for query != "" {
			var pair string
			pair, query, _ = strings.Cut(query, "&")
			key, value, _ := strings.Cut(pair, "=")
			if decodesTo(key, name) {
				return appendDecoded(dst, value), true
			}
		}
		return dst, false
	}}, nil
}

// appendDecoded appends a text with its percent escapes undone; what is no
// escape stays.
func appendDecoded(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if b, ok := escape.At(s, i); ok {
			dst = append(dst, b)
			i += 2
			continue
		}
		dst = append(dst, s[i])
	}
	return dst
}

// appendReadable undoes the escapes of characters that a query may hold as they
// are, and leaves those of spaces, controls and the like. A percent sign before
// no hexadecimal number is dropped, as Envoy does.
func appendReadable(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+2 >= len(s) {
			dst = append(dst, s[i])
			continue
		}
		b, ok := escape.At(s, i)
		switch {
		case !ok:
		case b <= ' ' || b >= 0x7f || strings.IndexByte("\"<>\\^{|}", b) >= 0:
			dst = append(dst, s[i:i+3]...)
			i += 2
		default:
			dst = append(dst, b)
			i += 2
		}
	}
	return dst
}

// decodesTo tells whether a text, unescaped, is this name.
func decodesTo(s, name string) bool {
	n := 0
	for i := 0; i < len(s); i, n = i+1, n+1 {
		b, ok := escape.At(s, i)
		if ok {
			i += 2
		} else {
			b = s[i]
		}
		if n >= len(name) || name[n] != b {
			return false
		}
	}
	return n == len(name)
}

func serverName(t *token, _ *Options) (*op, error) {
	which, rest, _ := strings.Cut(t.param, ":")
	source, _, _ := strings.Cut(rest, ":")
	mode, err := option(t.name, which, "SNI_ONLY", "SNI_FIRST", "HOST_FIRST")
	if err != nil {
		return nil, err
	}
	host := either{fieldOf("x-envoy-original-host"), fieldOf(":authority")}
	switch source {
	case "", "ORIG_OR_HOST":
	case "HOST":
		host.first = field{}
	case "ORIG":
		host.second = field{}
	default:
		_, err = option(t.name, source, "ORIG_OR_HOST", "HOST", "ORIG")
		return nil, err
	}
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		sni := ""
		if cx := c.connection(); cx != nil {
			sni = cx.RequestedServerName
		}
		if mode != 0 && (mode == 2 || sni == "") {
			if v, _ := host.in(c.Req); v != "" {
				sni = v
			}
		}
		return append(dst, sni...), sni != ""
	}}, nil
}

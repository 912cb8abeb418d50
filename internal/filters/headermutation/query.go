package headermutation

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/escape"
)

// parameter is a KeyValueMutation of the query.
type parameter struct {
	remove string
	key    string
	value  *format.Format
	action corev3.KeyValueAppend_KeyValueAppendAction
}

func parseQuery(path string, list []*corev3.KeyValueMutation) ([]parameter, error) {
	out := make([]parameter, len(list))
	var errs []error
	for i, c := range list {
		p, err := parseParameter(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s[%d]: %w", path, i, err))
		}
		out[i] = p
	}
	return out, errors.Join(errs...)
}

func parseParameter(c *corev3.KeyValueMutation) (parameter, error) {
	a := c.GetAppend()
	if a == nil {
		if c.GetRemove() == "" {
			return parameter{}, errors.New("One of 'append'/'remove' must be specified.") //nolint:staticcheck,revive // Envoy's text
		}
		return parameter{remove: c.GetRemove()}, nil
	}
	if c.GetRemove() != "" {
		return parameter{}, errors.New("Only one of 'append'/'remove can be specified.") //nolint:staticcheck,revive // Envoy's text
	}
	if a.GetRecord() == nil {
		return parameter{}, errors.New("No record specified for append mutation.") //nolint:staticcheck,revive // Envoy's text
	}
	v, ok := a.GetRecord().GetValue().GetKind().(*structpb.Value_StringValue)
	if !ok {
		return parameter{}, errors.New("Only string value is allowed for record value.") //nolint:staticcheck,revive // Envoy's text
	}
	f, err := format.Parse(v.StringValue)
	if err != nil {
		return parameter{}, fmt.Errorf("append.record.value: %w", err)
	}
	return parameter{key: a.GetRecord().GetKey(), value: f, action: a.GetAction()}, nil
}

// mutateQuery changes the parameters of a request's path. Those that no
// mutation is for stay as they are written.
func (f *stream) mutateQuery(list []parameter, h *header.Map) {
	path, query, has := strings.Cut(h.Path(), "?")
	params := f.work.params[:0]
	for has && query != "" {
		var p string
		if p, query, has = strings.Cut(query, "&"); p != "" {
			params = append(params, p)
		}
	}
	for i := range list {
		params = list[i].apply(f, h, params)
	}
	b := f.work.text[:0]
	b = append(b, path...)
	sep := byte('?')
	for _, p := range params {
		b = append(append(b, sep), p...)
		sep = '&'
	}
	clear(params)
	f.work.text, f.work.params = b, params[:0]
	h.SetIDBytes(header.Path, b)
}

func (p *parameter) apply(f *stream, h *header.Map, params []string) []string {
	if p.value == nil {
		return remove(params, p.remove, 0)
	}
	first := indexOf(params, p.key, 0)
	switch p.action {
	case corev3.KeyValueAppend_ADD_IF_ABSENT:
		if first >= 0 {
			return params
		}
	case corev3.KeyValueAppend_OVERWRITE_IF_EXISTS:
		if first < 0 {
			return params
		}
		fallthrough
	case corev3.KeyValueAppend_OVERWRITE_IF_EXISTS_OR_ADD:
		if first >= 0 {
			params[first] = p.write(f, h)
			return remove(params, p.key, first+1)
		}
	}
	return append(params, p.write(f, h))
}

// write is the parameter with its value.
func (p *parameter) write(f *stream, h *header.Map) string {
	b := appendEscaped(f.work.text[:0], p.key)
	b = append(b, '=')
	n := len(b)
	b, _ = p.value.Append(b, f.cb.RequestHeaders(), f.cb.ResponseHeaders(), f.cb.Info())
	value := h.Keep(b[n:])
	b = appendEscaped(b[:n], value)
	f.work.text = b
	return h.Keep(b)
}

func remove(params []string, key string, from int) []string {
	for i := indexOf(params, key, from); i >= 0; i = indexOf(params, key, i) {
		params = append(params[:i], params[i+1:]...)
	}
	return params
}

func indexOf(params []string, key string, from int) int {
	for i := from; i < len(params); i++ {
		name, _, _ := strings.Cut(params[i], "=")
		if sameKey(name, key) {
			return i
		}
	}
	return -1
}

// sameKey compares a name as it is written with a key.
func sameKey(written, key string) bool {
	i := 0
	for len(written) > 0 {
		c, n := written[0], 1
		if v, ok := escape.At(written, 0); ok {
			c, n = v, 3
		}
		if i >= len(key) || key[i] != c {
			return false
		}
		written = written[n:]
		i++
	}
	return i == len(key)
}

// appendEscaped writes everything but unreserved characters as %XX.
func appendEscaped(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			dst = append(dst, c)
			continue
		}
		dst = append(dst, '%', digits[c>>4], digits[c&15])
	}
	return dst
}

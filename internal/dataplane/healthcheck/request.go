package healthcheck

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter/header"
)

// userAgent is what checks call themselves.
const userAgent = "Envoy/HC"

// headerChange is one header that is added to the requests of a check.
type headerChange struct {
	name, value string
	action      corev3.HeaderValueOption_HeaderAppendAction
}

// readHeaders reads headers to add. Their values are texts: what is in them does not
// depend on a request.
func readHeaders(field string, list []*corev3.HeaderValueOption) ([]headerChange, error) {
	var out []headerChange
	for i, o := range list {
		c := headerChange{name: strings.ToLower(o.GetHeader().GetKey()), value: o.GetHeader().GetValue(), action: o.GetAppendAction()}
		path := fmt.Sprintf("%s[%d]", field, i)
		if a := o.GetAppend(); a != nil { //nolint:staticcheck // deprecated fields still work (RT-31)
			if c.action != corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD {
				return nil, fmt.Errorf("%s: Both append and append_action are set and it's not allowed", path) // Envoy's text
			}
			if !a.GetValue() {
				c.action = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
			}
		}
		if raw := o.GetHeader().GetRawValue(); len(raw) > 0 {
			if c.value != "" {
				return nil, fmt.Errorf("%s.header: value and raw_value are both set: write one", path)
			}
			c.value = string(raw)
		}
		switch {
		case strings.HasPrefix(c.name, ":") || c.name == "host":
			return nil, fmt.Errorf("%s.header.key: %w", path, errFixed)
		case !isToken(c.name):
			return nil, fmt.Errorf("%s.header.key: %q is no header name", path, c.name)
		case strings.ContainsAny(c.value, "\x00\r\n"):
			return nil, fmt.Errorf("%s.header.value: the value has control characters", path)
		case strings.Contains(c.value, "%"):
			return nil, fmt.Errorf("%s.header.value: operators (%%) are known but not built for health checks; write a plain text", path)
		}
		if c.value != "" || o.GetKeepEmptyValue() {
			out = append(out, c)
		}
	}
	return out, nil
}

var errFixed = errors.New(":-prefixed or host headers may not be modified") // Envoy's text

// readRemoved reads the names of headers to remove.
func readRemoved(field string, list []string) ([]string, error) {
	var out []string
	for i, name := range list {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, ":") || name == "host" { // Envoy's text
			return nil, fmt.Errorf("%s[%d]: :-prefixed or host headers may not be removed", field, i)
		}
		out = append(out, name)
	}
	return out, nil
}

func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

// change applies what is configured to a head.
func change(h *header.Map, remove []string, add []headerChange) {
	for _, name := range remove {
		h.Del(name)
	}
	for i := range add {
		c := &add[i]
		there := h.Has(c.name)
		switch c.action {
		case corev3.HeaderValueOption_ADD_IF_ABSENT:
			if !there {
				h.Add(c.name, c.value)
			}
		case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:
			if there {
				h.Set(c.name, c.value)
			}
		case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
			h.Set(c.name, c.value)
		case corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
			if there && header.KnownID(c.name) != header.Other { // one line in Envoy
				h.AppendValue(c.name, ",", c.value)
			} else {
				h.Add(c.name, c.value)
			}
		}
	}
}

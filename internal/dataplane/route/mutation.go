package route

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter/header"
)

// mutation is what one level of the configuration does to headers (RT-22):
// removals first, then additions.
type mutation struct {
	remove []string
	add    []headerAdd
}

type headerAdd struct {
	name      string
	value     text
	action    corev3.HeaderValueOption_HeaderAppendAction
	keepEmpty bool
	join      bool // the header is one line in Envoy: added values are joined to it
}

// message is which headers a mutation is for; its text begins the fields' names.
type message string

const (
	requestHeaders  message = "request_headers_to"
	responseHeaders message = "response_headers_to"
)

// mutation reads the fields ..._headers_to_add and ..._headers_to_remove.
func (b *builder) mutation(path string, of message, add []*corev3.HeaderValueOption, remove []string) mutation {
	var m mutation
	prefix := join(path, string(of))
	for i, name := range remove {
		name = strings.ToLower(name)
		if name == "" || name[0] == ':' || name == "host" {
			b.fail(index(prefix+"_remove", i), errors.New(":-prefixed or host headers may not be removed"))
			continue
		}
		m.remove = append(m.remove, name)
	}
	for i, o := range add {
		m.add = append(m.add, b.headerAdd(index(prefix+"_add", i), of, o))
	}
	return m
}

func (b *builder) headerAdd(path string, of message, o *corev3.HeaderValueOption) headerAdd {
	name := strings.ToLower(o.GetHeader().GetKey())
	a := headerAdd{name: name, action: o.GetAppendAction(), keepEmpty: o.GetKeepEmptyValue(), join: singleLine(name, of)}
	if name == "" {
		b.fail(path+".header.key", errors.New("the header has no name"))
	} else if name[0] == ':' || name == "host" {
		b.fail(path+".header.key", fmt.Errorf("%s: :-prefixed or host headers may not be modified", name))
	} else if !validName(name) {
		b.fail(path+".header.key", fmt.Errorf("%q is no header name", name))
	}
	if p := o.GetAppend(); p != nil { //nolint:staticcheck // deprecated fields still work (RT-31)
		if a.action != corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD {
			b.fail(path, errors.New("Both append and append_action are set and it's not allowed")) //nolint:staticcheck // Envoy's text
		}
		b.warn("deprecated: write append_action", path+".append")
		if !p.GetValue() {
			a.action = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		}
	}
	value := o.GetHeader().GetValue()
	if raw := o.GetHeader().GetRawValue(); len(raw) > 0 {
		if value != "" {
			b.fail(path+".header", errors.New("value and raw_value are both set: write one"))
		}
		value = string(raw)
	}
	if strings.ContainsAny(value, "\x00\r\n") {
		b.fail(path+".header.value", errors.New("the value has control characters"))
	}
	a.value = b.text(path+".header.value", value)
	return a
}

func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return true
}

// singleLine tells whether Envoy holds a header in a slot of its own, where a
// value that is added is joined to the others with a comma (measured; it
// depends on what its filters have registered).
func singleLine(name string, of message) bool {
	switch name {
	case "cookie", "set-cookie", "accept-language", "date", "grpc-encoding", "trailer":
		return false
	case "accept", "accept-encoding", "authorization", "origin", "referer", "pragma", "if-none-match", "grpc-accept-encoding",
		"access-control-request-method":
		return of == requestHeaders
	case "last-modified", "location", "etag", "vary", "age", "expires", "access-control-allow-origin":
		return of == responseHeaders
	}
	return header.KnownID(name) != header.Other
}

// pending is a header to be written once all values are made.
type pending struct {
	add   *headerAdd
	value string
}

// apply changes headers. All values are made of the headers as they were
// before any is written.
func (m *mutation) apply(c *Context, h *header.Map) {
	for _, name := range m.remove {
		h.Del(name)
	}
	if len(m.add) == 0 {
		return
	}
	var room [8]pending
	todo := room[:0]
	for i := range m.add {
		a := &m.add[i]
		v := a.value.make(c, h)
		if v == "" && !a.keepEmpty {
			continue
		}
		if a.action == corev3.HeaderValueOption_ADD_IF_ABSENT && h.Has(a.name) ||
			a.action == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS && !h.Has(a.name) {
			continue
		}
		todo = append(todo, pending{a, v})
	}
	for _, p := range todo {
		if p.add.overwrites() {
			h.Set(p.add.name, p.value)
		}
	}
	for _, p := range todo {
		switch {
		case p.add.overwrites():
		case p.add.join && h.Has(p.add.name):
			h.AppendValue(p.add.name, ",", p.value)
		default:
			h.Add(p.add.name, p.value)
		}
	}
}

func (a *headerAdd) overwrites() bool {
	return a.action == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD || a.action == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS
}

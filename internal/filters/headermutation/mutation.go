package headermutation

import (
	"errors"
	"fmt"
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// place is what a list of mutations is for.
type place uint8

const (
	inRequest place = iota
	inResponse
	inTrailers
)

// joins tells whether an added value is joined to the one that is there.
func (p place) joins(name string) bool {
	if p == inTrailers {
		return name == "grpc-status" || name == "grpc-message"
	}
	return route.JoinsValues(name, p == inRequest)
}

// mutation is one HeaderMutation: of remove, match and value one is set.
type mutation struct {
	remove    string
	match     func(name string) bool
	value     *format.Format
	name      string
	action    corev3.HeaderValueOption_HeaderAppendAction
	keepEmpty bool
	join      bool
}

func parseList(path string, p place, list []*mutationv3.HeaderMutation) ([]mutation, error) {
	out := make([]mutation, len(list))
	var errs []error
	for i, c := range list {
		m, err := parseMutation(p, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s[%d].%w", path, i, err))
		}
		out[i] = m
	}
	return out, errors.Join(errs...)
}

func parseMutation(p place, c *mutationv3.HeaderMutation) (mutation, error) {
	switch a := c.GetAction().(type) {
	case *mutationv3.HeaderMutation_Remove:
		name := strings.ToLower(a.Remove)
		if err := changeable(name, "removed"); err != nil {
			return mutation{}, fmt.Errorf("remove: %w", err)
		}
		return mutation{remove: name}, nil
	case *mutationv3.HeaderMutation_RemoveOnMatch_:
		match, err := stringmatch.Compile("remove_on_match.key_matcher", a.RemoveOnMatch.GetKeyMatcher())
		return mutation{match: match.Match}, err //nolint:wrapcheck // it names the field
	case *mutationv3.HeaderMutation_Append:
		return parseAppend(p, a.Append)
	}
	return mutation{}, errors.New("action: write remove, append or remove_on_match")
}

// changeable refuses what Envoy does not let filters change.
func changeable(name, verb string) error {
	switch {
	case name == "":
		return errors.New("the header has no name")
	case name[0] == ':' || name == "host":
		return fmt.Errorf(":-prefixed or host headers may not be %s", verb)
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return fmt.Errorf("%q is no header name", name)
		}
	}
	return nil
}

func parseAppend(p place, o *corev3.HeaderValueOption) (mutation, error) {
	name := strings.ToLower(o.GetHeader().GetKey())
	if err := changeable(name, "modified"); err != nil {
		return mutation{}, fmt.Errorf("append.header.key: %w", err)
	}
	m := mutation{name: name, action: o.GetAppendAction(), keepEmpty: o.GetKeepEmptyValue(), join: p.joins(name)}
	if a := o.GetAppend(); a != nil && !a.GetValue() { //nolint:staticcheck // the deprecated field still works
		m.action = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	}
	value := o.GetHeader().GetValue()
	if raw := o.GetHeader().GetRawValue(); len(raw) > 0 {
		value = string(raw)
	}
	f, err := format.Parse(value)
	if err != nil {
		return mutation{}, fmt.Errorf("append.header.value: %w", err)
	}
	m.value = f
	return m, nil
}

func (m *mutation) apply(f *stream, h *header.Map) {
	switch {
	case m.value != nil:
		m.append(f, h)
	case m.match != nil:
		fields := h.Fields()
		for i := range fields {
			if n := fields[i].Name; n != "" && n[0] != ':' && m.match(n) {
				h.DelAt(i)
			}
		}
	default:
		h.Del(m.remove)
	}
}

func (m *mutation) append(f *stream, h *header.Map) {
	v, ok := m.value.Static()
	if !ok {
		f.work.text, _ = m.value.Append(f.work.text[:0], f.cb.RequestHeaders(), f.cb.ResponseHeaders(), f.cb.Info())
		v = h.Keep(f.work.text)
	}
	if v == "" && !m.keepEmpty {
		return
	}
	switch m.action {
	case corev3.HeaderValueOption_ADD_IF_ABSENT:
		if !h.Has(m.name) {
			h.Add(m.name, v)
		}
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:
		if h.Has(m.name) {
			h.Set(m.name, v)
		}
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
		h.Set(m.name, v)
	default:
		if m.join && h.Has(m.name) {
			h.AppendValue(m.name, ",", v)
			return
		}
		h.Add(m.name, v)
	}
}

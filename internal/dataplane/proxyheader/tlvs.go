package proxyheader

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// TLVs are the extensions that a configuration adds to headers. They are immutable
// and safe for concurrent use; the zero value has none.
type TLVs struct {
	fixed []inspect.TLV
	made  []madeTLV
}

// madeTLV is one whose value is made for each connection.
type madeTLV struct {
	kind byte
	text format.Line
}

// ReadTLVs reads a list of them; o is for format_string. An error begins with the path
// of its field, and has Envoy's text.
func ReadTLVs(path string, list []*corev3.TlvEntry, o format.Options) (TLVs, error) {
	var out TLVs
	var errs []error
	for i, t := range list {
		if err := out.read(t, o); err != nil {
			errs = append(errs, fmt.Errorf("%s[%d]%w", path, i, err))
		}
	}
	return out, errors.Join(errs...)
}

func (l *TLVs) read(t *corev3.TlvEntry, o format.Options) error {
	switch {
	case t.GetType() > 255:
		return fmt.Errorf(".type: %d: value must be less than 256", t.GetType())
	case len(t.GetValue()) > 0 && t.GetFormatString() != nil:
		return errors.New(": Invalid TLV configuration: only one of 'value' or 'format_string' may be set.") //nolint:revive,staticcheck // Envoy's text
	case len(t.GetValue()) > 0:
		l.fixed = append(l.fixed, inspect.TLV{Type: byte(t.GetType()), Value: t.GetValue()})
		return nil
	case t.GetFormatString() == nil:
		return errors.New(": Invalid TLV configuration: one of 'value' or 'format_string' must be set.") //nolint:revive,staticcheck // Envoy's text
	}
	text, err := format.ParseString(t.GetFormatString(), o)
	if err != nil {
		return fmt.Errorf(".format_string: %w", err)
	}
	l.made = append(l.made, madeTLV{byte(t.GetType()), text})
	return nil
}

// Len is how many there are.
func (l *TLVs) Len() int { return len(l.fixed) + len(l.made) }

// Append appends them: those with a value first, as in Envoy, then those with a
// format_string, which read ctx.
func (l *TLVs) Append(list []inspect.TLV, ctx *format.Context) []inspect.TLV {
	list = append(list, l.fixed...)
	for _, t := range l.made {
		list = append(list, inspect.TLV{Type: t.kind, Value: t.text.AppendLog(nil, ctx)})
	}
	return list
}

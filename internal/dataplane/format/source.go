package format

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// Line writes lines of an access log: a *Format or a *JSON.
type Line interface {
	AppendLog(dst []byte, c *Context) []byte
}

// ParseString compiles a log_format or body_format: text_format,
// text_format_source or json_format, omit_empty_values and formatters
// (config/core/v3/substitution_format_string.proto). Fields of a JSON object are
// always sorted, as in Envoy.
func ParseString(f *corev3.SubstitutionFormatString, o Options) (Line, error) {
	o.OmitEmpty = f.GetOmitEmptyValues()
	for i, x := range f.GetFormatters() {
		switch u := x.GetTypedConfig().GetTypeUrl(); u {
		case "type.googleapis.com/envoy.extensions.formatter.req_without_query.v3.ReqWithoutQuery":
			o.ReqWithoutQuery = true
		case "type.googleapis.com/envoy.extensions.formatter.metadata.v3.Metadata": // always there
		default:
			return nil, fmt.Errorf("formatters[%d]: Formatter not found: %s (%s)", i, x.GetName(), u)
		}
	}
	switch s := f.GetFormat().(type) {
	case *corev3.SubstitutionFormatString_TextFormat:
		return line(ParseWith(s.TextFormat, o)) //nolint:staticcheck // deprecated, and in use
	case *corev3.SubstitutionFormatString_TextFormatSource:
		text, err := o.source(s.TextFormatSource)
		if err != nil {
			return nil, fmt.Errorf("text_format_source: %w", err)
		}
		return line(ParseWith(text, o))
	case *corev3.SubstitutionFormatString_JsonFormat:
		j, err := ParseJSON(s.JsonFormat, o)
		if err != nil {
			return nil, fmt.Errorf("json_format: %w", err)
		}
		return j, nil
	}
	return nil, errors.New("no format is given: write text_format_source or json_format")
}

// line keeps a nil Format from becoming a Line.
func line(f *Format, err error) (Line, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// source reads a DataSource; the texts of errors are Envoy's.
func (o *Options) source(s *corev3.DataSource) (string, error) {
	switch s := s.GetSpecifier().(type) {
	case *corev3.DataSource_InlineString:
		return s.InlineString, nil
	case *corev3.DataSource_InlineBytes:
		return string(s.InlineBytes), nil
	case *corev3.DataSource_EnvironmentVariable:
		if o.Environment != nil {
			if v, ok := o.Environment(s.EnvironmentVariable); ok {
				return v, nil
			}
		}
		return "", fmt.Errorf("Environment variable doesn't exist: %s", s.EnvironmentVariable) //nolint:staticcheck // Envoy's text
	case *corev3.DataSource_Filename:
		read := o.ReadFile
		if read == nil {
			read = os.ReadFile
		}
		b, err := read(s.Filename)
		if errors.Is(err, syscall.ENOENT) {
			return "", fmt.Errorf("Invalid path: %s", s.Filename) //nolint:staticcheck // Envoy's text
		}
		return string(b), err
	}
	return "", errors.New("it has no source: write inline_string or filename")
}

// Body is a Line as a local reply's body.
type Body struct{ Line }

// Append appends the body as an access log would show it, "-" for operators
// without a value included. nonEmpty tells whether anything was appended.
func (b Body) Append(dst []byte, req, resp *header.Map, info *filter.StreamInfo) (out []byte, nonEmpty bool) {
	n := len(dst)
	dst = b.AppendLog(dst, &Context{Req: req, Resp: resp, Info: info, reply: true})
	return dst, len(dst) > n
}

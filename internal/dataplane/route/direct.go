package route

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// direct is a DirectResponseAction (RT-18).
type direct struct {
	status      int
	body        string
	format      Formatter
	contentType string
}

func (b *builder) direct(path string, r *routev3.DirectResponseAction, e *Entry) {
	b.only(path, r, "status", "body", "body_format")
	d := &direct{status: int(r.GetStatus())}
	if d.status < 200 || d.status > 599 {
		b.fail(path+".status", fmt.Errorf("%d is not within 200 and 599", d.status))
	}
	if r.GetBody() != nil {
		body, err := b.dataSource(r.GetBody())
		b.fail(path+".body", err)
		if err == nil && len(body) > b.t.maxDirect {
			b.fail(path+".body", tooLarge(r.GetBody(), len(body), b.t.maxDirect))
		}
		d.body = string(body)
	}
	if f := r.GetBodyFormat(); f != nil {
		b.bodyFormat(path+".body_format", f, d)
	}
	e.direct = d
}

func tooLarge(s *corev3.DataSource, n, limit int) error {
	if f := s.GetFilename(); f != "" {
		return fmt.Errorf("response body file %s size is %d bytes; maximum is %d", f, n, limit)
	}
	return fmt.Errorf("response body size is %d bytes; maximum is %d", n, limit)
}

func (b *builder) bodyFormat(path string, f *corev3.SubstitutionFormatString, d *direct) {
	var err error
	if f.GetTextFormatSource().GetFilename() != "" {
		b.reads()
	}
	switch plain, isText := f.GetFormat().(*corev3.SubstitutionFormatString_TextFormat); {
	case b.env.FormatString != nil:
		d.format, err = b.env.FormatString(f)
	case isText && len(f.GetFormatters()) == 0:
		d.format, err = b.env.formatter(plain.TextFormat) //nolint:staticcheck // deprecated fields still work (RT-31)
	default:
		err = errors.New("only text_format is available here")
	}
	b.fail(path, err)
	d.contentType = f.GetContentType()
	if d.contentType == "" {
		d.contentType = "text/plain"
		if f.GetJsonFormat() != nil {
			d.contentType = "application/json"
		}
	}
}

// dataSource reads what a DataSource names.
func (b *builder) dataSource(s *corev3.DataSource) ([]byte, error) {
	switch s := s.GetSpecifier().(type) {
	case *corev3.DataSource_InlineBytes:
		return s.InlineBytes, nil
	case *corev3.DataSource_InlineString:
		return []byte(s.InlineString), nil
	case *corev3.DataSource_Filename:
		if b.env.ReadFile == nil {
			return nil, errors.New("files cannot be read here: write inline_string")
		}
		b.reads()
		return b.env.ReadFile(s.Filename)
	case *corev3.DataSource_EnvironmentVariable:
		if b.env.Getenv == nil {
			return nil, errors.New("the environment cannot be read here: write inline_string")
		}
		v, ok := b.env.Getenv(s.EnvironmentVariable)
		if !ok {
			return nil, fmt.Errorf("the environment variable %s does not exist", s.EnvironmentVariable)
		}
		return []byte(v), nil
	}
	return nil, errors.New("no source is given: write filename, inline_bytes, inline_string or environment_variable")
}

// Direct is the answer of a DirectResponse route; contentType "" leaves it to
// the local reply. In its format the response code is that of the route.
func (e *Entry) Direct(c *Context) (status int, body, contentType string) {
	d := e.direct
	if d.format == nil {
		return d.status, d.body, d.contentType
	}
	if c.Info != nil {
		code, was := c.Info.ResponseCode, c.Info.LocalReplyBody
		c.Info.ResponseCode, c.Info.LocalReplyBody = d.status, d.body
		defer func() { c.Info.ResponseCode, c.Info.LocalReplyBody = code, was }()
	}
	out, _ := d.format.Append(nil, c.Request, c.Response, c.Info)
	return d.status, string(out), d.contentType
}

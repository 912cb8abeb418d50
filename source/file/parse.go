package file

import (
	"errors"
	"time"

	"github.com/xebec-proxy/xebec/internal/apiv2"
	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// newParser returns the parser of resource files. lenient serves what breaks a
// rule, with warnings.
func newParser(lenient bool) parser {
	loader := configload.Loader{Successor: apiv2.Successor()}
	return func(name string, data []byte, updated time.Time) content {
		var c content
		resources, problems := loader.File(name, data)
		for _, e := range problems {
			c.problem(e)
		}
		for _, r := range resources {
			c.resource(r, lenient, updated)
		}
		return c
	}
}

// problem takes an error of the loader: about a resource, if it names one,
// else about the file.
func (c *content) problem(e *xds.ResourceError) {
	c.findings = append(c.findings, finding(validate.Error, e))
	if e.Type != "" && e.Name != "" {
		c.broken = append(c.broken, broken{xds.Key{Type: e.Type, Name: e.Name}, e.Pos})
	} else {
		c.partial = true
	}
}

func (c *content) resource(r *configload.Resource, lenient bool, updated time.Time) {
	for _, w := range r.Warnings {
		c.findings = append(c.findings, finding(validate.Warning, w))
	}
	key := xds.Key{Type: r.TypeURL, Name: r.Name}
	refused := false
	for _, f := range validate.Message(r.Message, r.Name, r.Positions) {
		f.Type = r.TypeURL
		if lenient {
			f.Severity = validate.Warning
		}
		refused = refused || f.Severity == validate.Error
		c.findings = append(c.findings, f)
	}
	if refused {
		c.broken = append(c.broken, broken{key, r.Pos})
		return
	}
	res, err := r.Build(xds.WithReferences(model.References(r.Message)), xds.WithUpdated(updated))
	if err != nil {
		c.problem(&xds.ResourceError{Type: r.TypeURL, Name: r.Name, Pos: r.Pos, Err: err})
		return
	}
	c.good = append(c.good, res)
}

// finding is an error of the loader as a finding.
func finding(sev validate.Severity, e *xds.ResourceError) validate.Finding {
	f := validate.Finding{
		Severity: sev, Tier: validate.Schema, Code: "unreadable",
		Type: e.Type, Name: e.Name, Path: e.Path, Pos: e.Pos, Message: e.Err.Error(),
	}
	if p := (*configload.Problem)(nil); errors.As(e.Err, &p) {
		f.Code, f.Message, f.Hint = p.Code, p.Text, p.Hint
	}
	return f
}

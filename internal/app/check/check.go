// Package check looks for what is wrong with files, without serving them.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/xebec-proxy/xebec/internal/apiv2"
	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// Options say how much is forgiven.
type Options struct {
	// Lenient makes broken rules warnings, Strict makes references to nothing
	// errors.
	Lenient, Strict bool
}

// Report is what was found.
type Report struct {
	Findings []validate.Finding `json:"findings"`
	// Resources counts those that can be served, Errors and Warnings the
	// findings.
	Resources int `json:"resources"`
	Errors    int `json:"errors"`
	Warnings  int `json:"warnings"`
}

// Paths checks directories, each as `xebec serve` would read it, and files.
// The files of one call may refer to each other. An error means that a path
// could not be looked at, not that something is wrong in it.
func Paths(paths []string, o Options) (Report, error) {
	r := Report{Findings: []validate.Finding{}}
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case err != nil:
			return r, fmt.Errorf("%w; give the resource files or their directory", err)
		case info.IsDir():
			if err := r.directory(p, o); err != nil {
				return r, err
			}
		default:
			files = append(files, p)
		}
	}
	if err := r.files(files, o); err != nil {
		return r, err
	}
	slices.SortStableFunc(r.Findings, func(a, b validate.Finding) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	for _, f := range r.Findings {
		if f.Severity == validate.Error {
			r.Errors++
		} else {
			r.Warnings++
		}
	}
	return r, nil
}

func (r *Report) directory(dir string, o Options) error {
	batch, findings, err := file.Load(dir, file.WithLenient(o.Lenient), file.WithStrict(o.Strict))
	if err != nil {
		return err
	}
	r.Findings = append(r.Findings, findings...)
	distinct := map[*xds.Resource]bool{}
	for _, c := range batch.Groups {
		for _, res := range c.Set {
			distinct[res] = true
		}
	}
	r.Resources += len(distinct)
	return nil
}

// files checks single files as one set.
func (r *Report) files(names []string, o Options) error {
	set, err := r.read(names, o)
	if err != nil {
		return err
	}
	var opts []validate.Option
	if o.Strict {
		opts = append(opts, validate.Strict())
	}
	r.Findings = append(r.Findings, validate.References(set, opts...)...)
	r.Resources += len(set)
	return nil
}

// read reads single files and checks each resource by itself.
func (r *Report) read(names []string, o Options) ([]*xds.Resource, error) {
	var set []*xds.Resource
	loader := configload.Loader{Successor: apiv2.Successor()}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("a file to check cannot be read: %w", err)
		}
		resources, problems := loader.File(filepath.Clean(name), data)
		for _, p := range problems {
			r.Findings = append(r.Findings, unreadable(validate.Error, p))
		}
		for _, res := range resources {
			built, err := r.resource(res, o)
			if err != nil {
				return nil, err
			}
			if built != nil {
				set = append(set, built)
			}
		}
	}
	return set, nil
}

// Resources reads the resources of single files, to know what a server would
// serve. A file with an error is an error, which lists what is wrong.
func Resources(names []string) ([]*xds.Resource, error) {
	var r Report
	set, err := r.read(names, Options{})
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, f := range r.Findings {
		if f.Severity == validate.Error {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return set, errors.Join(errs...)
}

// resource checks one resource by itself; nil if it could not be served.
func (r *Report) resource(res *configload.Resource, o Options) (*xds.Resource, error) {
	for _, w := range res.Warnings {
		r.Findings = append(r.Findings, unreadable(validate.Warning, w))
	}
	refused := false
	for _, f := range validate.Message(res.Message, res.Name, res.Positions) {
		f.Type = res.TypeURL
		if o.Lenient {
			f.Severity = validate.Warning
		}
		refused = refused || f.Severity == validate.Error
		r.Findings = append(r.Findings, f)
	}
	if refused {
		return nil, nil
	}
	built, err := res.Build(xds.WithReferences(model.References(res.Message)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", res.Pos, err)
	}
	return built, nil
}

// unreadable is an error of the loader as a finding.
func unreadable(sev validate.Severity, e *xds.ResourceError) validate.Finding {
	f := validate.Finding{
		Severity: sev, Tier: validate.Schema, Code: "unreadable",
		Type: e.Type, Name: e.Name, Path: e.Path, Pos: e.Pos, Message: e.Err.Error(),
	}
	if p := (*configload.Problem)(nil); errors.As(e.Err, &p) {
		f.Code, f.Message, f.Hint = p.Code, p.Text, p.Hint
	}
	return f
}

package proxyrun

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	_ "github.com/xebec-proxy/xebec/internal/alltypes" // so that refusals know every type (HF-17)
	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
	"github.com/xebec-proxy/xebec/internal/dataplane/support"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// Loaded is a bootstrap in which nothing is wrong that can be told without
// building anything from it. It is read-only.
type Loaded struct {
	// Bootstrap is the merged message, optional extensions that are not built
	// taken out and the node's flags put in.
	Bootstrap *bootstrapv3.Bootstrap
	// Path is the bootstrap's file as it was given, "" if there is none.
	Path string
	// Positions knows where the fields of Bootstrap were written.
	Positions *Positions
	// Warnings are what was accepted but deserves a look, by position.
	Warnings []validate.Finding
	// UnknownFields counts the unknown fields that were accepted, for
	// server.static_unknown_fields; DeprecatedUses the uses of deprecated fields,
	// for runtime.deprecated_feature_use.
	UnknownFields, DeprecatedUses int
	// Runtime are the runtime keys of the bootstrap's layers.
	Runtime *layeredruntime.Snapshot
	// Catalog is what is built, for what is loaded later.
	Catalog *support.Catalog
}

// ErrNoConfig says that neither a file nor an inline bootstrap is given.
var ErrNoConfig = errors.New("At least one of --config-path or --config-yaml should be non-empty") //nolint:staticcheck // Envoy's text

// LoadError is a bootstrap that cannot be used.
type LoadError struct {
	Path     string
	Findings []validate.Finding // all errors, by position; at least one
}

// Error is a line for the file and one for each finding.
func (e *LoadError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "error initializing configuration '%s':", e.Path)
	for _, f := range e.Findings {
		b.WriteString("\n" + f.String())
	}
	return b.String()
}

// inlineName stands for a file's name in the positions of --config-yaml.
const inlineName = "--config-yaml"

// Load reads the bootstrap and looks for what is wrong with it: syntax, unknown
// fields and types (BS-14 … BS-18), the rules of its messages (BS-19), what is
// not built (BS-15), and names that must be unique or known (BS-23). The error
// is a *LoadError unless a file cannot be read. Nothing is opened or started.
func Load(f Flags, env Environment) (*Loaded, error) {
	if f.ConfigPath == "" && f.ConfigYAML == "" {
		return nil, ErrNoConfig
	}
	catalog, err := support.New(support.Options{Extensions: env.Extensions, Disabled: f.DisableExtensions})
	if err != nil {
		return nil, err
	}
	ld := &loading{flags: f, env: env, loaded: &Loaded{
		Bootstrap: &bootstrapv3.Bootstrap{}, Path: f.ConfigPath, Catalog: catalog, Positions: &Positions{},
	}}
	if err := ld.read(); err != nil {
		return nil, err
	}
	if len(ld.errs) == 0 {
		ld.override()
		ld.check()
	}
	byPosition(ld.loaded.Warnings)
	if len(ld.errs) > 0 {
		byPosition(ld.errs)
		return nil, &LoadError{Path: f.ConfigPath, Findings: ld.errs}
	}
	return ld.loaded, nil
}

// loading is the state of one Load.
type loading struct {
	flags  Flags
	env    Environment
	loaded *Loaded
	errs   []validate.Finding
}

func byPosition(f []validate.Finding) {
	slices.SortStableFunc(f, func(a, b validate.Finding) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}

// add keeps a finding where it belongs.
func (l *loading) add(f validate.Finding) {
	f.Type, f.Name = "", "" // there is one bootstrap
	switch {
	case f.Severity == validate.Error:
		l.errs = append(l.errs, f)
	case f.Code == support.CodeDeprecated && l.flags.SkipDeprecatedLogs:
	default:
		l.loaded.Warnings = append(l.loaded.Warnings, f)
	}
}

func (l *loading) fault(code, path, message, hint string) {
	l.add(validate.Finding{
		Severity: validate.Error, Tier: validate.Reference, Code: code, Path: path,
		Pos: l.loaded.Positions.Position(path), Message: message, Hint: hint,
	})
}

func (l *loading) doubt(code, path, message, hint string) {
	l.add(validate.Finding{
		Severity: validate.Warning, Tier: validate.Reference, Code: code, Path: path,
		Pos: l.loaded.Positions.Position(path), Message: message, Hint: hint,
	})
}

// read reads the file and what is given inline, and merges them.
func (l *loading) read() error {
	loader := &configload.Loader{AllowUnknownFields: l.flags.AllowUnknownStaticFields, KeepUnknownTypes: true}
	p := l.loaded.Positions
	if l.flags.ConfigPath != "" {
		data, err := os.ReadFile(l.flags.ConfigPath)
		if err != nil {
			return fmt.Errorf("the bootstrap cannot be read: %w", err)
		}
		if len(data) == 0 && filepath.Ext(l.flags.ConfigPath) == "" {
			return fmt.Errorf("the bootstrap %s is empty", l.flags.ConfigPath)
		}
		p.file = l.parse(loader, l.flags.ConfigPath, data, l.loaded.Bootstrap)
		p.base = proto.CloneOf(l.loaded.Bootstrap)
	}
	if l.flags.ConfigYAML != "" {
		p.over = &bootstrapv3.Bootstrap{}
		p.inline = l.parseInline(loader, p.over)
		proto.Merge(l.loaded.Bootstrap, p.over)
	}
	return nil
}

// parse reads one message and keeps its problems and warnings.
func (l *loading) parse(loader *configload.Loader, name string, data []byte, into *bootstrapv3.Bootstrap) *configload.Positions {
	at, problems := loader.Message(name, data, into)
	for _, p := range problems {
		l.add(finding(validate.Error, p))
	}
	for _, w := range at.Warnings() {
		f := finding(validate.Warning, w)
		switch f.Code {
		case configload.CodeUnknownField:
			l.loaded.UnknownFields++
		case configload.CodeDeprecated:
			l.loaded.DeprecatedUses++
		}
		l.add(f)
	}
	return at
}

// parseInline reads what is given inline. The loader tells formats by suffixes,
// so it gets one that is taken off its positions again.
func (l *loading) parseInline(loader *configload.Loader, into *bootstrapv3.Bootstrap) *configload.Positions {
	const name = inlineName + ".yaml"
	errs, warnings := len(l.errs), len(l.loaded.Warnings)
	at := l.parse(loader, name, []byte(l.flags.ConfigYAML), into)
	for _, list := range [][]validate.Finding{l.errs[errs:], l.loaded.Warnings[warnings:]} {
		for i := range list {
			list[i].Pos.File = inlineName
		}
	}
	return at
}

// finding is what the loader reports.
func finding(s validate.Severity, e *xds.ResourceError) validate.Finding {
	f := validate.Finding{
		Severity: s, Tier: validate.Schema, Code: "unreadable", Path: e.Path, Pos: e.Pos, Message: e.Err.Error(),
	}
	if p := (*configload.Problem)(nil); errors.As(e.Err, &p) {
		f.Code, f.Message, f.Hint = p.Code, p.Text, p.Hint
	}
	return f
}

// override puts the flags about the node over the bootstrap's (BS-22).
func (l *loading) override() {
	if l.flags.ServiceNode == "" && l.flags.ServiceCluster == "" && l.flags.ServiceZone == "" {
		return
	}
	b := l.loaded.Bootstrap
	if b.Node == nil {
		b.Node = &corev3.Node{}
	}
	if l.flags.ServiceNode != "" {
		b.Node.Id = l.flags.ServiceNode
	}
	if l.flags.ServiceCluster != "" {
		b.Node.Cluster = l.flags.ServiceCluster
	}
	if l.flags.ServiceZone != "" {
		if b.Node.Locality == nil {
			b.Node.Locality = &corev3.Locality{}
		}
		b.Node.Locality.Zone = l.flags.ServiceZone
	}
}

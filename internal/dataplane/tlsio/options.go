package tlsio

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Options is what contexts are built with.
type Options struct {
	// ReadFile reads a file; required if the configuration names one.
	ReadFile func(string) ([]byte, error)
	// Getenv looks up an environment variable; required if the configuration
	// names one.
	Getenv func(string) (string, bool)
	// Now is the wall clock for the validity of certificates and sessions;
	// time.Now if nil.
	Now func() time.Time
	// Logger gets warnings about what has no effect; nil discards them.
	Logger *slog.Logger
	// Secrets are the bootstrap's static secrets by name (TS-14).
	Secrets map[string]*tlsv3.Secret
	// Discovered finds a secret that comes from a config source; nil if it has
	// not come. Without it such secrets are refused.
	Discovered func(c *tlsv3.SdsSecretConfig) *tlsv3.Secret
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ReadFile == nil {
		o.ReadFile = func(string) ([]byte, error) { return nil, errors.New("files cannot be read here") }
	}
	if o.Getenv == nil {
		o.Getenv = func(string) (string, bool) { return "", false }
	}
	return o
}

// inline is what Envoy calls the place of a value in the configuration itself.
const inline = "<inline>"

// Data reads a DataSource, of which path is the field (BS-33). The error names it,
// and never holds what was read.
func (o Options) Data(path string, src *corev3.DataSource) ([]byte, error) {
	data, _, err := o.withDefaults().load(path, src)
	return data, err
}

// load reads a DataSource (BS-33) and says where it was. The errors never hold
// what was read.
func (o Options) load(path string, src *corev3.DataSource) (data []byte, from string, err error) {
	if src.GetWatchedDirectory() != nil {
		return nil, "", fmt.Errorf("%s.watched_directory: only certificates given by secret discovery can be watched: remove it", path)
	}
	switch s := src.GetSpecifier().(type) {
	case *corev3.DataSource_Filename:
		from = s.Filename
		data, err = o.ReadFile(s.Filename)
		if err != nil {
			return nil, "", fmt.Errorf("%s.filename: unable to read %q: %w", path, s.Filename, err)
		}
	case *corev3.DataSource_InlineBytes:
		from, data = inline, s.InlineBytes
	case *corev3.DataSource_InlineString:
		from, data = inline, []byte(s.InlineString)
	case *corev3.DataSource_EnvironmentVariable:
		from = inline
		v, ok := o.Getenv(s.EnvironmentVariable)
		if !ok {
			return nil, "", fmt.Errorf("%s.environment_variable: Environment variable doesn't exist: %s", path, s.EnvironmentVariable)
		}
		data = []byte(v)
	default:
		return nil, "", fmt.Errorf("%s: Unexpected DataSource::specifier_case(): set filename, inline_bytes, inline_string or environment_variable", path)
	}
	if len(data) == 0 {
		return nil, "", fmt.Errorf("%s: DataSource cannot be empty (%s)", path, from)
	}
	return data, from, nil
}

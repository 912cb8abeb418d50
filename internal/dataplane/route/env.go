package route

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Formatter makes a text of what is known of a request. Append must not keep
// dst, and tells whether any substitution yielded something or the text has
// constant parts.
type Formatter interface {
	Append(dst []byte, req, resp *header.Map, info *filter.StreamInfo) (out []byte, nonEmpty bool)
}

// Env is what a route table may use while it is built. The zero value is enough
// for tables without substitutions, files and per-filter configuration.
type Env struct {
	// Registry knows the per-route configurations of HTTP filters, and
	// FilterEnv is what their ParseRoute gets.
	Registry  *filter.Registry
	FilterEnv *filter.Env
	// FilterNames maps the names of the filters of the connection manager to
	// the full names of their configuration's messages. Configuration for a
	// name that is not there has no effect and is warned about. Nil: unknown.
	FilterNames map[string]string
	// ClusterExists tells whether a cluster is configured. It is asked unless
	// validate_clusters is false. Nil: not checked.
	ClusterExists func(name string) bool
	// Formatter compiles a text with access-log operators. Nil: a text with
	// "%" is an error.
	Formatter func(text string) (Formatter, error)
	// FormatString compiles a body_format. Nil: Formatter is used, and only
	// plain text formats can be.
	FormatString func(f *corev3.SubstitutionFormatString) (Formatter, error)
	// ReadFile and Getenv read what a DataSource names.
	ReadFile func(name string) ([]byte, error)
	Getenv   func(name string) (string, bool)
	// Runtime is a runtime key's fraction, if the runtime has it.
	Runtime func(key string) (numerator, denominator uint32, ok bool)
	// RuntimeInteger is a runtime key's integer, if the runtime has it; for
	// weights of clusters.
	RuntimeInteger func(key string) (n uint64, ok bool)
	// Wall is the time of day, for rate limits that name an instant. Nil: time.Now.
	Wall func() time.Time
	// Stats is where virtual clusters and routes count. Nil: they do not.
	Stats *stats.Registry
	// Checking makes a table that only answers questions: what others than the
	// table would have to act on (internal_only_headers) is not refused.
	Checking bool
	// Logger gets warnings. Nil: nobody does.
	Logger *slog.Logger
}

func (e *Env) warn(what, path string) {
	if e.Logger != nil {
		e.Logger.Warn("Route configuration", "problem", what, "field", path)
	}
}

func (e *Env) formatter(text string) (Formatter, error) {
	if e.Formatter == nil {
		return nil, errors.New("substitutions are not available here")
	}
	return e.Formatter(text)
}

func (e *Env) now() time.Time {
	if e.Wall != nil {
		return e.Wall()
	}
	return time.Now()
}

// Context is the request that a table is asked about. It is confined to the
// request's worker.
type Context struct {
	// Request is the request's head.
	Request *header.Map
	// Response is the response's head, or nil before there is one.
	Response *header.Map
	// Info is what is known of the stream.
	Info *filter.StreamInfo
	// Random is the stream's random number: fractions and weights are decided
	// by it, so that one stream always gets the same answer.
	Random uint64
	// TLS tells that the client speaks TLS; used when x-forwarded-proto is absent.
	TLS bool
	// External tells that the request is not an internal one (HC-32).
	External bool
	// SuppressEnvoyHeaders leaves x-envoy-original-path, x-envoy-original-host
	// and x-envoy-expected-rq-timeout-ms out (the router's option).
	SuppressEnvoyHeaders bool

	pathless bool // the request has no path

	hostSet bool // SetHost was called
}

// at puts a field's path before an error.
func at(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

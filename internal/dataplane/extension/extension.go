// Package extension has the places of filters whose configuration is discovered
// (BS-31): what of a config_discovery can be checked before anything came, and
// what is in force, by worker.
package extension

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Kind is where a filter stands; its statistics are below
// "extension_config_discovery.<kind>.<name>.".
type Kind string

// The kinds.
const (
	HTTP     Kind = "http_filter"
	Network  Kind = "network_filter"
	Listener Kind = "tcp_listener_filter"
)

// Place is where a filter stands whose configuration is discovered. It is
// immutable.
type Place struct {
	Kind   Kind
	Name   string
	Source *corev3.ExtensionConfigSource
	types  []string // full names
	// Try builds what a configuration asks for, and gives what puts it in force on
	// a worker; that is to be called on the worker, or before it runs.
	Try func(cfg proto.Message) (install func(worker int), err error)
	// Default puts default_config in force again; nil if there is none.
	Default func(worker int)
}

// Slot is what a place has in force, by worker and confined to it. It begins
// with default_config.
type Slot[F any] struct{ current []*F }

// Get is what a worker has; ok is false if nothing came yet.
func (s *Slot[F]) Get(worker int) (f F, ok bool) {
	if p := s.current[worker]; p != nil {
		return *p, true
	}
	return f, false
}

// Env is what places are made with.
type Env struct {
	// Workers is how many workers there are.
	Workers int
	// Known refuses a configuration's type of which there are no filters.
	Known func(full string) error
	// Unpack decodes a typed configuration.
	Unpack func(*anypb.Any) (proto.Message, error)
	// CheckSource refuses a config source that cannot be used.
	CheckSource func(path string, c *corev3.ConfigSource) error
	// Add is told of each place that was made.
	Add func(*Place)
}

// New makes a place of a config_discovery, and tells env of it. The error names each field that is
// wrong, below the filter.
func New[F any](kind Kind, name string, c *corev3.ExtensionConfigSource, env *Env, build func(cfg proto.Message) (F, error)) (*Slot[F], error) {
	s := &Slot[F]{current: make([]*F, env.Workers)}
	types, err := check(name, c, env)
	p := &Place{Kind: kind, Name: name, Source: c, types: types}
	try := func(cfg proto.Message) (func(int), error) {
		if err := p.Expect(string(cfg.ProtoReflect().Descriptor().FullName())); err != nil {
			return nil, err
		}
		f, err := build(cfg)
		if err != nil {
			return nil, err
		}
		return func(worker int) { s.current[worker] = &f }, nil
	}
	p.Try = try
	if c.GetDefaultConfig() != nil && len(types) > 0 {
		cfg, fault := env.Unpack(c.GetDefaultConfig())
		if fault == nil {
			p.Default, fault = try(cfg)
		}
		if fault != nil {
			err = errors.Join(err, fmt.Errorf("config_discovery.default_config: %w", fault))
		}
	}
	if err != nil {
		return nil, err
	}
	if p.Default != nil {
		for i := range s.current {
			p.Default(i)
		}
	}
	env.Add(p)
	return s, nil
}

// check looks at everything but default_config; it gives the types that the
// configuration may have.
func check(name string, c *corev3.ExtensionConfigSource, env *Env) ([]string, error) {
	var errs []error
	fail := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("config_discovery."+field+": "+format, args...))
	}
	if name == "" {
		errs = append(errs, errors.New("name: a filter whose configuration is discovered needs one: the resource is asked for by it"))
	}
	if c.GetConfigSource() == nil {
		fail("config_source", "a config source is needed")
	} else if err := env.CheckSource("config_discovery.config_source", c.GetConfigSource()); err != nil {
		errs = append(errs, err)
	}
	var types []string
	for i, url := range c.GetTypeUrls() {
		full := url[strings.LastIndexByte(url, '/')+1:]
		if err := env.Known(full); err != nil {
			fail(fmt.Sprintf("type_urls[%d]", i), "%w", err)
			continue
		}
		types = append(types, full)
	}
	if len(c.GetTypeUrls()) == 0 {
		fail("type_urls", "value must contain at least 1 item(s)")
	}
	if c.GetApplyDefaultConfigWithoutWarming() && c.GetDefaultConfig() == nil {
		fail("apply_default_config_without_warming", "Error: filter config %s applied without warming but has no default config.", name)
	}
	return types, errors.Join(errs...)
}

// NoFactory is what Known returns for a type that nobody has.
func NoFactory(full string) error {
	return fmt.Errorf("Error: no factory found for a required type URL %s.", full) //nolint:staticcheck,revive // Envoy's text
}

// Expect refuses a type of configurations that the place does not take.
func (p *Place) Expect(full string) error {
	if slices.Contains(p.types, full) {
		return nil
	}
	return fmt.Errorf("Error: filter config has type URL %s but expect %s.", full, strings.Join(p.types, ", ")) //nolint:staticcheck,revive // Envoy's text
}

// Below puts a path before each of several errors.
func Below(path string, err error) error {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return fmt.Errorf("%s.%w", path, err)
	}
	var out []error
	for _, e := range many.Unwrap() {
		out = append(out, Below(path, e))
	}
	return errors.Join(out...)
}

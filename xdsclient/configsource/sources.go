package configsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Config is what a [Sources] works with.
type Config struct {
	// Base is what all sources have in common, such as node and logger. Its
	// servers and its variant are not used.
	Base xdsclient.Config
	// FileMetrics is told what sources that follow files do; nil means
	// Base.Metrics.
	FileMetrics xdsclient.Metrics
	// ADS is the bootstrap's dynamic_resources.ads_config; nil if there is none.
	ADS *corev3.ApiConfigSource
	// Others and Default are the bootstrap's config_sources and
	// default_config_source, for names of authorities (XN-12).
	Others  []*corev3.ConfigSource
	Default *corev3.ConfigSource

	// GRPC makes the transport to a gRPC service. Required for gRPC.
	GRPC func(*corev3.GrpcService) (xdsclient.Transport, error)
	// REST makes a transport that polls one of the clusters of a REST source, and
	// File one that follows a file. A source whose function is nil is refused.
	REST func(api *corev3.ApiConfigSource, cluster string) (xdsclient.Transport, error)
	File func(path *corev3.PathConfigSource) (xdsclient.Transport, error)
	// Validator makes what an entry of config_validators stands for, and says for
	// which type URL it is. nil refuses such entries.
	Validator func(*corev3.TypedExtensionConfig) (string, xdsclient.ResponseValidator, error)
}

// Sources makes sources and shares those that are equal (XC-02). It is safe for
// concurrent use.
type Sources struct {
	ctx context.Context
	cfg Config

	mu     sync.Mutex
	made   map[string]Made
	closed bool
}

// Made is a source that something has asked for.
type Made struct {
	Source *xdsclient.Source
	// Name is that of the server, or the path of the file.
	Name string
	// Variant is "sotw", "delta", "rest" or "file".
	Variant string
	// Aggregated: one stream carries all types.
	Aggregated bool
}

// Made tells which sources there are, those of servers first, by name.
func (s *Sources) Made() []Made {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Made
	for _, key := range slices.Sorted(maps.Keys(s.made)) {
		out = append(out, s.made[key])
	}
	slices.SortStableFunc(out, func(a, b Made) int {
		return cmp.Or(order(a.Variant == variantFile, b.Variant == variantFile), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// variantFile is the variant of sources that follow a file.
const variantFile = "file"

// Resolved is what a ConfigSource means.
type Resolved struct {
	Source *xdsclient.Source
	// InitialFetchTimeout is how long whoever waits for the first answer should
	// do so (XC-27); 0 for ever. Default 15 s.
	InitialFetchTimeout time.Duration
}

// New makes an empty set of sources. They end with ctx, or with [Sources.Close].
func New(ctx context.Context, c Config) *Sources {
	return &Sources{ctx: ctx, cfg: c, made: map[string]Made{}}
}

// Close closes all sources.
func (s *Sources) Close() error {
	s.mu.Lock()
	s.closed = true
	made := s.made
	s.made = nil
	s.mu.Unlock()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(made)) {
		errs = append(errs, made[key].Source.Close())
	}
	return errors.Join(errs...)
}

// For finds the source for a resource of a type (XC-01). The name matters only
// if it is structured ("xdstp://…"): then its authority may lead elsewhere
// (XN-12). from is the source of the resource that holds the ConfigSource, for
// "self"; nil for the bootstrap. Errors name the field that is wrong.
func (s *Sources) For(cs *corev3.ConfigSource, typeURL, name string, from *xdsclient.Source) (Resolved, error) {
	cs, err := s.Locate(cs, name)
	if err != nil {
		return Resolved{}, err
	}
	if err := checkVersion("resource_api_version", cs.GetResourceApiVersion()); err != nil {
		return Resolved{}, err
	}
	const defaultTimeout = 15 * time.Second
	r := Resolved{InitialFetchTimeout: defaultTimeout}
	if d := cs.GetInitialFetchTimeout(); d != nil {
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
			return Resolved{}, errors.New("initial_fetch_timeout: must be a duration of 0 or more")
		}
		r.InitialFetchTimeout = d.AsDuration()
	}
	r.Source, err = s.source(cs, typeURL, from)
	return r, err
}

// Locate finds the ConfigSource that a resource comes from: cs, unless the name is
// structured and its authority leads elsewhere (XN-12). Its error says that there is
// none.
func (s *Sources) Locate(cs *corev3.ConfigSource, name string) (*corev3.ConfigSource, error) {
	if !xds.IsURN(name) {
		if cs == nil {
			return nil, errors.New("config_source: is not set; say where the resource comes from")
		}
		return cs, nil
	}
	u, err := xds.ParseURN(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	for _, c := range append([]*corev3.ConfigSource{cs}, s.cfg.Others...) {
		for _, a := range c.GetAuthorities() {
			if a.GetName() == u.Authority {
				return c, nil
			}
		}
	}
	switch {
	case s.cfg.Default != nil:
		return s.cfg.Default, nil
	case cs != nil && len(cs.GetAuthorities()) == 0:
		return cs, nil
	}
	return nil, fmt.Errorf("no config source is responsible for the authority %q of %q: name it in authorities, or set default_config_source", u.Authority, name)
}

func (s *Sources) source(cs *corev3.ConfigSource, typeURL string, from *xdsclient.Source) (*xdsclient.Source, error) {
	switch c := cs.GetConfigSourceSpecifier().(type) {
	case *corev3.ConfigSource_Ads:
		if s.cfg.ADS == nil {
			return nil, errors.New("ads: the bootstrap has no dynamic_resources.ads_config")
		}
		return s.shared("ads", s.cfg.ADS, func() (xdsclient.Config, error) { return s.ads() })
	case *corev3.ConfigSource_Self:
		if from == nil {
			return nil, errors.New("self: has a meaning only in a resource that came from a server")
		}
		return from, nil
	case *corev3.ConfigSource_ApiConfigSource:
		return s.shared("api", c.ApiConfigSource, func() (xdsclient.Config, error) { return s.api(c.ApiConfigSource) })
	case *corev3.ConfigSource_PathConfigSource:
		return s.path(c.PathConfigSource, typeURL)
	case *corev3.ConfigSource_Path:
		return s.path(&corev3.PathConfigSource{Path: c.Path}, typeURL) //nolint:staticcheck // bootstraps still have it
	}
	return nil, errors.New("config_source_specifier: is not set; use ads, api_config_source, path_config_source or self")
}

// shared finds or makes the source for a message.
func (s *Sources) shared(kind string, m proto.Message, config func() (xdsclient.Config, error)) (*xdsclient.Source, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	key := kind + " " + strconv.Quote(string(b))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the sources have been closed")
	}
	if m, ok := s.made[key]; ok {
		return m.Source, nil
	}
	c, err := config()
	if err != nil {
		return nil, err
	}
	src, err := xdsclient.NewSource(s.ctx, c)
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	s.made[key] = Made{Source: src, Name: c.Servers[0].Name, Variant: variantOf(m, &c), Aggregated: !c.PerType}
	return src, nil
}

func variantOf(m proto.Message, c *xdsclient.Config) string {
	a, _ := m.(*corev3.ApiConfigSource)
	switch {
	case a == nil:
		return variantFile
	case a.GetApiType() == corev3.ApiConfigSource_REST:
		return "rest"
	case c.Delta:
		return "delta"
	}
	return "sotw"
}

func (s *Sources) path(p *corev3.PathConfigSource, typeURL string) (*xdsclient.Source, error) {
	return s.shared("path "+typeURL, p, func() (xdsclient.Config, error) {
		c := s.base()
		c.PerType = true
		if s.cfg.File == nil {
			return c, errors.New("path_config_source: files are not followed here")
		}
		t, err := s.cfg.File(p)
		if err != nil {
			return c, fmt.Errorf("path_config_source: %w", err)
		}
		c.Servers = []xdsclient.Server{{Name: p.GetPath(), Transport: t}}
		c.ResourceTimeout = -1 // a file is all there is
		if s.cfg.FileMetrics != nil {
			c.Metrics = s.cfg.FileMetrics
		}
		return c, nil
	})
}

func (s *Sources) base() xdsclient.Config {
	c := s.cfg.Base
	c.Servers, c.Authorities, c.AnyAuthority = nil, nil, true
	c.Delta, c.PerType = false, false
	return c
}

package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Defaults of Config.
const (
	DefaultRequestTimeout   = time.Second
	DefaultMaxResponseBytes = 64 << 20
)

// Config says whom to ask and how often (envoy/config/core/v3/config_source.proto,
// ApiConfigSource).
type Config struct {
	// RefreshDelay is the least time between the end of a poll and the next one;
	// up to as much again is added at random (XR-10). Required.
	RefreshDelay time.Duration
	// RequestTimeout bounds one poll. It has to be longer than the server holds
	// polls. Default 1 s.
	RequestTimeout time.Duration
	// Targets are the ways to the server (cluster_names). One is asked until it
	// fails, then the next, in turn. At least one.
	Targets []Target
	// MaxResponseBytes bounds the body of an answer. Default 64 MiB.
	MaxResponseBytes int64
	// Types finds the messages that Any fields hold. Default: all that are
	// linked in.
	Types Resolver
	// Logger is told of answers that cannot be read. nil logs nothing.
	Logger *slog.Logger
}

// Resolver finds message types.
type Resolver interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// Target is one way to the server.
type Target struct {
	// URL is the part before the path, such as "http://127.0.0.1:18000".
	URL string
	// RoundTripper sends requests. Default: one of the transport's own, like
	// http.DefaultTransport.
	RoundTripper http.RoundTripper
}

// Transport polls. It implements xdsclient.Transport; its methods are safe for
// concurrent use.
type Transport struct {
	cfg     Config
	targets []target
	own     *http.Transport // nil if every target brings one

	mu   sync.Mutex
	turn int // the target to ask
}

var _ xdsclient.Transport = (*Transport)(nil)

// target is a Target that has been checked.
type target struct {
	base string
	rt   http.RoundTripper
}

// New checks a configuration. It contacts nobody.
func New(cfg Config) (*Transport, error) {
	switch {
	case cfg.RefreshDelay <= 0:
		return nil, errors.New("rest: refresh_delay is required, and longer than 0")
	case cfg.RequestTimeout < 0:
		return nil, errors.New("rest: request_timeout is negative")
	case cfg.MaxResponseBytes < 0:
		return nil, errors.New("rest: the limit of an answer is negative")
	case len(cfg.Targets) == 0:
		return nil, errors.New("rest: no target is given; cluster_names says whom to ask")
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = DefaultRequestTimeout
	}
	if cfg.MaxResponseBytes == 0 {
		cfg.MaxResponseBytes = DefaultMaxResponseBytes
	}
	if cfg.Types == nil {
		cfg.Types = protoregistry.GlobalTypes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Transport{cfg: cfg}
	for i, g := range cfg.Targets {
		u, err := url.Parse(g.URL)
		if err != nil {
			return nil, fmt.Errorf("rest: targets[%d]: %w", i, err)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("rest: targets[%d]: %q is not of the form http://host:port or https://host:port", i, u.Redacted())
		}
		if g.RoundTripper == nil {
			g.RoundTripper = t.ownTransport()
		}
		t.targets = append(t.targets, target{strings.TrimSuffix(g.URL, "/"), g.RoundTripper})
	}
	return t, nil
}

func (t *Transport) ownTransport() *http.Transport {
	if t.own == nil {
		t.own = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: ownIdle}
	}
	return t.own
}

const ownIdle = 90 * time.Second

// Patience is how long a resource may take to come after it was asked for: the
// longest time until the next poll, a poll of each target, and the 15 s that a
// stream waits. It is meant for xdsclient.Config.ResourceTimeout, so that a name
// is not held not to exist before the server has been asked for it.
func (t *Transport) Patience() time.Duration {
	const usual = 15 * time.Second
	return usual + 2*t.cfg.RefreshDelay + time.Duration(len(t.targets))*t.cfg.RequestTimeout
}

// Open makes a stream of one type. It contacts nobody.
func (t *Transport) Open(ctx context.Context, o xdsclient.Opening) (xdsclient.Stream, error) {
	switch {
	case o.TypeURL == "":
		return nil, errors.New("polling knows no aggregated stream: set PerType")
	case o.Delta:
		return nil, errors.New("polling knows no delta variant")
	}
	part, ok := paths()[o.TypeURL]
	if !ok {
		return nil, fmt.Errorf("%s cannot be polled for: it has no REST path", xds.Kind(o.TypeURL))
	}
	known, _ := xds.LookupType(o.TypeURL)
	return &stream{
		t: t, ctx: ctx, typ: known, path: "/v3/discovery:" + part, node: o.Node, news: make(chan struct{}, 1),
	}, nil
}

// Close gives back the connections of the transport's own.
func (t *Transport) Close() error {
	if t.own != nil {
		t.own.CloseIdleConnections()
	}
	return nil
}

// paths are the last parts of the paths of the types (specification, section 1).
func paths() map[string]string {
	return map[string]string{
		xds.ListenerType: "listeners", xds.RouteType: "routes", xds.ScopedRouteType: "scoped-routes", xds.ClusterType: "clusters",
		xds.EndpointType: "endpoints", xds.SecretType: "secrets", xds.RuntimeType: "runtime", xds.ExtensionConfigType: "extension_configs",
	}
}

// present is the target to ask now.
func (t *Transport) present() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turn
}

// failed makes the next target the one to ask, unless another stream has.
func (t *Transport) failed(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == i {
		t.turn = (i + 1) % len(t.targets)
	}
}

// delay is the time until the next poll.
func (t *Transport) delay() time.Duration {
	d := t.cfg.RefreshDelay
	return d + rand.N(d) //nolint:gosec // spreads load, keeps no secret
}

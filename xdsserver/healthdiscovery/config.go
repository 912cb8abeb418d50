package healthdiscovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

const (
	// DefaultInterval is how often clients report unless a specifier says
	// otherwise.
	DefaultInterval = time.Second
	// DefaultRetention is how long results are kept after a client has gone.
	DefaultRetention = 10 * time.Minute
)

// Checker is a client that offers to check health.
type Checker struct {
	// Node is the client. Read-only.
	Node *xds.Node
	// Protocols are those it can check with. Read-only.
	Protocols []healthv3.Capability_Protocol
}

// Provider says what a client should check. It is called when a client
// introduces itself and on [Server.Refresh], concurrently for different
// streams, with the context of the stream or call. The result is not changed;
// nil means nothing to check, and an interval that is not set means
// DefaultInterval.
//
// An error, or a specifier with an invalid interval or a cluster without a
// name, is logged: the client keeps what it was told before, and if that is
// nothing, the stream or call ends with UNAVAILABLE.
type Provider func(context.Context, Checker) (*healthv3.HealthCheckSpecifier, error)

func nothing(context.Context, Checker) (*healthv3.HealthCheckSpecifier, error) { return nil, nil }

// specifier is the provider's answer made complete.
func specifier(ctx context.Context, p Provider, c Checker) (*healthv3.HealthCheckSpecifier, error) {
	given, err := p(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &healthv3.HealthCheckSpecifier{}
	if given != nil {
		s = proto.CloneOf(given)
	}
	for i, k := range s.GetClusterHealthChecks() {
		if k.GetClusterName() == "" {
			return nil, fmt.Errorf("cluster_health_checks[%d].cluster_name is empty; name the cluster", i)
		}
	}
	if s.Interval == nil {
		s.Interval = durationpb.New(DefaultInterval)
	}
	if err := s.Interval.CheckValid(); err != nil {
		return nil, fmt.Errorf("interval: %w", err)
	}
	if s.Interval.AsDuration() <= 0 {
		return nil, errors.New("interval must be greater than 0; leave it unset for 1 s")
	}
	return s, nil
}

// Limits bounds what is remembered. 0 in a field means its default. A stream
// that would exceed a limit ends with RESOURCE_EXHAUSTED; the others are not
// affected.
type Limits struct {
	// Streams is how many streams may be open, Nodes how many nodes are
	// remembered, connected or not. Default 50,000 each.
	Streams, Nodes int
	// Clusters, Localities and Endpoints are how many entries one report may
	// have, each counted over the whole report. Defaults 10,000, 20,000,
	// 100,000.
	Clusters, Localities, Endpoints int
}

func (l Limits) withDefaults() (Limits, error) {
	err := reporting.LimitsOrDefaults(
		reporting.Limit{Name: "Streams", Value: &l.Streams, Default: 50_000},
		reporting.Limit{Name: "Nodes", Value: &l.Nodes, Default: 50_000},
		reporting.Limit{Name: "Clusters", Value: &l.Clusters, Default: 10_000},
		reporting.Limit{Name: "Localities", Value: &l.Localities, Default: 20_000},
		reporting.Limit{Name: "Endpoints", Value: &l.Endpoints, Default: 100_000},
	)
	return l, err
}

// AllowFunc decides whether a node may check health (XD-11). It is called once
// per stream and per unary call, before anything is sent or recorded,
// concurrently; the context carries the peer and its metadata. A gRPC status
// error is passed on as it is, any other error is logged and becomes
// PERMISSION_DENIED without detail.
type AllowFunc func(ctx context.Context, n *xds.Node) error

type options struct {
	provider  Provider
	limits    Limits
	retention time.Duration
	allow     AllowFunc
	logger    *slog.Logger
}

// Option sets a property of a Server under construction.
type Option func(*options)

// WithProvider sets what clients are told to check. The default is nothing, at
// an interval of DefaultInterval.
func WithProvider(p Provider) Option { return func(o *options) { o.provider = p } }

// WithLimits sets the bounds of what is remembered.
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l } }

// WithRetention sets how long a node's results are remembered after its last
// stream ended. 0 means DefaultRetention.
func WithRetention(d time.Duration) Option { return func(o *options) { o.retention = d } }

// WithAllow sets the auth gate. The default lets every node check.
func WithAllow(f AllowFunc) Option { return func(o *options) { o.allow = f } }

// WithLogger sets where streams and refused reports are logged. The default
// discards.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

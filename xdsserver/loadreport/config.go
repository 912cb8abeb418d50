package loadreport

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

const (
	// DefaultInterval is how often clients report unless told otherwise.
	DefaultInterval = 10 * time.Second
	// DefaultRetention is how long loads are kept after their last report.
	DefaultRetention = 10 * time.Minute
)

// Config is what clients are asked for (LoadStatsResponse; XL-01, XL-02).
type Config struct {
	// Clusters are the names of the clusters to report.
	Clusters []string
	// AllClusters asks for every cluster a client knows. Clients without the
	// feature envoy.lrs.supports_send_all_clusters are asked for Clusters
	// instead.
	AllClusters bool
	// Interval is the least time between two reports of a client; 0 means
	// DefaultInterval.
	Interval time.Duration
	// EndpointGranularity asks for the load of each endpoint too.
	EndpointGranularity bool
}

func (c Config) checked() (Config, error) {
	if err := reporting.OrDefault("load report interval", &c.Interval, DefaultInterval); err != nil {
		return c, err
	}
	c.Clusters = slices.Clone(c.Clusters)
	slices.Sort(c.Clusters)
	c.Clusters = slices.Compact(c.Clusters)
	if slices.Contains(c.Clusters, "") {
		return c, fmt.Errorf("the clusters to report include an empty name; leave it out")
	}
	return c, nil
}

func (c Config) response(n *xds.Node) *lrsv3.LoadStatsResponse {
	r := &lrsv3.LoadStatsResponse{
		LoadReportingInterval:     durationpb.New(c.Interval),
		ReportEndpointGranularity: c.EndpointGranularity,
	}
	if c.AllClusters && n.Supports(xds.FeatureSendAllClusters) {
		r.SendAllClusters = true
	} else {
		r.Clusters = c.Clusters
	}
	return r
}

// Limits bounds what is remembered. 0 in a field means its default. A stream
// that would exceed a limit ends with RESOURCE_EXHAUSTED; the others are not
// affected.
type Limits struct {
	// Streams is how many streams may be open, Nodes how many nodes are
	// remembered, connected or not. Default 50,000 each.
	Streams, Nodes int
	// Clusters, Localities and Endpoints are how many entries one node may
	// have, each counted over the whole node. Defaults 10,000, 20,000, 100,000.
	Clusters, Localities, Endpoints int
	// Names is how many named metrics and drop categories one node may have,
	// counted per entry that has them. Default 100,000.
	Names int
}

func (l Limits) withDefaults() (Limits, error) {
	err := reporting.LimitsOrDefaults(
		reporting.Limit{Name: "Streams", Value: &l.Streams, Default: 50_000},
		reporting.Limit{Name: "Nodes", Value: &l.Nodes, Default: 50_000},
		reporting.Limit{Name: "Clusters", Value: &l.Clusters, Default: 10_000},
		reporting.Limit{Name: "Localities", Value: &l.Localities, Default: 20_000},
		reporting.Limit{Name: "Endpoints", Value: &l.Endpoints, Default: 100_000},
		reporting.Limit{Name: "Names", Value: &l.Names, Default: 100_000},
	)
	return l, err
}

// AllowFunc decides whether a node may report load (XD-11). It is called once
// per stream, before anything is sent or recorded, concurrently for different
// streams; the context is the stream's and carries its peer and metadata. A
// gRPC status error ends the stream as it is, any other error is logged and
// ends it with PERMISSION_DENIED without detail.
type AllowFunc func(ctx context.Context, n *xds.Node) error

type options struct {
	config    Config
	limits    Limits
	retention time.Duration
	allow     AllowFunc
	logger    *slog.Logger
}

// Option sets a property of a Server under construction.
type Option func(*options)

// WithConfig sets what clients are asked for first. The default is
// Config{AllClusters: true}.
func WithConfig(c Config) Option { return func(o *options) { o.config = c } }

// WithLimits sets the bounds of what is remembered.
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l } }

// WithRetention sets how long a node is remembered after its last stream
// ended, and an entry of a connected node after it was last reported. 0 means
// DefaultRetention.
func WithRetention(d time.Duration) Option { return func(o *options) { o.retention = d } }

// WithAllow sets the auth gate. The default lets every node report.
func WithAllow(f AllowFunc) Option { return func(o *options) { o.allow = f } }

// WithLogger sets where streams and refused reports are logged. The default
// discards.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

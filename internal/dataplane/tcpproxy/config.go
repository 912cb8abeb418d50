// Package tcpproxy is the network filter that joins a downstream connection
// with an upstream one of its own (NF-07 … NF-09).
package tcpproxy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// Stats are "tcp.<prefix>." (NF-08). What belongs to parts that are not built is
// always 0.
type Stats struct {
	CxDrainClose       stats.Counter `stat:"downstream_cx_drain_close"`
	CxNoRoute          stats.Counter `stat:"downstream_cx_no_route"`
	CxOverloadClose    stats.Counter `stat:"downstream_cx_overload_close"`
	CxRxBuffered       stats.Gauge   `stat:"downstream_cx_rx_bytes_buffered"`
	CxRxTotal          stats.Counter `stat:"downstream_cx_rx_bytes_total"`
	CxTotal            stats.Counter `stat:"downstream_cx_total"`
	CxTxBuffered       stats.Gauge   `stat:"downstream_cx_tx_bytes_buffered"`
	CxTxTotal          stats.Counter `stat:"downstream_cx_tx_bytes_total"`
	FlowPaused         stats.Counter `stat:"downstream_flow_control_paused_reading_total"`
	FlowResumed        stats.Counter `stat:"downstream_flow_control_resumed_reading_total"`
	IdleTimeout        stats.Counter `stat:"idle_timeout"`
	MaxDuration        stats.Counter `stat:"max_downstream_connection_duration"`
	EarlyDataReceived  stats.Counter `stat:"early_data_received_count_total"`
	RouteDelayed       stats.Counter `stat:"route_delayed_total"`
	UpstreamFlush      stats.Gauge   `stat:"upstream_flush_active"`
	UpstreamFlushTotal stats.Counter `stat:"upstream_flush_total"`
}

// Config is the configuration of the filter; immutable
// (extensions/filters/network/tcp_proxy/v3/tcp_proxy.proto).
type Config struct {
	cluster     string
	weighted    []weight
	total       uint64
	idle        time.Duration
	maxDuration time.Duration
	jitter      float64
	attempts    int
	backoff     time.Duration
	backoffMax  time.Duration
	bufferLimit int
	logs        accesslog.Logs
	log         logging
	onDemand    *onDemand // nil: clusters are not discovered on demand
	hash        hashBy
	criteria    *subset.Criteria // nil without
	tlvs        addedTLVs
	Stats       Stats
}

type weight struct {
	name     string
	upTo     uint64
	criteria *subset.Criteria // with those of the filter; nil without
}

// Env is what the filter is built with.
type Env struct {
	Stats         *stats.Registry
	Logs          func(path string, list []*accesslogv3.AccessLog) (accesslog.Logs, error)
	ClusterExists func(name string) bool
	BufferLimit   int
	// CheckClusterSource refuses a config source of which clusters cannot be asked
	// for by name.
	CheckClusterSource func(path string, c *corev3.ConfigSource) error
	// Formats are what texts with operators are compiled with.
	Formats format.Options
}

// New reads the filter's configuration.
func New(c *tcpv3.TcpProxy, env *Env) (*Config, error) {
	out := &Config{idle: time.Hour, attempts: 1, bufferLimit: env.BufferLimit, hash: readHashPolicy(c.GetHashPolicy())}
	out.criteria = out.criteria.Merged(c.GetMetadataMatch())
	env.Stats.Scope("tcp." + c.GetStatPrefix()).Fill(&out.Stats)
	if d := c.GetIdleTimeout(); d != nil {
		out.idle = d.AsDuration()
	}
	out.maxDuration = c.GetMaxDownstreamConnectionDuration().AsDuration()
	out.jitter = c.GetMaxDownstreamConnectionDurationJitterPercentage().GetValue() / 100
	if n := c.GetMaxConnectAttempts(); n != nil {
		out.attempts = int(n.GetValue())
	}
	if b := c.GetBackoffOptions(); b != nil {
		out.backoff = b.GetBaseInterval().AsDuration()
		out.backoffMax = 10 * out.backoff
		if b.GetMaxInterval() != nil {
			out.backoffMax = b.GetMaxInterval().AsDuration()
		}
		if out.backoffMax < out.backoff {
			return nil, errors.New("backoff_options.max_interval: must be greater than or equal to the base_interval")
		}
	}
	logs, err := env.Logs("access_log", c.GetAccessLog())
	out.logs = logs
	return out, errors.Join(err, out.log.read(c), out.readClusters(c, env), out.readOnDemand(c, env), out.tlvs.read(c, env.Formats), refuse(c))
}

func (c *Config) readClusters(m *tcpv3.TcpProxy, env *Env) error {
	switch s := m.GetClusterSpecifier().(type) {
	case *tcpv3.TcpProxy_Cluster:
		c.cluster = s.Cluster
		return nil
	case *tcpv3.TcpProxy_WeightedClusters:
		for _, w := range s.WeightedClusters.GetClusters() {
			c.total += uint64(w.GetWeight())
			c.weighted = append(c.weighted, weight{w.GetName(), c.total, c.criteria.Merged(w.GetMetadataMatch())})
		}
		if c.total > math.MaxUint32 {
			return fmt.Errorf("weighted_clusters: The sum of weights of all upstream clusters of tcp proxy %s exceeds %d.", m.GetStatPrefix(), uint32(math.MaxUint32)) //nolint:staticcheck,revive // Envoy's text
		}
		return nil
	}
	return errors.New("cluster_specifier: a cluster or weighted_clusters is needed")
}

// age is how long a connection may last; 0 is for ever.
func (c *Config) age(random uint64) time.Duration {
	return c.maxDuration + time.Duration(c.jitter*float64(c.maxDuration)*float64(random>>11)/(1<<53))
}

// wait is how long the attempt after so many waits: up to twice as long as the
// one before it.
func (c *Config) wait(attempts int, random uint64) time.Duration {
	if c.backoff == 0 {
		return 0
	}
	d := c.backoffMax
	if n := attempts - 1; n < 16 {
		d = min(d, c.backoff<<n)
	}
	return time.Duration(random % uint64(max(d, 1)))
}

// refuse names what is set and not built.
func refuse(c *tcpv3.TcpProxy) error {
	var names []string
	for name, set := range map[string]bool{
		"tunneling_config":            c.GetTunnelingConfig() != nil,
		"on_demand.resources_locator": c.GetOnDemand().GetResourcesLocator() != "",
		"max_early_data_bytes":        c.GetMaxEarlyDataBytes() != nil, "upstream_connect_mode": c.GetUpstreamConnectMode() != 0,
		"downstream_idle_timeout": c.GetDownstreamIdleTimeout() != nil, "upstream_idle_timeout": c.GetUpstreamIdleTimeout() != nil,
		"check_drain_close": c.GetCheckDrainClose() != nil,
	} {
		if set {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%s: known but not built in this version", strings.Join(names, ", "))
}

// pick is the cluster of a connection, and what its hosts must have in their
// metadata.
func (c *Config) pick(random uint64) (name string, criteria *subset.Criteria) {
	if len(c.weighted) == 0 {
		return c.cluster, c.criteria
	}
	n := random % c.total
	for _, w := range c.weighted {
		if n < w.upTo {
			return w.name, w.criteria
		}
	}
	last := &c.weighted[len(c.weighted)-1]
	return last.name, last.criteria
}

package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
)

// Runtime answers with the value of a runtime key, or with the default.
type Runtime interface {
	Integer(key string, def uint64) uint64
	Double(key string, def float64) float64
}

// Options are what a cluster needs from its surroundings.
type Options struct {
	// Registry is the scope "cluster.<observability name>"; required.
	Registry Registry
	// Hosts hands out the counters of the hosts; required.
	Hosts HostRegistry
	// Sink counts what happens off the workers; required.
	Sink Sink
	// Resolver is required by DNS clusters; *net.Resolver is one.
	Resolver Resolver
	// Random is used by the DNS loops, from several goroutines at once; nil
	// means math/rand/v2.
	Random func() uint64
	// Logger gets failed lookups; nil logs nothing.
	Logger *slog.Logger
	// LocalCluster is cluster_manager.local_cluster_name.
	LocalCluster string
	// LocalZone is the node's zone, for the counters between zones; may be "".
	LocalZone string
	// Locality is the node's; may be the zero value.
	Locality Locality
	// OnUpdate is called with each change of the hosts, one call at a time, on
	// the goroutine of Run (of New for the first hosts of STATIC, of Assign for
	// EDS, of Rebalance for changes of their health). It must not block, nor ask the
	// cluster for a change.
	OnUpdate func(Update)
	// Updates are counted by Sink; nil counts none of them.
	Updates *UpdateStats
	// MergeBatches reports whether changes that come together, by EDS, are merged as
	// others are (update_merge_window). Nil: they come in force at once, as in Envoy.
	MergeBatches func() bool
	// OnFailure is called with a host that said itself that it fails
	// ([Cluster.FailedByItself]), on any goroutine. It must not block.
	OnFailure func(*Host)
}

// Cluster is one upstream cluster. Its methods are safe for concurrent use.
type Cluster struct {
	// Stats are the cluster's statistics.
	Stats *Stats
	// HTTP are its HTTP options, LB its load balancing.
	HTTP HTTPOptions
	LB   LBConfig

	proto             *clusterv3.Cluster
	kind              kind
	connectTimeout    time.Duration
	bufferLimit       uint32
	matches           []TransportSocketMatch
	breakers          [routePriorities]*Breaker
	perHostCx         uint64
	assignment        *assignment
	dns               dnsConfig
	sink              Sink
	hostReg           HostRegistry
	resolver          Resolver
	random            func() uint64
	log               *slog.Logger
	onUpdate          func(Update)
	localZone         string
	locality          Locality // of the node
	active            *count   // requests, if hash_balance_factor asks for them
	hosts             atomic.Pointer[HostSet]
	maintenance       atomic.Uint64 // percentages of the runtime, see ApplyRuntime
	keepRetries       atomic.Uint64
	ready             chan struct{}
	readyOnce         sync.Once
	running           atomic.Bool
	tuneMu            sync.Mutex // guards the two below and orders the sets that carry them
	panicThreshold    uint32
	activeRequestBias float64

	checked   bool // by active health checks
	ended     bool // see Halt; guarded by updateMu
	dialled   atomic.Bool
	onFailure func(*Host)
	known     atomic.Bool        // the first hosts are
	updateMu  sync.Mutex         // orders changes of the hosts
	unchecked map[*Host]struct{} // the first hosts that were not checked yet; guarded by updateMu
	stale     atomic.Bool        // the set of hosts is, by what checks found
	healthMu  sync.Mutex         // guards the one below
	failing   []*Host            // since the last set of hosts

	mergeWindow time.Duration // 0: nothing waits
	updates     *UpdateStats
	batches     func() bool                // see Options.MergeBatches; nil: never
	waiting     atomic.Pointer[[]Priority] // all priorities while some wait to be put in force, or nil
	recent      []recent                   // by priority; guarded by updateMu
}

// New makes a cluster of its configuration. It starts nothing. An error names
// the field; several are joined.
func New(c *clusterv3.Cluster, o Options) (*Cluster, error) {
	if err := c.ValidateAll(); err != nil {
		return nil, fmt.Errorf("cluster %q: Proto constraint validation failed (%w)", c.GetName(), err)
	}
	cl := &Cluster{
		proto: c, sink: o.Sink, hostReg: o.Hosts, resolver: o.Resolver, random: o.Random,
		log: o.Logger, onUpdate: o.OnUpdate, onFailure: o.OnFailure, updates: o.Updates, batches: o.MergeBatches, checked: len(c.GetHealthChecks()) > 0, localZone: o.LocalZone, locality: o.Locality, ready: make(chan struct{}),
		connectTimeout: 5 * time.Second, bufferLimit: uint32Or(c.GetPerConnectionBufferLimitBytes(), 1<<20),
	}
	cl.keepRetries.Store(100)
	if cl.random == nil {
		cl.random = rand.Uint64
	}
	if cl.log == nil {
		cl.log = slog.New(slog.DiscardHandler)
	}
	if err := cl.configure(o.LocalCluster); err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.GetName(), err)
	}
	cl.Stats = newStats(o.Registry, cl.breakers, cl.matches, usesTLS(c))
	cl.Stats.registerHash(o.Registry, cl.LB.Policy)
	cl.Stats.registerSubsets(o.Registry, cl.LB.Subsets)
	if cl.kind == kindEDS {
		cl.Stats.registerDiscovery(o.Registry)
	}
	if cl.kind == kindStatic {
		cl.apply(cl.assignment.specs())
		cl.nowKnown()
	} else {
		cl.publish(buildPriorities(nil, cl.assignment.weights))
	}
	return cl, nil
}

// configure reads everything of the configuration.
func (c *Cluster) configure(local string) error {
	p := c.proto
	errs := []error{refuse(p), durationInto(&c.connectTimeout, "connect_timeout", p.GetConnectTimeout())}
	add := func(err error) { errs = append(errs, err) }
	k, typed, err := discovery(p)
	add(err)
	c.kind = k
	if err == nil {
		add(c.configureEndpoints())
	}
	if (k == kindStrictDNS || k == kindLogicalDNS) && err == nil {
		c.dns, err = newDNSConfig(p, typed)
		add(err)
		add(c.checkDNS())
	}
	c.HTTP, err = newHTTPOptions(p)
	add(err)
	if c.LB, err = newLBConfig(p); err == nil {
		err = errors.Join(zoneAware(c.LB, local), checkHostnames(p), c.checkWeights(c.assignment))
	}
	add(err)
	if c.LB.Hash.BalanceFactor > 0 {
		c.active = new(count)
	}
	c.panicThreshold, c.activeRequestBias = c.LB.PanicThreshold, c.LB.ActiveRequestBias
	c.breakers, err = newBreakers(p.GetCircuitBreakers())
	add(err)
	c.perHostCx, err = perHostLimit(p.GetCircuitBreakers())
	add(err)
	add(c.configureMerging())
	return errors.Join(errs...)
}

// configureMerging reads the merge window, of which Envoy takes whole milliseconds.
func (c *Cluster) configureMerging() error {
	c.mergeWindow = defaultMergeWindow
	err := durationInto(&c.mergeWindow, "common_lb_config.update_merge_window", c.proto.GetCommonLbConfig().GetUpdateMergeWindow())
	c.mergeWindow = c.mergeWindow.Truncate(time.Millisecond)
	return err
}

func (c *Cluster) configureEndpoints() error {
	for i, m := range c.proto.GetTransportSocketMatches() {
		if m.GetTransportSocket() == nil {
			return fmt.Errorf("transport_socket_matches[%d].transport_socket: Didn't find a registered implementation for '' with type URL: ''; give a transport_socket", i)
		}
		c.matches = append(c.matches, TransportSocketMatch{
			Name: m.GetName(), Socket: m.GetTransportSocket(), criteria: m.GetMatch().GetFields(),
		})
	}
	if c.kind == kindEDS {
		return c.configureEDS()
	}
	var err error
	c.assignment, err = newAssignment(c.kind, c.proto.GetLoadAssignment(), "load_assignment.", c.match, nil)
	if err != nil || c.kind != kindLogicalDNS {
		return err
	}
	// Envoy's texts.
	if c.assignment.groups == 0 {
		return errors.New("load_assignment: LOGICAL_DNS clusters must have a single host")
	}
	if c.assignment.groups != 1 || len(c.assignment.endpoints) != 1 {
		return errors.New("load_assignment: LOGICAL_DNS clusters must have a single locality_lb_endpoint and a single lb_endpoint")
	}
	return nil
}

// match is the transport socket that metadata select.
func (c *Cluster) match(endpoint, locality *corev3.Metadata) int {
	return matchTransportSocket(c.matches, endpoint, locality)
}

func (c *Cluster) checkDNS() error {
	if c.resolver == nil {
		return errors.New("a DNS cluster needs a resolver, and none was given")
	}
	if _, ok := c.resolver.(TTLResolver); c.dns.respectTTL && !ok {
		return errors.New("respect_dns_ttl: known but not built; remove it, and names are resolved each dns_refresh_rate")
	}
	return nil
}

// refuse names what is known of Cluster and not built.
func refuse(c *clusterv3.Cluster) error {
	if c.GetEdsClusterConfig() != nil && !isEDS(c) {
		return errors.New("eds_cluster_config set in a non-EDS cluster") // Envoy's text
	}
	var errs []error
	for _, f := range unbuilt(c) {
		if f.set {
			errs = append(errs, fmt.Errorf("%s: known but not built; remove it", f.name))
		}
	}
	return errors.Join(errs...)
}

type field struct {
	name string
	set  bool
}

//nolint:staticcheck // deprecated fields are refused like the others
func unbuilt(c *clusterv3.Cluster) []field {
	return []field{
		{"outlier_detection", c.GetOutlierDetection() != nil},
		{"transport_socket_matcher", c.GetTransportSocketMatcher() != nil},
		{"stats_matcher", c.GetStatsMatcher() != nil},
		{"per_connection_buffer_high_watermark_timeout", c.GetPerConnectionBufferHighWatermarkTimeout().AsDuration() != 0},
		{"upstream_connection_options.set_local_interface_name_on_upstream_connections", c.GetUpstreamConnectionOptions().GetSetLocalInterfaceNameOnUpstreamConnections()},
		{"upstream_connection_options.happy_eyeballs_config", c.GetUpstreamConnectionOptions().GetHappyEyeballsConfig() != nil},
		{"filters", len(c.GetFilters()) > 0},
		{"lrs_server", c.GetLrsServer() != nil},
		{"lrs_report_endpoint_metrics", len(c.GetLrsReportEndpointMetrics()) > 0},
		{"track_timeout_budgets", c.GetTrackTimeoutBudgets()},
		{"track_cluster_stats", c.GetTrackClusterStats() != nil},
		{"upstream_config", c.GetUpstreamConfig() != nil},
		{"preconnect_policy", c.GetPreconnectPolicy() != nil},
		{"connection_pool_per_downstream_connection", c.GetConnectionPoolPerDownstreamConnection()},
		{"queuing_policies", c.GetQueuingPolicies() != nil},
	}
}

// usesTLS reports whether some transport socket of the cluster is TLS.
func usesTLS(c *clusterv3.Cluster) bool {
	if isTLS(c.GetTransportSocket()) {
		return true
	}
	for _, m := range c.GetTransportSocketMatches() {
		if isTLS(m.GetTransportSocket()) {
			return true
		}
	}
	return false
}

func isTLS(s *corev3.TransportSocket) bool {
	var outer upstreamv3.ProxyProtocolUpstreamTransport
	for s.GetTypedConfig().MessageIs(&outer) {
		if s.GetTypedConfig().UnmarshalTo(&outer) != nil {
			return false
		}
		s = outer.GetTransportSocket()
	}
	return strings.HasPrefix(string(s.GetTypedConfig().MessageName()), "envoy.extensions.transport_sockets.tls.")
}

// Name is the cluster's name; ObservabilityName is alt_stat_name, or the name:
// what statistics and /clusters call it (CM-02).
func (c *Cluster) Name() string { return c.proto.GetName() }

// ObservabilityName is alt_stat_name, or the name.
func (c *Cluster) ObservabilityName() string { return ObservabilityName(c.proto) }

// ObservabilityName is what statistics call a cluster of this configuration,
// before characters that statistics do not allow are replaced.
func ObservabilityName(c *clusterv3.Cluster) string {
	if n := c.GetAltStatName(); n != "" {
		return n
	}
	return c.GetName()
}

// Config is the configuration the cluster was made of; not to be changed.
func (c *Cluster) Config() *clusterv3.Cluster { return c.proto }

// ConnectTimeout is connect_timeout, by default 5 s (CM-03).
func (c *Cluster) ConnectTimeout() time.Duration { return c.connectTimeout }

// BufferLimit is per_connection_buffer_limit_bytes, by default 1 MiB; 0 means
// no limit (CM-03).
func (c *Cluster) BufferLimit() uint32 { return c.bufferLimit }

// Metadata is the cluster's metadata; may be nil.
func (c *Cluster) Metadata() *corev3.Metadata { return c.proto.GetMetadata() }

// CloseConnectionsOnHostHealthFailure cuts the connections of a host that
// becomes unhealthy (CM-25).
func (c *Cluster) CloseConnectionsOnHostHealthFailure() bool {
	return c.proto.GetCloseConnectionsOnHostHealthFailure()
}

// CloseConnectionsOnHostSetChange drains all connections of the cluster when
// its hosts change (CM-16).
func (c *Cluster) CloseConnectionsOnHostSetChange() bool {
	return c.proto.GetCommonLbConfig().GetCloseConnectionsOnHostSetChange()
}

// TransportSocket is the cluster's transport_socket; nil is plain text.
func (c *Cluster) TransportSocket() *corev3.TransportSocket { return c.proto.GetTransportSocket() }

// TransportSocketMatches are the entries that [Attributes.TransportSocket]
// points into.
func (c *Cluster) TransportSocketMatches() []TransportSocketMatch { return c.matches }

// Drop is the cluster's drop_overloads.
func (c *Cluster) Drop() Drop { return c.hosts.Load().drop }

// Breaker is the limits of a routing priority.
func (c *Cluster) Breaker(p RoutePriority) *Breaker { return c.breakers[p] }

// Hosts is the present set of hosts; never nil.
func (c *Cluster) Hosts() *HostSet { return c.hosts.Load() }

// Ready is closed when the first hosts are known: at once in a STATIC cluster,
// in a DNS cluster when each name was looked up once, whatever came of it, in an
// EDS cluster with the first assignment or when it is given up. With active health
// checks each of those hosts was checked once besides (CM-04).
func (c *Cluster) Ready() <-chan struct{} { return c.ready }

// Known reports whether the first hosts are known, checked or not.
func (c *Cluster) Known() bool { return c.known.Load() }

func (c *Cluster) isReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

func (c *Cluster) setReady() { c.readyOnce.Do(func() { close(c.ready) }) }

// ApplyRuntime takes over what the runtime overrides: the limits of the
// circuit breakers (CB-07), the panic threshold and least request's bias, and the
// percentages of requests that are refused for maintenance and that may be sent
// again (RT-48). Call it at the start and whenever the runtime changes.
func (c *Cluster) ApplyRuntime(rt Runtime) {
	c.maintenance.Store(min(rt.Integer("upstream.maintenance_mode."+c.Name(), 0), 100))
	c.keepRetries.Store(min(rt.Integer("upstream.use_retry", 100), 100))
	for p, b := range c.breakers {
		b.applyRuntime("circuit_breakers."+c.Name()+"."+RoutePriority(p).String()+".", rt)
	}
	c.tuneMu.Lock()
	defer c.tuneMu.Unlock()
	c.panicThreshold = uint32(min(rt.Integer("upstream.healthy_panic_threshold", uint64(c.LB.PanicThreshold)), 100))
	if c.LB.BiasKey != "" {
		c.activeRequestBias = sound(rt.Double(c.LB.BiasKey, c.LB.ActiveRequestBias))
	}
	before := c.hosts.Load()
	next := *before
	if next.PanicThreshold == c.panicThreshold && next.ActiveRequestBias == c.activeRequestBias {
		return
	}
	next.PanicThreshold, next.ActiveRequestBias = c.panicThreshold, c.activeRequestBias
	c.prepare(&next, before)
	c.hosts.Store(&next)
}

// countMatch counts which transport socket a host got.
func (c *Cluster) countMatch(i int) {
	if i < 0 {
		i = len(c.Stats.matches) - 1
	}
	c.sink.Add(c.Stats.matches[i], 1)
}

// InMaintenance decides by a random number whether a request is refused, by the
// runtime's upstream.maintenance_mode.<cluster>. Safe for concurrent use.
func (c *Cluster) InMaintenance(random uint64) bool { return random%100 < c.maintenance.Load() }

// MayRetry decides by a random number whether a request may be sent again, by
// the runtime's upstream.use_retry. Safe for concurrent use.
func (c *Cluster) MayRetry(random uint64) bool { return random%100 < c.keepRetries.Load() }

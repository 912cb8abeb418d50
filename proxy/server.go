package proxy

import (
	"context"
	"crypto/fips140"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// serverStats are the statistics of the process (ST-03, ST-06, ST-08).
type serverStats struct {
	Concurrency       stats.Gauge     `stat:"server.concurrency"`
	DaysUntilExpiry   stats.Gauge     `stat:"server.days_until_first_cert_expiring"`
	Live              stats.Gauge     `stat:"server.live"`
	MemoryAllocated   stats.Gauge     `stat:"server.memory_allocated"`
	MemoryHeap        stats.Gauge     `stat:"server.memory_heap_size"`
	MemoryPhysical    stats.Gauge     `stat:"server.memory_physical_size"`
	State             stats.Gauge     `stat:"server.state"`
	Uptime            stats.Gauge     `stat:"server.uptime"`
	TotalConnections  stats.Gauge     `stat:"server.total_connections"`
	ParentConns       stats.Gauge     `stat:"server.parent_connections"`
	RestartGeneration stats.Gauge     `stat:"server.hot_restart_generation"`
	FIPS              stats.Gauge     `stat:"server.compilation_settings.fips_mode"`
	Version           stats.Gauge     `stat:"server.version"`
	RestartEpoch      stats.Gauge     `stat:"server.hot_restart_epoch"`
	StaticUnknown     stats.Counter   `stat:"server.static_unknown_fields"`
	DynamicUnknown    stats.Counter   `stat:"server.dynamic_unknown_fields"`
	Assertions        stats.Counter   `stat:"server.debug_assertion_failures"`
	WIP               stats.Counter   `stat:"server.wip_protos"`
	InitTime          stats.Histogram `stat:"server.initialization_time_ms,ms"`
	Deprecated        stats.Counter   `stat:"runtime.deprecated_feature_use"`
	RuntimeKeys       stats.Gauge     `stat:"runtime.num_keys"`
	RuntimeOverrides  stats.Gauge     `stat:"runtime.admin_overrides_active"`
	RuntimeLoads      stats.Counter   `stat:"runtime.load_success"`
	RuntimeFailures   stats.Counter   `stat:"runtime.load_error"`
	RuntimeNoOverride stats.Counter   `stat:"runtime.override_dir_not_exists"`
	RuntimeOverride   stats.Counter   `stat:"runtime.override_dir_exists"`
	DeprecatedSeen    stats.Gauge     `stat:"runtime.deprecated_feature_seen_since_process_start"`
	RuntimeLayers     stats.Gauge     `stat:"runtime.num_layers"`

	cluster.UpdateStats
	ClusterAdded    stats.Counter `stat:"cluster_manager.cluster_added"`
	ClusterModified stats.Counter `stat:"cluster_manager.cluster_modified"`
	ClusterRemoved  stats.Counter `stat:"cluster_manager.cluster_removed"`
	ClustersActive  stats.Gauge   `stat:"cluster_manager.active_clusters"`
	ClustersWarming stats.Gauge   `stat:"cluster_manager.warming_clusters"`

	ListenerAdded    stats.Counter `stat:"listener_manager.listener_added"`
	ListenerSuccess  stats.Counter `stat:"listener_manager.listener_create_success"`
	ListenerFailure  stats.Counter `stat:"listener_manager.listener_create_failure"`
	ListenerModified stats.Counter `stat:"listener_manager.listener_modified"`
	ListenerRemoved  stats.Counter `stat:"listener_manager.listener_removed"`
	ListenerStopped  stats.Counter `stat:"listener_manager.listener_stopped"`
	InPlace          stats.Counter `stat:"listener_manager.listener_in_place_updated"`
	ChainsDraining   stats.Gauge   `stat:"listener_manager.total_filter_chains_draining"`
	ListenersActive  stats.Gauge   `stat:"listener_manager.total_listeners_active"`
	ListenersDrain   stats.Gauge   `stat:"listener_manager.total_listeners_draining"`
	ListenersWarming stats.Gauge   `stat:"listener_manager.total_listeners_warming"`
	WorkersStarted   stats.Gauge   `stat:"listener_manager.workers_started"`

	began time.Time
}

func (s *serverStats) init(p *Proxy) {
	p.stat.Scope("").Fill(s)
	m := p.stat.Main()
	m.Add(s.StaticUnknown, uint64(max(p.o.UnknownFields, 0)))
	m.Add(s.Deprecated, uint64(max(p.o.DeprecatedUses, 0)))
	m.GaugeSet(s.DeprecatedSeen, int64(max(p.o.DeprecatedUses, 0)))
	m.GaugeSet(s.Concurrency, int64(p.o.Workers))
	s.began = time.Now()
	m.GaugeSet(s.RestartGeneration, 1)
	if fips140.Enabled() {
		m.GaugeSet(s.FIPS, 1)
	}
	m.GaugeSet(s.Version, p.versionNumber())
}

// versionNumber is the version as a number, to see in a graph when it changed:
// stats_server_version_override, or 24 bits that differ between versions.
func (p *Proxy) versionNumber() int64 {
	if n := p.cfg.GetStatsServerVersionOverride(); n != nil {
		return int64(n.GetValue()) //nolint:gosec // as configured
	}
	return int64(xxhash.Sum64String(p.o.Version) & 0xffffff) //nolint:gosec // 24 bits
}

// runtime notes that runtime keys are in force.
func (s *serverStats) runtime(p *Proxy, rt *layeredruntime.Snapshot) {
	m := p.stat.Main()
	m.Inc(s.RuntimeLoads)
	m.Inc(s.RuntimeNoOverride)
	m.GaugeSet(s.RuntimeKeys, int64(len(rt.Entries())))
	m.GaugeSet(s.RuntimeLayers, int64(len(rt.Layers())))
	overrides := int64(0)
	if rt.Overridden() {
		overrides = 1
	}
	m.GaugeSet(s.RuntimeOverrides, overrides)
}

// live notes that the proxy serves.
func (s *serverStats) live(p *Proxy) {
	m := p.stat.Main()
	m.GaugeSet(s.Live, 1)
	m.GaugeSet(s.WorkersStarted, 1)
	p.res.mu.Lock()
	for _, c := range p.res.clusters {
		if c.static {
			m.Inc(s.ClusterAdded)
		}
	}
	for _, l := range p.res.listeners {
		if l.static {
			m.Inc(s.ListenerAdded)
			m.Add(s.ListenerSuccess, uint64(p.o.Workers)) //nolint:gosec // not negative
		}
	}
	p.res.live = true
	p.res.countClusters()
	p.res.countListeners()
	p.res.mu.Unlock()
	m.Record(s.InitTime, uint64(time.Since(s.began)/time.Millisecond)) //nolint:gosec // not negative
}

// refresh sets the gauges that only a look can tell.
func (p *Proxy) refresh() {
	s, m := &p.server, p.stat.Main()
	m.GaugeSet(s.Uptime, int64(time.Since(p.started)/time.Second))
	m.GaugeSet(s.State, int64(p.envoyState()))
	m.GaugeSet(s.DaysUntilExpiry, p.daysUntilExpiry())
	m.GaugeSet(s.TotalConnections, p.connections())
	mem := memory()
	m.GaugeSet(s.MemoryAllocated, mem.allocated)
	m.GaugeSet(s.MemoryHeap, mem.heap)
	m.GaugeSet(s.MemoryPhysical, mem.physical)
	for _, c := range p.res.activeClusters() {
		c.PublishGauges()
	}
}

// daysUntilExpiry is when the first certificate expires; as in Envoy the
// greatest uint32 if there is none (TS-26).
func (p *Proxy) daysUntilExpiry() int64 {
	days, now := uint64(math.MaxUint32), time.Now()
	for _, c := range p.contexts() {
		if d, ok := c.DaysUntilFirstExpiry(now); ok {
			days = min(days, d)
		}
	}
	return int64(days) //nolint:gosec // at most a uint32
}

// lookTime bounds waiting for the workers while gauges are set.
const lookTime = time.Second

// connections are the open connections of all listeners.
func (p *Proxy) connections() int64 {
	listeners := p.res.activeListeners()
	ids := make([]stats.Gauge, 0, len(listeners))
	for _, l := range listeners {
		ids = append(ids, l.Stats.CxActive)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime) //nolint:forbidigo // ends by itself
	defer cancel()
	_, open, err := p.stat.Hidden().Sum(ctx, nil, ids)
	if err != nil {
		return 0
	}
	var n int64
	for _, v := range open {
		n += v
	}
	return n
}

// envoyState is the number of server.state: LIVE 0, DRAINING 1,
// PRE_INITIALIZING 2, INITIALIZING 3 (admin/v3/server_info.proto). It is DRAINING
// while the health check was failed, too.
func (p *Proxy) envoyState() int {
	n := [...]int{2, 3, 0, 1}[p.state.get()]
	if n == 0 && p.failed.Load() {
		n = 1
	}
	return n
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

func (p *Proxy) buildFlusher() error {
	interval, onAdmin, err := stats.FlushInterval(p.cfg)
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	if p.flushOnAdmin = onAdmin; onAdmin {
		interval = 0
	}
	var sinks []stats.Sink
	for i, s := range p.cfg.GetStatsSinks() {
		k, err := stats.NewSink(context.Background(), s, stats.SinkDeps{Cluster: p.statsCluster}) //nolint:forbidigo // it only dials
		if err != nil {
			return fmt.Errorf("stats_sinks[%d]: %w", i, err)
		}
		sinks = append(sinks, k)
	}
	p.flusher = stats.NewFlusher(p.stat, stats.FlusherOptions{Interval: interval, Sinks: sinks, Before: p.refresh, Logger: p.component("stats")})
	return nil
}

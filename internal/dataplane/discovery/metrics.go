package discovery

import (
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// metrics are a source's statistics by Envoy's names (XC-39, ST-07). Those of a
// type with many subscriptions are the cluster's or the connection manager's,
// which count for themselves.
type metrics struct {
	reg      *stats.Registry
	clusters string // the scope of cluster discovery
	// connected is called when a stream with everything begins.
	connected func()
	// failed is called when a source cannot be reached.
	failed func(s *xdsclient.Source, typeURL string)
}

func newMetrics(reg *stats.Registry, clusters string, connected func(), failed func(*xdsclient.Source, string)) *metrics {
	return &metrics{reg: reg, clusters: clusters, connected: connected, failed: failed}
}

// SubscriptionStats are what every subscription counts, below the name of what it
// is for (ST-07).
type SubscriptionStats struct {
	InitFetchTimeout stats.Counter   `stat:"init_fetch_timeout"`
	UpdateAttempt    stats.Counter   `stat:"update_attempt"`
	UpdateFailure    stats.Counter   `stat:"update_failure"`
	UpdateRejected   stats.Counter   `stat:"update_rejected"`
	UpdateSuccess    stats.Counter   `stat:"update_success"`
	UpdateDuration   stats.Histogram `stat:"update_duration,ms"`
	UpdateTime       stats.Gauge     `stat:"update_time"`
	Version          stats.Gauge     `stat:"version"`
}

// clusterStats are more that cluster discovery has.
type clusterStats struct {
	ConfigReload     stats.Counter `stat:"config_reload"`
	ConfigReloadTime stats.Gauge   `stat:"config_reload_time_ms"`
}

// begin makes the statistics of cluster or listener discovery appear.
func (m *metrics) begin(typeURL string) {
	scope := m.scope(xdsclient.StatUpdateAttempt, xdsclient.Labels{TypeURL: typeURL})
	scope.Fill(&SubscriptionStats{})
	scope.Text(string(xdsclient.StatVersionText))
	if typeURL == xds.ClusterType {
		scope.Fill(&clusterStats{})
	}
}

// scope is where a statistic belongs; nil if it has no name in Envoy.
func (m *metrics) scope(s xdsclient.Stat, l xdsclient.Labels) *stats.Scope {
	switch {
	case strings.HasPrefix(string(s), "control_plane.") && l.TypeURL == "": // ADS
		return m.reg.Scope("")
	case l.TypeURL == xds.ClusterType:
		return m.reg.Scope(m.clusters)
	case s == xdsclient.StatConfigReload:
		return nil
	case l.TypeURL == xds.RuntimeType:
		return m.reg.Scope("runtime")
	case l.TypeURL == xds.ListenerType:
		return m.reg.Scope("listener_manager.lds")
	}
	return nil
}

// Add implements xdsclient.Metrics.
func (m *metrics) Add(s xdsclient.Stat, l xdsclient.Labels, n uint64) {
	switch s {
	case xdsclient.StatUpdatesValid, xdsclient.StatUpdatesInvalid, xdsclient.StatServerFailure, xdsclient.StatInitFetchTimeout:
		return
	case xdsclient.StatUpdateFailure:
		m.failed(l.Source, l.TypeURL)
		m.Add(xdsclient.StatUpdateAttempt, l, n) // as Envoy counts them
	}
	scope := m.scope(s, l)
	if scope == nil {
		return
	}
	m.reg.Main().Add(scope.Counter(string(s)), n)
	if s == xdsclient.StatConfigReload {
		m.reg.Main().GaugeSet(scope.Gauge("config_reload_time_ms"), time.Now().UnixMilli())
	}
}

// Set implements xdsclient.Metrics.
func (m *metrics) Set(s xdsclient.Stat, l xdsclient.Labels, v uint64) {
	if s == xdsclient.StatConnected && l.TypeURL == "" && v == 1 {
		m.connected()
	}
	if scope := m.scope(s, l); scope != nil {
		m.reg.Main().GaugeSetUint(scope.Gauge(string(s)), v)
	}
}

// SetText implements xdsclient.Metrics.
func (m *metrics) SetText(s xdsclient.Stat, l xdsclient.Labels, v string) {
	if scope := m.scope(s, l); scope != nil {
		scope.Text(string(s)).Set(v)
	}
}

// Observe implements xdsclient.Metrics.
func (m *metrics) Observe(s xdsclient.Stat, l xdsclient.Labels, t time.Duration) {
	if scope := m.scope(s, l); scope != nil {
		m.reg.Main().Record(scope.Histogram(string(s), stats.Milliseconds), uint64(max(t, 0)/time.Millisecond)) //nolint:gosec // not negative
	}
}

// fileMetrics are those of files: they are not asked, and no control plane.
type fileMetrics struct{ *metrics }

// Add implements xdsclient.Metrics.
func (m *fileMetrics) Add(s xdsclient.Stat, l xdsclient.Labels, n uint64) {
	switch s {
	case xdsclient.StatUpdateAttempt:
		return
	case xdsclient.StatUpdateSuccess, xdsclient.StatUpdateRejected:
		m.metrics.Add(xdsclient.StatUpdateAttempt, l, n)
	}
	m.metrics.Add(s, l, n)
}

// Set implements xdsclient.Metrics.
func (m *fileMetrics) Set(s xdsclient.Stat, l xdsclient.Labels, v uint64) {
	if !strings.HasPrefix(string(s), "control_plane.") {
		m.metrics.Set(s, l, v)
	}
}

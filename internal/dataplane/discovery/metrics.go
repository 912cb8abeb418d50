package discovery

import (
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// metrics are a source's statistics by Envoy's names (XC-39). Those of a type
// with many subscriptions are the cluster's or the connection manager's, which
// count for themselves.
type metrics struct {
	reg      *stats.Registry
	clusters string // the scope of cluster discovery
	// connected is called when a stream with everything begins.
	connected func()
}

// scope is where a statistic belongs; nil if it has no name in Envoy.
func (m *metrics) scope(s xdsclient.Stat, l xdsclient.Labels) *stats.Scope {
	switch {
	case strings.HasPrefix(string(s), "control_plane.") && l.TypeURL == "": // ADS
		return m.reg.Scope("")
	case l.TypeURL == xds.ClusterType:
		return m.reg.Scope(m.clusters)
	case l.TypeURL == xds.RuntimeType && s != xdsclient.StatConfigReload:
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
	}
	if scope := m.scope(s, l); scope != nil {
		m.reg.Main().Add(scope.Counter(string(s)), n)
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

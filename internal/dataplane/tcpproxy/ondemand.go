package tcpproxy

import (
	"errors"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/demand"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// onDemand is where clusters are discovered when a connection needs them
// (CM-33), and how long it waits.
type onDemand struct {
	source  *corev3.ConfigSource
	timeout time.Duration
	stats   onDemandStats
}

// onDemandStats are those of "tcp.<prefix>." that are there only with on_demand.
type onDemandStats struct {
	Attempt stats.Counter `stat:"on_demand_cluster_attempt"`
	Missing stats.Counter `stat:"on_demand_cluster_missing"`
	Success stats.Counter `stat:"on_demand_cluster_success"`
	Timeout stats.Counter `stat:"on_demand_cluster_timeout"`
}

const defaultDemandTimeout = time.Minute

func (c *Config) readOnDemand(t *tcpv3.TcpProxy, env *Env) error {
	m := t.GetOnDemand()
	if m.GetOdcdsConfig() == nil {
		return nil
	}
	o := &onDemand{source: m.GetOdcdsConfig(), timeout: defaultDemandTimeout}
	if d := m.GetTimeout(); d != nil {
		if d.CheckValid() != nil || d.AsDuration() < 0 {
			return errors.New("on_demand.timeout: must be a duration of 0 or more")
		}
		o.timeout = d.AsDuration()
	}
	env.Stats.Scope("tcp." + t.GetStatPrefix()).Fill(&o.stats)
	c.onDemand = o
	if env.CheckClusterSource == nil {
		return nil
	}
	return env.CheckClusterSource("on_demand.odcds_config", o.source)
}

// Waits is what a worker's User must offer for clusters on demand.
type Waits interface{ Waits() *demand.Waits }

// waiting is a connection that waits for its cluster.
type waiting struct {
	wait  demand.Wait
	timer loop.Timer
}

// await waits for a cluster; false if nothing is discovered on demand.
func (s *session) await(name string) bool {
	u, ok := s.w.User.(Waits)
	if s.cfg.onDemand == nil || name == "" || !ok || u.Waits() == nil {
		return false
	}
	s.w.Stats.Inc(s.cfg.onDemand.stats.Attempt)
	s.waiting = &waiting{}
	s.waiting.timer.Init(s.w.Loop, func() {
		s.w.Stats.Inc(s.cfg.onDemand.stats.Timeout)
		s.stopWaiting()
		s.noCluster()
	})
	s.waiting.timer.Set(s.cfg.onDemand.timeout)
	u.Waits().Add(&s.waiting.wait, demand.Key{Kind: demand.Cluster, Name: name, Source: s.cfg.onDemand.source}, func() {
		s.stopWaiting()
		if s.cl = s.clusters().Cluster(name); s.cl == nil {
			s.w.Stats.Inc(s.cfg.onDemand.stats.Missing)
			s.noCluster()
			return
		}
		s.w.Stats.Inc(s.cfg.onDemand.stats.Success)
		s.found(name)
	})
	return true
}

func (s *session) stopWaiting() {
	if s.waiting != nil {
		s.waiting.wait.Cancel()
		s.waiting.timer.Unlink()
		s.waiting = nil
	}
}

// noCluster ends a connection to a cluster that there is not.
func (s *session) noCluster() {
	s.w.Stats.Inc(s.cfg.Stats.CxNoRoute)
	s.fail(filter.FlagNoClusterFound, noRoute)
}

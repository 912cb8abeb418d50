package hcm

import (
	"strings"
	"sync"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// agents are the statistics of connections by what the client says that it
// runs on (HC-53); those of a kind are there from its first connection on.
type agents struct {
	scope        *stats.Scope // "http.<prefix>"
	ios, android agentKind
}

type agentKind struct {
	once  sync.Once
	stats agentStats
}

// agentStats are "http.<prefix>.user_agent.<kind>.".
type agentStats struct {
	CxDestroyRemoteActive stats.Counter   `stat:"downstream_cx_destroy_remote_active_rq"`
	CxLength              stats.Histogram `stat:"downstream_cx_length_ms,ms"`
	CxTotal               stats.Counter   `stat:"downstream_cx_total"`
	RqTotal               stats.Counter   `stat:"downstream_rq_total"`
}

// of are the statistics for a user agent; nil for most.
func (a *agents) of(userAgent string) *agentStats {
	switch {
	case strings.Contains(userAgent, "iOS"):
		return a.ios.of(a.scope, "user_agent.ios")
	case strings.Contains(userAgent, "android"):
		return a.android.of(a.scope, "user_agent.android")
	}
	return nil
}

func (k *agentKind) of(scope *stats.Scope, prefix string) *agentStats {
	k.once.Do(func() { scope.Scope(prefix).Fill(&k.stats) })
	return &k.stats
}

// agentOf counts a request for the kind of its connection, which the first
// request tells.
func (c *Conn) agentOf(req *header.Map) {
	if c.requests == 1 {
		if c.agent = c.cfg.agents.of(req.GetID(header.UserAgent)); c.agent != nil {
			c.sv.W.Stats.Inc(c.agent.CxTotal)
		}
	}
	if c.agent != nil {
		c.sv.W.Stats.Inc(c.agent.RqTotal)
	}
}

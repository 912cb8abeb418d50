package cluster

import (
	"context"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// View is what /clusters says of a cluster.
type View struct {
	Name, ObservabilityName string
	AddedViaAPI             bool
	// EDSServiceName is the configured one, empty if there is none.
	EDSServiceName string
	// Default and High are the limits of the two routing priorities.
	Default, High LimitsView
	// Hosts are by priority.
	Hosts []HostView
}

// LimitsView is the limits of one routing priority.
type LimitsView struct {
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries uint64
}

// HostView is what /clusters says of a host.
type HostView struct {
	Address         filter.Address
	Hostname        string
	Counts          HostCounts
	Active          HostActive
	Weight          uint32
	Locality        Locality
	Canary          bool
	Priority        uint32
	EDSHealth       corev3.HealthStatus
	HealthFlagsText string
	Flags           Flags
}

// HostCounts are the values of a host's counters.
type HostCounts struct {
	CxConnectFail, CxTotal, RqError, RqSuccess, RqTimeout, RqTotal uint64
}

// HostActive are the values of a host's gauges.
type HostActive struct{ Cx, Rq, RqPending int64 }

// View is what /clusters says of the cluster now. It asks the workers for the
// counters of the hosts, and fails when ctx ends before they answer.
func (c *Cluster) View(ctx context.Context) (View, error) {
	v := View{
		Name: c.Name(), ObservabilityName: c.ObservabilityName(),
		EDSServiceName: c.proto.GetEdsClusterConfig().GetServiceName(),
		Default:        c.breakers[DefaultPriority].view(), High: c.breakers[HighPriority].view(),
	}
	hosts := hostsIn(c.latest())
	var ids []stats.Counter
	for _, h := range hosts {
		ids = append(ids, h.Stats.list()...)
	}
	values, _, err := c.hostReg.Sum(ctx, ids, nil)
	if err != nil {
		return v, fmt.Errorf("cluster %q: %w", c.Name(), err)
	}
	for i, h := range hosts {
		v.Hosts = append(v.Hosts, h.view(values[6*i:6*i+6]))
	}
	return v, nil
}

func (b *Breaker) view() LimitsView {
	return LimitsView{b.Cx.Max(), b.Pending.Max(), b.Request.Max(), b.MaxRetries()}
}

func (h *Host) view(counts []uint64) HostView {
	a := h.Attributes()
	return HostView{
		Address: h.Address(), Hostname: h.hostname, Weight: a.Weight, Locality: a.Locality, Canary: a.Canary,
		Priority: a.Priority, EDSHealth: a.EDSHealth, HealthFlagsText: h.HealthFlags(), Flags: h.Flags(),
		Counts: HostCounts{counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]},
		Active: HostActive{h.CxActive(), h.RqActive(), h.RqPending()},
	}
}

package cluster

import (
	"slices"
	"strings"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// Locality is where hosts are (envoy.config.core.v3.Locality).
type Locality struct{ Region, Zone, SubZone string }

func (l Locality) less(o Locality) bool {
	if l.Region != o.Region {
		return l.Region < o.Region
	}
	if l.Zone != o.Zone {
		return l.Zone < o.Zone
	}
	return l.SubZone < o.SubZone
}

// Health is what load balancing makes of a host.
type Health uint8

// The healths of a host.
const (
	Healthy Health = iota
	Degraded
	Unhealthy
)

// Attributes are what may change about a host while it stays the same host.
// They are immutable.
type Attributes struct {
	// Weight is load_balancing_weight, at least 1.
	Weight   uint32
	Priority uint32
	Locality Locality
	// EDSHealth is lb_endpoint.health_status as configured.
	EDSHealth corev3.HealthStatus
	// Metadata is the endpoint's, LocalityMetadata its locality's; may be nil.
	Metadata, LocalityMetadata *corev3.Metadata
	// Canary is envoy.lb's canary of the endpoint's metadata.
	Canary bool
	// TransportSocket is the index into [Cluster.TransportSocketMatches] that
	// the metadata select, or -1 for the cluster's own transport_socket
	// (TS-23).
	TransportSocket int

	zone    *CodeTree
	subsets *subset.Memberships // nil in clusters without
}

// ZoneCodes are the counters zone.<this proxy's zone>.<the host's zone>, nil
// unless both zones are known.
func (a *Attributes) ZoneCodes() *CodeTree { return a.zone }

// health is what the configured status makes of the host (CM-12).
func (a *Attributes) health() Health {
	switch a.EDSHealth {
	case corev3.HealthStatus_UNHEALTHY, corev3.HealthStatus_TIMEOUT, corev3.HealthStatus_DRAINING:
		return Unhealthy
	case corev3.HealthStatus_DEGRADED:
		return Degraded
	default:
		return Healthy
	}
}

func (a *Attributes) equal(o *Attributes) bool {
	return a.Weight == o.Weight && a.Priority == o.Priority && a.Locality == o.Locality &&
		a.EDSHealth == o.EDSHealth && a.Canary == o.Canary && a.TransportSocket == o.TransportSocket &&
		proto.Equal(a.Metadata, o.Metadata) && proto.Equal(a.LocalityMetadata, o.LocalityMetadata)
}

// HostStats are the numbers of a host's own counters (CM-30). They are hidden:
// /clusters shows them, /stats does not.
type HostStats struct {
	CxConnectFail, CxTotal, RqError, RqSuccess, RqTimeout, RqTotal stats.Counter
}

// list is the counters in the order in which /clusters shows them as JSON.
func (s *HostStats) list() []stats.Counter {
	return []stats.Counter{s.CxConnectFail, s.CxTotal, s.RqError, s.RqSuccess, s.RqTimeout, s.RqTotal}
}

// Host is one upstream address of a cluster. The pointer is its identity (CM-17):
// it stays the same for as long as the cluster has the address under the same
// hostname. Safe for concurrent use.
type Host struct {
	// logical hosts keep their identity when their addresses change (CM-08).
	logical  bool
	where    atomic.Pointer[addresses]
	hostname string
	maxCx    uint64
	attrs    atomic.Pointer[Attributes]
	removed  atomic.Bool
	flags    atomic.Uint32 // Flags
	first    addresses     // that where begins with
	check    *checkTarget  // nil if checks go where requests go

	allActive *count // the cluster's requests, nil where nobody asks

	// Stats are the host's counters, counted by the workers.
	Stats HostStats

	// These change with each request, and are nil until there is one.
	rqActive, cxActive, pending atomic.Pointer[count]
}

// addresses are where a host is.
type addresses struct {
	first filter.Address
	more  []filter.Address
}

func (a *addresses) equal(o *addresses) bool {
	return a.first == o.first && slices.Equal(a.more, o.more)
}

// Address is where to connect to. That of the host of a LOGICAL_DNS cluster is
// the first of the latest answer: connections to an earlier one stay.
func (h *Host) Address() filter.Address { return h.where.Load().first }

// AdditionalAddresses are further addresses of the same host, to be raced when
// connecting (CM-09).
func (h *Host) AdditionalAddresses() []filter.Address { return h.where.Load().more }

// Hostname is endpoint.hostname, or the name that was resolved; may be empty.
func (h *Host) Hostname() string { return h.hostname }

// Attributes are the host's present attributes.
func (h *Host) Attributes() *Attributes { return h.attrs.Load() }

// Weight is the host's present weight, at least 1.
func (h *Host) Weight() uint32 { return h.attrs.Load().Weight }

// Removed reports whether the cluster no longer has the host: its idle
// connections are to be closed, and no new request may go to it (CM-25).
func (h *Host) Removed() bool { return h.removed.Load() }

// RqActive is the number of requests under way to the host, over all workers.
func (h *Host) RqActive() int64 { return counted(&h.rqActive) }

// AddRqActive counts a request that begins (1) or ends (-1).
func (h *Host) AddRqActive(d int64) {
	counting(&h.rqActive).Add(d)
	if h.allActive != nil {
		h.allActive.n.Add(d)
	}
}

// RqPending is the number of requests that wait for a connection to the host.
func (h *Host) RqPending() int64 { return counted(&h.pending) }

// AddRqPending counts a request that begins (1) or ends (-1) to wait.
func (h *Host) AddRqPending(d int64) { counting(&h.pending).Add(d) }

// CxActive is the number of connections to the host, over all workers.
func (h *Host) CxActive() int64 { return counted(&h.cxActive) }

// TryCx counts a new connection unless the host has as many as
// per_host_thresholds.max_connections allows (CB-05). Each success is followed
// by one ReleaseCx.
func (h *Host) TryCx() bool { return tryAdd(counting(&h.cxActive), h.maxCx) }

// ReleaseCx counts the end of a connection that TryCx allowed.
func (h *Host) ReleaseCx() { counting(&h.cxActive).Add(-1) }

// String is the address, for logs.
func (h *Host) String() string { return h.where.Load().first.String() }

// key is the identity of the host for updates.
func (h *Host) key() string { return hostKey(h.logical, h.where.Load(), h.hostname, h.check) }

func hostKey(logical bool, where *addresses, hostname string, check *checkTarget) string {
	if logical {
		return hostname
	}
	var b strings.Builder
	check.appendTo(&b)
	b.WriteString(where.first.String())
	for i := range where.more {
		b.WriteByte(',')
		b.WriteString(where.more[i].String())
	}
	b.WriteByte('\n')
	b.WriteString(hostname)
	return b.String()
}

// isCanary reads envoy.lb: {canary: true}.
func isCanary(m *corev3.Metadata) bool {
	return m.GetFilterMetadata()["envoy.lb"].GetFields()["canary"].GetBoolValue()
}

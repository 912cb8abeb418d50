package cluster

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Flags are what is known of a host's health besides what its endpoint's
// configuration says (HK-12).
type Flags uint32

// The flags. PendingRemoval is the cluster's own; the others are set by whoever
// checks the host.
const (
	// FailedActive takes the host out: it has failed its active health checks, or
	// was not checked yet.
	FailedActive Flags = 1 << iota
	// DegradedActive makes the host a degraded one: a check said so.
	DegradedActive
	// PendingRemoval marks a host that discovery no longer has, and that stays
	// while it is healthy (CM-12).
	PendingRemoval
	// PendingActive leaves a host that was not checked yet out of the number of
	// hosts (ignore_new_hosts_until_first_hc).
	PendingActive
	// ExcludedByFailure leaves out a host that said itself that it fails
	// (x-envoy-immediate-health-check-fail).
	ExcludedByFailure
	// ActiveTimeout tells that the last of the failed checks got no answer in time.
	ActiveTimeout

	checkFlags = FailedActive | DegradedActive | PendingActive | ExcludedByFailure | ActiveTimeout
)

// visible are the flags that load balancing looks at.
const visible = FailedActive | DegradedActive | PendingActive | ExcludedByFailure

// Flags are the host's present flags.
func (h *Host) Flags() Flags { return Flags(h.flags.Load()) }

// setFlags replaces the flags of a mask and returns those from before.
func (h *Host) setFlags(mask, to Flags) (before Flags) {
	for {
		old := h.flags.Load()
		if h.flags.CompareAndSwap(old, old&^uint32(mask)|uint32(to&mask)) {
			return Flags(old)
		}
	}
}

// Health is what the configured status and the checks make of the host (CM-12).
func (h *Host) Health() Health {
	f, byConfig := h.Flags(), h.Attributes().health()
	switch {
	case f&FailedActive != 0 || byConfig == Unhealthy:
		return Unhealthy
	case f&DegradedActive != 0:
		return Degraded
	}
	return byConfig
}

// Excluded reports whether the host is left out of the number of hosts that
// the share of healthy ones is counted of (LB-14).
func (h *Host) Excluded() bool {
	return h.Flags()&(PendingActive|ExcludedByFailure) != 0 || h.Attributes().EDSHealth == corev3.HealthStatus_DRAINING
}

// HealthFlags is the text of health_flags in /clusters, in Envoy's order.
func (h *Host) HealthFlags() string {
	f, eds := h.Flags(), h.Attributes().EDSHealth
	var b strings.Builder
	for _, x := range []struct {
		set  bool
		name string
	}{
		{f&FailedActive != 0, "/failed_active_hc"},
		{eds == corev3.HealthStatus_UNHEALTHY || eds == corev3.HealthStatus_TIMEOUT, "/failed_eds_health"},
		{f&DegradedActive != 0, "/degraded_active_hc"},
		{eds == corev3.HealthStatus_DEGRADED, "/degraded_eds_health"},
		{f&PendingRemoval != 0, "/pending_dynamic_removal"},
		{f&PendingActive != 0, "/pending_active_hc"},
		{f&ExcludedByFailure != 0, "/excluded_via_immediate_hc_fail"},
		{f&ActiveTimeout != 0, "/active_hc_timeout"},
		{eds == corev3.HealthStatus_DRAINING, "/eds_status_draining"},
	} {
		if x.set {
			b.WriteString(x.name)
		}
	}
	if b.Len() == 0 {
		return "healthy"
	}
	return b.String()
}

// Checked tells whether the cluster has active health checks (HK-01).
func (c *Cluster) Checked() bool { return c.checked }

// Used reports whether a connection to some host of the cluster was ever asked for
// (HK-07). Safe for concurrent use.
func (c *Cluster) Used() bool {
	for _, b := range c.breakers {
		if b.Cx.used() {
			return true
		}
	}
	return c.dialled.Load()
}

// Dialled notes a connection that is not of a pool.
func (c *Cluster) Dialled() { c.dialled.Store(true) }

// FailedByItself says that a response of a host says that it fails
// (x-envoy-immediate-health-check-fail): it is taken out as one that fails a check.
// Safe for concurrent use; it does not block.
func (c *Cluster) FailedByItself(h *Host) {
	if !c.checked || h.check.skipped() || c.onFailure == nil {
		return
	}
	h.setFlags(ExcludedByFailure, ExcludedByFailure)
	c.stale.Store(true)
	c.onFailure(h)
}

// SetHealth tells what the checks of a host found: flags are all but PendingRemoval.
// It reports whether that is a change for load balancing, which [Cluster.Rebalance]
// puts in force. Calls for one host are made one at a time.
func (c *Cluster) SetHealth(h *Host, flags Flags) bool {
	before := h.setFlags(checkFlags, flags)
	if flags&FailedActive != 0 && before&FailedActive == 0 {
		c.healthMu.Lock()
		c.failing = append(c.failing, h)
		c.healthMu.Unlock()
	}
	if before&visible != flags&visible {
		c.stale.Store(true)
	}
	return c.stale.Load()
}

// Rebalance makes a new set of hosts after their health has changed: once for all
// changes before it, whoever calls it. A host that discovery does not have any more
// goes when it fails (CM-12). Safe for concurrent use.
func (c *Cluster) Rebalance() {
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	if !c.stale.Swap(false) {
		return
	}
	c.healthMu.Lock()
	failing := c.failing
	c.failing = nil
	c.healthMu.Unlock()
	c.reassess(failing)
}

// reassess makes the set of hosts anew. As in Envoy that touches all priorities.
// c.updateMu is held.
func (c *Cluster) reassess(failing []*Host) {
	var hosts, removed []*Host
	known := c.latest()
	for _, h := range hostsIn(known) {
		if f := h.Flags(); f&PendingRemoval != 0 && f&FailedActive != 0 {
			removed = append(removed, h)
			continue
		}
		hosts = append(hosts, h)
	}
	var t touches
	t.alterAll(len(known))
	t.hosts(removed)
	for _, h := range removed {
		h.removed.Store(true)
	}
	c.sink.Add(c.Stats.MembershipChange, t.moved())
	c.put(buildPriorities(hosts, c.assignment.weights), &change{touches: t})
	c.told(Update{Hosts: c.Hosts(), Removed: removed, Failed: failing})
}

// told tells of an update, and looks whether the cluster waits for it. c.updateMu is
// held.
func (c *Cluster) told(u Update) {
	if c.onUpdate != nil {
		c.onUpdate(u)
	}
	for _, h := range u.Removed {
		c.firstChecked(h)
	}
}

// nowKnown is hostsKnown for those that do not hold c.updateMu.
func (c *Cluster) nowKnown() {
	if c.known.Load() {
		return
	}
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	c.hostsKnown()
}

// hostsKnown says that the first hosts are known: the cluster is ready, or will be
// when each was checked once (CM-04).
func (c *Cluster) hostsKnown() {
	if c.known.Swap(true) {
		return
	}
	if c.checked {
		c.unchecked = make(map[*Host]struct{})
		for _, h := range c.Hosts().Hosts() {
			if !h.check.skipped() {
				c.unchecked[h] = struct{}{}
			}
		}
	}
	if len(c.unchecked) == 0 {
		c.setReady()
	}
}

// FirstChecked says that all checks of a host have had a result. The cluster is
// ready after those of its first hosts (CM-04). Safe for concurrent use.
func (c *Cluster) FirstChecked(h *Host) {
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	c.firstChecked(h)
}

func (c *Cluster) firstChecked(h *Host) {
	if _, waits := c.unchecked[h]; !waits {
		return
	}
	delete(c.unchecked, h)
	if len(c.unchecked) == 0 {
		c.setReady()
	}
}

// stays reports whether a host that discovery does not have any more is kept: one
// that passes its checks (CM-12).
func (c *Cluster) stays(h *Host) bool {
	return c.checked && !c.proto.GetIgnoreHealthOnHostRemoval() && !h.check.skipped() &&
		h.Flags()&FailedActive == 0 && h.Attributes().health() != Unhealthy
}

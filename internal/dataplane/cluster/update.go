package cluster

import (
	"runtime"
	"slices"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Update is what a change of the hosts did.
type Update struct {
	// Hosts is the set in force. What has changed of weights, health and metadata may
	// not be in it before the end of the merge window.
	Hosts *HostSet
	// Added and Removed are the hosts that came and went. The connections of
	// removed hosts are to be drained (CM-25).
	Added, Removed []*Host
	// Failed are the hosts that have failed their health checks. Their pools are to
	// be drained too, and perhaps their connections cut (CM-25).
	Failed []*Host
}

// change is what an update makes of the hosts.
type change struct {
	hosts, added, removed []*Host
	touches               touches
	extra                 bool // something that no priority waits with
	batch                 bool // it came together, by EDS
}

// reconcile makes the hosts of specs, keeping those of old that are the same
// (CM-17). It is called by the one goroutine that updates the cluster.
func (c *Cluster) reconcile(ch *change, old []*Host, specs []hostSpec) {
	left := newLeftover(old)
	ch.hosts = make([]*Host, 0, len(specs))
	var last *Host
	for i := range specs {
		s := &specs[i]
		h := left.take(s)
		if h == nil {
			h = c.newHost(s, last)
			ch.hosts, ch.added, last = append(ch.hosts, h), append(ch.added, h), h
			continue
		}
		h.setFlags(PendingRemoval, 0)
		if !h.where.Load().equal(&s.where) { // a logical host moved
			where := s.where
			h.where.Store(&where)
			ch.extra = true
		}
		if was := h.Attributes(); !was.equal(&s.attrs) {
			ch.touches.attributes(was, &s.attrs)
			c.store(h, &s.attrs, last)
		}
		ch.hosts, last = append(ch.hosts, h), h
	}
	ch.removed = left.rest()
}

func (c *Cluster) newHost(s *hostSpec, before *Host) *Host {
	// Nothing of s is kept: it is one of many in one piece of memory.
	h := &Host{logical: s.logical, hostname: s.hostname, maxCx: c.perHostCx, first: s.where, check: s.check, allActive: c.active}
	h.where.Store(&h.first)
	if c.checked && !h.check.skipped() { // until the first check (HK-02)
		flags := FailedActive
		if c.proto.GetCommonLbConfig().GetIgnoreNewHostsUntilFirstHc() {
			flags |= PendingActive
		}
		h.setFlags(flags, flags)
	}
	c.store(h, &s.attrs, before)
	reg := c.hostReg
	h.Stats = HostStats{
		CxConnectFail: reg.Counter(), CxTotal: reg.Counter(), RqError: reg.Counter(),
		RqSuccess: reg.Counter(), RqTimeout: reg.Counter(), RqTotal: reg.Counter(),
	}
	// Whoever counts for the host holds it: when nobody does, nobody will.
	runtime.AddCleanup(h, reg.Discard, h.Stats.list())
	return h
}

// store gives a host attributes, those of the host before if they are the same:
// mostly all hosts of a locality have the same.
func (c *Cluster) store(h *Host, attrs *Attributes, before *Host) {
	if before != nil {
		same := before.Attributes()
		without := *same
		without.zone, without.subsets = nil, nil // they follow from the others
		if without == *attrs {
			h.attrs.Store(same)
			return
		}
	}
	a := *attrs
	if c.localZone != "" && a.Locality.Zone != "" {
		a.zone = c.Stats.Codes.Zone(c.localZone, a.Locality.Zone)
	}
	if c.LB.Subsets != nil {
		a.subsets = c.LB.Subsets.Of(a.Metadata)
	}
	h.attrs.Store(&a)
}

// apply replaces the hosts by those of specs. It reports whether anything
// changed.
func (c *Cluster) apply(specs []hostSpec) bool {
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	return c.replace(specs, change{})
}

// replace is apply with c.updateMu held, and with what has changed besides the hosts.
func (c *Cluster) replace(specs []hostSpec, ch change) bool {
	for i := range specs {
		c.countMatch(specs[i].attrs.TransportSocket)
	}
	var old []*Host
	if c.hosts.Load() == nil {
		ch.extra = true
	} else {
		old = hostsIn(c.latest())
	}
	c.reconcile(&ch, old, specs)
	if c.checked {
		ch.hosts, ch.removed = c.keep(ch.hosts, ch.removed)
	}
	ch.touches.hosts(ch.added)
	ch.touches.hosts(ch.removed)
	if !ch.touches.any() {
		// Else the order comes in force with the rest.
		ch.extra = ch.extra || !sameOrder(old, ch.hosts)
		if !ch.extra {
			return false
		}
	}
	c.sink.Add(c.Stats.MembershipChange, ch.touches.moved())
	for _, h := range ch.removed {
		h.removed.Store(true)
	}
	c.put(buildPriorities(ch.hosts, c.assignment.weights), &ch)
	c.told(Update{Hosts: c.Hosts(), Added: ch.added, Removed: ch.removed})
	return true
}

// keep keeps the hosts that are gone and healthy (CM-12). One whose address is there
// still, as another host, is not kept.
func (c *Cluster) keep(hosts, gone []*Host) (all, removed []*Host) {
	there := make(map[filter.Address]bool, len(hosts))
	for _, h := range hosts {
		there[h.Address()] = true
	}
	for _, h := range gone {
		if !c.stays(h) || there[h.Address()] {
			removed = append(removed, h)
			continue
		}
		h.setFlags(PendingRemoval, PendingRemoval)
		hosts = append(hosts, h)
	}
	return hosts, removed
}

// sameOrder reports whether hosts are in the order in which they were.
func sameOrder(before, now []*Host) bool {
	if slices.Equal(before, now) {
		return true
	}
	// Both are by priority once they are in a set; the order of specs within a
	// priority is all that can differ.
	rank := make(map[*Host]int, len(before))
	for i, h := range before {
		rank[h] = i
	}
	last := make(map[uint32]int)
	for _, h := range now {
		p := h.Attributes().Priority
		if r, seen := last[p]; seen && rank[h] < r {
			return false
		}
		last[p] = rank[h]
	}
	return true
}

// publish makes priorities the present hosts.
func (c *Cluster) publish(priorities []Priority) {
	c.tuneMu.Lock()
	defer c.tuneMu.Unlock()
	set := &HostSet{
		Priorities:             priorities,
		OverprovisioningFactor: c.assignment.overprov,
		WeightedPriorityHealth: c.assignment.weighted,
		PanicThreshold:         c.panicThreshold,
		ActiveRequestBias:      c.activeRequestBias,
		drop:                   c.assignment.drop,
	}
	c.prepare(set, c.hosts.Load())
	c.hosts.Store(set)
}

// prepare adds to a set what the policy needs besides the hosts.
func (c *Cluster) prepare(set, before *HostSet) {
	if c.LB.Subsets != nil {
		c.divide(set, before)
		return
	}
	c.hash(set, before)
}

// PublishGauges sets the gauges that are computed when they are looked at:
// membership and circuit breakers. Call it before statistics are read. Safe
// for concurrent use.
func (c *Cluster) PublishGauges() {
	known := c.latest()
	total, healthy, degraded, excluded := totals(known)
	s, sink := c.Stats, c.sink
	sink.GaugeSet(s.MembershipTotal, int64(total))
	sink.GaugeSet(s.MembershipHealthy, int64(healthy))
	sink.GaugeSet(s.MembershipDegraded, int64(degraded))
	sink.GaugeSet(s.MembershipExcluded, int64(excluded))
	sink.GaugeSet(s.WarmingState, flag(!c.isReady()))
	if c.kind == kindStrictDNS || c.kind == kindEDS {
		sink.GaugeSet(s.MaxHostWeight, int64(maxWeight(known)))
	}
	if c.LB.Subsets != nil {
		c.gaugeSubsets(c.Hosts().Subsets)
	}
	for p, b := range c.breakers {
		b.publish(sink, &s.breakers[p])
	}
}

// publish sets the gauges of one breaker set. As in Envoy those that say what
// is full are set only once the resource was used.
func (b *Breaker) publish(sink Sink, g *breakerGauges) {
	open := func(r *Resource, id stats.Gauge, limit uint64) {
		if r.used() {
			sink.GaugeSet(id, flag(isOpen(r.Count(), limit)))
		}
	}
	maxRetries := b.MaxRetries()
	open(&b.Cx, g.CxOpen, b.Cx.Max())
	open(&b.CxPool, g.CxPoolOpen, b.CxPool.Max())
	open(&b.Request, g.RqOpen, b.Request.Max())
	open(&b.Pending, g.RqPendingOpen, b.Pending.Max())
	open(&b.retries, g.RqRetryOpen, maxRetries)
	if g.left == nil {
		return
	}
	sink.GaugeSet(g.left.Cx, int64(b.Cx.Remaining()))
	sink.GaugeSetUint(g.left.CxPools, b.CxPool.Remaining()) // without a limit all 64 bits
	sink.GaugeSet(g.left.Pending, int64(b.Pending.Remaining()))
	sink.GaugeSet(g.left.Retries, int64(remaining(b.Retries(), maxRetries)))
	sink.GaugeSet(g.left.Rq, int64(b.Request.Remaining()))
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// maxWeight is the largest weight of a host, at least 1, as Envoy measures it.
func maxWeight(of []Priority) uint32 {
	m := uint32(1)
	for i := range of {
		for _, h := range of[i].Hosts {
			m = max(m, h.Weight())
		}
	}
	return m
}

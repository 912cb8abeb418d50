package cluster

import "slices"

// HostSet is all hosts of a cluster at one time. It is immutable; a change
// makes a new one.
type HostSet struct {
	// Priorities are indexed by priority; there is always one. A priority that
	// no endpoint has is empty.
	Priorities []Priority
	// OverprovisioningFactor is the policy's overprovisioning_factor in
	// percent, by default 140.
	OverprovisioningFactor uint32
	// WeightedPriorityHealth counts the weight of hosts instead of their number
	// when the health of a priority is measured.
	WeightedPriorityHealth bool
	// PanicThreshold is healthy_panic_threshold in percent, by default 50, with
	// what the runtime makes of it.
	PanicThreshold uint32
	// ActiveRequestBias is the least request policy's, with what the runtime
	// makes of it.
	ActiveRequestBias float64
	// Hashed are the tables of policies that hash, by priority; nil of others.
	Hashed []HashTable
	// Subsets are those of the cluster (LB-15); nil of most.
	Subsets *Subsets

	drop Drop
	flat bool // its localities have no weights
}

// Priority is the hosts of one priority.
type Priority struct {
	// Hosts are all; Healthy and Degraded may take traffic; Excluded do not
	// count when the share of healthy ones is measured.
	Hosts, Healthy, Degraded, Excluded []*Host
	// Localities are the same hosts by locality, in the order of their names.
	Localities []LocalityHosts
}

// LocalityHosts are the hosts of one locality and priority.
type LocalityHosts struct {
	Locality Locality
	// Weight is the locality's load_balancing_weight, 0 if it has none.
	Weight                   uint32
	Hosts, Healthy, Degraded []*Host
	Excluded                 int
}

// localityKey names a group of endpoints.
type localityKey struct {
	priority uint32
	locality Locality
}

// buildPriorities sorts hosts into their priorities and localities.
func buildPriorities(hosts []*Host, weights map[localityKey]uint32) []Priority {
	highest := uint32(0)
	for _, h := range hosts {
		highest = max(highest, h.Attributes().Priority)
	}
	for k := range weights {
		highest = max(highest, k.priority)
	}
	ps := make([]Priority, highest+1)
	for _, h := range hosts {
		ps[h.Attributes().Priority].add(h, weights)
	}
	for i := range ps {
		slices.SortStableFunc(ps[i].Localities, func(a, b LocalityHosts) int {
			if a.Locality.less(b.Locality) {
				return -1
			}
			if b.Locality.less(a.Locality) {
				return 1
			}
			return 0
		})
	}
	return ps
}

func (p *Priority) add(h *Host, weights map[localityKey]uint32) {
	a := h.Attributes()
	p.put(p.locality(a.Locality, weights[localityKey{a.Priority, a.Locality}]), h, h.Health(), h.Excluded())
}

// put adds a host to the priority and to one of its localities.
func (p *Priority) put(l *LocalityHosts, h *Host, health Health, excluded bool) {
	p.Hosts = append(p.Hosts, h)
	l.Hosts = append(l.Hosts, h)
	switch health {
	case Healthy:
		p.Healthy = append(p.Healthy, h)
		l.Healthy = append(l.Healthy, h)
	case Degraded:
		p.Degraded = append(p.Degraded, h)
		l.Degraded = append(l.Degraded, h)
	}
	if excluded {
		p.Excluded = append(p.Excluded, h)
		l.Excluded++
	}
}

func (p *Priority) locality(key Locality, weight uint32) *LocalityHosts {
	for i := range p.Localities {
		if p.Localities[i].Locality == key {
			return &p.Localities[i]
		}
	}
	p.Localities = append(p.Localities, LocalityHosts{Locality: key, Weight: weight})
	return &p.Localities[len(p.Localities)-1]
}

// totals are the numbers behind the membership gauges.
func totals(of []Priority) (total, healthy, degraded, excluded int) {
	for i := range of {
		p := &of[i]
		total += len(p.Hosts)
		healthy += len(p.Healthy)
		degraded += len(p.Degraded)
		excluded += len(p.Excluded)
	}
	return total, healthy, degraded, excluded
}

// Hosts lists all hosts, by priority and in the order of the configuration.
func (s *HostSet) Hosts() []*Host { return hostsIn(s.Priorities) }

func hostsIn(priorities []Priority) []*Host {
	var all []*Host
	for i := range priorities {
		all = append(all, priorities[i].Hosts...)
	}
	return all
}

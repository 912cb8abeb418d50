// Package priority computes how traffic is spread over the priorities of a cluster by the health of their hosts. It is
// pure.
package priority

// Health is what the share of a priority is computed from. The numbers
// are hosts, or their weights with weighted_priority_health.
type Health struct {
	// Hosts is the number of all hosts, Excluded of those left out of the
	// share, Healthy and Degraded of those that may take traffic.
	Hosts, Excluded, Healthy, Degraded int
	// The weights of Healthy, Degraded and the hosts not excluded; used if
	// Weighted.
	Weighted                                   bool
	HealthyWeight, DegradedWeight, TotalWeight uint64
}

// Loads says how traffic is spread over priorities, in percent. Healthy and
// Degraded add up to 100 together.
type Loads struct {
	Healthy, Degraded []uint32
	// Panic marks priorities that balance over all their hosts, whatever their
	// health.
	Panic []bool
}

// Distribute spreads traffic over priorities (LB-09, LB-10, LB-14).
// overprovisioning is in percent (140); panicThreshold is in percent (50), and
// 0 means no panic. Pure.
func Distribute(ps []Health, overprovisioning, panicThreshold uint32) Loads {
	l := Loads{Healthy: make([]uint32, len(ps)), Degraded: make([]uint32, len(ps)), Panic: make([]bool, len(ps))}
	if len(ps) == 0 {
		return l
	}
	healthy, degraded := make([]uint32, len(ps)), make([]uint32, len(ps))
	available := uint32(0)
	for i := range ps {
		healthy[i], degraded[i] = ps[i].availability(overprovisioning)
		available += healthy[i] + degraded[i]
	}
	available = min(available, 100)
	if available > 0 {
		l.spread(healthy, degraded, available)
	}
	if panicThreshold == 0 && available == 0 {
		l.Healthy[0] = 100 // all hosts are down, and no panic: the pick will fail
		return l
	}
	everywhere := true
	for i := range ps {
		l.Panic[i] = available < 100 && ps[i].panics(panicThreshold)
		everywhere = everywhere && l.Panic[i]
	}
	if everywhere {
		l.byHosts(ps)
	}
	return l
}

// availability is the share of traffic a priority could take, in percent, by
// its healthy and its degraded hosts.
func (p *Health) availability(overprovisioning uint32) (healthy, degraded uint32) {
	if p.Hosts <= p.Excluded {
		return 0, 0
	}
	h, d, total := uint64(p.Healthy), uint64(p.Degraded), uint64(p.Hosts-p.Excluded)
	if p.Weighted {
		h, d, total = p.HealthyWeight, p.DegradedWeight, p.TotalWeight
	}
	if total == 0 {
		return 0, 0
	}
	factor := uint64(overprovisioning)
	return uint32(min(100, factor*h/total)), uint32(min(100, factor*d/total))
}

// panics reports whether too few hosts of the priority can take traffic.
func (p *Health) panics(threshold uint32) bool {
	n := p.Hosts - p.Excluded
	percent := 0.0
	if n > 0 {
		percent = 100*float64(p.Healthy)/float64(n) + 100*float64(p.Degraded)/float64(n)
	}
	return percent < float64(threshold)
}

// spread gives traffic to healthy hosts in the order of the priorities, then
// what is missing to degraded ones; what rounding left over goes to the first
// that can take any.
func (l *Loads) spread(healthy, degraded []uint32, available uint32) {
	firstHealthy, left := fill(l.Healthy, healthy, 100, available)
	firstDegraded, left := fill(l.Degraded, degraded, left, available)
	if firstHealthy >= 0 {
		l.Healthy[firstHealthy] += left
	} else if firstDegraded >= 0 {
		l.Degraded[firstDegraded] += left
	}
}

func fill(load, availability []uint32, total, available uint32) (first int, left uint32) {
	first = -1
	for i, a := range availability {
		if first < 0 && a > 0 {
			first = i
		}
		load[i] = min(total, a*100/available)
		total -= load[i]
	}
	return first, total
}

// byHosts spreads traffic by the number of hosts: every priority panics.
func (l *Loads) byHosts(ps []Health) {
	total := 0
	for i := range ps {
		total += ps[i].Hosts
	}
	if total == 0 {
		l.Healthy[0] = 100
		return
	}
	left, first := uint32(100), -1
	for i := range ps {
		if first < 0 && ps[i].Hosts > 0 {
			first = i
		}
		l.Healthy[i], l.Degraded[i] = uint32(100*ps[i].Hosts/total), 0
		left -= l.Healthy[i]
	}
	l.Healthy[first] += left
}

// Choose picks a priority by a random number.
func (l *Loads) Choose(random uint64) (priority int, degraded bool) {
	at, sum := uint32(random%100)+1, uint32(0)
	for i, load := range l.Healthy {
		if sum += load; at <= sum {
			return i, false
		}
	}
	for i, load := range l.Degraded {
		if sum += load; at <= sum {
			return i, true
		}
	}
	return 0, false
}

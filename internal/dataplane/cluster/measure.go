package cluster

import "github.com/xebec-proxy/xebec/internal/dataplane/priority"

// Loads is how traffic is spread over the priorities.
func (s *HostSet) Loads() priority.Loads {
	return priority.Distribute(measure(s), s.OverprovisioningFactor, s.PanicThreshold)
}

// measure counts what priority.Distribute needs of a set of hosts.
func measure(s *HostSet) []priority.Health {
	ps := make([]priority.Health, len(s.Priorities))
	for i := range s.Priorities {
		p := &s.Priorities[i]
		ps[i] = priority.Health{
			Hosts: len(p.Hosts), Excluded: len(p.Excluded), Healthy: len(p.Healthy), Degraded: len(p.Degraded),
			Weighted: s.WeightedPriorityHealth,
		}
		if s.WeightedPriorityHealth {
			ps[i].HealthyWeight, ps[i].DegradedWeight = weightOf(p.Healthy), weightOf(p.Degraded)
			ps[i].TotalWeight = weightOf(p.Hosts) - weightOf(p.Excluded)
		}
	}
	return ps
}

func weightOf(hosts []*Host) (n uint64) {
	for _, h := range hosts {
		n += uint64(h.Weight())
	}
	return n
}

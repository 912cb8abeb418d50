package lb

import (
	"math"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
)

// build makes what the policy needs. Schedules start at a random turn, so that
// workers and proxies do not march in step (LB-02).
func (t *table) build(hosts []*cluster.Host, policy cluster.LBPolicy, bias float64, random Rand) {
	t.built, t.hosts = true, hosts
	if policy == cluster.Random {
		return
	}
	weights, equal := make([]uint32, len(hosts)), true
	for i, h := range hosts {
		weights[i] = h.Weight()
		equal = equal && weights[i] == weights[0]
	}
	start := below(random, len(hosts))
	switch {
	case equal:
		t.next = start
	case policy == cluster.LeastRequest:
		t.edf = newEDF(len(hosts))
		for i, h := range hosts {
			t.edf.add(i, activeWeight(h, bias))
		}
		for range start {
			t.edf.again(activeWeight(hosts[t.edf.due()], bias))
		}
	default:
		t.wrr = newWRR(weights)
		for range start {
			t.wrr.next()
		}
	}
}

func (t *table) roundRobin() *cluster.Host {
	if t.wrr != nil {
		return t.hosts[t.wrr.next()]
	}
	h := t.hosts[t.next]
	if t.next++; t.next == len(t.hosts) {
		t.next = 0
	}
	return h
}

// activeWeight is the weight of a host for least request (LB-03).
func activeWeight(h *cluster.Host, bias float64) float64 {
	w := float64(h.Weight())
	active := float64(max(h.RqActive(), 0) + 1)
	switch bias {
	case 0:
		return w
	case 1:
		return w / active
	default:
		// A weight of zero would never come again.
		return max(w/math.Pow(active, bias), math.SmallestNonzeroFloat64*(1<<60))
	}
}

func (t *table) leastRequest(p *picker) *cluster.Host {
	if t.edf != nil {
		h := t.hosts[t.edf.due()]
		t.edf.again(activeWeight(h, p.set.ActiveRequestBias))
		return h
	}
	if p.cluster.LB.FullScan {
		return leastOfAll(t.hosts, p.random)
	}
	best := t.hosts[below(p.random, len(t.hosts))]
	least := best.RqActive()
	for range p.cluster.LB.ChoiceCount - 1 {
		h := t.hosts[below(p.random, len(t.hosts))]
		if active := h.RqActive(); active < least {
			best, least = h, active
		}
	}
	return best
}

// leastOfAll is the host with the fewest requests, a random one among equals.
func leastOfAll(hosts []*cluster.Host, random Rand) *cluster.Host {
	best, least, ties := hosts[0], hosts[0].RqActive(), 1
	for _, h := range hosts[1:] {
		switch active := h.RqActive(); {
		case active < least:
			best, least, ties = h, active, 1
		case active == least:
			if ties++; below(random, ties) == 0 {
				best = h
			}
		}
	}
	return best
}

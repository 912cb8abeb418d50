package loadreport

import "math"

// maxWeight is the weight of the endpoint that can take most. It leaves room
// for thousands of endpoints in a locality's sum, which EDS limits to 32 bits.
const maxWeight = 10_000

// Weights proposes load-balancing weights for a cluster's endpoints from their
// newest reports (XL-06): the rate of requests begun per unit of the named
// load metric, such as a utilisation, scaled so that the highest is 10,000. An
// endpoint that serves the same rate at half the utilisation thus gets twice
// the weight. Endpoints without requests or without a positive metric are left
// out; keep their weight, or give them the mean of the others. An address that
// occurs in several localities counts once, with its loads added up.
func (c *ClusterLoad) Weights(metric string) map[string]uint32 {
	loads := map[string]*Load{}
	for i := range c.Localities {
		for j := range c.Localities[i].Endpoints {
			e := &c.Localities[i].Endpoints[j]
			if loads[e.Address] == nil {
				loads[e.Address] = &Load{}
			}
			loads[e.Address].collect(&e.Load)
		}
	}
	capacity, most := map[string]float64{}, 0.0
	for address, l := range loads {
		use := l.Latest.Metrics[metric].Mean()
		if per := l.Rates.Issued / use; use > 0 && per > 0 && !math.IsInf(per, 0) {
			capacity[address] = per
			most = max(most, per)
		}
	}
	weights := make(map[string]uint32, len(capacity))
	for address, per := range capacity {
		weights[address] = max(1, uint32(math.Round(per/most*maxWeight)))
	}
	return weights
}

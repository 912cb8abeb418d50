package cluster

import (
	"errors"
	"math"
	"slices"

	"github.com/xebec-proxy/xebec/internal/dataplane/consistent"
)

// HashTable leads from hashes to the hosts of one priority: to the healthy ones,
// or to all in panic. It is immutable.
type HashTable struct {
	// Hosts are those that there are to choose from.
	Hosts []*Host

	members []consistent.Member // in the order of Hosts
	table   consistent.Table
	spread  consistent.Spread
	size    uint64 // of a ring
}

// Choose is the host for a hash, nil if there is none. attempt is 0, and n when n
// hosts were refused before. It takes no lock and does not allocate.
func (t *HashTable) Choose(hash uint64, attempt uint32) *Host {
	i := t.Index(hash, attempt)
	if i < 0 {
		return nil
	}
	return t.Hosts[i]
}

// Index is the index in Hosts of the host for a hash, -1 if there is none.
func (t *HashTable) Index(hash uint64, attempt uint32) int {
	if t.table == nil {
		return -1
	}
	return t.table.Choose(hash, attempt)
}

// Overload is how many requests the host of an index has, as a part of those
// that it may have when the cluster has this many (LB-06): over 1 is too many.
func (t *HashTable) Overload(i int, clusterActive uint64, factor uint32) float64 {
	slots := (uint32(clusterActive)+1)*factor + 99
	own := max(uint32(math.Ceil(float64(slots/100)*t.members[i].Weight)), 1)
	return float64(max(t.Hosts[i].RqActive(), 0)) / float64(own)
}

// RqActive is the number of requests under way to the cluster, over all workers,
// which is counted if the load of its hosts is bounded.
func (c *Cluster) RqActive() uint64 {
	if c.active == nil {
		return 0
	}
	return nonNegative(c.active.n.Load())
}

// hash makes the tables of a set, those of before where nothing of them has
// changed, and sets the statistics. Policies that do not hash have none.
func (c *Cluster) hash(set, before *HostSet) {
	if !c.LB.Policy.Hashes() {
		return
	}
	loads := set.Loads()
	set.Hashed = make([]HashTable, len(set.Priorities))
	for i := range set.Priorities {
		t := &set.Hashed[i]
		t.gather(&set.Priorities[i], loads.Panic[i], &c.LB, c.locality, set.flat)
		if before == nil || i >= len(before.Hashed) || !t.take(&before.Hashed[i]) {
			t.build(&c.LB)
		}
		if len(t.Hosts) > 0 {
			c.Stats.hash.tell(c.sink, t)
		}
	}
}

// gather finds the members.
func (t *HashTable) gather(p *Priority, panics bool, conf *LBConfig, local Locality, flat bool) {
	if !conf.LocalityWeighted || flat {
		hosts := p.Healthy
		if panics {
			hosts = p.Hosts
		}
		t.add(hosts, 1, conf)
		return
	}
	total := uint64(0)
	for i := range p.Localities {
		total += uint64(p.Localities[i].Weight)
	}
	add := func(l *LocalityHosts) {
		hosts := l.Healthy
		if panics {
			hosts = l.Hosts
		}
		if l.Weight > 0 {
			t.add(hosts, float64(l.Weight)/float64(total), conf)
		}
	}
	// As in Envoy the proxy's own locality comes first: where shares are rounded,
	// the order of members counts.
	own := slices.IndexFunc(p.Localities, func(l LocalityHosts) bool { return l.Locality == local })
	if own >= 0 {
		add(&p.Localities[own])
	}
	for i := range p.Localities {
		if i != own {
			add(&p.Localities[i])
		}
	}
}

// add adds hosts that have a share of the traffic together, each by its weight.
func (t *HashTable) add(hosts []*Host, share float64, conf *LBConfig) {
	total := float64(weightOf(hosts))
	t.Hosts, t.members = slices.Grow(t.Hosts, len(hosts)), slices.Grow(t.members, len(hosts))
	for _, h := range hosts {
		t.Hosts = append(t.Hosts, h)
		t.members = append(t.members, consistent.Member{Key: h.hashKey(conf.Hash.ByHostname), Weight: float64(h.Weight()) * share / total})
	}
}

// take takes over the table of before if it has the same members.
func (t *HashTable) take(before *HashTable) bool {
	if !slices.Equal(t.members, before.members) {
		return false
	}
	t.table, t.spread, t.size = before.table, before.spread, before.size
	return true
}

func (t *HashTable) build(conf *LBConfig) {
	if len(t.members) == 0 {
		return
	}
	if conf.Policy == Maglev {
		m := consistent.NewMaglev(t.members, conf.Hash.TableSize)
		t.table, t.spread = m, m.PerMember
		return
	}
	r := consistent.NewRing(t.members, conf.Hash.Ring)
	t.table, t.spread, t.size = r, r.PerMember, r.Size
}

// hashKey places a host: the hash_key of its metadata, its name or its address
// (LB-06).
func (h *Host) hashKey(byHostname bool) string {
	if k := h.Attributes().Metadata.GetFilterMetadata()["envoy.lb"].GetFields()["hash_key"].GetStringValue(); k != "" {
		return k
	}
	if byHostname {
		return h.hostname
	}
	return h.where.Load().first.String()
}

// checkWeights refuses weights of endpoints that a policy that hashes could not
// add up.
func (c *Cluster) checkWeights(a *assignment) error {
	if a == nil || !c.LB.Policy.Hashes() {
		return nil
	}
	hosts, localities := map[uint32]uint64{}, map[uint32]uint64{}
	for i := range a.endpoints {
		hosts[a.endpoints[i].attrs.Priority] += uint64(a.endpoints[i].attrs.Weight)
	}
	for k, w := range a.weights {
		localities[k.priority] += uint64(w)
	}
	for _, sum := range hosts {
		if sum > math.MaxUint32 {
			return errors.New("The sum of weights of all upstream hosts in a locality exceeds 4294967295") //nolint:staticcheck // Envoy's text
		}
	}
	for _, sum := range localities {
		if sum > math.MaxUint32 {
			return errors.New("The sum of weights of all localities at the same priority exceeds 4294967295") //nolint:staticcheck // Envoy's text
		}
	}
	return nil
}

package cluster

import (
	"math"
	"slices"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// Subsets are the subsets of a set of hosts (LB-15). They are immutable.
type Subsets struct {
	// Any is all hosts as those of a subset, Default those that default_subset
	// describes; nil where no request may go there.
	Any, Default *HostSet

	byName     map[string]*Subset
	all        *Subset // that Any is of, unless it is the set itself
	rest       *Subset // that Default is of
	duplicates int     // hosts of subsets that had their one host of this priority
}

// Subset is the hosts of a cluster with the same values for some keys. It is
// immutable, and the same from one set of hosts to the next while nothing of it
// changes.
type Subset struct {
	// Hosts are its hosts; nil if there may be but one, which is Single then.
	Hosts  *HostSet
	Single *Host

	members []member
}

// member is a host of a subset, as it was when the subset was made.
type member struct {
	host     *Host
	attrs    *Attributes
	priority int
	health   Health
	excluded bool
}

// Find is the subset of a name, or nil. It takes no lock and does not allocate.
func (s *Subsets) Find(name []byte) *Subset { return s.byName[string(name)] }

// Named is Find by a name that is a string.
func (s *Subsets) Named(name string) *Subset { return s.byName[name] }

// divide makes the subsets of a set, and keeps those of before of which nothing
// has changed.
func (c *Cluster) divide(set, before *HostSet) {
	conf := c.LB.Subsets
	d := division{all: conf.NeedsAny() && !c.wholeIsAny(), byName: make(map[string]*Subset)}
	for i := range set.Priorities {
		d.add(i, set.Priorities[i].Hosts)
	}
	old := &Subsets{}
	if before != nil && before.Subsets != nil {
		old = before.Subsets
	}
	m := maker{c: c, set: set, same: before != nil && c.sameFrame(set, before)}
	s := &Subsets{byName: d.byName, duplicates: d.duplicates}
	for name, sub := range s.byName {
		if sub.Single == nil {
			s.byName[name] = m.make(sub, old.byName[name])
		}
	}
	switch {
	case d.all:
		s.all = m.make(&d.any, old.all)
		s.Any = s.all.Hosts
	case conf.NeedsAny():
		c.hash(set, before)
		s.Any = set
	}
	if conf.NeedsDefault() {
		s.rest = m.make(&d.standard, old.rest)
		s.Default = s.rest.Hosts
	}
	set.Subsets = s
	c.countSubsets(s, old)
}

// wholeIsAny reports whether any host is chosen as without subsets: unless these
// would take the weights of localities away.
func (c *Cluster) wholeIsAny() bool {
	return !c.LB.LocalityWeighted || c.LB.Subsets.LocalityWeightAware
}

// division sorts hosts into subsets.
type division struct {
	all           bool // whether any is wanted
	byName        map[string]*Subset
	any, standard Subset
	duplicates    int
}

func (d *division) add(priority int, hosts []*Host) {
	var taken map[string]bool // subsets that have their one host of this priority
	for _, h := range hosts {
		a := h.Attributes()
		m := member{h, a, priority, h.Health(), h.Excluded()}
		if d.all {
			d.any.members = append(d.any.members, m)
		}
		if a.subsets.Default {
			d.standard.members = append(d.standard.members, m)
		}
		for _, k := range a.subsets.Subsets {
			sub := d.byName[k.Name]
			if sub == nil {
				sub = &Subset{}
				d.byName[k.Name] = sub
			}
			switch {
			case !k.Single:
				sub.members = append(sub.members, m)
			case taken[k.Name]:
				d.duplicates++
			default:
				if taken == nil {
					taken = make(map[string]bool)
				}
				taken[k.Name] = true
				if sub.Single == nil { // else of an earlier priority
					sub.Single = h
				}
			}
		}
	}
}

// maker makes sets of the members of subsets.
type maker struct {
	c    *Cluster
	set  *HostSet // that they are of
	same bool     // but for its hosts it is as the one before
}

// make completes a subset by the hosts of its members, or is the one of before if
// nothing of it has changed.
func (m *maker) make(s, before *Subset) *Subset {
	if before == nil {
		before = &Subset{}
	}
	if m.same && before.Hosts != nil && slices.Equal(s.members, before.members) {
		return before
	}
	conf := m.c.LB.Subsets
	hosts := *m.set
	hosts.Hashed, hosts.Subsets, hosts.flat = nil, nil, !conf.LocalityWeightAware
	hosts.Priorities = make([]Priority, len(m.set.Priorities))
	for i := range hosts.Priorities {
		hosts.Priorities[i].Localities = emptied(m.set.Priorities[i].Localities, conf)
	}
	for _, k := range s.members {
		p := &hosts.Priorities[k.priority]
		p.put(p.locality(k.attrs.Locality, 0), k.host, k.health, k.excluded)
	}
	if conf.LocalityWeightAware && conf.ScaleLocalityWeight {
		for i := range hosts.Priorities {
			scale(hosts.Priorities[i].Localities, m.set.Priorities[i].Localities)
		}
	}
	m.c.hash(&hosts, before.Hosts)
	s.Hosts = &hosts
	return s
}

// emptied are localities without their hosts, and without their weights if subsets
// do not know of these.
func emptied(of []LocalityHosts, conf *subset.Config) []LocalityHosts {
	out := make([]LocalityHosts, len(of))
	for i := range of {
		out[i].Locality = of[i].Locality
		if conf.LocalityWeightAware {
			out[i].Weight = of[i].Weight
		}
	}
	return out
}

// scale lowers the weights of localities to the part of their hosts that are of
// the subset. It is computed in 32 bits, as in Envoy.
func scale(localities, of []LocalityHosts) {
	for i := range localities[:min(len(localities), len(of))] {
		l, whole := &localities[i], len(of[i].Hosts)
		if whole > 0 {
			l.Weight = uint32(math.Round(float64(float32(uint64(l.Weight)*uint64(len(l.Hosts))) / float32(whole))))
		}
	}
}

// sameFrame reports whether sets differ in their hosts at most, as far as subsets
// depend on it.
func (c *Cluster) sameFrame(a, b *HostSet) bool {
	if a.OverprovisioningFactor != b.OverprovisioningFactor || a.WeightedPriorityHealth != b.WeightedPriorityHealth ||
		a.PanicThreshold != b.PanicThreshold || a.ActiveRequestBias != b.ActiveRequestBias {
		return false
	}
	scaled := c.LB.Subsets.ScaleLocalityWeight
	return slices.EqualFunc(a.Priorities, b.Priorities, func(p, q Priority) bool {
		return slices.EqualFunc(p.Localities, q.Localities, func(l, m LocalityHosts) bool {
			return l.Locality == m.Locality && l.Weight == m.Weight && (!scaled || len(l.Hosts) == len(m.Hosts))
		})
	})
}

// subsetGauge is that of clusters with subsets.
type subsetGauge struct {
	Duplicates stats.Gauge `stat:"lb_subsets_single_host_per_subset_duplicate"`
}

func (s *Stats) registerSubsets(reg Registry, conf *subset.Config) {
	if conf != nil {
		s.subsets = &subsetGauge{}
		stats.Fill(reg, "", s.subsets)
	}
}

// countSubsets counts which have come and gone.
func (c *Cluster) countSubsets(now, before *Subsets) {
	var created, removed uint64
	for name := range now.byName {
		if before.byName[name] == nil {
			created++
		}
	}
	for name := range before.byName {
		if now.byName[name] == nil {
			removed++
		}
	}
	c.sink.Add(c.Stats.LbSubsetsCreated, created)
	c.sink.Add(c.Stats.LbSubsetsRemoved, removed)
}

// Ended says that the cluster serves no more: its subsets count as removed. It is
// called once.
func (c *Cluster) Ended() {
	if c.LB.Subsets == nil {
		return
	}
	c.sink.Add(c.Stats.LbSubsetsRemoved, uint64(len(c.Hosts().Subsets.byName)))
	c.gaugeSubsets(&Subsets{})
}

func (c *Cluster) gaugeSubsets(s *Subsets) {
	c.sink.GaugeSet(c.Stats.LbSubsetsActive, int64(len(s.byName)))
	c.sink.GaugeSet(c.Stats.subsets.Duplicates, int64(s.duplicates))
}

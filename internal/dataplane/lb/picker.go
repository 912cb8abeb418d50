package lb

import (
	"math/bits"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/consistent"
	"github.com/xebec-proxy/xebec/internal/dataplane/priority"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// Rand is a source of random numbers; it is used on one worker.
type Rand interface{ Uint64() uint64 }

// Picker chooses hosts for one worker. Worker-confined.
type Picker interface {
	// Pick returns the host for a request, or nil if there is none (the
	// request is then answered 503, flag UH). It allocates nothing while the
	// cluster's hosts stay the same. ctx may be nil.
	Pick(ctx *Context) *cluster.Host
}

// Context is what a choice may depend on besides the hosts.
type Context struct {
	// Reject says that a host is not wanted, for instance since it was tried
	// before; another is picked, at most Reselect times (
	// host_selection_retry_max_attempts). After that the last one is taken all
	// the same. Nil wants all.
	Reject   func(*cluster.Host) bool
	Reselect int
	// Hasher is asked by policies that hash; nil has no hash.
	Hasher Hasher
	// Criteria are what clusters with subsets look for in the metadata of hosts;
	// nil looks for nothing.
	Criteria *subset.Criteria
}

// picker is the one Picker: the policies differ only in their tables.
type picker struct {
	cluster *cluster.Cluster
	random  Rand
	shard   cluster.Incrementer

	set        *cluster.HostSet // that the rest was made of
	loads      priority.Loads
	alone      bool // all traffic is for the healthy hosts of priority 0
	priorities []tables
	shuffle    *consistent.Shuffle // with hash_balance_factor
}

// tables are those of one priority, each made when it is first needed.
type tables struct {
	hosts             *cluster.Priority
	all, healthy, bad table // bad: the degraded ones
	healthyBy, badBy  localities
}

// localities chooses among the localities of a priority.
type localities struct {
	built    bool
	schedule *edf // nil: no locality has a weight and a usable host
	tables   []table
}

// table chooses among hosts by the cluster's policy.
type table struct {
	built bool
	hosts []*cluster.Host
	next  int  // round robin of equal weights
	wrr   *wrr // round robin of unequal weights
	edf   *edf // least request of unequal weights
}

// NewPicker makes the picker of one worker and cluster. shard counts
// lb_healthy_panic.
func NewPicker(c *cluster.Cluster, random Rand, shard cluster.Incrementer) Picker {
	p := newPicker(c, random, shard)
	if c.LB.Subsets != nil {
		return &divided{picker: p}
	}
	return p
}

func newPicker(c *cluster.Cluster, random Rand, shard cluster.Incrementer) *picker {
	p := &picker{cluster: c, random: random, shard: shard}
	if c.LB.Hash.BalanceFactor > 0 {
		p.shuffle = &consistent.Shuffle{}
	}
	return p
}

// Pick implements Picker.
func (p *picker) Pick(ctx *Context) *cluster.Host {
	return p.among(p.cluster.Hosts(), ctx)
}

// among is Pick out of a set of hosts.
func (p *picker) among(set *cluster.HostSet, ctx *Context) *cluster.Host {
	if set != p.set {
		p.rebuild(set)
	}
	if p.cluster.LB.Policy.Hashes() {
		return p.hashed(ctx)
	}
	h := p.once()
	if h == nil || ctx == nil || ctx.Reject == nil {
		return h
	}
	for range ctx.Reselect {
		if !ctx.Reject(h) {
			return h
		}
		h = p.once()
	}
	return h
}

func (p *picker) rebuild(set *cluster.HostSet) {
	p.set = set
	p.loads = set.Loads()
	p.priorities = make([]tables, len(set.Priorities))
	for i := range set.Priorities {
		p.priorities[i].hosts = &set.Priorities[i]
	}
	p.alone = p.loads.Healthy[0] == 100 && !p.loads.Panic[0]
}

// once chooses a priority and within it a host.
func (p *picker) once() *cluster.Host {
	i, degraded := 0, false
	if !p.alone {
		i, degraded = p.loads.Choose(p.random.Uint64())
	}
	pr := &p.priorities[i]
	if p.loads.Panic[i] {
		p.shard.Inc(p.cluster.Stats.LbHealthyPanic)
		if p.cluster.LB.FailTrafficOnPanic {
			return nil
		}
		return p.from(&pr.all, pr.hosts.Hosts)
	}
	if p.cluster.LB.LocalityWeighted {
		if t, hosts := p.locality(pr, degraded); t != nil {
			return p.from(t, hosts)
		}
	}
	if degraded {
		return p.from(&pr.bad, pr.hosts.Degraded)
	}
	return p.from(&pr.healthy, pr.hosts.Healthy)
}

// locality chooses a locality by its weight and health; nil if none has any.
func (p *picker) locality(pr *tables, degraded bool) (*table, []*cluster.Host) {
	l := &pr.healthyBy
	if degraded {
		l = &pr.badBy
	}
	if !l.built {
		l.build(pr.hosts.Localities, degraded, p.set.OverprovisioningFactor, p.random)
	}
	if l.schedule == nil {
		return nil, nil
	}
	i := l.schedule.due()
	loc := &pr.hosts.Localities[i]
	usable := usableOf(loc, degraded)
	l.schedule.again(LocalityShare(loc.Weight, len(usable), len(loc.Hosts), loc.Excluded, p.set.OverprovisioningFactor))
	return &l.tables[i], usable
}

func usableOf(l *cluster.LocalityHosts, degraded bool) []*cluster.Host {
	if degraded {
		return l.Degraded
	}
	return l.Healthy
}

func (l *localities) build(locs []cluster.LocalityHosts, degraded bool, overprovisioning uint32, random Rand) {
	l.built = true
	l.tables = make([]table, len(locs))
	schedule := newEDF(len(locs))
	share := func(i int) float64 {
		return LocalityShare(locs[i].Weight, len(usableOf(&locs[i], degraded)), len(locs[i].Hosts), locs[i].Excluded, overprovisioning)
	}
	for i := range locs {
		if s := share(i); s > 0 {
			schedule.add(i, s)
		}
	}
	if n := len(schedule.heap); n > 0 {
		l.schedule = schedule
		for range below(random, n) {
			schedule.again(share(schedule.due()))
		}
	}
}

// from picks out of hosts, whose table is made when it is first used.
func (p *picker) from(t *table, hosts []*cluster.Host) *cluster.Host {
	if len(hosts) == 0 {
		return nil
	}
	if !t.built {
		t.build(hosts, p.cluster.LB.Policy, p.set.ActiveRequestBias, p.random)
	}
	switch p.cluster.LB.Policy {
	case cluster.Random:
		return hosts[below(p.random, len(hosts))]
	case cluster.LeastRequest:
		return t.leastRequest(p)
	default:
		return t.roundRobin()
	}
}

// below is a random number from 0 to n-1, n > 0.
func below(r Rand, n int) int {
	hi, _ := bits.Mul64(r.Uint64(), uint64(n))
	return int(hi)
}

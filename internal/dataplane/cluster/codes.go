package cluster

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Codes are the counters of responses by code: of the cluster itself and of
// its subtrees. All are registered at first use, as in Envoy. Safe for
// concurrent use; neither locks nor allocates once a counter is known.
type Codes struct {
	// All counts every final response, Internal and External those to requests
	// from inside and outside the mesh, Canary those of canary hosts, Retry
	// those that a retry replaced.
	All, Internal, External, Canary, Retry CodeTree

	reg    Registry
	prefix string
	mu     sync.Mutex // held to add a zone or an alternative
	zones  atomic.Pointer[map[zonePair]*CodeTree]
	alts   atomic.Pointer[map[string]*Codes]
}

type zonePair struct{ from, to string }

func (c *Codes) init(reg Registry) { c.below(reg, "") }

func (c *Codes) below(reg Registry, prefix string) {
	c.reg, c.prefix = reg, prefix
	c.All.init(reg, prefix)
	c.Internal.init(reg, prefix+"internal.")
	c.External.init(reg, prefix+"external.")
	c.Canary.init(reg, prefix+"canary.")
	c.Retry.init(reg, prefix+"retry.")
}

// Bounds of the names that requests may give: who sends them is trusted to mean
// well, and not to count.
const (
	maxAlternatives    = 64
	maxAlternativeName = 128 // bytes
)

// Alternative are the same counters below a name that requests give
// (x-envoy-upstream-alt-stat-name); nil for a name that is empty, longer than
// 128 bytes, or one more than the 64 that a cluster counts by.
func (c *Codes) Alternative(name string) *Codes {
	known := c.alts.Load()
	if known != nil {
		if a := (*known)[name]; a != nil || len(*known) >= maxAlternatives {
			return a
		}
	}
	if name == "" || len(name) > maxAlternativeName {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[string]*Codes)
	if m := c.alts.Load(); m != nil {
		if a := (*m)[name]; a != nil || len(*m) >= maxAlternatives {
			return a
		}
		maps.Copy(next, *m)
	}
	a := &Codes{}
	name = strings.Clone(name) // a request's
	a.below(c.reg, c.prefix+name+".")
	next[name] = a
	c.alts.Store(&next)
	return a
}

// Zone is the tree zone.<from>.<to>: requests from this proxy's zone to the
// zone of a host.
func (c *Codes) Zone(from, to string) *CodeTree {
	key := zonePair{from, to}
	if m := c.zones.Load(); m != nil {
		if t, ok := (*m)[key]; ok {
			return t
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[zonePair]*CodeTree)
	if m := c.zones.Load(); m != nil {
		if t, ok := (*m)[key]; ok {
			return t
		}
		maps.Copy(next, *m)
	}
	t := &CodeTree{}
	t.init(c.reg, c.prefix+"zone."+from+"."+to+".")
	next[key] = t
	c.zones.Store(&next)
	return t
}

// CodeTree is the counters upstream_rq_<code>, upstream_rq_<class>xx,
// upstream_rq_completed and the histogram upstream_rq_time below one prefix.
// Safe for concurrent use.
type CodeTree struct {
	reg    Registry
	prefix string
	ids    atomic.Pointer[codeIDs] // nil before the first response
}

// codeIDs are the numbers of a tree's statistics.
type codeIDs struct {
	codes     [5]atomic.Pointer[[100]lazyID] // 100 to 599, each hundred at its first use
	unknown   lazyID                         // any other
	classes   [5]lazyID
	completed lazyID
	time      lazyID
}

// lazyID is a statistic's number plus one; zero until it is registered. Two
// that register it at once get the same number.
type lazyID struct{ v atomic.Uint64 }

func (l *lazyID) get(register func() uint32) uint32 {
	if v := l.v.Load(); v != 0 {
		return uint32(v - 1)
	}
	id := register()
	l.v.Store(uint64(id) + 1)
	return id
}

// Init makes a zero tree one below a scope.
func (t *CodeTree) Init(below Registry) { t.init(below, "") }

func (t *CodeTree) init(reg Registry, prefix string) { t.reg, t.prefix = reg, prefix }

func (t *CodeTree) known() *codeIDs {
	ids := t.ids.Load()
	if ids == nil {
		t.ids.CompareAndSwap(nil, new(codeIDs))
		ids = t.ids.Load()
	}
	return ids
}

// Completed is upstream_rq_completed.
func (t *CodeTree) Completed() stats.Counter {
	return stats.Counter(t.known().completed.get(func() uint32 { return uint32(t.reg.Counter(t.prefix + "upstream_rq_completed")) }))
}

// Class is upstream_rq_<class>xx of a code from 100 to 599; ok is false for
// others, which Count counts as upstream_rq_unknown.
func (t *CodeTree) Class(code int) (id stats.Counter, ok bool) {
	if code < 100 || code > 599 {
		return 0, false
	}
	class := code / 100
	return stats.Counter(t.known().classes[class-1].get(func() uint32 {
		return uint32(t.reg.Counter(t.prefix + "upstream_rq_" + strconv.Itoa(class) + "xx"))
	})), true
}

// Code is upstream_rq_<code> of a code from 100 to 599; ok is false for others.
func (t *CodeTree) Code(code int) (id stats.Counter, ok bool) {
	if code < 100 || code > 599 {
		return 0, false
	}
	class := &t.known().codes[code/100-1]
	block := class.Load()
	if block == nil {
		class.CompareAndSwap(nil, new([100]lazyID))
		block = class.Load()
	}
	return stats.Counter(block[code%100].get(func() uint32 {
		return uint32(t.reg.Counter(t.prefix + "upstream_rq_" + strconv.Itoa(code)))
	})), true
}

// Time is the histogram upstream_rq_time, in milliseconds.
func (t *CodeTree) Time() stats.Histogram {
	return stats.Histogram(t.known().time.get(func() uint32 {
		return uint32(t.reg.Histogram(t.prefix+"upstream_rq_time", stats.Milliseconds))
	}))
}

// Incrementer is what a worker counts with: its shard of the statistics.
type Incrementer interface{ Inc(stats.Counter) }

// Count counts a response: the code, its class and the total.
func (t *CodeTree) Count(shard Incrementer, code int) {
	shard.Inc(t.Completed())
	if id, ok := t.Class(code); ok {
		shard.Inc(id)
		id, _ = t.Code(code)
		shard.Inc(id)
		return
	}
	shard.Inc(stats.Counter(t.known().unknown.get(func() uint32 {
		return uint32(t.reg.Counter(t.prefix + "upstream_rq_unknown"))
	})))
}

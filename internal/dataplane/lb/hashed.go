package lb

import (
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/hashpolicy"
)

// Hasher hashes a request, when a policy asks for it.
type Hasher interface {
	// Hash is the request's hash by a balancer's own policy, or by that of the
	// request (its route's) if own is nil; false if it has none.
	Hash(own *hashpolicy.Policy) (hash uint64, ok bool)
}

// hashed chooses by the request's hash, or any host for a request without one.
func (p *picker) hashed(ctx *Context) *cluster.Host {
	hash, ok := uint64(0), false
	if ctx != nil && ctx.Hasher != nil {
		hash, ok = ctx.Hasher.Hash(p.cluster.LB.Hash.Policy)
	}
	if !ok {
		hash = p.random.Uint64()
	}
	i := 0
	if !p.alone {
		i, _ = p.loads.Choose(hash)
	}
	if p.loads.Panic[i] {
		p.shard.Inc(p.cluster.Stats.LbHealthyPanic)
	}
	t := &p.set.Hashed[i]
	h := p.within(t, hash, 0)
	if h == nil || ctx == nil || ctx.Reject == nil {
		return h
	}
	for attempt := range ctx.Reselect {
		if !ctx.Reject(h) {
			break
		}
		h = p.within(t, hash, uint32(attempt)+1)
	}
	return h
}

// within is the host for a hash, or with hash_balance_factor one in its place
// that has fewer requests.
func (p *picker) within(t *cluster.HashTable, hash uint64, attempt uint32) *cluster.Host {
	factor := p.cluster.LB.Hash.BalanceFactor
	if factor == 0 {
		return t.Choose(hash, attempt)
	}
	best := t.Index(hash, attempt)
	if best < 0 {
		return nil
	}
	first, active := best, p.cluster.RqActive()
	load := t.Overload(first, active, factor)
	if load <= 1 {
		return t.Hosts[first]
	}
	p.shuffle.Start(hash, len(t.Hosts))
	for i, ok := p.shuffle.Next(); ok; i, ok = p.shuffle.Next() {
		if i == first {
			continue
		}
		l := t.Overload(i, active, factor)
		if l <= 1 {
			return t.Hosts[i]
		}
		if l < load {
			best, load = i, l
		}
	}
	return t.Hosts[best]
}

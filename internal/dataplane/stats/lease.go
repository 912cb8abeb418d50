package stats

import "slices"

// owner is who has the names below a prefix: what is configured now and makes
// them appear.
type owner struct {
	leases   int
	blocks   []*block       // that have a name of it, once each
	rejected []rejectedName // by the stats matcher
	gone     bool           // its names are not listed any more
}

type rejectedName struct {
	kind kind
	name string
}

// Lease is a scope whose names disappear when nobody has a lease of it any more:
// that of something that comes and goes. Safe for concurrent use.
type Lease struct {
	*Scope
	ended bool // guarded by the registry
}

// Lease returns a scope as Scope does, until End.
func (r *Registry) Lease(prefix string) *Lease { return r.RawLease(Sanitize(prefix)) }

// RawLease is Lease without the sanitising (see [Scope.RawScope]).
func (r *Registry) RawLease(prefix string) *Lease {
	s := *(&Scope{reg: r}).RawScope(prefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.owners[s.prefix]
	if o == nil {
		o = &owner{}
		r.owners[s.prefix] = o
	}
	o.leases++
	s.own = o
	return &Lease{Scope: &s}
}

// End says that what had the scope is not configured any more. When it was the
// last, the names disappear at the next Reclaim; what still counts by them, or
// registers more, is counted in secret.
func (l *Lease) End() {
	r := l.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	if l.own.leases--; l.own.leases == 0 {
		r.leaving = append(r.leaving, l.prefix)
	}
}

// took notes names that were registered, or that it shares. r.mu is held.
func (o *owner) took(b *block) {
	if o != nil {
		o.blocks = append(o.blocks, b)
	}
}

// missed notes a name that was rejected. r.mu is held.
func (o *owner) missed(k kind, name string) {
	if o != nil {
		o.rejected = append(o.rejected, rejectedName{k, name})
	}
}

// sweep takes the names away that nobody has any more. Snapshots have the lists
// of blocks, which are copied therefore.
func (r *Registry) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lists [kinds][]*block
	for _, prefix := range r.leaving {
		o := r.owners[prefix]
		if o == nil || o.leases > 0 {
			continue // it is configured again
		}
		if lists[0] == nil {
			for k := range lists {
				lists[k] = slices.Clone(r.ids[k].blocks)
			}
		}
		o.gone = true
		delete(r.owners, prefix)
		for _, x := range o.rejected {
			delete(r.rejected[x.kind], x.name)
		}
		for _, b := range o.blocks {
			r.leave(b, o, &lists)
		}
		o.blocks, o.rejected = nil, nil
	}
	r.leaving = nil
	if lists[0] != nil {
		for k := range lists {
			r.ids[k].blocks = lists[k]
		}
		r.sweepTexts()
		r.sweeps++
	}
}

// sweepTexts takes the readouts away of those who are gone. r.mu is held.
func (r *Registry) sweepTexts() {
	r.texts = slices.DeleteFunc(r.texts, func(t *textMetric) bool {
		gone := t.own != nil && t.own.gone
		if gone {
			delete(r.textIndex, t.name.name())
		}
		return gone
	})
}

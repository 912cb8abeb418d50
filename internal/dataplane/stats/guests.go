package stats

import "slices"

// guest is who has names of a block that another one has registered: what
// "cluster.a" counts below "b." are names of "cluster.a.b" as well.
type guest struct {
	own  *owner // nil: somebody without a lease, who keeps them for good
	all  bool   // the whole block, else one name of it
	kind kind
	i    uint32 // among those of the kind
}

// visit notes a guest. r.mu is held.
func (b *block) visit(g guest) {
	if g.own == b.own || g.own != nil && g.own.gone || b.own == nil || slices.Contains(b.guests, g) {
		return
	}
	if !slices.ContainsFunc(b.guests, func(x guest) bool { return x.own == g.own }) {
		g.own.took(b)
	}
	b.guests = append(b.guests, g)
}

// has reports whether a guest has a name of the block.
func (b *block) has(k kind, i uint32) bool {
	return slices.ContainsFunc(b.guests, func(g guest) bool { return g.all || g.kind == k && g.i == i })
}

// leave takes away what nobody has of a block without an owner, who is gone.
// r.mu is held.
func (r *Registry) leave(b *block, o *owner, lists *[kinds][]*block) {
	b.guests = slices.DeleteFunc(b.guests, func(g guest) bool { return g.own == o })
	switch {
	case b.own == nil || !b.own.gone:
	case len(b.guests) == 0:
		r.remove(b, lists)
	default:
		r.thin(b)
	}
}

// thin takes away the names of a block that no guest has. Snapshots may have the
// family, which is copied therefore. r.mu is held.
func (r *Registry) thin(b *block) {
	f := b.names.Load()
	leaves := f.leaves
	for k := range leaves {
		leaves[k] = slices.Clone(leaves[k])
		for i := range leaves[k] {
			if l := &leaves[k][i]; !b.has(kind(k), uint32(i)) {
				r.unlist(b, kind(k), *l)
				l.gone = true
			}
		}
	}
	next := &family{leaves: leaves}
	if !b.loose() {
		next = newFamily(leaves)
	}
	b.names.Store(next)
}

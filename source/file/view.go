package file

import (
	"cmp"
	"slices"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// view is one group: what files claim for it, what it should hold, and what
// the sink holds. It belongs to the tree that made it.
type view struct {
	name string
	// claims are the claims on each name, by path.
	claims map[xds.Key][]*claim
	// chosen are the claims that won; served is what the sink has accepted.
	chosen map[xds.Key]*claim
	served map[xds.Key]*xds.Resource
	// open are the names whose claims changed since they were last resolved,
	// unsent those whose choice changed since the sink last accepted a batch.
	open, unsent map[xds.Key]struct{}
	twice        map[xds.Key][]validate.Finding
	// held overrides chosen while references are binding and would dangle; nil
	// withholds the resource. withheld says why.
	held     map[xds.Key]*xds.Resource
	withheld []validate.Finding
	// graph knows what refers to what; unchecked are the names it lags behind on.
	graph     *validate.Graph
	unchecked map[xds.Key]struct{}
}

func newView(name string, strict bool) *view {
	var opts []validate.Option
	if strict {
		opts = append(opts, validate.Strict())
	}
	return &view{
		graph: validate.NewGraph(opts...), unchecked: map[xds.Key]struct{}{},
		name: name, claims: map[xds.Key][]*claim{}, chosen: map[xds.Key]*claim{}, served: map[xds.Key]*xds.Resource{},
		open: map[xds.Key]struct{}{}, unsent: map[xds.Key]struct{}{}, twice: map[xds.Key][]validate.Finding{},
	}
}

// replace exchanges the claims of one file.
func (v *view) replace(before, after map[xds.Key]*claim) {
	for k, old := range before {
		if after[k] != old {
			v.claims[k] = slices.DeleteFunc(v.claims[k], func(c *claim) bool { return c == old })
			v.open[k] = struct{}{}
		}
	}
	for k, c := range after {
		if before[k] != c {
			at, _ := slices.BinarySearchFunc(v.claims[k], c, func(a, b *claim) int { return cmp.Compare(a.rel, b.rel) })
			v.claims[k] = slices.Insert(v.claims[k], at, c)
			v.open[k] = struct{}{}
		}
	}
}

// resolve decides every name whose claims changed.
func (v *view) resolve() {
	for k := range v.open {
		delete(v.twice, k)
		c := v.choose(k)
		if c == nil {
			delete(v.chosen, k)
		} else {
			v.chosen[k] = c
			for _, other := range v.claims[k] {
				if other.rel != c.rel {
					v.twice[k] = append(v.twice[k], duplicate(c, other, v.name))
				}
			}
		}
		if len(v.claims[k]) == 0 {
			delete(v.claims, k)
		}
		v.unsent[k] = struct{}{}
	}
	clear(v.open)
}

// choose picks the claim that a name is served from: the file that it is
// served from already, else the first by path that has a usable version. If
// none has, but the resource moved into a file where it is broken, the version
// it had before stays.
func (v *view) choose(k xds.Key) *claim {
	var usable, last *claim
	present := v.chosen[k]
	for _, c := range v.claims[k] {
		switch {
		case present != nil && c.rel == present.rel && c.res != nil:
			return c
		case c.res == nil:
			if last == nil {
				last = c
			}
		case usable == nil || usable.stale && !c.stale:
			usable = c
		}
	}
	if usable != nil || last == nil || present == nil {
		return usable
	}
	kept := *last
	kept.res = present.res
	return &kept
}

// changes is what the sink lacks.
func (v *view) changes(full bool) snapshot.Changes {
	c := snapshot.Changes{Replace: full}
	if full {
		c.Set = v.all()
		return c
	}
	for k := range v.unsent {
		r, old := v.final(k), v.served[k]
		switch {
		case r == nil && old != nil:
			c.Remove = append(c.Remove, k)
		case r != nil && !r.Equal(old):
			c.Set = append(c.Set, r)
		}
	}
	slices.SortFunc(c.Set, compareResources)
	slices.SortFunc(c.Remove, compareKeys)
	return c
}

// final is what the group is to hold under a name; nil for nothing.
func (v *view) final(k xds.Key) *xds.Resource {
	if r, held := v.held[k]; held {
		return r
	}
	if c := v.chosen[k]; c != nil {
		return c.res
	}
	return nil
}

// all is everything the group is to hold, sorted.
func (v *view) all() []*xds.Resource {
	l := v.resources()
	slices.SortFunc(l, compareResources)
	return l
}

// resources is everything the group is to hold, in any order.
func (v *view) resources() []*xds.Resource {
	l := make([]*xds.Resource, 0, len(v.chosen))
	for k, c := range v.chosen {
		if _, held := v.held[k]; !held {
			l = append(l, c.res)
		}
	}
	for _, r := range v.held {
		if r != nil {
			l = append(l, r)
		}
	}
	return l
}

// accepted notes that the sink has what changes returned.
func (v *view) accepted() {
	for k := range v.unsent {
		if r := v.final(k); r != nil {
			v.served[k] = r
		} else {
			delete(v.served, k)
		}
		v.unchecked[k] = struct{}{}
	}
	clear(v.unsent)
}

func compareResources(a, b *xds.Resource) int { return compareKeys(a.Key(), b.Key()) }

func compareKeys(a, b xds.Key) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

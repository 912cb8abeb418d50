package lb

import (
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// divided is the Picker of a cluster with subsets (LB-15).
type divided struct {
	*picker // for its cluster, and what it makes others of

	of       *cluster.Subsets // that the rest was made of
	parts    map[string]part  // those that were asked for, by name
	any, std *picker          // nil until they are asked for

	list []subset.Criterion // memory to use again
	name []byte
}

// part is a subset that was asked for.
type part struct {
	of     *cluster.Subset
	picker *picker // nil if there is but one host
}

// Pick implements Picker.
func (d *divided) Pick(ctx *Context) *cluster.Host {
	if s := d.cluster.Hosts().Subsets; s != d.of {
		d.renew(s)
	}
	if ctx == nil || ctx.Criteria == nil {
		return d.fallback(ctx)
	}
	if all := ctx.Criteria.Fallbacks(); all != nil && d.cluster.LB.Subsets.FallbackList {
		for _, c := range all {
			if h := d.byCriteria(c, ctx); h != nil {
				return h
			}
		}
		return nil
	}
	return d.byCriteria(ctx.Criteria, ctx)
}

// renew takes over new subsets. What of them is as it was goes on where it was.
func (d *divided) renew(s *cluster.Subsets) {
	d.of = s
	for name, p := range d.parts {
		if p.of = s.Named(name); p.of == nil || (p.picker == nil) != (p.of.Hosts == nil) {
			delete(d.parts, name)
			continue
		}
		d.parts[name] = p
	}
}

// byCriteria chooses out of the subset whose hosts meet all criteria, or out of
// what the fallbacks lead to.
func (d *divided) byCriteria(c *subset.Criteria, ctx *Context) *cluster.Host {
	conf := d.cluster.LB.Subsets
	list, whole := c.List(), true
	for {
		if conf.AllowRedundantKeys {
			if s := conf.Widest(list); s != nil && len(s.Keys) < len(list) {
				list, whole = d.only(list, s.Keys), false
			}
		}
		if p, ok := d.find(c, list, whole); ok {
			d.shard.Inc(d.cluster.Stats.LbSubsetsSelected)
			return p.pick(ctx)
		}
		s := conf.SelectorOf(list)
		if s == nil {
			return d.fallback(ctx)
		}
		switch s.Fallback {
		case subset.FewerKeys:
			list, whole = d.only(list, s.FallbackKeys), false
		case subset.Anywhere:
			return d.anywhere(ctx)
		case subset.ToDefault:
			return d.standard(ctx)
		case subset.Nowhere:
			return nil
		default:
			return d.fallback(ctx)
		}
	}
}

func (d *divided) only(list []subset.Criterion, keys []string) []subset.Criterion {
	d.list = subset.Only(d.list[:0], list, keys)
	return d.list
}

// find is the subset of the criteria that are left, which are all of c if whole.
func (d *divided) find(c *subset.Criteria, list []subset.Criterion, whole bool) (p part, ok bool) {
	if whole {
		if p, ok = d.parts[c.Name()]; ok {
			return p, true
		}
		return d.first(c.Name(), d.of.Named(c.Name()))
	}
	d.name = d.name[:0]
	for i := range list {
		d.name = list[i].AppendTo(d.name)
	}
	if p, ok = d.parts[string(d.name)]; ok {
		return p, true
	}
	if s := d.of.Find(d.name); s != nil {
		return d.first(string(d.name), s)
	}
	return part{}, false
}

// first prepares for a subset that was not asked for before, if there is one.
func (d *divided) first(name string, s *cluster.Subset) (p part, ok bool) {
	if s == nil {
		return part{}, false
	}
	p = part{of: s}
	if s.Hosts != nil {
		p.picker = newPicker(d.cluster, d.random, d.shard)
	}
	if d.parts == nil {
		d.parts = make(map[string]part)
	}
	d.parts[name] = p
	return p, true
}

func (p *part) pick(ctx *Context) *cluster.Host {
	if p.picker == nil {
		return p.of.Single
	}
	return p.picker.among(p.of.Hosts, ctx)
}

// fallback is the cluster's own.
func (d *divided) fallback(ctx *Context) *cluster.Host {
	conf, st := d.cluster.LB.Subsets, d.cluster.Stats
	var h *cluster.Host
	switch conf.Fallback {
	case subset.Anywhere:
		h = d.anywhere(ctx)
	case subset.ToDefault:
		h = d.standard(ctx)
	default:
		return nil
	}
	if h != nil {
		d.shard.Inc(st.LbSubsetsFallback)
		return h
	}
	if conf.PanicModeAny {
		if h = d.anywhere(ctx); h != nil {
			d.shard.Inc(st.LbSubsetsFallbackPanic)
		}
	}
	return h
}

func (d *divided) anywhere(ctx *Context) *cluster.Host {
	if d.any == nil {
		d.any = newPicker(d.cluster, d.random, d.shard)
	}
	return d.any.among(d.of.Any, ctx)
}

func (d *divided) standard(ctx *Context) *cluster.Host {
	if d.std == nil {
		d.std = newPicker(d.cluster, d.random, d.shard)
	}
	return d.std.among(d.of.Default, ctx)
}

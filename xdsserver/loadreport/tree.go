package loadreport

import (
	"cmp"
	"slices"
	"time"
)

type clusterKey struct{ cluster, service string }

type localityKey struct {
	Locality
	priority uint32
}

// tree is a set of loads under construction. Its entries use the public
// structs without their slices.
type tree map[clusterKey]*clusterEntry

type clusterEntry struct {
	ClusterLoad
	localities map[localityKey]*localityEntry
}

type localityEntry struct {
	LocalityLoad
	seen      time.Time
	endpoints map[string]*endpointEntry
}

type endpointEntry struct {
	EndpointLoad
	seen time.Time
}

func (t tree) cluster(k clusterKey) *clusterEntry {
	c := t[k]
	if c == nil {
		c = &clusterEntry{localities: map[localityKey]*localityEntry{}}
		c.Cluster, c.Service = k.cluster, k.service
		t[k] = c
	}
	return c
}

func (c *clusterEntry) locality(k localityKey) *localityEntry {
	l := c.localities[k]
	if l == nil {
		l = &localityEntry{}
		l.Locality, l.Priority = k.Locality, k.priority
		c.localities[k] = l
	}
	return l
}

func (l *localityEntry) endpoint(address string) *endpointEntry {
	e := l.endpoints[address]
	if e == nil {
		e = &endpointEntry{}
		e.Address = address
		if l.endpoints == nil {
			l.endpoints = map[string]*endpointEntry{}
		}
		l.endpoints[address] = e
	}
	return e
}

// accumulate adds a report's counts to t's totals.
func (t tree) accumulate(report tree, now time.Time) {
	for k, src := range report {
		c := t.cluster(k)
		c.Dropped.add(&src.LatestDropped)
		c.Covered = saturateDuration(c.Covered, src.Interval)
		c.Reports = saturate(c.Reports, 1)
		c.LastReport = now
		for lk, ls := range src.localities {
			l := c.locality(lk)
			l.Total.add(&ls.Latest)
			l.seen = now
			for a, es := range ls.endpoints {
				e := l.endpoint(a)
				e.Total.add(&es.Latest)
				e.Metadata = es.Metadata
				e.seen = now
			}
		}
	}
}

// selection names the entry that a cluster is counted under, if it is wanted.
type selection func(clusterKey) (clusterKey, bool)

func everyCluster(k clusterKey) (clusterKey, bool) { return k, true }

// collect adds another tree, totals and latest alike.
func (t tree) collect(src tree, want selection) {
	for k, s := range src {
		if k, ok := want(k); ok {
			t.cluster(k).collect(s)
		}
	}
}

func (c *clusterEntry) collect(src *clusterEntry) {
	c.Dropped.add(&src.Dropped)
	c.LatestDropped.add(&src.LatestDropped)
	c.DropRate += src.DropRate
	c.Interval = max(c.Interval, src.Interval)
	c.Covered = saturateDuration(c.Covered, src.Covered)
	c.Reports = saturate(c.Reports, src.Reports)
	if src.LastReport.After(c.LastReport) {
		c.LastReport = src.LastReport
	}
	for k, ls := range src.localities {
		l := c.locality(k)
		l.Load.collect(&ls.Load)
		for a, es := range ls.endpoints {
			e := l.endpoint(a)
			e.Load.collect(&es.Load)
			if e.Metadata == nil || es.seen.After(e.seen) {
				e.Metadata, e.seen = es.Metadata, es.seen
			}
		}
	}
}

// prune drops what was last reported before the given time.
func (t tree) prune(before time.Time) {
	for k, c := range t {
		for lk, l := range c.localities {
			for a, e := range l.endpoints {
				if e.seen.Before(before) {
					delete(l.endpoints, a)
				}
			}
			if l.seen.Before(before) {
				delete(c.localities, lk)
			}
		}
		if c.LastReport.Before(before) {
			delete(t, k)
		}
	}
}

// export turns a tree that nobody else changes into sorted results.
func (t tree) export() []ClusterLoad {
	out := make([]ClusterLoad, 0, len(t))
	for _, c := range t {
		out = append(out, c.export())
	}
	slices.SortFunc(out, func(a, b ClusterLoad) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Service, b.Service))
	})
	return out
}

func (c *clusterEntry) export() ClusterLoad {
	out := c.ClusterLoad
	for _, l := range c.localities {
		ll := l.LocalityLoad
		for _, e := range l.endpoints {
			ll.Endpoints = append(ll.Endpoints, e.EndpointLoad)
		}
		slices.SortFunc(ll.Endpoints, func(a, b EndpointLoad) int { return cmp.Compare(a.Address, b.Address) })
		out.Localities = append(out.Localities, ll)
		out.Load.collect(&ll.Load)
	}
	slices.SortFunc(out.Localities, func(a, b LocalityLoad) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone),
			cmp.Compare(a.SubZone, b.SubZone), cmp.Compare(a.Priority, b.Priority))
	})
	return out
}

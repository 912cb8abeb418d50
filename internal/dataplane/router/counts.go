package router

import (
	"github.com/xebec-proxy/xebec/internal/dataplane/vhoststats"
)

// counts are those of the request's virtual cluster and of its route, if they have
// any (RT-30, ST-16).
type counts struct {
	of [2]*vhoststats.Counts
	n  uint8
}

func (c *counts) add(k *vhoststats.Counts) {
	if k != nil {
		c.of[c.n] = k
		c.n++
	}
}

// all are those that there are.
func (c *counts) all() []*vhoststats.Counts { return c.of[:c.n] }

// takeCounts finds what the request counts for beside its cluster.
func (f *Filter) takeCounts() {
	if v := f.entry.VirtualCluster(f.host.RouteContext()); v != nil {
		if v.Configured() {
			f.info.VirtualCluster = v.Name()
		}
		f.also.add(v.Counts())
	}
	f.also.add(f.entry.Counts())
}

package route

import (
	"errors"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/vhoststats"
)

// VirtualCluster is some of a virtual host's requests, which are counted together
// (RT-30). It is immutable.
type VirtualCluster struct {
	name    string
	rest    bool // what belongs to no other
	headers []headerMatcher
	counts  *vhoststats.Counts
}

// Name is the name, "other" for the requests that belong to none that is configured.
func (v *VirtualCluster) Name() string { return v.name }

// Configured tells it from the one of the rest.
func (v *VirtualCluster) Configured() bool { return !v.rest }

// Counts are the statistics; nil if the table has none.
func (v *VirtualCluster) Counts() *vhoststats.Counts { return v.counts }

func (b *builder) virtualClusters(path string, vh *virtualHost, cs []*routev3.VirtualCluster) []VirtualCluster {
	var out []VirtualCluster
	for i, c := range cs {
		p := index(path, i)
		if c.GetName() == "" || len(c.GetHeaders()) == 0 {
			b.fail(p, errors.New("virtual clusters must define both 'name' and 'headers'"))
		}
		out = append(out, VirtualCluster{
			name: c.GetName(), headers: b.headerMatchers(p+".headers", c.GetHeaders()), counts: b.stats(vh).VirtualCluster(c.GetName()),
		})
	}
	if len(out) > 0 {
		const other = "other"
		out = append(out, VirtualCluster{name: other, rest: true, counts: b.stats(vh).VirtualCluster(other)})
	}
	return out
}

// stats are the virtual host's statistics, which only those have that count
// anything; nil if the table has none.
func (b *builder) stats(vh *virtualHost) *vhoststats.Host {
	if vh.stats == nil && b.env.Stats != nil {
		vh.stats = vhoststats.New(b.env.Stats, vh.name)
	}
	return vh.stats
}

// VirtualCluster is the first virtual cluster that the request belongs to; nil if
// the virtual host has none.
func (e *Entry) VirtualCluster(c *Context) *VirtualCluster {
	for i := range e.vh.clusters {
		if k := &e.vh.clusters[i]; matchHeaders(k.headers, c.Request) {
			return k
		}
	}
	return nil
}

// Counts are the statistics of routes with this one's stat_prefix (ST-16); nil if it
// has none.
func (e *Entry) Counts() *vhoststats.Counts { return e.counts }

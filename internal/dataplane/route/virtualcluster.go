package route

import (
	"errors"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// virtualCluster names requests of a virtual host by their headers.
type virtualCluster struct {
	name    string
	headers []headerMatcher
}

func (b *builder) virtualClusters(path string, cs []*routev3.VirtualCluster) []virtualCluster {
	var out []virtualCluster
	for i, c := range cs {
		p := index(path, i)
		if c.GetName() == "" || len(c.GetHeaders()) == 0 {
			b.fail(p, errors.New("virtual clusters must define both 'name' and 'headers'"))
		}
		out = append(out, virtualCluster{c.GetName(), b.headerMatchers(p+".headers", c.GetHeaders())})
	}
	return out
}

// VirtualCluster is the name of the first virtual cluster that the request
// belongs to, "other" if there are some but none fits, "" if there are none.
func (e *Entry) VirtualCluster(c *Context) string {
	for i := range e.vh.clusters {
		if k := &e.vh.clusters[i]; matchHeaders(k.headers, c.Request) {
			return k.name
		}
	}
	if len(e.vh.clusters) > 0 {
		return "other"
	}
	return ""
}

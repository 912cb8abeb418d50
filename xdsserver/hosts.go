package xdsserver

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// hostIndex says which streams have asked for virtual hosts of a route
// configuration, and for which: a virtual host concerns a stream by its domains,
// which no name in the index of the type says.
type hostIndex struct {
	tables map[string]counted // by route configuration
	hosts  map[string]counted // by hostKey
}

// counted is a set of streams, each with the number of its names that put it
// there.
type counted map[*stream]int

func newHostIndex() *hostIndex {
	return &hostIndex{tables: map[string]counted{}, hosts: map[string]counted{}}
}

// hostKey is a route configuration with a host or domain, without its port.
func hostKey(table, host string) string { return table + "/" + strings.ToLower(xds.WithoutPort(host)) }

func (x *hostIndex) add(s *stream, name string) { x.change(s, name, 1) }

func (x *hostIndex) drop(s *stream, name string) { x.change(s, name, -1) }

func (x *hostIndex) change(s *stream, name string, by int) {
	table, host, ok := xds.SplitHost(name)
	if x == nil || !ok {
		return
	}
	count(x.tables, table, s, by)
	count(x.hosts, hostKey(table, host), s, by)
}

func count(sets map[string]counted, key string, s *stream, by int) {
	set := sets[key]
	if set == nil {
		if by < 0 {
			return
		}
		set = counted{}
		sets[key] = set
	}
	if set[s] += by; set[s] <= 0 {
		delete(set, s)
	}
	if len(set) == 0 {
		delete(sets, key)
	}
}

// notify notes a change of a virtual host, or of a route configuration, for the
// streams that it concerns. A domain with a wildcard concerns all who have asked
// for anything of the route configuration.
func (x *hostIndex) notify(c *snapshot.Change, note func(*stream)) {
	if x == nil {
		return
	}
	if c.Type == xds.RouteType {
		x.tables[c.Name].each(note)
		return
	}
	table, _, ok := xds.SplitHost(c.Name)
	if !ok || len(x.tables[table]) == 0 {
		return
	}
	for _, r := range []*xds.Resource{c.Old, c.New} {
		if r == nil {
			continue
		}
		for _, d := range r.Hosts().Domains {
			if strings.HasPrefix(d, "*") || strings.HasSuffix(d, "*") {
				x.tables[table].each(note)
				return
			}
			x.hosts[hostKey(table, d)].each(note)
		}
	}
}

func (c counted) each(f func(*stream)) {
	for s := range c {
		f(s)
	}
}

// Field numbers of DeltaDiscoveryResponse and Resource.
const (
	deltaResources  = 2
	resourceName    = 3
	resourceAliases = 4
)

// named adds the resources of a response in which some bear names that are the
// stream's own, and those without a body. An encoded message may be continued,
// so the aliases follow what was encoded once.
func named(b []byte, r *wire.Response) []byte {
	for _, res := range r.Resources {
		aliases := r.Aliases[res.Name()]
		if len(aliases) == 0 {
			b = append(b, res.DeltaField()...)
			continue
		}
		_, _, tag := protowire.ConsumeTag(res.DeltaField())
		body, _ := protowire.ConsumeBytes(res.DeltaField()[tag:])
		b = resourceWith(b, body, aliases)
	}
	for _, name := range r.Missing {
		b = resourceWith(b, stringField(nil, resourceName, name), []string{name})
	}
	return b
}

func resourceWith(b, encoded []byte, aliases []string) []byte {
	n := len(encoded)
	for _, a := range aliases {
		n += protowire.SizeTag(resourceAliases) + protowire.SizeBytes(len(a))
	}
	b = protowire.AppendTag(b, deltaResources, protowire.BytesType)
	b = append(protowire.AppendVarint(b, uint64(n)), encoded...)
	for _, a := range aliases {
		b = stringField(b, resourceAliases, a)
	}
	return b
}

package pool

import (
	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/proxyheader"
)

// Source is the connection of a client, as hosts are told of it by PROXY headers, and
// what has pools of its own (TS-24). Those of connections that are alike are the same
// one, as long as there is a pool. Confined to the worker.
type Source struct {
	proxyheader.Source
	key   string
	pools int // that have it
}

// Source is what a host is told of a stream's connection; nil if it is told nothing.
// It does not allocate if there is a pool already. [Options.ProxyHeaders] is not
// empty.
func (c *Cluster) Source(h *cluster.Host, info *filter.StreamInfo) *Source {
	i := h.Attributes().TransportSocket + 1
	conf := c.opt.ProxyHeaders[i]
	if conf == nil || info.Connection == nil {
		return nil
	}
	from := proxyheader.SourceOf(info)
	var room [128]byte
	key := conf.AppendKey(append(room[:0], byte(i), byte(i>>8)), &from)
	if s := c.sources[string(key)]; s != nil {
		return s
	}
	return &Source{Source: from, key: string(key)}
}

// keep makes a source that has one more pool known.
func (c *Cluster) keep(s *Source) {
	if s == nil {
		return
	}
	if c.sources == nil {
		c.sources = map[string]*Source{}
	}
	c.sources[s.key] = s
	s.pools++
}

// release forgets a source that has no pool any more.
func (c *Cluster) release(s *Source) {
	if s == nil {
		return
	}
	if s.pools--; s.pools == 0 {
		delete(c.sources, s.key)
	}
}

// source is what is told of, nil for nobody.
func (s *Source) source() *proxyheader.Source {
	if s == nil {
		return nil
	}
	return &s.Source
}

// header is what a connection to a host begins with; nil if that is nothing.
func (c *Cluster) header(h *cluster.Host, from *proxyheader.Source, conn *loop.Conn, id uint64) []byte {
	a := h.Attributes()
	conf := c.opt.ProxyHeaders[a.TransportSocket+1]
	if conf == nil {
		return nil
	}
	out, complete := conf.Append(nil, from, &proxyheader.Upstream{
		ID: id, Local: conn.Local(), Remote: h.Address(), HostName: h.Hostname(), Metadata: a.Metadata, Start: c.w.Loop.Wall(),
	})
	if !complete {
		c.w.Stats.Inc(c.opt.ProxyHeaderTooLong)
	}
	return out
}

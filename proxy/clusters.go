package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

func (p *Proxy) buildClusters() error {
	var errs []error
	for i, c := range p.cfg.GetStaticResources().GetClusters() {
		e, err := p.newCluster(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("static_resources.clusters[%d]: %w", i, err))
			continue
		}
		if p.res.clusters[c.GetName()] != nil {
			errs = append(errs, fmt.Errorf("static_resources.clusters[%d]: cluster manager: duplicate cluster '%s'", i, c.GetName()))
			continue
		}
		s := p.res.addSlot(c.GetName())
		s.static = true
		p.res.setActive(s, e)
		e.at = p.epoch
		p.res.attachCluster(e)
	}
	if len(errs) == 0 {
		errs = append(errs, p.checkLocalCluster())
	}
	return errors.Join(errs...)
}

// newCluster builds a cluster, of which nothing runs yet.
func (p *Proxy) newCluster(c *clusterv3.Cluster) (*clusterEntry, error) {
	lease := p.stat.Lease("cluster." + cluster.ObservabilityName(c))
	e, err := p.clusterWith(c, lease)
	if err != nil {
		lease.End()
	}
	return e, err
}

func (p *Proxy) clusterWith(c *clusterv3.Cluster, lease *stats.Lease) (*clusterEntry, error) {
	var e *clusterEntry
	cl, err := cluster.New(c, cluster.Options{
		Registry: lease.Scope,
		Hosts:    p.stat.Hidden(), Sink: p.stat.Main(), Resolver: p.o.Resolver, Logger: p.component("upstream"),
		Updates:      &p.server.UpdateStats,
		MergeBatches: p.mergesBatches,
		LocalCluster: p.cfg.GetClusterManager().GetLocalClusterName(),
		Locality:     cluster.LocalityOf(p.cfg.GetNode().GetLocality()),
		OnUpdate: func(u cluster.Update) {
			if e != nil {
				p.hostsChanged(e, &u)
			}
		},
		OnFailure: func(h *cluster.Host) {
			if e != nil && e.checker != nil {
				e.checker.Fail(h)
			}
		},
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the cluster
	}
	if _, source, eds := cl.EDS(); eds {
		if err := p.checkSource("eds_cluster_config.eds_config", source, EndpointType); err != nil {
			return nil, fmt.Errorf("cluster %q: %w", c.GetName(), err)
		}
	}
	e = &clusterEntry{Cluster: cl, lease: lease}
	if _, _, eds := cl.EDS(); eds {
		e.versionText = lease.Text("version_text")
	}
	e.opt = poolOptions(cl)
	if e.opt.Filters, err = p.upstreamFilters("http_filters", cl.HTTP.Filters); err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.GetName(), err)
	}
	if e.opt.Source, err = p.sourceOf(c); err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.GetName(), err)
	}
	e.opt.Control = control(c.GetUpstreamConnectionOptions().GetTcpKeepalive())
	if err := p.clusterTransport(e); err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.GetName(), err)
	}
	if err := p.healthChecks(e); err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.GetName(), err)
	}
	return e, nil
}

// mergesBatches reports whether Envoy would merge changes of endpoints by EDS: its runtime
// says no by default.
func (p *Proxy) mergesBatches() bool {
	apart, set := p.rt.Load().Bool("envoy.reloadable_features.enable_batch_aware_update")
	return set && !apart
}

// hostsChanged tells the workers that a cluster has other hosts, if that
// concerns them. Clusters run when the workers do, and no longer.
func (p *Proxy) hostsChanged(e *clusterEntry, u *cluster.Update) {
	if e.checker != nil {
		e.checker.Update(u)
	}
	changed, failed := len(u.Removed) > 0 || e.CloseConnectionsOnHostSetChange(), u.Failed
	if !changed && len(failed) == 0 {
		return
	}
	for _, r := range p.workers {
		r.w.Loop.PostUnhurried(func() {
			if c := r.set.Cluster(e.Name()); c != nil && c.Cfg == e.Cluster {
				if changed {
					c.HostsChanged()
				}
				c.HostsFailed(failed)
			}
		})
	}
}

// control sets options of upstream sockets; nil if there are none.
func control(k *corev3.TcpKeepalive) func(int) error {
	if k == nil {
		return nil
	}
	return func(fd int) error { return listener.SetKeepalive(fd, k) }
}

func poolOptions(c *cluster.Cluster) *pool.Options {
	h := &c.HTTP
	o := &pool.Options{
		MaxConnectionJitter: h.MaxConnectionDurationJitter / 100,
		ConnectTimeout:      c.ConnectTimeout(), IdleTimeout: h.IdleTimeout, MaxConnectionDuration: h.MaxConnectionDuration,
		MaxStreamDuration: h.MaxStreamDuration, MaxRequests: uint64(h.MaxRequestsPerConnection), BufferLimit: int(c.BufferLimit()),
	}
	switch h.Mode {
	case cluster.ExplicitHTTP2:
		o.Protocol = pool.HTTP2
	case cluster.AutoProtocol:
		o.Protocol = pool.ALPN
	case cluster.DownstreamProtocol:
		o.UseDownstream = true
	}
	h1 := &h.HTTP1
	o.HTTP1 = http1.Options{
		MaxHeadersKB: h.MaxResponseHeadersH1KB, MaxHeadersCount: h.MaxHeadersCount, EnableTrailers: h1.EnableTrailers,
		AllowChunkedLength: h1.AllowChunkedLength, SendFullyQualifiedURL: h1.SendFullyQualifiedURL, CustomMethods: h1.AllowCustomMethods,
	}
	if h1.ProperCase {
		o.HTTP1.HeaderCase = http1.ProperCaseWords
	}
	if h1.PreserveCase {
		o.HTTP1.HeaderCase = http1.PreserveCase
	}
	o.HTTP2 = http2Options(h)
	o.HTTP2.OutputHigh = http2.OutputHigh(cmp.Or(o.BufferLimit, loop.DefaultHigh))
	if k := h.HTTP2.Keepalive; k != nil {
		o.KeepaliveInterval, o.KeepaliveTimeout = k.Interval, k.Timeout
		o.KeepaliveJitter, o.KeepaliveIdle = k.IntervalJitter/100, k.ConnectionIdleInterval
	}
	if h.AutoSNI || h.AutoSAN {
		o.PerRequestTransport = perRequest(h)
	}
	return o
}

func http2Options(h *cluster.HTTPOptions) http2.Options {
	h2 := &h.HTTP2
	empty, priority := h2.MaxConsecutiveInboundEmptyFrames, h2.MaxInboundPriorityFramesPerStream
	return http2.Options{
		MaxConcurrentStreams: h2.MaxConcurrentStreams, StreamWindow: h2.InitialStreamWindowSize, ConnWindow: h2.InitialConnectionWindowSize,
		HeaderTableSize: h2.HpackTableSize, ZeroTable: h2.HpackTableSize == 0, MaxHeadersKB: h.MaxResponseHeadersKB, MaxHeaders: h.MaxHeadersCount,
		MaxOutboundFrames: h2.MaxOutboundFrames, MaxOutboundControlFrames: h2.MaxOutboundControlFrames, MaxEmptyFrames: &empty,
		MaxPriorityFrames: &priority, MaxWindowUpdateFrames: h2.MaxInboundWindowUpdatesPerDataFrameSent,
		StreamErrors: h2.StreamErrorOnInvalidMessage, AllowConnect: h2.AllowConnect, Batch: true,
	}
}

// perRequest takes the server name from a request (TS-13).
func perRequest(h *cluster.HTTPOptions) func(*header.Map) pool.TransportOptions {
	from := ":authority"
	if h.OverrideSNIHeader != "" {
		from = h.OverrideSNIHeader
	}
	sni, san := h.AutoSNI, h.AutoSAN
	return func(m *header.Map) pool.TransportOptions {
		host := m.Get(from)
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			host = host[:i]
		}
		host = strings.Clone(host)
		var o pool.TransportOptions
		if sni {
			o.SNI = host
		}
		if san {
			o.VerifySAN = host
		}
		return o
	}
}

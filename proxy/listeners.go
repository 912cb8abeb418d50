package proxy

import (
	"errors"
	"fmt"
	"math"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/edge"
	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/hcm"
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/router"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

func hcmScope(s *stats.Scope) filter.Scope { return hcm.ScopeOf(s) }

func (p *Proxy) buildListeners() error {
	var errs []error
	for i, c := range p.cfg.GetStaticResources().GetListeners() {
		at := fmt.Sprintf("static_resources.listeners[%d]", i)
		if c.GetName() != "" && p.res.listeners[c.GetName()] != nil {
			errs = append(errs, fmt.Errorf("%s.name: a listener named '%s' was defined before", at, c.GetName()))
		}
		l, err := p.newListener(c, nil)
		if err != nil {
			errs = append(errs, prefixed(at, err))
			continue
		}
		if l.Name == "" {
			l.Name = newUUID()
		}
		if err := p.duplicate(l); err != nil {
			errs = append(errs, prefixed(at, err))
			continue
		}
		l.at = p.epoch
		s := p.res.addListenerSlot(l.Name)
		s.static, s.active = true, l
		p.res.attach(l)
	}
	return errors.Join(errs...)
}

// duplicate refuses a listener of the bootstrap with an address of another one.
func (p *Proxy) duplicate(l *listenerEntry) error {
	for _, s := range p.res.listenerSlots() {
		if address, ok := l.Conflict(s.active.Listener); ok {
			return fmt.Errorf("address: has duplicate address '%s' as existing listener '%s'", address, s.name)
		}
	}
	return nil
}

// prefixed puts a path before each of several errors.
func prefixed(path string, err error) error {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return fmt.Errorf("%s: %w", path, err)
	}
	var out []error
	for _, e := range many.Unwrap() {
		out = append(out, fmt.Errorf("%s.%w", path, e))
	}
	return errors.Join(out...)
}

// newListener builds a listener, which nothing knows of yet. It takes the filter
// chains of reuse, if that is not nil, which are the same.
func (p *Proxy) newListener(c *listenerv3.Listener, reuse *listenerEntry) (*listenerEntry, error) {
	d := deps{}
	var chain *chainDeps
	var fresh []*chainDeps
	env := p.listenerEnv()
	if reuse != nil {
		env.Reuse = func(cfg *listenerv3.FilterChain) *listener.Chain {
			for _, old := range chainsOf(reuse.Listener) {
				if d[old] == nil && proto.Equal(old.Config, cfg) {
					d[old] = reuse.deps[old]
					return old
				}
			}
			return nil
		}
	}
	env.Begin = func(c *listener.Chain) {
		chain = &chainDeps{workers: p.o.Workers}
		d[c] = chain
		fresh = append(fresh, chain)
	}
	env.NetworkExtensions = func() *extension.Env { return p.extensions(chain, p.knownNetwork) }
	env.ListenerExtensions = func() *extension.Env {
		if d[nil] == nil {
			d[nil] = &chainDeps{workers: p.o.Workers}
			fresh = append(fresh, d[nil])
		}
		return p.extensions(d[nil], p.knownListener)
	}
	env.Secure = func(m *tlsv3.DownstreamTlsContext) (*listener.ServerTLS, error) { return p.secureServer(chain, m) }
	env.Terminal = func(_ string, cfg proto.Message, l *listener.Listener) (listener.Terminal, bool, error) {
		return p.terminal(cfg, l, chain)
	}
	l, err := listener.New(c, env)
	if err != nil {
		return nil, err //nolint:wrapcheck // it has the paths
	}
	return &listenerEntry{Listener: l, deps: d, fresh: fresh}, nil
}

func (p *Proxy) listenerEnv() *listener.Env {
	return &listener.Env{
		Registry: &p.reg, FilterEnv: &p.env, Stats: p.stat, TLS: p.tls, Logger: p.component("connection"), Workers: p.o.Workers, Integer: p.integer,
		Logs: p.logs, Unpack: unpack, Overload: p.levels(), Connections: p.downstream,
	}
}

func (p *Proxy) logs(path string, list []*accesslogv3.AccessLog) (accesslog.Logs, error) {
	return accesslog.New(list, accesslog.Env{ //nolint:wrapcheck // it has the paths
		Files: p.files, Path: path, Getenv: p.o.Getenv, ReadFile: p.o.ReadFile, Runtime: p.fraction, RuntimeInteger: p.integer,
	})
}

// integer is a runtime key's whole number, if it has one.
func (p *Proxy) integer(key string) (value uint64, ok bool) {
	const none = math.MaxUint64
	v := p.rt.Load().Integer(key, none)
	return v, v != none
}

// fragments reports whether fragments of paths are cut off instead of refused.
func (p *Proxy) fragments() bool {
	refused, set := p.rt.Load().Bool("envoy.reloadable_features.http_reject_path_with_fragment")
	return set && !refused
}

// formats is what texts with operators are compiled with.
func (p *Proxy) formats() format.Options {
	return format.Options{Environment: p.o.Getenv, ReadFile: p.o.ReadFile}
}

// terminal builds the network filters that are built in and end a chain.
func (p *Proxy) terminal(cfg proto.Message, l *listener.Listener, d *chainDeps) (listener.Terminal, bool, error) {
	c, ok := cfg.(*hcmv3.HttpConnectionManager)
	if !ok {
		return p.otherTerminal(cfg, l)
	}
	m, err := hcm.New(c, p.hcmEnv(l, d))
	if err != nil {
		return nil, true, err //nolint:wrapcheck // it has the paths
	}
	return &hcm.Manager{Config: m}, true, nil
}

func (p *Proxy) hcmEnv(l *listener.Listener, d *chainDeps) *hcm.Env {
	node := p.cfg.GetNode()
	env := &hcm.Env{
		Registry: &p.reg, FilterEnv: p.env, Stats: p.stat, Listener: l.Scope,
		Edge: &edge.Env{LocalCluster: node.GetCluster(), LocalNode: node.GetId(), AcceptFragments: p.fragments, Logger: p.component("http")},
		Route: route.Env{
			Stats:         p.stat,
			ClusterExists: p.res.hasCluster,
			Formatter: func(text string) (route.Formatter, error) {
				return format.ParseWith(text, p.formats())
			},
			FormatString: func(f *corev3.SubstitutionFormatString) (route.Formatter, error) {
				l, err := format.ParseString(f, p.formats())
				return format.Body{Line: l}, err
			},
			ReadFile: p.o.ReadFile, Getenv: p.o.Getenv, Logger: p.component("router"), Runtime: p.fraction, RuntimeInteger: p.integer,
		},
		Logs: p.logs, Unpack: unpack, Router: p.router, BufferLimit: l.BufferLimit, Overload: l.Overload,
		Tables: func(c *routev3.RouteConfiguration) { d.tables = append(d.tables, c) },
	}
	env.Discover = d.discoverRoutes
	env.Extensions = p.extensions(d, p.knownHTTP)
	env.DiscoverScopes = d.discoverScopes
	env.InlineScopes = func(name string, list []*routev3.ScopedRouteConfiguration) {
		d.inline = append(d.inline, inlineScopes{name, list})
	}
	env.CheckSource = p.checkSource
	env.DiscoverHosts = func(rc *routev3.RouteConfiguration, build func(*routev3.RouteConfiguration) (*route.Table, error)) (func(int) *route.Table, error) {
		return d.discoverHosts(p, rc, build)
	}
	return env
}

// router builds the filter that ends HTTP filter chains.
func (p *Proxy) router(cfg proto.Message, st *hcm.Stats) (filter.HTTPFactory, bool, error) {
	r, ok := cfg.(*routerv3.Router)
	if !ok {
		return nil, false, nil
	}
	c := &router.Config{
		SuppressEnvoyHeaders: r.GetSuppressEnvoyHeaders(), RespectExpectedTimeout: r.GetRespectExpectedRqTimeout(),
		NoDynamicStats: r.GetDynamicStats() != nil && !r.GetDynamicStats().GetValue(), Zone: p.cfg.GetNode().GetLocality().GetZone(),
		SuppressGRPCCodes: r.GetSuppressGrpcRequestFailureCodeStats(),
		Stats:             router.Stats{NoRoute: st.NoRoute, NoCluster: st.NoCluster, RqTotal: st.RouterTotal, RqDirectResponse: st.RqDirectResponse, ResetAfterStart: st.RqOverloadReset},
	}
	for _, h := range r.GetStrictCheckHeaders() {
		c.StrictChecks = append(c.StrictChecks, strings.ToLower(h))
	}
	var err error
	if c.UpstreamFilters, err = p.upstreamFilters("upstream_http_filters", r.GetUpstreamHttpFilters()); err != nil {
		return nil, true, err
	}
	if c.UpstreamLog, err = p.upstreamLog(r); err != nil {
		return nil, true, err
	}
	return router.New(c), true, nil
}

// upstreamLog reads what a router logs of its attempts.
func (p *Proxy) upstreamLog(r *routerv3.Router) (router.UpstreamLog, error) {
	logs, err := p.logs("upstream_log", r.GetUpstreamLog())
	o := r.GetUpstreamLogOptions()
	return router.UpstreamLog{Logs: logs, OnReady: o.GetFlushUpstreamLogOnUpstreamStream(), Interval: o.GetUpstreamLogFlushInterval().AsDuration()}, err
}

package proxy

import (
	"sync/atomic"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

// inlineRoutes are a connection manager's own routes, to which virtual hosts are
// discovered.
type inlineRoutes struct {
	own    *routev3.RouteConfiguration
	shown  atomic.Pointer[routev3.RouteConfiguration] // with the discovered ones
	build  func(*routev3.RouteConfiguration) (*route.Table, error)
	tables []*route.Table // as a routeUser's
	stats  vhdsStats
	set    *hostSet // nil until it is attached
	wait
}

// discoverHosts makes a connection manager with own routes a user of discovered
// virtual hosts, which belongs to deps.
func (d *chainDeps) discoverHosts(p *Proxy, rc *routev3.RouteConfiguration, build func(*routev3.RouteConfiguration) (*route.Table, error)) (func(int) *route.Table, error) {
	t, err := build(rc)
	if err != nil {
		return nil, err
	}
	u := &inlineRoutes{own: rc, build: build, tables: make([]*route.Table, d.workers)}
	for i := range u.tables {
		u.tables[i] = t
	}
	u.shown.Store(rc)
	u.stats.fill(p.stat.Scope("vhds." + rc.GetName()))
	d.growing = append(d.growing, u)
	return func(worker int) *route.Table { return u.tables[worker] }, nil
}

func (r *Resources) attachInline(u *inlineRoutes) {
	u.set = r.joinHosts(u, u.own.GetName(), u.own.GetVhds().GetConfigSource(), nil)
	if u.set.over {
		u.end()
	}
	if len(u.set.hosts) == 0 {
		return
	}
	commit, err := u.rehost(r, sortedHosts(u.set.hosts))
	if err != nil {
		r.p.component("router").Warn("the virtual hosts in force do not suit a new listener, which waits for others", "error", err)
		return
	}
	commit()
}

func (r *Resources) detachInline(u *inlineRoutes) {
	u.halt()
	if u.set != nil {
		r.leaveHosts(u.set, u)
		u.set = nil
	}
}

// rehost implements hostUser.
func (u *inlineRoutes) rehost(r *Resources, hosts []*routev3.VirtualHost) (func(), error) {
	rc := withHosts(u.own, hosts)
	t, err := u.build(rc)
	if err != nil {
		return nil, err
	}
	return func() {
		u.shown.Store(rc)
		r.putTable(u.tables, t)
	}, nil
}

func (u *inlineRoutes) hostsCame() { u.end() }

func (u *inlineRoutes) hostStats() []*vhdsStats { return []*vhdsStats{&u.stats} }

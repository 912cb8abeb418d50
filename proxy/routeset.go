package proxy

import (
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// routeState is a route configuration of one source, and the connection
// managers that have their routes of it.
type routeState struct {
	name   string
	source *corev3.ConfigSource
	users  []*routeUser
	// own is what came, last what is in force: with the virtual hosts of hosts.
	// Nil before the first.
	own   *checkedRoutes
	last  *routev3.RouteConfiguration
	hosts *hostSet // nil without vhds
	over  bool     // nobody waits for the first any more, nor who comes later
	// origin has the hash of what is not a virtual host.
	origin
	rejected *failure
}

// routeUser is a connection manager with discovered routes.
type routeUser struct {
	name   string
	source *corev3.ConfigSource
	build  func(*routev3.RouteConfiguration) (*route.Table, error)
	// tables are what streams take, by worker and confined to it: a worker hears
	// of routes and clusters in the order of their changes, so that it never has
	// a route to a cluster that it does not have yet, or any more.
	tables []*route.Table
	stats  rdsStats
	prefix *stats.Scope // "http.<prefix>"
	vhds   *vhdsStats   // nil before there are any
	state  *routeState  // nil until it is attached
	// settled is called when there is nothing more to wait for; nil for nobody.
	settled func()
	wait
}

// rdsStats are "http.<prefix>.rds.<name>." (RT-13).
type rdsStats struct {
	subscription
	ConfigReload     stats.Counter `stat:"config_reload"`
	ConfigReloadTime stats.Gauge   `stat:"config_reload_time_ms"`
	UpdateEmpty      stats.Counter `stat:"update_empty"`
}

func (s *rdsStats) fill(scope *stats.Scope) {
	scope.Fill(s)
	s.text = scope.Text("version_text")
}

func (u *routeUser) subscription() *subscription { return &u.stats.subscription }

// wait is the waiting for a resource.
type wait struct {
	over  bool // it came, or is not waited for any longer
	timer *time.Timer
}

func (w *wait) end() {
	w.over = true
	w.halt()
}

func (w *wait) halt() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// discoverRoutes makes a connection manager a user of discovered routes, which
// belongs to deps.
func (d *chainDeps) discoverRoutes(rds *hcmv3.Rds, prefix *stats.Scope, build func(*routev3.RouteConfiguration) (*route.Table, error)) func(int) *route.Table {
	u := &routeUser{name: rds.GetRouteConfigName(), source: rds.GetConfigSource(), build: build, prefix: prefix, tables: make([]*route.Table, d.workers)}
	u.stats.fill(prefix.Scope("rds." + u.name))
	d.routes = append(d.routes, u)
	return func(worker int) *route.Table { return u.tables[worker] }
}

func (r *Resources) attachRoutes(u *routeUser) {
	s := oneOfSource(r.routes[u.name], u.source)
	if s == nil {
		s = &routeState{name: u.name, source: u.source}
		r.routes[u.name] = append(r.routes[u.name], s)
		r.tell.add(true, RouteType, u.name, u.source)
		u.stats.asked(r.p.stat.Main(), u.source)
	}
	s.users = append(s.users, u)
	u.state = s
	if s.last == nil {
		u.over = s.over
		return
	}
	t, err := u.build(s.last)
	if err != nil {
		r.p.component("router").Warn("the routes in force do not suit a new listener, which waits for others", "error", err)
		return
	}
	u.take(r, s, t)
}

// take puts a table in force.
func (u *routeUser) take(r *Resources, s *routeState, t *route.Table) {
	r.putTable(u.tables, t)
	if s.hosts != nil && !s.hosts.over {
		u.halt() // the routes came; what is waited for is virtual hosts
		return
	}
	u.end()
	if u.settled != nil {
		u.settled()
	}
	u.countReload(r, s)
}

// countReload counts routes that were put in force: once for those who count by
// the same names.
func (u *routeUser) countReload(r *Resources, s *routeState) {
	if i := slices.IndexFunc(s.users, func(x *routeUser) bool { return x.stats == u.stats }); i >= 0 && s.users[i] != u {
		return
	}
	m := r.p.stat.Main()
	m.Inc(u.stats.ConfigReload)
	m.GaugeSet(u.stats.ConfigReloadTime, s.at.UnixMilli())
}

// putTable gives each worker a table.
func (r *Resources) putTable(tables []*route.Table, t *route.Table) {
	for i := range tables {
		if i >= len(r.p.workers) {
			tables[i] = t // that worker does not run yet
			continue
		}
		r.p.workers[i].w.Loop.PostUnhurried(func() { tables[i] = t })
	}
}

func (r *Resources) detachRoutes(u *routeUser) {
	s := u.state
	u.halt()
	if s == nil {
		return
	}
	u.state = nil
	s.users = slices.DeleteFunc(s.users, func(x *routeUser) bool { return x == u })
	if len(s.users) > 0 {
		return
	}
	r.tell.add(false, RouteType, s.name, s.source)
	if s.hosts != nil {
		r.leaveHosts(s.hosts, s)
		s.hosts = nil
	}
	forget(r.routes, s.name, s)
}

// SetRoutes makes a route configuration the routes of the connection managers
// that refer to its name and source (RT-13); a nil source is any. Requests under
// way keep the routes they have. One that no listener refers to is ignored.
func (r *Resources) SetRoutes(source *corev3.ConfigSource, rc *routev3.RouteConfiguration, version string) error {
	return setOfSource(r, func() []*routeState { return r.routes[rc.GetName()] }, source, func(s *routeState) error { return r.reroute(s, rc, version) })
}

func (r *Resources) reroute(s *routeState, rc *routev3.RouteConfiguration, version string) error {
	m, begun := r.p.stat.Main(), time.Now()
	accepted := func(s *subscription) { s.accepted(m, begun, version) }
	from, err := newOrigin(route.WithoutHosts(rc), version)
	kept := s.own.stayed(rc.GetVirtualHosts())
	if err == nil && s.last != nil && s.same(&from) && s.own.all(kept) {
		s.own = s.own.again(rc)
		s.version, s.rejected = version, nil
		subscriptions(s.users, (*routeUser).subscription, accepted)
		return nil
	}
	var checked *checkedRoutes
	if err == nil {
		checked, err = r.checkRoutes(s.own, rc, kept)
	}
	if err == nil && checked.config.GetVhds() != nil {
		err = r.p.checkSource("vhds.config_source", checked.config.GetVhds().GetConfigSource(), VirtualHostType)
	}
	var merged *routev3.RouteConfiguration
	var tables []*route.Table
	if err == nil {
		merged = withHosts(checked.config, r.hostsFor(s, checked.config))
		tables, err = s.build(merged)
	}
	if err != nil {
		subscriptions(s.users, (*routeUser).subscription, func(s *subscription) { s.rejected(m) })
		s.rejected = &failure{rc, version, time.Now(), err}
		if s.hosts == nil {
			r.endRoutes(s)
		}
		return fmt.Errorf("routes %q: %w", rc.GetName(), err)
	}
	s.own, s.last, s.origin, s.rejected = checked, merged, from, nil
	r.moveHosts(s)
	subscriptions(s.users, (*routeUser).subscription, accepted)
	for i, u := range slices.Clone(s.users) { // those of scopes may leave
		u.take(r, s, tables[i])
	}
	r.settleListeners()
	return nil
}

// noRoutes ends the waiting for routes that do not exist.
func (r *Resources) noRoutes(s *routeState) {
	for _, u := range s.users {
		r.p.stat.Main().Inc(u.stats.UpdateEmpty)
	}
	r.endRoutes(s)
}

// endRoutes ends the waiting for routes that do not exist or are wrong, as in Envoy.
func (r *Resources) endRoutes(s *routeState) {
	s.over = true
	for _, u := range slices.Clone(s.users) { // those of scopes may leave
		u.end()
		if u.settled != nil {
			u.settled()
		}
	}
	r.settleListeners()
}

// build makes the users' tables.
func (s *routeState) build(rc *routev3.RouteConfiguration) (tables []*route.Table, err error) {
	tables = make([]*route.Table, len(s.users))
	for i, u := range s.users {
		if tables[i], err = u.build(rc); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// hostsFor are the discovered virtual hosts that a new route configuration
// begins with: those that are known of its source, or else those of the former
// one.
func (r *Resources) hostsFor(s *routeState, rc *routev3.RouteConfiguration) []*routev3.VirtualHost {
	if rc.GetVhds() == nil {
		return nil
	}
	if set := r.hostSetOf(s.name, rc.GetVhds().GetConfigSource()); set != nil {
		return sortedHosts(set.hosts)
	}
	if s.hosts != nil {
		return sortedHosts(s.hosts.hosts)
	}
	return nil
}

// moveHosts makes the route configuration in force a user of the virtual hosts
// that it refers to.
func (r *Resources) moveHosts(s *routeState) {
	before, source := s.hosts, s.own.config.GetVhds().GetConfigSource()
	if source != nil && before != nil && sameSource(before.source, source) {
		return
	}
	s.hosts = nil
	if source != nil {
		s.hosts = r.joinHosts(s, s.name, source, before)
	}
	if before != nil {
		r.leaveHosts(before, s)
	}
}

// rehost implements hostUser.
func (s *routeState) rehost(r *Resources, hosts []*routev3.VirtualHost) (func(), error) {
	rc := withHosts(s.own.config, hosts)
	tables, err := s.build(rc)
	if err != nil {
		return nil, err
	}
	return func() {
		s.last, s.version, s.at = rc, "", time.Now() // as Envoy shows it
		for i, u := range slices.Clone(s.users) {
			u.take(r, s, tables[i])
			if s.hosts != nil && !s.hosts.over {
				u.countReload(r, s)
			}
		}
	}, nil
}

// hostsCame implements hostUser.
func (s *routeState) hostsCame() {
	for _, u := range slices.Clone(s.users) { // those of scopes may leave
		u.end()
		if u.settled != nil {
			u.settled()
		}
	}
}

// hostStats implements hostUser.
func (s *routeState) hostStats() []*vhdsStats {
	out := make([]*vhdsStats, len(s.users))
	for i, u := range s.users {
		if u.vhds == nil {
			u.vhds = &vhdsStats{}
			u.vhds.fill(u.prefix.Scope("rds.vhds." + u.name))
		}
		out[i] = u.vhds
	}
	return out
}

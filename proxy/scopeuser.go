package proxy

import (
	"errors"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/demand"
	"github.com/xebec-proxy/xebec/internal/dataplane/hcm"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// scopeUser is a connection manager with discovered scopes.
type scopeUser struct {
	*hcm.Scoped
	source *corev3.ConfigSource
	// scopes are what streams take, by worker and confined to it. They lead to the
	// tables of routes, which change without them.
	scopes []*route.Scopes
	routes map[string]*scopeRoutes // by the name of the route configuration
	keys   map[string]*scopePlace
	stats  scopeStats
	state  *scopeState // nil until it is attached
	loaded int64       // scopes that have got their routes on demand
	ready  bool        // the first scopes and their routes have come
	wait
}

// scopeStats are "http.<prefix>.scoped_rds.<name>." (RT-11).
type scopeStats struct {
	subscription
	ActiveScopes     stats.Gauge   `stat:"active_scopes"`
	AllScopes        stats.Gauge   `stat:"all_scopes"`
	ConfigReload     stats.Counter `stat:"config_reload"`
	ConfigReloadTime stats.Gauge   `stat:"config_reload_time_ms"`
	OnDemandScopes   stats.Gauge   `stat:"on_demand_scopes"`
	UpdateEmpty      stats.Counter `stat:"update_empty"`
}

// scopeRoutes are routes of RDS that scopes of one connection manager share.
type scopeRoutes struct {
	*routeUser
	uses int
	// waiting are the places, by key, whose next target has these routes, for which
	// something else stays in force. What the coming of routes costs follows from it.
	waiting map[string]*scopePlace
}

// scopePlace is what a key leads to.
type scopePlace struct {
	now  *scopeTarget // what requests find, or nil
	next *scopeTarget // what takes its place when its routes are there, or nil
	// askers wait for next, in the place of a scope without routes.
	askers []asker
}

// follow replaces what is to come.
func (p *scopePlace) follow(u *scopeUser, r *Resources, key string, t *scopeTarget) {
	if old := p.next; old != nil && old.routes != nil {
		delete(old.routes.waiting, key)
		u.release(r, old)
	}
	p.next = t
}

// scopeTarget is where a scope has its routes.
type scopeTarget struct {
	name   string
	table  *route.Table // its own, or nil
	routes *scopeRoutes
	// lazy says that routes are found on demand: those of this name, when somebody
	// asks. loaded says that such ones are in force.
	lazy   string
	loaded bool
}

// settled reports whether there is no table to wait for.
func (t *scopeTarget) settled() bool { return t.routes == nil || t.routes.over }

// on is the scope as a worker has it.
func (t *scopeTarget) on(worker int) *route.Scope {
	if t.routes == nil {
		return &route.Scope{Name: t.name, Table: &t.table, Lazy: t.lazy != ""}
	}
	return &route.Scope{Name: t.name, Table: &t.routes.tables[worker]}
}

// discoverScopes makes a connection manager a user of discovered scopes, which
// belongs to deps.
func (d *chainDeps) discoverScopes(s *hcm.Scoped) func(int) *route.Scopes {
	u := &scopeUser{
		Scoped: s, source: s.Config.GetScopedRds().GetScopedRdsConfigSource(),
		routes: map[string]*scopeRoutes{}, keys: map[string]*scopePlace{},
	}
	for range d.workers {
		u.scopes = append(u.scopes, s.NewScopes())
	}
	own := s.Scope.Scope("scoped_rds." + s.Config.GetName())
	own.Fill(&u.stats)
	u.stats.text = own.Text("version_text")
	d.scopes = append(d.scopes, u)
	return func(worker int) *route.Scopes { return u.scopes[worker] }
}

func (u *scopeUser) subscription() *subscription { return &u.stats.subscription }

// inlineTables builds the tables that stand in scopes.
func (u *scopeUser) inlineTables(set []*scopeEntry) ([]*route.Table, error) {
	out := make([]*route.Table, len(set))
	for i, e := range set {
		var err error
		switch {
		case e.inline():
			if out[i], err = u.Inline(e.config.GetRouteConfiguration()); err != nil {
				err = fmt.Errorf("route_configuration: %w", err)
			}
		case u.Config.GetRdsConfigSource() == nil:
			err = errors.New("route_configuration_name: scoped_routes has no rds_config_source to get it from")
		}
		if err != nil {
			return nil, fmt.Errorf("scope %q: %w", e.config.GetName(), err)
		}
	}
	return out, nil
}

// change carries out a change of the scopes, whose own tables were built. The
// state has it already.
func (u *scopeUser) change(r *Resources, c *scopeChange, tables []*route.Table) {
	wanted := map[string]*scopeTarget{} // by key
	for i, e := range c.set {
		t := &scopeTarget{name: e.config.GetName(), table: tables[i]}
		if !e.inline() {
			u.lead(r, t, e)
		}
		wanted[e.key] = t
	}
	moves := map[string]*scopeTarget{}
	var askers []asker
	for _, key := range c.left {
		if p := u.keys[key]; p != nil {
			askers = append(askers, u.clear(r, key, p)...)
			delete(u.keys, key)
			moves[key] = nil
		}
	}
	places := make(map[string]*scopePlace, len(wanted))
	for key, t := range wanted {
		p := u.keys[key]
		if p == nil {
			p = &scopePlace{}
			u.keys[key] = p
		}
		p.follow(u, r, key, t)
		places[key] = p
	}
	u.end()
	u.advance(r, places, moves)
	r.answerAll(askers)
}

// lead finds the routes of a scope, unless they are found on demand and nobody
// has asked.
func (u *scopeUser) lead(r *Resources, t *scopeTarget, e *scopeEntry) {
	name := e.config.GetRouteConfigurationName()
	if e.config.GetOnDemand() {
		t.lazy = name
	}
	if p := u.keys[e.key]; t.lazy == "" || u.routes[name] != nil || p != nil && len(p.askers) > 0 {
		t.routes = u.useRoutes(r, name)
	}
}

// advance puts the next targets of places, which are by key, in force if their
// routes are there or they have nothing to replace; the others wait for theirs.
func (u *scopeUser) advance(r *Resources, places map[string]*scopePlace, moves map[string]*scopeTarget) {
	var askers []asker
	for key, p := range places {
		if p.now != nil && !p.next.settled() {
			p.next.routes.waiting[key] = p
			continue
		}
		if p.next.routes != nil {
			delete(p.next.routes.waiting, key)
		}
		u.release(r, p.now)
		p.now, p.next = p.next, nil
		if p.now.lazy != "" && p.now.routes != nil {
			p.now.loaded = true
			u.loaded++
		}
		moves[key] = p.now
		askers = append(askers, p.askers...)
		p.askers = nil
	}
	if len(moves) == 0 {
		return
	}
	u.put(r, moves)
	r.answerAll(askers)
	if u.state != nil {
		u.count(r, u.state)
	}
}

// put tells the workers where keys lead; nil for nowhere.
func (u *scopeUser) put(r *Resources, moves map[string]*scopeTarget) {
	for i, s := range u.scopes {
		put := func() {
			for key, t := range moves {
				if t == nil {
					s.Set(key, nil)
				} else {
					s.Set(key, t.on(i))
				}
			}
		}
		if i >= len(r.p.workers) {
			put() // that worker does not run yet
			continue
		}
		r.p.workers[i].w.Loop.PostUnhurried(put)
	}
}

// useRoutes follows a route configuration for one more scope.
func (u *scopeUser) useRoutes(r *Resources, name string) *scopeRoutes {
	s := u.routes[name]
	if s == nil {
		x := &routeUser{name: name, source: u.Config.GetRdsConfigSource(), build: u.Discovered(), prefix: u.Scope, tables: make([]*route.Table, len(u.scopes))}
		x.stats.fill(u.Scope.Scope("rds." + name))
		s = &scopeRoutes{routeUser: x, waiting: map[string]*scopePlace{}}
		x.settled = func() { u.advance(r, s.waiting, map[string]*scopeTarget{}) }
		u.routes[name] = s
		r.attachRoutes(x)
		if r.listening {
			r.startRoutes(x)
		}
	}
	s.uses++
	return s
}

// release gives up a target.
func (u *scopeUser) release(r *Resources, t *scopeTarget) {
	if t == nil || t.routes == nil {
		return
	}
	if t.loaded {
		u.loaded--
	}
	if t.routes.uses--; t.routes.uses == 0 {
		delete(u.routes, t.routes.name)
		r.detachRoutes(t.routes.routeUser)
	}
}

// clear gives up a place. Those who wait for it are to go on without.
func (u *scopeUser) clear(r *Resources, key string, p *scopePlace) []asker {
	u.release(r, p.now)
	p.follow(u, r, key, nil)
	askers := p.askers
	p.now, p.askers = nil, nil
	return askers
}

func (r *Resources) answerAll(askers []asker) {
	for _, a := range askers {
		r.answer(a)
	}
}

// askScope gets the routes of a scope that has them on demand (RT-11).
func (r *Resources) askScope(w asker) {
	u, p := r.scopeOf(w.key)
	switch {
	case p == nil || p.now == nil || p.now.routes != nil || p.now.lazy == "":
		r.answer(w) // it has changed meanwhile
		return
	case p.next == nil:
		p.next = &scopeTarget{name: p.now.name, lazy: p.now.lazy, routes: u.useRoutes(r, p.now.lazy)}
	}
	p.askers = append(p.askers, w)
	u.advance(r, map[string]*scopePlace{w.key.Name: p}, map[string]*scopeTarget{})
}

// scopeOf is the place of a scope that workers ask for; nil if there is none.
func (r *Resources) scopeOf(k demand.Key) (u *scopeUser, p *scopePlace) {
	for _, s := range r.scopes {
		for _, x := range s.users {
			if x.source == k.Source {
				u, p = x, x.keys[k.Name]
			}
		}
	}
	return u, p
}

// leaveScope forgets that a worker waits for the routes of a scope.
func (r *Resources) leaveScope(w asker) {
	if _, p := r.scopeOf(w.key); p != nil {
		p.askers = slices.DeleteFunc(p.askers, func(a asker) bool { return a.worker == w.worker && a.key == w.key })
	}
}

// leave gives up everything.
func (u *scopeUser) leave(r *Resources) {
	for key, p := range u.keys {
		r.answerAll(u.clear(r, key, p))
	}
	clear(u.keys)
}

// warm reports whether the first scopes and their routes have come. Those that
// come later are not waited for.
func (u *scopeUser) warm() bool {
	if u.ready || !u.over {
		return u.ready
	}
	for _, s := range u.routes {
		if !s.over {
			return false
		}
	}
	u.ready = true
	return true
}

// tell sets the statistics after an update.
func (u *scopeUser) tell(r *Resources, s *scopeState) {
	m := r.p.stat.Main()
	if s.came {
		m.Inc(u.stats.ConfigReload)
		m.GaugeSet(u.stats.ConfigReloadTime, s.at.UnixMilli())
	}
	u.count(r, s)
}

func (u *scopeUser) count(r *Resources, s *scopeState) {
	m := r.p.stat.Main()
	m.GaugeSet(u.stats.ActiveScopes, s.discovered+u.loaded)
	m.GaugeSet(u.stats.AllScopes, int64(len(s.scopes)))
	m.GaugeSet(u.stats.OnDemandScopes, s.lazy)
}

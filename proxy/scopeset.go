package proxy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

// everyName is the name of a subscription to all resources of a type.
const everyName = "*"

// scopeState are the scopes of one source, and the connection managers that have
// their scopes of it.
type scopeState struct {
	source *corev3.ConfigSource
	users  []*scopeUser
	scopes map[string]*scopeEntry // in force, by name
	keys   map[string]string      // their names, by key
	// discovered is how many have routes of RDS.
	discovered int64
	// lazy is how many more have them on demand.
	lazy int64
	came bool // there was an answer
	over bool // nobody waits for it any more, nor who comes later
	origin
	rejected *failure
}

// scopeEntry is a scope in force.
type scopeEntry struct {
	config *routev3.ScopedRouteConfiguration
	key    string
	origin
}

// inline reports whether the scope holds its own routes.
func (e *scopeEntry) inline() bool { return e.config.GetRouteConfiguration() != nil }

// scopeChange is what an update makes of the scopes of a source.
type scopeChange struct {
	set     []*scopeEntry // those that are new or differ
	removed []string
	left    []string // keys that no scope has any more
}

// SetScopedRoutes changes the scopes of the connection managers that have them
// of a source, all at one stroke: those of set come or take the place of those of
// their names, those of removed go (RT-11). If one is wrong, or two would have
// the same key, none is changed. A nil source is any. Requests under way keep the
// routes they have; those of a scope that gets another route configuration find
// the former one until the new one has come.
func (r *Resources) SetScopedRoutes(source *corev3.ConfigSource, set []*routev3.ScopedRouteConfiguration, removed []string, version string) error {
	return setOfSource(r, func() []*scopeState { return r.scopes }, source, func(s *scopeState) error { return r.rescope(s, set, removed, version) })
}

func (r *Resources) rescope(s *scopeState, set []*routev3.ScopedRouteConfiguration, removed []string, version string) error {
	m, begun := r.p.stat.Main(), time.Now()
	change, err := r.scopeChange(s, set, removed)
	tables := make([][]*route.Table, len(s.users))
	for i, u := range s.users {
		if err == nil {
			tables[i], err = u.inlineTables(change.set)
		}
	}
	if err != nil {
		subscriptions(s.users, (*scopeUser).subscription, func(s *subscription) { s.rejected(m) })
		s.rejected = &failure{config: firstOf(set), version: version, at: time.Now(), err: err}
		r.endScopes(s)
		return err
	}
	s.came, s.rejected, s.version, s.at = true, nil, version, time.Now()
	s.commit(change)
	subscriptions(s.users, (*scopeUser).subscription, func(s *subscription) { s.accepted(m, begun, version) })
	for i, u := range s.users {
		u.change(r, change, tables[i])
		u.tell(r, s)
	}
	r.settleListeners()
	return nil
}

// scopeChange finds out what an update changes, and refuses what is wrong.
func (r *Resources) scopeChange(s *scopeState, set []*routev3.ScopedRouteConfiguration, removed []string) (*scopeChange, error) {
	c := &scopeChange{}
	named := make(map[string]bool, len(set))
	for _, sc := range set {
		if named[sc.GetName()] {
			return nil, refusedScopes("duplicate scoped route configuration '%s' found", sc.GetName())
		}
		named[sc.GetName()] = true
	}
	gone := map[string]bool{}
	for _, name := range removed {
		if s.scopes[name] != nil && !named[name] && !gone[name] {
			gone[name] = true
			c.removed = append(c.removed, name)
		}
	}
	for _, sc := range set {
		e, err := r.newScope(s.scopes[sc.GetName()], sc)
		if err != nil {
			return nil, fmt.Errorf("scope %q: %w", sc.GetName(), err)
		}
		if e != nil {
			c.set = append(c.set, e)
		}
	}
	return c, s.conflict(c, gone)
}

func refusedScopes(format string, args ...any) error {
	return fmt.Errorf("Error adding/updating scoped route(s): "+format, args...)
}

// conflict refuses two scopes of one key.
func (s *scopeState) conflict(c *scopeChange, gone map[string]bool) error {
	changed := make(map[string]bool, len(c.set))
	for _, e := range c.set {
		changed[e.config.GetName()] = true
	}
	taken := make(map[string]string, len(c.set))
	for _, e := range c.set {
		name := e.config.GetName()
		other, twice := taken[e.key]
		if !twice {
			if other, twice = s.keys[e.key]; gone[other] || changed[other] {
				twice = false
			}
		}
		if twice {
			return refusedScopes("scope key conflict found, first scope is '%s', second scope is '%s'", other, name)
		}
		taken[e.key] = name
	}
	return nil
}

// newScope checks a scope; nil if it is what is in force.
func (r *Resources) newScope(old *scopeEntry, sc *routev3.ScopedRouteConfiguration) (*scopeEntry, error) {
	from, err := newOrigin(sc, "")
	if err != nil {
		return nil, err
	}
	if old != nil && old.same(&from) {
		return nil, nil //nolint:nilnil // nothing changes
	}
	checked, err := checkAs(r, sc)
	if err != nil {
		return nil, err
	}
	if checked.GetRouteConfiguration() == nil && checked.GetRouteConfigurationName() == "" {
		return nil, errors.New("route_configuration_name is empty.") //nolint:revive,staticcheck // Envoy's text
	}
	return &scopeEntry{config: checked, key: route.ScopeKey(checked.GetKey()), origin: from}, nil
}

// commit makes the scopes those that a change leads to.
func (s *scopeState) commit(c *scopeChange) {
	var left []string
	drop := func(name string) {
		old := s.scopes[name]
		if old == nil {
			return
		}
		delete(s.scopes, name)
		delete(s.keys, old.key)
		left = append(left, old.key)
		s.number(old, -1)
	}
	for _, name := range c.removed {
		drop(name)
	}
	for _, e := range c.set {
		drop(e.config.GetName())
	}
	for _, e := range c.set {
		s.scopes[e.config.GetName()] = e
		s.keys[e.key] = e.config.GetName()
		s.number(e, 1)
	}
	for _, key := range left {
		if _, taken := s.keys[key]; !taken {
			c.left = append(c.left, key)
		}
	}
}

func (s *scopeState) number(e *scopeEntry, by int64) {
	switch {
	case e.inline():
	case e.config.GetOnDemand():
		s.lazy += by
	default:
		s.discovered += by
	}
}

func firstOf(set []*routev3.ScopedRouteConfiguration) *routev3.ScopedRouteConfiguration {
	if len(set) == 0 {
		return &routev3.ScopedRouteConfiguration{}
	}
	return set[0]
}

// all are the scopes in force, in the order of their names.
func (s *scopeState) all() []*scopeEntry {
	out := make([]*scopeEntry, 0, len(s.scopes))
	for _, name := range slices.Sorted(maps.Keys(s.scopes)) {
		out = append(out, s.scopes[name])
	}
	return out
}

// attachScopes makes a connection manager follow the scopes of its source.
func (r *Resources) attachScopes(u *scopeUser) {
	s := oneOfSource(r.scopes, u.source)
	if s == nil {
		s = &scopeState{source: u.source, scopes: map[string]*scopeEntry{}, keys: map[string]string{}}
		r.scopes = append(r.scopes, s)
		r.tell.add(true, ScopedRouteType, everyName, u.source)
		u.stats.asked(r.p.stat.Main(), u.source)
	}
	s.users = append(s.users, u)
	u.state = s
	if !s.came {
		u.over = s.over
		return
	}
	change := &scopeChange{set: s.all()}
	tables, err := u.inlineTables(change.set)
	if err != nil {
		r.p.component("router").Warn("the scopes in force do not suit a new listener, which waits for others", "error", err)
		return
	}
	u.change(r, change, tables)
	u.tell(r, s)
}

func (r *Resources) detachScopes(u *scopeUser) {
	s := u.state
	u.halt()
	u.leave(r)
	if s == nil {
		return
	}
	u.state = nil
	if s.users = slices.DeleteFunc(s.users, func(x *scopeUser) bool { return x == u }); len(s.users) > 0 {
		return
	}
	r.tell.add(false, ScopedRouteType, everyName, s.source)
	u.tell(r, &scopeState{}) // nothing is shown of what nobody has
	r.scopes = slices.DeleteFunc(r.scopes, func(x *scopeState) bool { return x == s })
}

// noScopes ends the waiting for scopes that do not come.
func (r *Resources) noScopes(s *scopeState) {
	for _, u := range s.users {
		r.p.stat.Main().Inc(u.stats.UpdateEmpty)
	}
	r.endScopes(s)
}

// endScopes ends the waiting for scopes that do not come or are wrong, as in Envoy.
func (r *Resources) endScopes(s *scopeState) {
	s.over = true
	for _, u := range s.users {
		u.end()
	}
	r.settleListeners()
}

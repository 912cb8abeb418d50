package hcm

import (
	"errors"
	"fmt"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/xds"
)

// Scoped is what scopes are discovered for: the scoped_routes of a connection
// manager with scoped_rds (RT-11).
type Scoped struct {
	Config *hcmv3.ScopedRoutes
	// NewScopes makes an empty set of scopes for a worker.
	NewScopes func() *route.Scopes
	// Scope is "http.<prefix>".
	Scope *stats.Scope
	// Inline builds a table that stands in a scope.
	Inline func(*routev3.RouteConfiguration) (*route.Table, error)
	// Discovered gives, for one route configuration, what builds its tables one
	// after the other as they come by RDS: each of what has stayed of the former.
	Discovered func() func(*routev3.RouteConfiguration) (*route.Table, error)
}

// scoped takes the route table of each request from its scope (RT-11).
func (b *builder) scoped(env *route.Env) {
	sr := b.cfg.GetScopedRoutes()
	key, err := route.NewScopeKeyBuilder(sr.GetScopeKeyBuilder())
	b.fail("scoped_routes.scope_key_builder", err)
	if sr.GetName() == "" {
		b.fail("scoped_routes.name", errors.New("a name is needed"))
	}
	if rds := sr.GetRdsConfigSource(); rds != nil {
		b.fail("", b.env.CheckSource("scoped_routes.rds_config_source", rds, xds.RouteType))
	}
	switch sr.GetConfigSpecifier().(type) {
	case *hcmv3.ScopedRoutes_ScopedRouteConfigurationsList:
		b.inlineScopes(sr, key, env)
	case *hcmv3.ScopedRoutes_ScopedRds:
		srds := sr.GetScopedRds().GetScopedRdsConfigSource()
		if srds == nil {
			b.fail("scoped_routes.scoped_rds.scoped_rds_config_source", errors.New("a config source is needed"))
			return
		}
		b.fail("", b.env.CheckSource("scoped_routes.scoped_rds.scoped_rds_config_source", srds, xds.ScopedRouteType))
		b.out.ScopeSource = srds
		b.out.Scopes = b.env.DiscoverScopes(&Scoped{
			Config: sr, NewScopes: func() *route.Scopes { return route.NewScopes(key) }, Scope: b.out.Scope,
			Inline:     func(rc *routev3.RouteConfiguration) (*route.Table, error) { return tableInScope(rc, env) },
			Discovered: func() func(*routev3.RouteConfiguration) (*route.Table, error) { return discoveredTables(env) },
		})
	default:
		b.fail("scoped_routes", errors.New("config_specifier: scoped_route_configurations_list or scoped_rds is needed"))
	}
}

// inlineScopes are those of the configuration itself. Of two with one name or
// one key the last counts, as in Envoy.
func (b *builder) inlineScopes(sr *hcmv3.ScopedRoutes, key *route.ScopeKeyBuilder, env *route.Env) {
	list := sr.GetScopedRouteConfigurationsList().GetScopedRouteConfigurations()
	scopes, keys, owners := route.NewScopes(key), map[string]string{}, map[string]string{}
	for i, c := range list {
		at := fmt.Sprintf("scoped_routes.scoped_route_configurations_list.scoped_route_configurations[%d]", i)
		t, err := inlineTable(c, env)
		b.fail(at, err)
		name, k := c.GetName(), route.ScopeKey(c.GetKey())
		if old, twice := keys[name]; twice {
			b.warn("a scope of this name was there before; the last one counts", at)
			scopes.Set(old, nil)
			delete(owners, old)
		}
		if other, twice := owners[k]; twice {
			b.warn(fmt.Sprintf("scope '%s' has the same key; the last one counts", other), at)
		}
		keys[name], owners[k] = k, name
		scopes.Set(k, &route.Scope{Name: name, Table: &t})
	}
	b.env.InlineScopes(sr.GetName(), list)
	b.out.Scopes = func(int) *route.Scopes { return scopes }
}

func (b *builder) warn(what, path string) {
	if l := b.env.Route.Logger; l != nil {
		l.Warn("Scoped routes", "problem", what, "field", path)
	}
}

func inlineTable(c *routev3.ScopedRouteConfiguration, env *route.Env) (*route.Table, error) {
	switch {
	case c.GetRouteConfigurationName() != "":
		return nil, errors.New("route_configuration_name: Fetching routes via RDS (route_configuration_name) is not supported with inline scoped routes.") //nolint:revive,staticcheck // Envoy's text
	case c.GetRouteConfiguration() == nil:
		return nil, errors.New("route_configuration: You must specify a route_configuration with inline scoped routes.") //nolint:revive,staticcheck // Envoy's text
	}
	t, err := tableInScope(c.GetRouteConfiguration(), env)
	if err != nil {
		return nil, fmt.Errorf("route_configuration: %w", err)
	}
	return t, nil
}

// tableInScope builds a table that stands in its scope.
func tableInScope(rc *routev3.RouteConfiguration, env *route.Env) (*route.Table, error) {
	if rc.GetVhds() != nil {
		return nil, errors.New("vhds: virtual hosts are not discovered for routes that stand in a scope: write route_configuration_name")
	}
	return route.New(rc, env) //nolint:wrapcheck // it has the paths
}

// discoveredTable builds a table that came by RDS, of what has stayed of the one
// before; nil is none.
func discoveredTable(before *route.Table, rc *routev3.RouteConfiguration, env *route.Env) (*route.Table, error) {
	e := *env
	if !rc.GetValidateClusters().GetValue() {
		e.ClusterExists = nil // unlike those of static routes they may come later (RT-14)
	}
	return route.Rebuild(before, rc, &e) //nolint:wrapcheck // it has the paths
}

// discoveredTables builds the tables of one route configuration, one after the other.
func discoveredTables(env *route.Env) func(*routev3.RouteConfiguration) (*route.Table, error) {
	return rebuilding(func(before *route.Table, rc *routev3.RouteConfiguration) (*route.Table, error) {
		return discoveredTable(before, rc, env)
	})
}

// keepScopeKey bounds the room for keys of scopes that streams keep, since it is
// as large as a header of a request can be.
const keepScopeKey = 1 << 10

// enterScope takes the table of the request's scope. A request that is matched
// again, after a filter has changed it, keeps the table it has unless its scope
// is another one now.
func (s *Stream) enterScope() {
	var scope *route.Scope
	scope, s.scopeKey = s.cfg.Scopes(s.w.ID).Find(&s.req, s.scopeKey)
	switch {
	case scope == nil:
		s.table = nil
	case scope != s.scope || s.table == nil:
		s.table = *scope.Table
	}
	s.scope = scope
}

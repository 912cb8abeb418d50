package discovery

import (
	"errors"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// followScopes watches all scopes of a source for one who wants them. What a
// response changes is changed at one stroke, for scopes may exchange their keys,
// and refused as a whole.
func (d *Discovery) followScopes(k want, u *user) (cancel func()) {
	t := xdsclient.ScopedRoutes()
	t.Direct = true
	t.ValidateAll = func(version string, changes []xdsclient.Candidate) error { return d.rescope(k, version, changes) }
	return xdsclient.Watch(k.source, t, k.name, xdsclient.Funcs[*routev3.ScopedRouteConfiguration]{
		// What was there before somebody came is brought one by one.
		Change: func(v xdsclient.Update[*routev3.ScopedRouteConfiguration]) {
			if !d.learns(u, v.Name) {
				return
			}
			if err := d.target.SetScopedRoutes(u.source, []*routev3.ScopedRouteConfiguration{v.Value}, nil, v.Version); err != nil {
				d.cfg.Logger.Warn("a scope that was good for others is refused", "scope", v.Name, "error", err)
			}
		},
		// Scopes that go by themselves, as their time to live ends.
		Error: func(name string, err error) {
			if name == xdsclient.Wildcard || !errors.Is(err, xdsclient.ErrMissing) && !errors.Is(err, xdsclient.ErrExpired) || !d.forgets(u, name) {
				return
			}
			if err := d.target.SetScopedRoutes(u.source, nil, []string{name}, ""); err != nil {
				d.cfg.Logger.Warn("a scope is not removed", "scope", name, "error", err)
			}
		},
		Response: func(r xdsclient.Response) { d.scopesAnswered(u, &r) },
	})
}

// rescope hands what a response changes to all who want it.
func (d *Discovery) rescope(k want, version string, changes []xdsclient.Candidate) error {
	var set []*routev3.ScopedRouteConfiguration
	var removed []string
	for i := range changes {
		c := &changes[i]
		if v, ok := c.Value.(*routev3.ScopedRouteConfiguration); ok && !c.Removed {
			set = append(set, v)
		} else if c.Removed {
			removed = append(removed, c.Name)
		}
	}
	d.mu.Lock()
	users := slices.Clone(d.wanted[k])
	d.mu.Unlock()
	var errs []error
	for _, u := range users {
		err := d.target.SetScopedRoutes(u.source, set, removed, version)
		errs = append(errs, err)
		d.mu.Lock()
		u.told = true
		if err == nil {
			u.note(set, removed)
		}
		d.mu.Unlock()
	}
	return errors.Join(errs...)
}

func (u *user) note(set []*routev3.ScopedRouteConfiguration, removed []string) {
	if u.names == nil {
		u.names = map[string]struct{}{}
	}
	for _, s := range set {
		u.names[s.GetName()] = struct{}{}
	}
	for _, name := range removed {
		delete(u.names, name)
	}
}

// learns reports whether somebody has not had a scope, who has it from now on.
func (d *Discovery) learns(u *user, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, has := u.names[name]; has {
		return false
	}
	u.note([]*routev3.ScopedRouteConfiguration{{Name: name}}, nil)
	return true
}

// forgets is the opposite of learns.
func (d *Discovery) forgets(u *user, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, has := u.names[name]
	delete(u.names, name)
	return has
}

// scopesAnswered tells of a response that changed nothing: there may be no scopes
// at all, or none that can be read.
func (d *Discovery) scopesAnswered(u *user, r *xdsclient.Response) {
	d.mu.Lock()
	told := u.told
	u.told = false
	d.mu.Unlock()
	switch {
	case told:
		return
	case r.Err != nil:
		d.target.Refused(u.source, xds.ScopedRouteType, xdsclient.Wildcard)
		return
	}
	if err := d.target.SetScopedRoutes(u.source, nil, nil, r.Version); err != nil {
		d.cfg.Logger.Warn("scopes are not taken", "error", err)
	}
}

package discovery

import (
	"cmp"
	"errors"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// want is a resource that the configuration refers to.
type want struct {
	source    *xdsclient.Source
	typ, name string
}

// canonical is the same under the name that its source knows it by.
func (k want) canonical() want {
	if xds.IsURN(k.name) {
		if l, err := xds.ParseLocator(k.name); err == nil {
			k.name = xds.Locator{URN: l.URN, Entry: l.Entry}.String()
		}
	}
	return k
}

// user is a config source that a resource is wanted by, and the resource's name, as
// they were written.
type user struct {
	source *corev3.ConfigSource
	name   string
	has    bool // a cluster on demand was brought to it
	// applied was brought to it while it was validated; the source's callbacks alone
	// know it.
	applied any
	// judged says that it was brought, or refused, while it was validated; the same know it.
	judged bool
	cancel func()
	// host is the virtual host that this one keeps, see [hosts.keeps].
	host string
	// names are the scopes it has; told, that it was told of the last response.
	names map[string]struct{}
	told  bool
}

// Want says that the configuration now refers to a resource.
func (d *Discovery) Want(typeURL, name string, c *corev3.ConfigSource) {
	d.post(func() {
		s, err := d.wanting(c, typeURL, name)
		if err != nil {
			d.cfg.Logger.Error("a config source cannot be used", "type", xds.Kind(typeURL), "resource", name, "error", err)
			d.target.Missing(c, typeURL, name)
			return
		}
		k, u := want{s.Source, typeURL, name}, &user{source: c, name: name}
		if table, ok := tableOf(k); ok {
			d.wantHosts(s.Source, table, c)
			return
		}
		d.mu.Lock()
		d.wanted[k.canonical()] = append(d.wanted[k.canonical()], u)
		d.mu.Unlock()
		u.cancel = d.watch(k, u)
	})
}

// Unwant says that it does not any more.
func (d *Discovery) Unwant(typeURL, name string, c *corev3.ConfigSource) {
	d.post(func() {
		s, err := d.wanting(c, typeURL, name)
		if err != nil {
			return
		}
		if table, ok := tableOf(want{s.Source, typeURL, name}); ok {
			d.unwantHosts(s.Source, table, c)
			return
		}
		if u := d.drop(want{s.Source, typeURL, name}.canonical(), c); u != nil {
			u.cancel()
		}
	})
}

func (d *Discovery) drop(k want, c *corev3.ConfigSource) *user {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.wanted[k]
	i := slices.IndexFunc(list, func(u *user) bool { return u.source == c })
	if i < 0 {
		return nil
	}
	u := list[i]
	if list = slices.Delete(slices.Clone(list), i, i+1); len(list) == 0 {
		delete(d.wanted, k)
		delete(d.decoders, k)
	} else {
		d.wanted[k] = list
	}
	return u
}

func (d *Discovery) watch(k want, u *user) (cancel func()) {
	from := d.located(u.source, k.canonical().name)
	switch k.typ {
	case xds.EndpointType:
		return follow(d, k, u, assignments(from), assignmentNaming(), func(source *corev3.ConfigSource, a *assignment, version string) error {
			return d.target.SetEncodedEndpoints(source, a.la, a.encoded, version)
		})
	case xds.LocalityEndpointType:
		return d.followLocality(k, u)
	case xds.RouteType:
		return follow(d, k, u, d.routes(k.source, from), routesNaming(), d.target.SetRoutes)
	case xds.SecretType:
		return follow(d, k, u, resolving(xdsclient.Secrets(), from), secretNaming(), d.target.SetSecret)
	case xds.RuntimeType:
		return follow(d, k, u, resolving(xdsclient.Runtimes(), from), runtimeNaming(), d.target.SetRuntime)
	case xds.ExtensionConfigType:
		return follow(d, k, u, resolving(xdsclient.ExtensionConfigs(), from), extensionNaming(), d.target.SetExtension)
	case xds.ScopedRouteType:
		return d.followScopes(k, u)
	case xds.VirtualHostType:
		return d.askHost(k, u)
	case xds.ClusterType:
		return d.askCluster(k, u)
	}
	d.cfg.Logger.Error("resources of this type cannot be discovered yet", "type", k.typ, "resource", k.name)
	return func() {}
}

// follow watches one resource. It is set while it is looked at, for everybody
// who wants it, so that what is wrong with it is told to the server; and when it
// comes, for those who came later, or if it was there before a redirect led to it.
func follow[T comparable](d *Discovery, k want, u *user, t xdsclient.Type[T], own naming[T], use func(*corev3.ConfigSource, T, string) error) func() {
	// Messages are made into something else at once: the bytes are enough, of what
	// there is a lot of.
	t.Transient = k.typ == xds.EndpointType
	set := func(u *user, v T, version string) error {
		v, err := own.asked(u.name, v)
		if err != nil {
			d.target.Refused(u.source, k.typ, u.name)
			return err
		}
		return use(u.source, v, version)
	}
	decode := t.Decode
	t.Decode = func(name string, body []byte) (T, error) {
		v, err := decode(name, body)
		if err != nil {
			for _, u := range d.users(want{k.source, k.typ, name}) {
				u.judged = true
				d.target.Refused(u.source, k.typ, u.name)
			}
		}
		return v, err
	}
	t.Validate = func(name, version string, v T) error {
		var errs []error
		for _, u := range d.users(want{k.source, k.typ, name}) {
			err := set(u, v, version)
			u.judged = true
			if err == nil {
				u.applied = v
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	kind := t.Kind
	w := xdsclient.Funcs[T]{
		Change: func(v xdsclient.Update[T]) {
			applied := u.applied
			u.applied = nil
			if applied == any(v.Value) {
				return
			}
			if err := set(u, v.Value, v.Version); err != nil {
				d.cfg.Logger.Warn("a resource that was good for others is refused", "type", kind, "resource", k.name, "error", err)
			}
		},
		Error: func(_ string, err error) {
			if errors.Is(err, xdsclient.ErrRejected) && !u.judged { // before somebody came
				u.judged = true
				d.target.Refused(u.source, k.typ, u.name)
			}
			if lost(err) {
				d.cfg.Logger.Error("a resource cannot be had", "type", kind, "resource", k.name, "error", err)
			}
			if lost(err) || errors.Is(err, xdsclient.ErrMissing) || errors.Is(err, xdsclient.ErrExpired) {
				d.target.Missing(u.source, k.typ, k.name)
			}
		},
	}
	if k.typ == xds.RouteType {
		w.Response = func(xdsclient.Response) { d.parting.routesCame() }
	}
	return xdsclient.Watch(k.source, t, k.name, w)
}

// unreachable tells those who want something of a source that it could not be
// reached. The source is locked.
func (d *Discovery) unreachable(s *xdsclient.Source, typeURL string) {
	d.post(func() {
		d.failed(func(k want, _ *user) bool { return k.source == s && k.typ == typeURL })
	})
}

// useless does the same for a file that cannot be read, or made no sense of. Its
// source may not be made yet, so it is known by its path.
func (d *Discovery) useless(path, typeURL string) {
	d.own.Add(xdsclient.StatUpdateFailure, xdsclient.Labels{TypeURL: typeURL}, 1)
	d.post(func() {
		d.failed(func(k want, u *user) bool {
			return k.typ == typeURL && cmp.Or(u.source.GetPathConfigSource().GetPath(), u.source.GetPath()) == path //nolint:staticcheck // bootstraps still have it
		})
	})
}

func (d *Discovery) failed(of func(want, *user) bool) {
	d.mu.Lock()
	var list []want
	var sources []*corev3.ConfigSource
	for k, users := range d.wanted {
		if of(k, users[0]) {
			k.name = users[0].name // as it was written
			list, sources = append(list, k), append(sources, users[0].source)
		}
	}
	d.mu.Unlock()
	for i, k := range list {
		d.target.Failed(sources[i], k.typ, k.name)
	}
}

// lost reports whether an error says that nobody can be asked for a resource.
func lost(err error) bool {
	return errors.Is(err, xdsclient.ErrMisused) || errors.Is(err, xdsclient.ErrRedirect)
}

// users are those who want a resource.
func (d *Discovery) users(k want) []*user {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.wanted[k])
}

func (d *Discovery) clusters() xdsclient.Type[*clusterv3.Cluster] {
	t := resolving(xdsclient.Clusters(), d.cds.source)
	t.Transient = true
	t.Validate = func(_, version string, c *clusterv3.Cluster) error {
		return d.parting.back(c.GetName(), func() error { return d.target.SetCluster(c, version) })
	}
	return t
}

func (d *Discovery) listeners() xdsclient.Type[*listenerv3.Listener] {
	t := resolving(xdsclient.Listeners(), d.lds.source)
	t.Validate = func(_, version string, l *listenerv3.Listener) error { return d.target.SetListener(l, version) }
	return t
}

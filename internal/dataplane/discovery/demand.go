package discovery

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// VirtualHost is a change of a virtual host.
type VirtualHost struct {
	// Name is the resource's, "<route configuration>/<name>".
	Name, Version string
	// Config is nil if there is none any more.
	Config *routev3.VirtualHost
}

// hosts are the virtual hosts of a source. Servers send those that were asked
// for, and may send others (XN-22), so all that come are taken.
type hosts struct {
	cancel func()

	mu       sync.Mutex // guards everything below, and orders what the target is told
	held     map[string]VirtualHost
	asked    map[hostUse]*user // who keeps a virtual host
	users    []hostUser
	answered bool
	version  string // of the last response that was good
}

// hostUse is a virtual host, by the resource's name, as one config source has it.
type hostUse struct {
	source *corev3.ConfigSource
	name   string
}

// hostUser is a route configuration with virtual hosts of a source.
type hostUser struct {
	table  string
	source *corev3.ConfigSource
}

// tableOf is the route configuration whose virtual hosts are wanted, if it is
// not one of them that is asked for.
func tableOf(k want) (table string, ok bool) {
	if k.typ != xds.VirtualHostType {
		return "", false
	}
	return strings.CutSuffix(k.name, "/")
}

// prefixOf is the route configuration that a virtual host's name begins with
// (XN-21).
func prefixOf(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// wantHosts gives a route configuration the virtual hosts of a source.
func (d *Discovery) wantHosts(s *xdsclient.Source, table string, c *corev3.ConfigSource) {
	h := d.hostsOf(s)
	fresh := h == nil
	if fresh {
		h = &hosts{held: map[string]VirtualHost{}, asked: map[hostUse]*user{}}
		d.setHosts(s, h)
	}
	h.join(d.target, hostUser{table, c})
	if fresh {
		h.cancel = xdsclient.Watch(s, d.virtualHosts(s), xdsclient.Wildcard, xdsclient.Funcs[*routev3.VirtualHost]{
			Error: func(name string, err error) {
				if errors.Is(err, xdsclient.ErrExpired) { // no response brings that
					h.expire(d, name)
				}
			},
			Response: func(r xdsclient.Response) { h.response(d.target, r) },
		})
	}
}

func (d *Discovery) unwantHosts(s *xdsclient.Source, table string, c *corev3.ConfigSource) {
	h := d.hostsOf(s)
	if h == nil {
		return
	}
	h.mu.Lock()
	if i := slices.Index(h.users, hostUser{table, c}); i >= 0 {
		h.users = slices.Delete(slices.Clone(h.users), i, i+1)
	}
	last := len(h.users) == 0
	h.mu.Unlock()
	if last {
		h.cancel()
		d.setHosts(s, nil)
	}
}

func (d *Discovery) hostsOf(s *xdsclient.Source) *hosts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hosts[s]
}

func (d *Discovery) setHosts(s *xdsclient.Source, h *hosts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h == nil {
		delete(d.hosts, s)
		return
	}
	d.hosts[s] = h
}

// join adds a route configuration, which gets what has come already.
func (h *hosts) join(t Target, u hostUser) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users = append(h.users, u)
	var list []VirtualHost
	for _, name := range slices.Sorted(maps.Keys(h.held)) {
		if prefixOf(name) == u.table {
			list = append(list, h.held[name])
		}
	}
	var err error
	if len(list) > 0 {
		err = t.SetVirtualHosts(u.source, u.table, list)
	}
	if h.answered {
		t.Answered(u.source, u.table, h.version, err)
	}
}

// change takes what a response would change, or refuses all of it.
func (h *hosts) change(t Target, changes []xdsclient.Candidate) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	tables := map[string][]VirtualHost{}
	for i := range changes {
		c := &changes[i]
		v := VirtualHost{Name: c.Name, Version: c.Version}
		v.Config, _ = c.Value.(*routev3.VirtualHost)
		if _, held := h.held[c.Name]; v.Config != nil || c.Removed && held {
			table := prefixOf(c.Name)
			tables[table] = append(tables[table], v)
		}
	}
	var errs []error
	for _, u := range h.users {
		if list := tables[u.table]; list != nil {
			errs = append(errs, t.SetVirtualHosts(u.source, u.table, list))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, list := range tables {
		for _, v := range list {
			if v.Config == nil {
				delete(h.held, v.Name)
			} else {
				h.held[v.Name] = v
			}
		}
	}
	return nil
}

// expire removes a virtual host whose time to live has ended.
func (h *hosts) expire(d *Discovery, name string) {
	if err := h.change(d.target, []xdsclient.Candidate{{Name: name, Removed: true}}); err != nil {
		d.cfg.Logger.Warn("a virtual host is not removed", "virtual_host", name, "error", err)
	}
}

func (h *hosts) response(t Target, r xdsclient.Response) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered = true
	if r.Err == nil {
		h.version = r.Version
	}
	for _, u := range h.users {
		t.Answered(u.source, u.table, h.version, r.Err)
	}
}

// virtualHosts is the type for a source, which keeps the first that it sees.
func (d *Discovery) virtualHosts(s *xdsclient.Source) xdsclient.Type[*routev3.VirtualHost] {
	t := xdsclient.VirtualHosts()
	t.Direct = true
	t.ValidateAll = func(_ string, changes []xdsclient.Candidate) error {
		if h := d.hostsOf(s); h != nil {
			return h.change(d.target, changes)
		}
		return nil
	}
	return t
}

// askHost asks for the virtual host of a name, whichever has it as its alias. One
// name keeps a virtual host: others that lead to it as well are said to be missing
// once it is there, so that they are given up, for clients make up names.
func (d *Discovery) askHost(k want, u *user) func() {
	h := d.hostsOf(k.source)
	if h == nil { // no table waits for it
		d.target.Missing(u.source, k.typ, k.name)
		return func() {}
	}
	cancel := xdsclient.Watch(k.source, d.virtualHosts(k.source), k.name, xdsclient.Funcs[*routev3.VirtualHost]{
		Change: func(v xdsclient.Update[*routev3.VirtualHost]) {
			if h.keeps(u, v.Name) {
				d.target.Resolved(u.source, k.typ, k.name)
			} else {
				d.target.Missing(u.source, k.typ, k.name)
			}
		},
		Error: func(_ string, err error) {
			if errors.Is(err, xdsclient.ErrMissing) || errors.Is(err, xdsclient.ErrRejected) {
				h.release(u)
				d.target.Missing(u.source, k.typ, k.name)
			}
		},
	})
	return func() {
		cancel()
		h.release(u)
	}
}

// keeps makes a name the one that keeps a virtual host, unless there is another.
func (h *hosts) keeps(u *user, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	use := hostUse{u.source, name}
	if other := h.asked[use]; other != nil && other != u {
		return false
	}
	h.drop(u)
	h.asked[use], u.host = u, name
	return true
}

// release is the end of keeps.
func (h *hosts) release(u *user) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(u)
}

func (h *hosts) drop(u *user) {
	if u.host != "" {
		delete(h.asked, hostUse{u.source, u.host})
		u.host = ""
	}
}

// askCluster asks for a cluster by its name (CM-33).
// Clients make up the name: no collection or other server is to be had by it.
func (d *Discovery) askCluster(k want, u *user) func() {
	if !single(k.name) {
		d.target.Missing(u.source, k.typ, k.name)
		return func() {}
	}
	return xdsclient.Watch(k.source, d.clusters(), k.name, xdsclient.Funcs[*clusterv3.Cluster]{
		Change: func(v xdsclient.Update[*clusterv3.Cluster]) {
			u.has = true
			if v.Value.GetName() != k.name {
				d.cfg.Logger.Warn("a cluster on demand was found under another name, and is not used by this one", "cluster", k.name, "found", v.Value.GetName())
				d.target.Missing(u.source, k.typ, k.name)
			}
			// It is in force unless it had come before it was asked for.
			if err := d.target.SetCluster(v.Value, v.Version); err != nil {
				d.cfg.Logger.Warn("a cluster that was good is refused", "cluster", k.name, "error", err)
			}
		},
		Error: func(_ string, err error) {
			if !errors.Is(err, xdsclient.ErrMissing) && !errors.Is(err, xdsclient.ErrExpired) {
				return
			}
			if u.has {
				u.has = false
				d.target.RemoveCluster(k.name)
			}
			d.target.Missing(u.source, k.typ, k.name)
		},
	})
}

// single reports whether a name is one of one resource, without directives.
func single(name string) bool {
	if !xds.IsURN(name) {
		return name != xdsclient.Wildcard
	}
	u, err := xds.ParseURN(name)
	return err == nil && !u.IsGlob() && !u.IsListCollection()
}

package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/discovery"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// hostSet is the virtual hosts that a source has for a route configuration, and
// the tables that have them beside their own (RT-12).
type hostSet struct {
	name   string // the route configuration's
	source *corev3.ConfigSource
	users  []hostUser
	hosts  map[string]*routev3.VirtualHost // by the resource's name
	asked  *askedSet                       // "<route configuration>/<host>"
	wait                                   // for the first answer
}

// hostUser is a route configuration with discovered virtual hosts.
type hostUser interface {
	// rehost makes tables with other discovered hosts. What it returns puts them
	// in force.
	rehost(r *Resources, hosts []*routev3.VirtualHost) (func(), error)
	// hostsCame ends the waiting for the first of them.
	hostsCame()
	// hostStats are the statistics of those who have the tables.
	hostStats() []*vhdsStats
}

// vhdsStats are "http.<prefix>.rds.vhds.<name>.", and "vhds.<name>." for routes
// that are not discovered themselves.
type vhdsStats struct {
	subscription
	ConfigReload stats.Counter `stat:"config_reload"`
	UpdateEmpty  stats.Counter `stat:"update_empty"`
}

func (s *vhdsStats) fill(scope *stats.Scope) {
	scope.Fill(s)
	s.text = scope.Text("version_text")
}

// each calls do for the statistics of all users.
func (s *hostSet) each(do func(*vhdsStats)) {
	for _, u := range s.users {
		for _, st := range u.hostStats() {
			do(st)
		}
	}
}

// sorted are the virtual hosts in the order of their names.
func sortedHosts(of map[string]*routev3.VirtualHost) []*routev3.VirtualHost {
	return slices.SortedStableFunc(maps.Values(of), func(a, b *routev3.VirtualHost) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// withHosts is a route configuration with discovered virtual hosts behind its
// own, in the order in which Envoy shows them.
func withHosts(rc *routev3.RouteConfiguration, hosts []*routev3.VirtualHost) *routev3.RouteConfiguration {
	if rc.GetVhds() == nil {
		return rc
	}
	out := route.WithoutHosts(rc)
	out.VirtualHosts = slices.SortedStableFunc(slices.Values(rc.GetVirtualHosts()), func(a, b *routev3.VirtualHost) int { return strings.Compare(a.GetName(), b.GetName()) })
	out.VirtualHosts = append(out.VirtualHosts, hosts...)
	return out
}

// hostSetOf is the set of a route configuration's name and source, or nil.
func (r *Resources) hostSetOf(name string, source *corev3.ConfigSource) *hostSet {
	return oneOfSource(r.hosts[name], source)
}

// joinHosts makes a route configuration a user of discovered hosts. Those of a
// set that it leaves are kept until the new source says otherwise, as in Envoy.
func (r *Resources) joinHosts(u hostUser, name string, source *corev3.ConfigSource, before *hostSet) *hostSet {
	s := r.hostSetOf(name, source)
	if s == nil {
		s = &hostSet{name: name, source: source, hosts: map[string]*routev3.VirtualHost{}, asked: newAskedSet(VirtualHostType, source)}
		if before != nil {
			s.hosts = maps.Clone(before.hosts)
		}
		r.hosts[name] = append(r.hosts[name], s)
		r.tell.add(true, VirtualHostType, name+"/", source)
		if r.listening {
			r.startHosts(s)
		}
	}
	s.users = append(s.users, u)
	for _, st := range u.hostStats() {
		st.asked(r.p.stat.Main(), source)
	}
	return s
}

// startHosts bounds the waiting for a source's first answer. r.listening is set.
func (r *Resources) startHosts(s *hostSet) {
	d := fetchTimeout(s.source)
	if s.over || d <= 0 {
		return
	}
	s.timer = r.after(max(d, time.Nanosecond), func() {
		if s.over {
			return
		}
		r.p.component("router").Warn("no virtual hosts came within initial_fetch_timeout", "routes", s.name)
		s.each(func(st *vhdsStats) { r.p.stat.Main().Inc(st.InitFetchTimeout) })
		r.hostsCame(s)
	})
}

// hostsCame ends the waiting for a source's first answer.
func (r *Resources) hostsCame(s *hostSet) {
	s.end()
	for _, u := range s.users {
		u.hostsCame()
	}
	r.settleListeners()
}

// leaveHosts is the end of joinHosts.
func (r *Resources) leaveHosts(s *hostSet, u hostUser) {
	s.users = slices.DeleteFunc(s.users, func(x hostUser) bool { return x == u })
	if len(s.users) > 0 {
		return
	}
	s.halt()
	for _, name := range slices.Sorted(maps.Keys(s.asked.names)) {
		s.asked.giveUp(r, s.asked.names[name])
	}
	r.tell.add(false, VirtualHostType, s.name+"/", s.source)
	forget(r.hosts, s.name, s)
}

// VirtualHost is a change of a discovered virtual host.
type VirtualHost = discovery.VirtualHost

// SetVirtualHosts adds, replaces and removes virtual hosts of a route
// configuration at one stroke (RT-12); a nil source is any. The route
// configuration's own virtual hosts win: an error, with nothing changed, says
// which domain there is already. A route configuration that has no vhds of that
// source is ignored.
func (r *Resources) SetVirtualHosts(source *corev3.ConfigSource, table string, changes []VirtualHost) error {
	return setOfSource(r, func() []*hostSet { return r.hosts[table] }, source, func(s *hostSet) error { return r.rehost(s, changes) })
}

func (r *Resources) rehost(s *hostSet, changes []VirtualHost) error {
	next, changed := maps.Clone(s.hosts), false
	for i := range changes {
		c := &changes[i]
		was, had := next[c.Name]
		if c.Config == nil {
			delete(next, c.Name)
			changed = changed || had
			continue
		}
		checked, err := checkAs(r, c.Config)
		if err != nil {
			return fmt.Errorf("virtual host %q: %w", c.Name, err)
		}
		if !had || !proto.Equal(was, checked) {
			next[c.Name], changed = checked, true
		}
	}
	if !changed {
		return nil
	}
	list := sortedHosts(next)
	commits := make([]func(), len(s.users))
	for i, u := range s.users {
		var err error
		if commits[i], err = u.rehost(r, list); err != nil {
			return err
		}
	}
	s.hosts = next
	for _, commit := range commits {
		commit()
	}
	s.each(func(st *vhdsStats) { r.p.stat.Main().Inc(st.ConfigReload) })
	return nil
}

// Answered says that a source has sent a response about virtual hosts of a route
// configuration, which was refused if err is not nil; version is that of the last
// one that was not. The first one ends the waiting for them (XN-22); a nil source
// is any.
func (r *Resources) Answered(source *corev3.ConfigSource, table, version string, err error) {
	r.lock()
	defer r.unlock()
	if r.stopped {
		return
	}
	m, now := r.p.stat.Main(), time.Now()
	for _, s := range r.hosts[table] {
		if !sameSource(s.source, source) {
			continue
		}
		s.each(func(st *vhdsStats) {
			if err != nil {
				m.Inc(st.UpdateAttempt) // twice, as Envoy
				st.rejected(m)
				return
			}
			st.accepted(m, now, version)
		})
		if !s.over {
			r.hostsCame(s)
		}
	}
}

package proxy

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
)

// chainDeps is what a filter chain gets by discovery.
type chainDeps struct {
	workers int // how many there are
	routes  []*routeUser
	scopes  []*scopeUser
	growing []*inlineRoutes // not by discovery, but for virtual hosts
	secrets []*secretUser
	// extensions are filters whose configuration is discovered.
	extensions []*extensionUser
	tables     []*routev3.RouteConfiguration // not by discovery, for config_dump
	inline     []inlineScopes                // the same
}

// inlineScopes are scoped routes that are not discovered.
type inlineScopes struct {
	name string
	list []*routev3.ScopedRouteConfiguration
}

// deps are what the chains of a listener get by discovery, and, under nil, what
// its listener filters do.
type deps map[*listener.Chain]*chainDeps

// ready reports whether everything came that is waited for.
func (d deps) ready() bool {
	for _, c := range d {
		for _, u := range c.routes {
			if !u.over {
				return false
			}
		}
		for _, u := range c.scopes {
			if !u.warm() {
				return false
			}
		}
		for _, u := range c.growing {
			if !u.over {
				return false
			}
		}
		for _, u := range c.secrets {
			if !u.over {
				return false
			}
		}
		for _, u := range c.extensions {
			if !u.over {
				return false
			}
		}
	}
	return true
}

// attachChain makes a chain follow what it needs. r.mu is held.
func (r *Resources) attachChain(c *chainDeps) {
	if !r.listening {
		r.tell.hold(true)
		defer r.tell.hold(false)
	}
	for _, u := range c.routes {
		r.attachRoutes(u)
	}
	for _, u := range c.scopes {
		r.attachScopes(u)
	}
	for _, u := range c.growing {
		r.attachInline(u)
	}
	for _, u := range c.secrets {
		r.attachSecrets(u)
	}
	for _, u := range c.extensions {
		r.attachExtension(u)
	}
	if r.listening {
		r.startChain(c)
	}
}

// startChain begins to count the time that is waited. r.listening is set.
func (r *Resources) startChain(c *chainDeps) {
	for _, u := range c.routes {
		r.startRoutes(u)
	}
	for _, u := range c.scopes {
		r.startScopes(u)
	}
	for _, u := range c.secrets {
		r.startSecrets(u)
	}
	for _, u := range c.extensions {
		r.startExtension(u)
	}
}

func (r *Resources) startRoutes(u *routeUser) {
	if u.state.last != nil {
		return // what is waited for is virtual hosts
	}
	r.startWait(&u.wait, u.source, func() {
		r.p.component("router").Warn("no routes came within initial_fetch_timeout", "routes", u.name)
		r.p.stat.Main().Inc(u.stats.InitFetchTimeout)
		u.state.over = true
		if u.settled != nil {
			u.settled()
		}
	})
}

func (r *Resources) startScopes(u *scopeUser) {
	r.startWait(&u.wait, u.source, func() {
		r.p.component("router").Warn("no scopes came within initial_fetch_timeout", "scoped_routes", u.Config.GetName())
		r.p.stat.Main().Inc(u.stats.InitFetchTimeout)
		u.state.over = true
	})
	for _, s := range u.routes {
		r.startRoutes(s.routeUser)
	}
}

// tables are the listener's own routes, in the order of its chains.
func (l *listenerEntry) tables() []*routev3.RouteConfiguration {
	var out []*routev3.RouteConfiguration
	for _, c := range slices.Concat(l.Chains, []*listener.Chain{l.Default}) {
		if d := l.deps[c]; d != nil {
			out = append(out, d.tables...)
			for _, u := range d.growing {
				out = append(out, u.shown.Load())
			}
		}
	}
	return out
}

// inlineScopes are the listener's own scopes, in the order of its chains.
func (l *listenerEntry) inlineScopes() []inlineScopes {
	var out []inlineScopes
	for _, c := range slices.Concat(l.Chains, []*listener.Chain{l.Default}) {
		if d := l.deps[c]; d != nil {
			out = append(out, d.inline...)
		}
	}
	return out
}

// attach makes a listener follow what it needs.
func (r *Resources) attach(l *listenerEntry) {
	for _, c := range l.deps {
		r.attachChain(c)
	}
}

// startWait bounds the waiting for a resource of a source.
func (r *Resources) startWait(w *wait, source *corev3.ConfigSource, late func()) {
	d := fetchTimeout(source)
	if w.over || d <= 0 {
		return
	}
	w.timer = r.after(max(d, time.Nanosecond), func() {
		if w.over {
			return
		}
		w.end()
		late()
		r.settleListeners()
	})
}

// detachChain is the end of attachChain.
func (r *Resources) detachChain(c *chainDeps) {
	for _, u := range c.routes {
		r.detachRoutes(u)
	}
	for _, u := range c.scopes {
		r.detachScopes(u)
	}
	for _, u := range c.growing {
		r.detachInline(u)
	}
	for _, u := range c.secrets {
		r.detachSecrets(u)
	}
	for _, u := range c.extensions {
		r.detachExtension(u)
	}
}

package router

import (
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/hashpolicy"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// pick chooses the host of an attempt. What it depends on is computed if the
// cluster asks for it.
func (f *Filter) pick() *cluster.Host {
	conf := &f.c.Cfg.LB
	if !conf.Asks() {
		return f.c.Pick(nil)
	}
	if conf.Subsets != nil {
		f.choice.Criteria = f.criteria()
	}
	return f.c.Pick(&f.choice)
}

// criteria are what hosts must have in their metadata: those of the route, and
// those that the request's own metadata say in their place (RT-25).
func (f *Filter) criteria() *subset.Criteria {
	c := f.entry.Criteria(f.target)
	if own, ok := f.info.Metadata[subset.Namespace]; ok {
		return c.With(own)
	}
	return c
}

// Hash implements lb.Hasher (RT-24), on the request as it is sent.
func (f *Filter) Hash(own *hashpolicy.Policy) (hash uint64, ok bool) {
	r := hashpolicy.Request{Head: f.head, Remote: f.info.Remote, State: f.info.State, Cookies: (*ownCookie)(f)}
	if !r.Remote.IsValid() && f.info.Connection != nil {
		r.Remote = f.info.Connection.Remote
	}
	p := own
	if p == nil {
		p, r.Cookies = f.entry.HashPolicy(), (*routeCookies)(f)
	}
	if p == nil {
		return 0, false
	}
	return p.Hash(&r)
}

// balanceCookies are the cookies that hash policies have made for the client: all
// those of the route's, for each attempt, and the last of a balancer's own, as in
// Envoy.
type balanceCookies struct {
	route []string
	own   string
}

func (b *balanceCookies) reset() {
	if b.route != nil || b.own != "" {
		*b = balanceCookies{}
	}
}

type routeCookies Filter

// MakeCookie implements hashpolicy.CookieMaker.
func (f *routeCookies) MakeCookie(c *hashpolicy.Cookie) string {
	at := f.info.Connection
	v := hashpolicy.Value(at.Remote, at.Local)
	f.cookies.route = append(f.cookies.route, c.Set(v))
	return v
}

type ownCookie Filter

// MakeCookie implements hashpolicy.CookieMaker.
func (f *ownCookie) MakeCookie(c *hashpolicy.Cookie) string {
	remote := f.info.Remote
	if !remote.IsValid() {
		remote = f.info.Connection.Remote
	}
	v := hashpolicy.Value(remote, f.info.Connection.Local)
	f.cookies.own = c.Set(v)
	return v
}

// finalizeResponse does to the response what the route says, and gives the client
// its cookies.
func (f *Filter) finalizeResponse(h *header.Map) {
	for _, c := range f.cookies.route {
		h.Add("set-cookie", c)
	}
	ctx := f.host.RouteContext()
	ctx.Response = h
	f.entry.FinalizeResponse(ctx, f.target)
	if f.cookies.own != "" {
		h.Add("set-cookie", f.cookies.own)
	}
}

package route

import (
	"errors"
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/substitute"
)

func (b *builder) substitution(path string, m *matcherv3.RegexMatchAndSubstitute) *substitute.Regex {
	r, err := substitute.New(m)
	if err != nil {
		b.add(fmt.Errorf("%s.%w", path, err))
		return nil
	}
	return r
}

// pathRewrite is how a route changes the path (RT-20).
type pathRewrite struct {
	prefix   string
	regex    *substitute.Regex
	template *templateRewrite
	whole    text
}

func (b *builder) pathRewrite(path string, a *routev3.RouteAction, m *pathMatcher) pathRewrite {
	r := pathRewrite{prefix: a.GetPrefixRewrite()}
	n := 0
	if r.prefix != "" {
		n++
	}
	if s := a.GetRegexRewrite(); s != nil {
		n++
		r.regex = b.substitution(path+".regex_rewrite", s)
	}
	if p := a.GetPathRewritePolicy(); p != nil {
		n++
		r.template = b.templateRewrite(path+".path_rewrite_policy", p, m.template)
	}
	if s := a.GetPathRewrite(); s != "" {
		n++
		r.whole = b.text(path+".path_rewrite", s)
	}
	if n > 1 {
		b.fail(path, errors.New("Specify only one of prefix_rewrite, regex_rewrite or path_rewrite_policy")) //nolint:staticcheck // Envoy's text
	}
	if strings.ContainsAny(r.prefix, "\x00\r\n") {
		b.fail(path+".prefix_rewrite", errors.New("the text has control characters"))
	}
	return r
}

// apply rewrites the request's path and keeps the old one in
// x-envoy-original-path. The query stays.
func (r *pathRewrite) apply(c *Context, m *pathMatcher) {
	old, ok := c.Request.LookupID(pathID)
	if !ok {
		return // a CONNECT has none
	}
	plain := withoutQuery(old)
	fresh := ""
	switch {
	case r.prefix != "":
		fresh = keep(c.Request, r.prefix, old[m.matched(plain):])
	case r.regex != nil:
		fresh = r.regex.Replace(plain) + old[len(plain):]
	case r.template != nil:
		p, ok := r.template.apply(plain)
		if !ok {
			return
		}
		fresh = p + old[len(plain):]
	case r.whole.isSet():
		p := r.whole.make(c, c.Request)
		if p == "" {
			return
		}
		fresh = keep(c.Request, p, old[len(plain):])
	default:
		return
	}
	if !c.SuppressEnvoyHeaders {
		c.Request.SetID(header.XEnvoyOriginalPath, old)
	}
	c.Request.SetID(header.Path, fresh)
}

// hostRewrite is how a route changes the host (RT-21).
type hostRewrite struct {
	literal string
	auto    bool
	header  string
	regex   *substitute.Regex
	format  text
	forward bool // append_x_forwarded_host
}

func (b *builder) hostRewrite(path string, a *routev3.RouteAction) hostRewrite {
	h := hostRewrite{forward: a.GetAppendXForwardedHost()}
	switch s := a.GetHostRewriteSpecifier().(type) {
	case *routev3.RouteAction_HostRewriteLiteral:
		h.literal = s.HostRewriteLiteral
		if strings.ContainsAny(h.literal, "\x00\r\n") {
			b.fail(path+".host_rewrite_literal", errors.New("the text has control characters"))
		}
	case *routev3.RouteAction_AutoHostRewrite:
		h.auto = s.AutoHostRewrite.GetValue()
	case *routev3.RouteAction_HostRewriteHeader:
		h.header = headerName(s.HostRewriteHeader)
	case *routev3.RouteAction_HostRewritePathRegex:
		h.regex = b.substitution(path+".host_rewrite_path_regex", s.HostRewritePathRegex)
	case *routev3.RouteAction_HostRewrite:
		h.format = b.text(path+".host_rewrite", s.HostRewrite)
	}
	return h
}

func (h *hostRewrite) apply(c *Context) {
	host := ""
	switch {
	case h.literal != "":
		host = h.literal
	case h.header != "":
		host = c.Request.Get(h.header)
	case h.regex != nil:
		host = h.regex.Replace(withoutQuery(c.Request.Path()))
	case h.format.isSet():
		host = h.format.make(c, c.Request)
	}
	if host != "" {
		h.set(c, host, true)
	}
}

// set writes a host. The old one is kept in x-envoy-original-host and, if the
// route says so, at the end of x-forwarded-host.
func (h *hostRewrite) set(c *Context, host string, first bool) {
	old := c.Request.Authority()
	if first {
		if h.forward && old != "" {
			appendForwardedHost(c.Request, old)
		}
		if !c.SuppressEnvoyHeaders {
			c.Request.SetID(header.XEnvoyOriginalHost, old)
		}
	}
	c.Request.SetID(header.Authority, host)
}

// appendForwardedHost adds a host unless it is the last one already.
func appendForwardedHost(m *header.Map, host string) {
	have := m.GetID(header.XForwardedHost)
	if have[strings.LastIndexByte(have, ',')+1:] == host {
		return
	}
	m.AppendValue("x-forwarded-host", ",", host)
}

// AutoHostRewrite tells whether the request's host becomes the upstream host's
// name: the caller knows it and calls SetHost.
func (e *Entry) AutoHostRewrite() bool { return e.host.auto }

// SetHost makes the host of the request that of the chosen upstream. With a
// further attempt's upstream only the host changes, not what is kept of the
// client's.
func (e *Entry) SetHost(c *Context, host string) {
	e.host.set(c, host, !c.hostSet)
	c.hostSet = true
}

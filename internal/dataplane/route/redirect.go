package route

import (
	"errors"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/filter/header"
)

// redirect is a RedirectAction (RT-17).
type redirect struct {
	status     int
	scheme     string
	host       string
	port       string // ":443"
	path       string
	format     text // path_rewrite
	rewrite    pathRewrite
	stripQuery bool
	plain      bool // require_tls: the host stays as it is
}

func (b *builder) redirect(path string, r *routev3.RedirectAction, e *Entry) {
	b.only(path, r, "https_redirect", "scheme_redirect", "host_redirect", "port_redirect", "path_redirect", "prefix_rewrite",
		"regex_rewrite", "path_rewrite", "response_code", "strip_query")
	d := &redirect{
		host: r.GetHostRedirect(), path: r.GetPathRedirect(), stripQuery: r.GetStripQuery(), status: redirectStatus(r.GetResponseCode()),
	}
	if d.status == 0 {
		b.fail(path+".response_code", errors.New("no such code: write MOVED_PERMANENTLY, FOUND, SEE_OTHER, TEMPORARY_REDIRECT or PERMANENT_REDIRECT"))
	}
	switch {
	case r.GetHttpsRedirect():
		d.scheme = "https"
	case r.GetSchemeRedirect() != "":
		d.scheme = r.GetSchemeRedirect()
	}
	if p := r.GetPortRedirect(); p > 65535 {
		b.fail(path+".port_redirect", errors.New("a port is at most 65535"))
	} else if p != 0 {
		d.port = ":" + strconv.Itoa(int(p))
	}
	for _, s := range []string{d.host, d.path, r.GetPrefixRewrite()} {
		if strings.ContainsAny(s, "\x00\r\n") {
			b.fail(path, errors.New("a text has control characters"))
		}
	}
	d.rewrite.prefix = r.GetPrefixRewrite()
	if s := r.GetRegexRewrite(); s != nil {
		d.rewrite.regex = b.substitution(path+".regex_rewrite", s)
	}
	if s := r.GetPathRewrite(); s != "" {
		d.format = b.text(path+".path_rewrite", s)
	}
	e.redirect = d
}

func redirectStatus(c routev3.RedirectAction_RedirectResponseCode) int {
	switch c {
	case routev3.RedirectAction_MOVED_PERMANENTLY:
		return 301
	case routev3.RedirectAction_FOUND:
		return 302
	case routev3.RedirectAction_SEE_OTHER:
		return 303
	case routev3.RedirectAction_TEMPORARY_REDIRECT:
		return 307
	case routev3.RedirectAction_PERMANENT_REDIRECT:
		return 308
	}
	return 0
}

// Redirect is the answer of a Redirect route. It rewrites the request's path,
// as access logs show it, if the route rewrites paths.
func (e *Entry) Redirect(c *Context) (status int, location string) {
	d := e.redirect
	d.rewrite.apply(c, &e.path)
	return d.status, d.uri(c)
}

func (d *redirect) uri(c *Context) string {
	scheme := d.scheme
	if scheme == "" {
		scheme = c.Request.Scheme()
	}
	host := d.host
	switch {
	case host != "":
	case d.plain:
		host = c.Request.Authority()
	default:
		host = d.keptHost(c, scheme)
	}
	return scheme + "://" + host + d.port + d.newPath(c)
}

// keptHost is the request's host, without its port if there is a new one or it
// was the default of another scheme.
func (d *redirect) keptHost(c *Context, scheme string) string {
	host := c.Request.Authority()
	end := strings.LastIndexByte(host, ':')
	if strings.HasPrefix(host, "[") {
		if end = strings.LastIndex(host, "]:"); end >= 0 {
			end++
		}
	}
	if end < 0 {
		return host
	}
	was := c.Request.GetID(header.XForwardedProto)
	if was == "" {
		was = "http"
		if c.TLS {
			was = "https"
		}
	}
	if d.port != "" || scheme != was && (was == "https" && host[end:] == ":443" || was == "http" && host[end:] == ":80") {
		return host[:end]
	}
	return host
}

func (d *redirect) newPath(c *Context) string {
	path := c.Request.Path()
	fixed := d.path
	if d.format.isSet() {
		fixed = d.format.make(c, c.Request)
	}
	if fixed != "" {
		if strings.Contains(fixed, "?") {
			return fixed // its own query wins and is not stripped
		}
		if i := strings.IndexByte(path, '?'); i >= 0 {
			path = fixed + path[i:]
		} else {
			path = fixed
		}
	}
	if d.stripQuery {
		path, _, _ = strings.Cut(path, "?")
	}
	return path
}

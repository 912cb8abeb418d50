package route

import (
	"fmt"
	"strconv"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Explanation tells how a table came to its answer.
type Explanation struct {
	// VirtualHost is the virtual host of the request, "" if there is none.
	VirtualHost string
	// RequireTLS tells that the request has to come again by TLS; no route is
	// tried then.
	RequireTLS bool
	// Tried are the routes in order, up to the one that matches.
	Tried []Tried
	// Untried is how many come after it.
	Untried int
}

// Tried is a route that was asked.
type Tried struct {
	// Index is the route's place in its virtual host.
	Index int
	// Name is the route's name, Path its condition on the path.
	Name, Path string
	// Why it does not match; "" if it does.
	Why string
}

// Explain does what Match does, slowly, and tells about it.
func (t *Table) Explain(c *Context) Explanation {
	vh := t.host(c)
	if vh == nil {
		return Explanation{}
	}
	x := Explanation{VirtualHost: vh.name}
	path, ok := c.path()
	if !ok {
		return x
	}
	if x.RequireTLS = vh.tlsRedirect(c); x.RequireTLS {
		return x
	}
	path = t.plainPath(path)
	for i, e := range vh.routes {
		tried := Tried{Index: i, Name: e.name, Path: e.path.String()}
		if e.path.match(path) && e.path.takes(c) {
			tried.Why = e.when.failing(c)
		} else {
			tried.Why = e.path.notTaken(c, path)
		}
		x.Tried = append(x.Tried, tried)
		if tried.Why == "" {
			x.Untried = len(vh.routes) - i - 1
			break
		}
	}
	return x
}

// notTaken says why a route's path is not the request's.
func (p *pathMatcher) notTaken(c *Context, path string) string {
	switch {
	case p.kind == pathConnect:
		return "the method is not CONNECT"
	case c.pathless:
		return "the request has no path"
	}
	return "the path is " + strconv.Quote(path)
}

// String is the condition as in the configuration.
func (p *pathMatcher) String() string {
	s := ""
	switch p.kind {
	case pathExact:
		s = "path " + p.text
	case pathPrefix:
		s = "prefix " + p.text
	case pathSeparated:
		s = "path_separated_prefix " + p.text
	case pathRegex:
		return "safe_regex " + p.regex.Text()
	case pathTemplate:
		return "uri_template " + p.template.text
	case pathConnect:
		return "connect_matcher"
	}
	if p.fold {
		s += " (of any case)"
	}
	return s
}

// failing is the first condition that does not hold, or "".
func (k *conditions) failing(c *Context) string {
	if k.fraction != nil && !k.fraction.on(c.Random) {
		return fmt.Sprintf("runtime_fraction is off for the random number %d", c.Random)
	}
	if k.grpc && !IsGRPC(c.Request) {
		return "it is no gRPC request"
	}
	for i := range k.headers {
		if h := &k.headers[i]; !h.match(c.Request) {
			return h.failing(c.Request)
		}
	}
	for i := range k.query {
		one := conditions{query: k.query[i : i+1]}
		if !one.queryHolds(c.Request.Path()) {
			return "query parameter " + k.query[i].name
		}
	}
	for i := range k.cookies {
		if !k.cookies[i].match(c.Request) {
			return "cookie " + k.cookies[i].name
		}
	}
	if !k.tlsHolds(c) {
		return "tls_context: the client's certificate"
	}
	if !k.dataHolds(c) {
		return "dynamic_metadata or filter_state, which filters set"
	}
	return ""
}

func (h *headerMatcher) failing(m *header.Map) string {
	v, ok := m.Lookup(h.name)
	switch {
	case !ok:
		return "header " + h.name + " is missing"
	case h.kind == headerPresent:
		return "header " + h.name + " is there"
	}
	return "header " + h.name + " is " + strconv.Quote(v)
}

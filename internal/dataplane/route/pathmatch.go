package route

import (
	"errors"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

type pathKind uint8

const (
	pathPrefix pathKind = iota
	pathExact
	pathSeparated
	pathRegex
	pathTemplate
	pathConnect // every CONNECT, which need not have one
)

// pathMatcher is a route's condition on the path (RT-04).
type pathMatcher struct {
	kind     pathKind
	fold     bool   // the case does not matter; text is in lower case
	text     string // of exact, prefix and path-separated prefix
	regex    stringmatch.Matcher
	template *template
}

func (b *builder) pathMatcher(path string, m *routev3.RouteMatch) pathMatcher {
	p := pathMatcher{fold: m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue()}
	switch s := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		p.kind, p.text = pathPrefix, s.Prefix
	case *routev3.RouteMatch_Path:
		p.kind, p.text = pathExact, s.Path
	case *routev3.RouteMatch_PathSeparatedPrefix:
		p.kind, p.text = pathSeparated, s.PathSeparatedPrefix
		if len(p.text) < 2 || strings.ContainsAny(p.text, "?#") || strings.HasSuffix(p.text, "/") {
			b.fail(path+".path_separated_prefix", errors.New("write a path as /api/dev, without ? or # or a slash at its end"))
		}
	case *routev3.RouteMatch_SafeRegex:
		p.kind, p.fold, p.regex = pathRegex, false, b.regex(path+".safe_regex", s.SafeRegex)
	case *routev3.RouteMatch_PathMatchPolicy:
		p.kind, p.fold = pathTemplate, false
		p.template = b.pathTemplate(path+".path_match_policy", s.PathMatchPolicy)
	case *routev3.RouteMatch_ConnectMatcher_:
		p.kind, p.fold = pathConnect, false
	default:
		b.fail(path, errors.New("no path is given: write prefix, path, safe_regex or path_separated_prefix"))
	}
	if p.fold {
		p.text = stringmatch.Lower(p.text)
	}
	return p
}

// match tells whether a path without its query fulfils the condition.
func (p *pathMatcher) match(path string) bool {
	switch p.kind {
	case pathExact:
		return len(path) == len(p.text) && p.equal(path)
	case pathPrefix:
		return len(path) >= len(p.text) && p.equal(path[:len(p.text)])
	case pathSeparated:
		return len(path) >= len(p.text) && p.separated(path) && p.equal(path[:len(p.text)])
	case pathRegex:
		return p.regex.Match(path)
	}
	return p.kind == pathConnect || p.template.match(path)
}

// takes tells whether the condition may be that of a request: one without a path
// has to be asked for.
func (p *pathMatcher) takes(c *Context) bool {
	if p.kind == pathConnect {
		return c.Request.Method() == methodConnect
	}
	return !c.pathless
}

// separated tells whether the prefix ends where a segment does.
func (p *pathMatcher) separated(path string) bool {
	return len(path) == len(p.text) || path[len(p.text)] == '/'
}

func (p *pathMatcher) equal(s string) bool {
	if p.fold {
		return stringmatch.EqualFold(s, p.text)
	}
	return s == p.text
}

// found finishes the match of a route that the index found: what the index
// has compared is not compared again.
func (p *pathMatcher) found(path string) bool {
	switch p.kind {
	case pathExact, pathPrefix:
		return true
	case pathSeparated:
		return p.separated(path)
	}
	return p.match(path)
}

// matched is how much of a path a prefix_rewrite replaces. Path parameters that
// were left out of matching stay.
func (p *pathMatcher) matched(path string) int {
	if p.kind == pathPrefix || p.kind == pathSeparated || p.kind == pathExact {
		return min(len(p.text), len(path))
	}
	return len(path)
}

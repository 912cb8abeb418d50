package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

const pathID = header.Path

// hostIndex finds the virtual host of a host name (RT-01): by the whole name,
// by suffix wildcards and then prefix wildcards, longest first, then "*".
type hostIndex struct {
	exact    map[string]*virtualHost
	suffixes map[int]map[string]*virtualHost
	prefixes map[int]map[string]*virtualHost
	// What finish makes of them, longest first.
	bySuffix, byPrefix []wildcards
	any                *virtualHost
}

type wildcards struct {
	length int
	hosts  map[string]*virtualHost
}

// expect makes room for as many domains as there are virtual hosts.
func (x *hostIndex) expect(n int) {
	if n > 8 {
		x.exact = make(map[string]*virtualHost, n)
	}
}

// add adds a domain; a domain that is there already is an error.
func (x *hostIndex) add(domain, table string, vh *virtualHost) error {
	domain = strings.ToLower(domain)
	if domain == "*" {
		if x.any != nil {
			return fmt.Errorf("Only a single wildcard domain is permitted in route %s", table) //nolint:staticcheck // Envoy's text
		}
		x.any = vh
		return nil
	}
	var m map[string]*virtualHost
	key := domain
	switch {
	case strings.HasPrefix(domain, "*"):
		key = domain[1:]
		m = group(&x.suffixes, len(key))
	case strings.HasSuffix(domain, "*"):
		key = domain[:len(domain)-1]
		m = group(&x.prefixes, len(key))
	default:
		if x.exact == nil {
			x.exact = map[string]*virtualHost{}
		}
		m = x.exact
	}
	if m[key] != nil {
		return fmt.Errorf("Only unique values for domains are permitted. Duplicate entry of domain %s in route %s", domain, table) //nolint:staticcheck // Envoy's text
	}
	m[key] = vh
	return nil
}

func group(of *map[int]map[string]*virtualHost, length int) map[string]*virtualHost {
	if *of == nil {
		*of = map[int]map[string]*virtualHost{}
	}
	m := (*of)[length]
	if m == nil {
		m = map[string]*virtualHost{}
		(*of)[length] = m
	}
	return m
}

func (x *hostIndex) finish() {
	x.bySuffix, x.byPrefix = longestFirst(x.suffixes), longestFirst(x.prefixes)
	x.suffixes, x.prefixes = nil, nil
	if len(x.exact) == 0 {
		x.exact = nil
	}
}

func longestFirst(of map[int]map[string]*virtualHost) []wildcards {
	out := make([]wildcards, 0, len(of))
	for n, m := range of {
		out = append(out, wildcards{n, m})
	}
	slices.SortFunc(out, func(a, b wildcards) int { return b.length - a.length })
	return out
}

// find is the virtual host of a name in lower case, or nil.
func (x *hostIndex) find(host []byte) *virtualHost {
	if vh := x.exact[string(host)]; vh != nil {
		return vh
	}
	// A wildcard stands for at least one character.
	for i := range x.bySuffix {
		if w := &x.bySuffix[i]; w.length < len(host) {
			if vh := w.hosts[string(host[len(host)-w.length:])]; vh != nil {
				return vh
			}
		}
	}
	for i := range x.byPrefix {
		if w := &x.byPrefix[i]; w.length < len(host) {
			if vh := w.hosts[string(host[:w.length])]; vh != nil {
				return vh
			}
		}
	}
	return x.any
}

// host is the virtual host of a request, or nil.
func (t *Table) host(c *Context) *virtualHost {
	x := &t.hosts
	if x.exact == nil && len(x.bySuffix) == 0 && len(x.byPrefix) == 0 {
		return x.any
	}
	host, ok := c.Request.LookupID(header.Authority)
	if !ok {
		return nil
	}
	if t.ignorePort {
		host = withoutPort(host)
	}
	var buf [256]byte
	lower := buf[:0]
	for i := range len(host) {
		lower = append(lower, stringmatch.LowerByte(host[i]))
	}
	return x.find(lower)
}

// withoutPort is a host without its port.
func withoutPort(host string) string {
	i := portStart(host)
	if i < 0 {
		return host
	}
	return host[:i]
}

// portStart is where the colon of a host's port is, or -1.
func portStart(host string) int {
	i := strings.LastIndexByte(host, ':')
	if i < 0 {
		return -1
	}
	// The colons of an IPv6 address are none of a port.
	if end := strings.LastIndexByte(host, ']'); end >= 0 && end > i || end < 0 && strings.IndexByte(host, ':') != i {
		return -1
	}
	for _, d := range []byte(host[i+1:]) {
		if d < '0' || d > '9' {
			return -1
		}
	}
	if i+1 == len(host) {
		return -1
	}
	return i
}

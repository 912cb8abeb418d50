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
	exact domains
	// Longest first.
	bySuffix, byPrefix []wildcards
	any                *virtualHost
}

// wildcards are those of one length.
type wildcards struct {
	length int
	hosts  domains
}

// copy is what may be changed without a change of x.
func (x *hostIndex) copy() hostIndex {
	return hostIndex{exact: x.exact.copy(), bySuffix: copyAll(x.bySuffix), byPrefix: copyAll(x.byPrefix), any: x.any}
}

func copyAll(of []wildcards) []wildcards {
	out := make([]wildcards, len(of))
	for i := range of {
		out[i] = wildcards{of[i].length, of[i].hosts.copy()}
	}
	return out
}

// place is where a domain in lower case belongs, which is not "*", and under which
// name.
func (x *hostIndex) place(domain string) (m *domains, name string) {
	switch {
	case strings.HasPrefix(domain, "*"):
		return group(&x.bySuffix, len(domain)-1), domain[1:]
	case strings.HasSuffix(domain, "*"):
		return group(&x.byPrefix, len(domain)-1), domain[:len(domain)-1]
	}
	return &x.exact, domain
}

// group are the wildcards of a length.
func group(of *[]wildcards, length int) *domains {
	i, found := slices.BinarySearchFunc(*of, length, func(w wildcards, n int) int { return n - w.length })
	if !found {
		*of = slices.Insert(*of, i, wildcards{length: length})
	}
	return &(*of)[i].hosts
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
	if m, name := x.place(domain); !m.add(name, vh) {
		return fmt.Errorf("Only unique values for domains are permitted. Duplicate entry of domain %s in route %s", domain, table) //nolint:staticcheck // Envoy's text
	}
	return nil
}

// remove takes the domains of a virtual host away.
func (x *hostIndex) remove(list []string, vh *virtualHost) {
	for _, d := range list {
		if d = strings.ToLower(d); d == "*" {
			x.any = nil
			continue
		}
		m, name := x.place(d)
		m.remove(name, vh)
	}
}

// finish drops the lengths that no wildcard has any more.
func (x *hostIndex) finish() {
	none := func(w wildcards) bool { return w.hosts.n == 0 }
	x.bySuffix, x.byPrefix = slices.DeleteFunc(x.bySuffix, none), slices.DeleteFunc(x.byPrefix, none)
}

// find is the virtual host of a name in lower case, or nil.
func (x *hostIndex) find(host []byte) *virtualHost {
	if vh := x.exact.find(host); vh != nil {
		return vh
	}
	// A wildcard stands for at least one character.
	for i := range x.bySuffix {
		if w := &x.bySuffix[i]; w.length < len(host) {
			if vh := w.hosts.find(host[len(host)-w.length:]); vh != nil {
				return vh
			}
		}
	}
	for i := range x.byPrefix {
		if w := &x.byPrefix[i]; w.length < len(host) {
			if vh := w.hosts.find(host[:w.length]); vh != nil {
				return vh
			}
		}
	}
	return x.any
}

// host is the virtual host of a request, or nil.
func (t *Table) host(c *Context) *virtualHost {
	x := &t.hosts
	if x.exact.n == 0 && len(x.bySuffix) == 0 && len(x.byPrefix) == 0 {
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

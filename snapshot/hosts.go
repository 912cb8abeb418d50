package snapshot

import (
	"slices"
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/xebec-proxy/xebec/xds"
)

// Host finds the virtual host that a client asks for on demand by the name
// "<route configuration>/<host>": the one of that route configuration whose
// domains match the host as clients match them (XN-23). That is the whole name,
// then the longest "*.suffix", then the longest "prefix.*", then "*"; case does
// not matter, and the port only if the route configuration does not ignore it.
// It is nil if none matches. The cost depends on the length of the name alone.
//
// Names and aliases of virtual hosts are not looked at; see [Snapshot.Resolve].
func (s *Snapshot) Host(name string) *xds.Resource {
	x := s.Set(xds.VirtualHostType).byDomain
	if x == nil {
		return nil
	}
	table, host, ok := xds.SplitHost(name)
	if !ok {
		return nil
	}
	if t := s.Set(xds.RouteType).Get(table); t != nil && t.Hosts() != nil && t.Hosts().IgnorePort {
		host = xds.WithoutPort(host)
	}
	return matchHost(x, table, strings.ToLower(host))
}

// Resolve finds the resource that a client means by a name: by its name, else by
// an alias, else, for a virtual host, by its domains. It is nil if there is none.
func (s *Snapshot) Resolve(typeURL, name string) *xds.Resource {
	if r := s.Set(typeURL).Resolve(name); r != nil || typeURL != xds.VirtualHostType {
		return r
	}
	return s.Host(name)
}

// OnDemand lists, sorted, the route configurations that have virtual hosts on
// demand. The slice is shared by all callers and must not be changed.
func (s *Snapshot) OnDemand() []string {
	if set := s.Set(xds.RouteType); set.onDemand != nil {
		return set.onDemand()
	}
	return nil
}

func (s *Set) listOnDemand() []string {
	var l []string
	for r := range s.Under("") {
		if r.Hosts() != nil {
			l = append(l, r.Name())
		}
	}
	return l
}

// domains indexes the virtual hosts of a set by route configuration and domain.
// The key is the kind of the domain, the route configuration, and what of the
// domain is compared; suffixes are written backwards, so that the longest match
// is the longest prefix of what is looked up. More than one virtual host can
// claim a domain, though they should not: the first by name gets it.
type domains = iradix.Tree[[]*xds.Resource]

// Kinds of domains.
const (
	exactDomain  = 'e'
	suffixDomain = 's'
	prefixDomain = 'p'
	anyDomain    = 'a'
)

func matchHost(x *domains, table, host string) *xds.Resource {
	if l, ok := x.Get(domainKey(exactDomain, table, host)); ok {
		return l[0]
	}
	// A wildcard stands for at least one character.
	for _, kind := range []byte{suffixDomain, prefixDomain} {
		rest := host[:len(host)-1]
		if kind == suffixDomain {
			rest = backwards(host[1:])
		}
		k := domainKey(kind, table, rest)
		if found, l, ok := x.Root().LongestPrefix(k); ok && len(found) >= len(k)-len(rest) {
			return l[0]
		}
	}
	if l, ok := x.Get(domainKey(anyDomain, table, "")); ok {
		return l[0]
	}
	return nil
}

func domainKey(kind byte, table, compared string) []byte {
	b := make([]byte, 0, len(table)+len(compared)+2)
	b = append(append(append(b, kind), table...), 0)
	return append(b, compared...)
}

// keyOf is where a domain in lower case is kept.
func keyOf(table, domain string) []byte {
	switch {
	case domain == "*":
		return domainKey(anyDomain, table, "")
	case strings.HasPrefix(domain, "*"):
		return domainKey(suffixDomain, table, backwards(domain[1:]))
	case strings.HasSuffix(domain, "*"):
		return domainKey(prefixDomain, table, domain[:len(domain)-1])
	}
	return domainKey(exactDomain, table, domain)
}

func backwards(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// index replaces a virtual host in the index; old or r may be nil.
func (t *edit) index(old, r *xds.Resource) {
	t.eachDomain(old, func(k []byte, l []*xds.Resource) {
		l = slices.DeleteFunc(slices.Clone(l), func(o *xds.Resource) bool { return o == old })
		if len(l) == 0 {
			t.domains.Delete(k)
			return
		}
		t.domains.Insert(k, l)
	})
	t.eachDomain(r, func(k []byte, l []*xds.Resource) {
		at, _ := slices.BinarySearchFunc(l, r, func(a, b *xds.Resource) int { return strings.Compare(a.Name(), b.Name()) })
		t.domains.Insert(k, slices.Insert(slices.Clip(l), at, r))
	})
}

// eachDomain visits the places of a virtual host's domains with what is there.
func (t *edit) eachDomain(r *xds.Resource, visit func(k []byte, l []*xds.Resource)) {
	if r == nil || r.TypeURL() != xds.VirtualHostType {
		return
	}
	table, _, ok := xds.SplitHost(r.Name())
	if !ok {
		return
	}
	for _, d := range r.Hosts().Domains {
		k := keyOf(table, d)
		l, _ := t.domains.Get(k)
		visit(k, l)
	}
}

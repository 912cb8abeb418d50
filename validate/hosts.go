package validate

import (
	"fmt"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/xds"
)

// hostOnDemand checks a virtual host that is a resource by itself (VHDS).
func (c *checker) hostOnDemand(v *routev3.VirtualHost) {
	table, _, ok := xds.SplitHost(c.name)
	switch {
	case c.name == "" || xds.IsURN(c.name):
	case !ok:
		c.add(Error, codeHostName, "name", fmt.Sprintf("%q does not say which route configuration the virtual host belongs to", c.name),
			"write <route configuration>/<name>")
	case v.GetName() != c.name:
		c.add(Error, codeHostName, "name", fmt.Sprintf("the resource is called %q, the virtual host in it %q", c.name, v.GetName()),
			fmt.Sprintf("give both the one name, %s/<name>", table))
	}
	first := map[string]int{}
	for i, d := range v.GetDomains() {
		folded := strings.ToLower(d)
		if j, dup := first[folded]; dup {
			c.add(Error, codeDuplicateDomain, fmt.Sprintf("domains[%d]", i),
				fmt.Sprintf("Only unique values for domains are permitted. Duplicate entry of domain %s, first in domains[%d]", d, j), "remove one of them")
			continue
		}
		first[folded] = i
	}
}

// domainType is the type of nodes that stand for a domain of a route
// configuration, "<route configuration>/<domain>", which is no resource.
const domainType = "domain"

// hostLinks is how a node has to do with virtual hosts on demand.
type hostLinks struct {
	table   *node   // of a virtual host
	hosts   nodeSet // of a route configuration
	domains []*node
	claims  nodeSet // of a domain: whose it is
}

func (l *hostLinks) idle() bool { return l.hosts.len()+l.claims.len() == 0 }

// linkHost links a virtual host with its route configuration, and either with
// its domains.
func (g *Graph) linkHost(n *node) {
	h := n.resource.Hosts()
	if h == nil {
		return
	}
	table := n.key.Name
	if n.key.Type == xds.VirtualHostType {
		var ok bool
		if table, _, ok = xds.SplitHost(table); !ok {
			return
		}
		n.table = g.node(xds.Key{Type: xds.RouteType, Name: table})
		n.table.hosts.add(n)
	}
	for _, d := range h.Domains {
		t := g.node(xds.Key{Type: domainType, Name: table + "/" + d})
		n.domains = append(n.domains, t)
		t.claims.add(n)
	}
}

func (g *Graph) unlinkHost(n *node) {
	table, domains := n.table, n.domains
	n.table, n.domains = nil, nil
	if table != nil {
		table.hosts.remove(n)
		g.drop(table)
	}
	for _, d := range domains {
		d.claims.remove(n)
		g.drop(d)
	}
}

// touchHost marks what the coming or going of a node's resource can affect
// among virtual hosts. A wildcard can concern all of a route configuration.
func (g *Graph) touchHost(n *node) {
	g.markAll(&n.hosts)
	if n.table != nil {
		g.mark(n.table)
	}
	for _, d := range n.domains {
		g.markAll(&d.claims)
		if n.table != nil && strings.Contains(d.key.Name, "*") {
			g.markAll(&n.table.hosts)
		}
	}
}

// checkHost returns what is wrong with a virtual host among the others of its
// route configuration, or with a route configuration that has none.
func (g *Graph) checkHost(n *node) []Finding {
	if n.key.Type == xds.RouteType && n.resource.Hosts() != nil && n.hosts.len() == 0 {
		return []Finding{g.finding(n, Warning, codeNoHosts, "vhds", "the group has no VirtualHost of this route configuration",
			fmt.Sprintf("add some, named %s/<name>, or remove vhds", n.key.Name))}
	}
	if n.table == nil {
		return nil
	}
	var out []Finding
	switch table := n.table; {
	case table.resource == nil:
		out = append(out, g.finding(n, Warning, codeHostTable, "name",
			fmt.Sprintf("there is no RouteConfiguration %q in the group", table.key.Name), "add it, or correct the name, which begins with its name"))
	case table.resource.Hosts() == nil:
		out = append(out, g.finding(n, Warning, codeHostTable, "name",
			fmt.Sprintf("RouteConfiguration %q has no vhds, so that no client asks for its virtual hosts", table.key.Name), "give it vhds"))
	}
	for _, d := range n.domains {
		out = append(out, g.checkDomain(n, d)...)
	}
	return out
}

// checkDomain looks for others that have a domain, or a wildcard over it.
func (g *Graph) checkDomain(n, d *node) []Finding {
	domain := strings.TrimPrefix(d.key.Name, n.table.key.Name+"/")
	if first := firstClaim(d); first != n {
		return []Finding{g.finding(n, Error, codeDomainTaken, "domains",
			fmt.Sprintf("the domain %q also belongs to %s %q", domain, xds.Kind(first.key.Type), first.key.Name), "keep the domain in one of them")}
	}
	for _, wild := range wildcardsOver(domain) {
		w := g.nodes[xds.Key{Type: domainType, Name: n.table.key.Name + "/" + wild}]
		if w == nil || w.claims.len() == 0 || firstClaim(w) == n {
			continue
		}
		other := firstClaim(w)
		return []Finding{g.finding(n, Warning, codeDomainCovered, "domains",
			fmt.Sprintf("a client that has %s %q uses its domain %q and does not ask for %q", xds.Kind(other.key.Type), other.key.Name, wild, domain),
			"list the virtual host in the route configuration itself, or name hosts where the wildcard is")}
	}
	return nil
}

// firstClaim is who has a domain: the route configuration itself, else the first
// virtual host by name, which is the one that clients are given.
func firstClaim(d *node) *node {
	return slices.MinFunc(slices.Collect(d.claims.all), func(a, b *node) int {
		if a.key.Type != b.key.Type {
			return strings.Compare(a.key.Type, b.key.Type) // a RouteConfiguration before a VirtualHost
		}
		return strings.Compare(a.key.Name, b.key.Name)
	})
}

// wildcardsOver lists the domains with a wildcard that match less exactly what
// the domain matches, the closest first.
func wildcardsOver(domain string) []string {
	var l []string
	suffix := strings.TrimPrefix(domain, "*")
	prefix := strings.TrimSuffix(domain, "*")
	if suffix == domain || prefix == domain {
		for i := 1; i < len(suffix) && prefix == domain; i++ {
			l = append(l, "*"+suffix[i:])
		}
		for i := len(prefix) - 1; i > 0 && suffix == domain; i-- {
			l = append(l, prefix[:i]+"*")
		}
	}
	if domain != "*" {
		l = append(l, "*")
	}
	return l
}

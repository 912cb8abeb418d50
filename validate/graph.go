package validate

import (
	"cmp"
	"slices"

	"github.com/xebec-proxy/xebec/xds"
)

// Option sets an optional property of a check of references.
type Option func(*options)

type options struct {
	missing  Severity
	known    map[xds.Key]bool
	position func(xds.Key, string) xds.Position
}

// Strict makes references to what the group does not have errors; without it
// they are warnings, since a client can know the target from its bootstrap.
func Strict() Option { return func(o *options) { o.missing = Error } }

// Known names resources that clients have from elsewhere, such as the clusters
// of their bootstrap. References to them are in order.
func Known(keys ...xds.Key) Option {
	return func(o *options) {
		for _, k := range keys {
			o.known[k] = true
		}
	}
}

// Positions says where a field of a resource was written. Without it a finding
// stands at the resource's origin.
func Positions(of func(k xds.Key, path string) xds.Position) Option {
	return func(o *options) { o.position = of }
}

// Graph is the resources of one group with what they refer to. It is kept up to
// date change by change and then checks again only what a change can affect.
// Not safe for concurrent use.
type Graph struct {
	options
	nodes  map[xds.Key]*node
	counts map[string]int // resources by type URL
	dirty  []*node
	faulty map[*node]struct{} // nodes with findings
}

// node is a resource, or a name that resources refer to or have as an alias.
type node struct {
	key      xds.Key
	resource *xds.Resource // nil if there is none of that name
	targets  []*node       // as resource.References()
	aliases  []*node       // as resource.Aliases()
	place    *node         // a scope's key, which belongs to one scope
	users    nodeSet
	owners   nodeSet // resources that have this name as an alias
	hostLinks
	dirty    bool
	findings []Finding
}

func (n *node) present() bool { return n.resource != nil || n.owners.len() > 0 }

// NewGraph returns the graph of a group without resources.
func NewGraph(opts ...Option) *Graph {
	g := &Graph{
		options: options{missing: Warning, known: map[xds.Key]bool{}},
		nodes:   map[xds.Key]*node{}, counts: map[string]int{}, faulty: map[*node]struct{}{},
	}
	for _, o := range opts {
		o(&g.options)
	}
	return g
}

// References checks a complete set of one group: what is named but missing,
// what is there but unused, and names used twice. References come from
// Resource.References. The cost is proportional to the set.
func References(group []*xds.Resource, opts ...Option) []Finding {
	g := NewGraph(opts...)
	g.nodes = make(map[xds.Key]*node, len(group))
	var twice []Finding
	for _, r := range group {
		if n := g.nodes[r.Key()]; n != nil && n.resource != nil {
			twice = append(twice, g.duplicate(r, n.resource))
			continue
		}
		g.set(r)
	}
	return sorted(append(twice, g.Findings()...))
}

// Update takes resources in, in place of those of the same type and name, and
// takes out the removed ones. Unknown keys in removed are ignored.
func (g *Graph) Update(set []*xds.Resource, removed []xds.Key) {
	for _, k := range removed {
		if n := g.nodes[k]; n != nil && n.resource != nil {
			g.count(k.Type, -1)
			g.unlink(n)
			g.drop(n)
		}
	}
	for _, r := range set {
		g.set(r)
	}
}

// Findings checks what has changed since the last call and returns what is
// wrong with the group now, ordered by type, name and path.
func (g *Graph) Findings() []Finding {
	for _, n := range g.dirty {
		n.dirty = false
		n.findings = g.check(n)
		if len(n.findings) > 0 {
			g.faulty[n] = struct{}{}
		} else {
			delete(g.faulty, n)
		}
	}
	g.dirty = g.dirty[:0]
	var all []Finding
	for n := range g.faulty {
		all = append(all, n.findings...)
	}
	return sorted(all)
}

func sorted(f []Finding) []Finding {
	slices.SortStableFunc(f, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message))
	})
	return f
}

func (g *Graph) set(r *xds.Resource) {
	n := g.node(r.Key())
	if n.resource == nil {
		g.count(r.TypeURL(), 1)
	} else {
		g.unlink(n)
		g.nodes[n.key] = n // a resource that refers to itself was dropped
	}
	n.resource = r
	for _, ref := range r.References() {
		t := g.node(ref.Key)
		n.targets = append(n.targets, t)
		t.users.add(n)
	}
	for _, a := range r.Aliases() {
		t := g.node(xds.Key{Type: r.TypeURL(), Name: a})
		n.aliases = append(n.aliases, t)
		t.owners.add(n)
	}
	if key, ok := scopeKeyOf(r); ok {
		n.place = g.node(key)
		n.place.owners.add(n)
	}
	g.linkHost(n)
	g.touch(n)
}

// unlink takes a node's resource out.
func (g *Graph) unlink(n *node) {
	g.touch(n)
	targets, aliases, place := n.targets, n.aliases, n.place
	n.resource, n.targets, n.aliases, n.place = nil, nil, nil, nil
	if place != nil {
		place.owners.remove(n)
		g.drop(place)
	}
	for _, t := range targets {
		t.users.remove(n)
		g.drop(t)
	}
	for _, a := range aliases {
		a.owners.remove(n)
		g.drop(a)
	}
	g.unlinkHost(n)
}

// drop forgets a node that nothing speaks of any more.
func (g *Graph) drop(n *node) {
	if !n.present() && n.users.len() == 0 && n.idle() {
		delete(g.nodes, n.key)
	}
}

func (g *Graph) node(k xds.Key) *node {
	n := g.nodes[k]
	if n == nil {
		n = &node{key: k}
		g.nodes[k] = n
	}
	return n
}

// touch marks whatever the coming or going of a node's resource can affect: the
// resource, what refers to it, what it refers to, and the same by its aliases.
func (g *Graph) touch(n *node) {
	g.mark(n)
	g.markAll(&n.users)
	g.markAll(&n.owners)
	for _, t := range n.targets {
		g.mark(t)
		g.markAll(&t.owners)
	}
	if n.place != nil {
		g.markAll(&n.place.owners)
	}
	for _, a := range n.aliases {
		g.mark(a)
		g.markAll(&a.users)
		g.markAll(&a.owners)
	}
	g.touchHost(n)
}

func (g *Graph) markAll(set *nodeSet) {
	for n := range set.all {
		g.mark(n)
	}
}

func (g *Graph) mark(n *node) {
	if !n.dirty {
		n.dirty = true
		g.dirty = append(g.dirty, n)
	}
}

// count counts the resources of a type. Whether a type is there at all decides
// what can be unused, so that everything is checked again.
func (g *Graph) count(typeURL string, by int) {
	before := g.counts[typeURL]
	g.counts[typeURL] = before + by
	if before == 0 || before+by == 0 {
		for _, n := range g.nodes {
			g.mark(n)
		}
	}
}

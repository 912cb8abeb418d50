package wire_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// world is a group whose content changes at random and is always consistent:
// a route or listener names only clusters and extensions that exist.
type world struct {
	snap  *snapshot.Snapshot
	items map[xds.Key]spec
}

// spec is what a resource is made of.
type spec struct {
	version string
	refs    []xds.Key
	aliases []string
	// indirect is a redirect, which a wildcard does not stand for.
	indirect bool
}

func newWorld() *world { return &world{snap: snapshot.New(), items: map[xds.Key]spec{}} }

// names that resources and subscriptions use, by type.
var worldNames = map[string][]string{
	xds.ClusterType:         {"c0", "c1", "c2", "c3"},
	xds.EndpointType:        {"c0", "c1", "c2", "c3"},
	xds.ListenerType:        {"l0", "l1", "l2"},
	xds.RouteType:           {"r0", "r1", "r2"},
	xds.ScopedRouteType:     {"s0", "s1"},
	xds.VirtualHostType:     {"v0", "v1"},
	xds.SecretType:          {"k0", "k1"},
	xds.ExtensionConfigType: {"e0", "e1"},
}

// worldRefs says what types a type may refer to.
var worldRefs = map[string][]string{
	xds.ClusterType:     {xds.EndpointType, xds.SecretType},
	xds.ListenerType:    {xds.RouteType, xds.ClusterType, xds.SecretType, xds.ExtensionConfigType},
	xds.RouteType:       {xds.ClusterType},
	xds.ScopedRouteType: {xds.RouteType},
	xds.VirtualHostType: {xds.ClusterType},
}

var worldTypes = slices.Sorted(maps.Keys(worldNames))

func drawKey(t *rapid.T) xds.Key {
	u := rapid.SampledFrom(worldTypes).Draw(t, "type")
	return xds.Key{Type: u, Name: rapid.SampledFrom(worldNames[u]).Draw(t, "name")}
}

// change draws a change set and returns the snapshot it leads to. Some content
// is bad if badToo is set: the model client rejects it.
func (w *world) change(t *rapid.T, badToo bool) []snapshot.Change {
	next := maps.Clone(w.items)
	for range rapid.IntRange(1, 5).Draw(t, "changes") {
		k := drawKey(t)
		if rapid.IntRange(0, 3).Draw(t, "op") == 0 {
			delete(next, k)
			continue
		}
		next[k] = drawSpec(t, k, badToo)
	}
	return w.move(t, next)
}

func drawSpec(t *rapid.T, k xds.Key, badToo bool) spec {
	s := spec{version: rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "version")}
	if badToo && rapid.IntRange(0, 4).Draw(t, "bad") == 0 {
		s.version = "bad" + s.version
	}
	for _, u := range worldRefs[k.Type] {
		if rapid.IntRange(0, 3).Draw(t, "refers") > 0 {
			s.refs = append(s.refs, xds.Key{Type: u, Name: rapid.SampledFrom(worldNames[u]).Draw(t, "ref")})
		}
	}
	if k.Type == xds.RouteType && rapid.IntRange(0, 3).Draw(t, "alias") == 0 {
		s.aliases = []string{"al-" + k.Name}
	}
	s.indirect = rapid.IntRange(0, 7).Draw(t, "indirect") == 0
	return s
}

// repair replaces everything bad.
func (w *world) repair(t *rapid.T) []snapshot.Change {
	next := maps.Clone(w.items)
	for k, s := range next {
		if strings.HasPrefix(s.version, "bad") {
			s.version = "good"
			next[k] = s
		}
	}
	return w.move(t, next)
}

// move publishes the items, without references to clusters and extensions that do not exist,
// or that who asks for all clusters does not get.
func (w *world) move(t *rapid.T, next map[xds.Key]spec) []snapshot.Change {
	c := snapshot.Changes{Replace: true}
	for k, s := range next {
		s.refs = slices.DeleteFunc(slices.Clone(s.refs), func(r xds.Key) bool {
			to, exists := next[r]
			return (r.Type == xds.ClusterType || r.Type == xds.ExtensionConfigType) && (!exists || to.indirect)
		})
		next[k] = s
		c.Set = append(c.Set, s.resource(k))
	}
	slices.SortFunc(c.Set, func(a, b *xds.Resource) int {
		return strings.Compare(a.TypeURL()+a.Name(), b.TypeURL()+b.Name())
	})
	w.items = next
	snap, changes, err := w.snap.With(c)
	if err != nil {
		t.Fatal(err)
	}
	w.snap = snap
	slices.SortFunc(changes, func(a, b snapshot.Change) int { return strings.Compare(a.Type+a.Name, b.Type+b.Name) })
	return changes
}

func (s spec) resource(k xds.Key) *xds.Resource {
	refs := make([]xds.Reference, 0, len(s.refs))
	for _, r := range s.refs {
		refs = append(refs, xds.Reference{Key: r})
	}
	bodyType := k.Type
	if s.indirect {
		bodyType = xds.LocatorType
	}
	return xds.NewResource(k.Type, k.Name, fmt.Append(nil, s.refs), xds.WithBodyType(bodyType),
		xds.WithVersion(fmt.Sprintf("%s%v", s.version, short(s.refs))), xds.WithReferences(refs), xds.WithAliases(s.aliases...))
}

func short(refs []xds.Key) []string {
	var list []string
	for _, r := range refs {
		list = append(list, r.Name)
	}
	return list
}

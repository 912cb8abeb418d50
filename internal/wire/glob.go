package wire

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// glob is a subscription to a glob collection (XN-05).
type glob struct {
	name string
	urn  xds.URN
	// prefix is what the names of members start with, in canonical form.
	prefix string
}

// parseGlob reads a name that is a glob collection; others give false.
func parseGlob(name string) (glob, bool) {
	if !xds.IsURN(name) {
		return glob{}, false
	}
	u, err := xds.ParseURN(name)
	if err != nil || !u.IsGlob() {
		return glob{}, false
	}
	bare := u
	bare.Params = nil
	return glob{name: name, urn: u, prefix: strings.TrimSuffix(bare.String(), "*")}, true
}

func (g glob) covers(name string) bool {
	return strings.HasPrefix(name, g.prefix) && g.urn.Covers(name)
}

// members iterates over the resources in the collection.
func (g glob) members(set *snapshot.Set) iter.Seq[*xds.Resource] {
	return func(yield func(*xds.Resource) bool) {
		for r := range set.Under(g.prefix) {
			if g.urn.Covers(r.Name()) && !yield(r) {
				return
			}
		}
	}
}

// populated reports whether a name is a glob collection that is subscribed to
// and has members the client may have.
func (x *sub) populated(name string) bool {
	g, ok := x.globs[name]
	if !ok {
		return false
	}
	for r := range g.members(x.set()) {
		if x.denied(r.Name()) == nil {
			return true
		}
	}
	return false
}

// addGlob notes a name that is a glob collection, to be expanded from the
// snapshot at the next chance.
func (x *sub) addGlob(name string) {
	if g, ok := parseGlob(name); ok {
		if x.pendingGlobs == nil {
			x.pendingGlobs = map[string]glob{}
		}
		x.pendingGlobs[name] = g
		x.skipInFlight()
	}
}

func (x *sub) dropGlobs(names []string) {
	for _, n := range names {
		delete(x.globs, n)
		delete(x.pendingGlobs, n)
	}
}

// expandGlobs makes the members of newly subscribed globs due, and with them
// what a reconnecting client holds of them in vain. A glob without members
// stays due under its own name and is reported missing (XN-06).
func (x *sub) expandGlobs() {
	for _, name := range slices.Sorted(maps.Keys(x.pendingGlobs)) {
		if x.denied(name) != nil {
			continue // its own entry says so (XS-87)
		}
		g := x.pendingGlobs[name]
		members := 0
		for r := range g.members(x.set()) {
			o := x.ask(r.Name())
			o.first, o.former = x.skip != nil, o.former || x.heldFormerly(r.Name())
			members++
		}
		for _, name := range slices.Sorted(maps.Keys(x.skip)) {
			if g.covers(name) && x.current(name) == nil {
				x.oweRemoval(name)
			}
		}
		if members > 0 {
			x.due.dropName(g.name)
		}
		if x.globs == nil {
			x.globs = map[string]glob{}
		}
		x.globs[g.name] = g
	}
	x.pendingGlobs = nil
}

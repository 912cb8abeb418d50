package validate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xebec-proxy/xebec/xds"
)

// check returns what is wrong with a resource among the others.
func (g *Graph) check(n *node) []Finding {
	if n.resource == nil {
		return nil
	}
	var out []Finding
	for i, ref := range n.resource.References() {
		if t := n.targets[i]; !t.present() && !g.known[ref.Key] && !isGlob(ref.Name) {
			out = append(out, g.dangling(n, ref))
		}
	}
	for _, a := range n.aliases {
		if a != n && (a.resource != nil || a.owners.len() > 1) {
			out = append(out, g.finding(n, Error, codeAliasTaken, "",
				fmt.Sprintf("the alias %q also belongs to another %s", a.key.Name, xds.Kind(n.key.Type)), "choose another alias"))
		}
	}
	if n.place != nil && n.place.owners.len() > 1 {
		out = append(out, g.finding(n, Error, codeScopeKeyTaken, "key", fmt.Sprintf("scope key conflict found: it is the key of %s too", others(n)), "choose another key"))
	}
	if n.key.Type == xds.EndpointType && !hasEndpoints(n.resource.Body()) {
		out = append(out, g.finding(n, Warning, codeNoEndpoints, "endpoints", "the assignment has no endpoints", "add endpoints"))
	}
	out = append(out, g.checkHost(n)...)
	if f, ok := g.unused(n); ok {
		out = append(out, f)
	}
	return out
}

// others names the other scopes of a scope's key.
func others(n *node) string {
	var names []string
	for o := range n.place.owners.all {
		if o != n {
			names = append(names, strconv.Quote(o.key.Name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// scopeKeyOf is a scope's key, among names of which no type has others.
func scopeKeyOf(r *xds.Resource) (xds.Key, bool) {
	if r.TypeURL() != xds.ScopedRouteType {
		return xds.Key{}, false
	}
	key := ""
	found := anyField(r.Body(), func(n protowire.Number, b []byte) bool {
		key = string(b)
		return n == fieldScopeKey
	})
	return xds.Key{Type: xds.ScopedRouteType + "#key", Name: key}, found
}

// isGlob reports a collection of unknown members, which may well be empty.
func isGlob(name string) bool { return strings.HasSuffix(name, "/*") }

func (g *Graph) finding(n *node, s Severity, code, path, message, hint string) Finding {
	f := Finding{
		Severity: s, Tier: Reference, Code: code, Type: n.key.Type, Name: n.key.Name,
		Path: path, Pos: n.resource.Origin(), Message: message, Hint: hint,
	}
	if g.position != nil {
		f.Pos = g.position(n.key, path)
	}
	return f
}

func (g *Graph) dangling(n *node, ref xds.Reference) Finding {
	kind := xds.Kind(ref.Type)
	code, hint := codeMissingResource, fmt.Sprintf("add the %s, or correct the name", kind)
	switch ref.Type {
	case xds.ClusterType:
		code, hint = codeMissingCluster, "add the Cluster or correct the name; it is in order if the client's bootstrap has the cluster"
	case xds.EndpointType:
		code = codeMissingEndpoints
	case xds.RouteType:
		code = codeMissingRoute
	case xds.SecretType:
		code = codeMissingSecret
	case xds.ExtensionConfigType:
		code = codeMissingExtension
	}
	return g.finding(n, g.missing, code, ref.Path, fmt.Sprintf("there is no %s %q in the group", kind, ref.Name), hint)
}

// unused reports a resource that nothing refers to, if the group has resources
// of a type that could: a group of route tables alone is in order.
func (g *Graph) unused(n *node) (Finding, bool) {
	code, users := usersOf(n.key.Type)
	there := 0
	for _, u := range users {
		there += g.counts[u]
	}
	if there == 0 || n.users.len() > 0 {
		return Finding{}, false
	}
	for _, a := range n.aliases {
		if a.users.len() > 0 {
			return Finding{}, false
		}
	}
	kinds := make([]string, len(users))
	for i, u := range users {
		kinds[i] = xds.Kind(u)
	}
	return g.finding(n, Warning, code, "", fmt.Sprintf("no %s of the group uses it", strings.Join(kinds, " or ")),
		"remove it, or correct the name that should refer to it"), true
}

// usersOf says which types refer to a type, and the code for one left unused.
func usersOf(typeURL string) (code string, users []string) {
	switch typeURL {
	case xds.EndpointType:
		return codeUnusedEndpoints, []string{xds.ClusterType}
	case xds.RouteType:
		return codeUnusedRoute, []string{xds.ListenerType, xds.ScopedRouteType}
	case xds.SecretType:
		return codeUnusedSecret, []string{xds.ListenerType, xds.ClusterType}
	case xds.ExtensionConfigType:
		return codeUnusedExtension, []string{xds.ListenerType, xds.ClusterType}
	}
	return "", nil
}

func (g *Graph) duplicate(r, first *xds.Resource) Finding {
	n := &node{key: r.Key(), resource: r}
	message := "the name is used twice"
	if at := first.Origin().String(); at != "" {
		message += "; first at " + at
	}
	return g.finding(n, Error, codeDuplicateName, "", message, "rename or remove one of them")
}

// Field numbers of ClusterLoadAssignment, LocalityLbEndpoints and its
// LbEndpointList.
const (
	fieldEndpoints    = 2
	fieldLbEndpoints  = 2
	fieldEndpointList = 7
	fieldLeds         = 8
	fieldListed       = 1
)

// fieldScopeKey is ScopedRouteConfiguration.key.
const fieldScopeKey = 3

// hasEndpoints reports whether an encoded ClusterLoadAssignment has an endpoint
// or a place to get endpoints from, without decoding it. Broken bytes have.
func hasEndpoints(assignment []byte) bool {
	return anyField(assignment, func(n protowire.Number, locality []byte) bool {
		return n == fieldEndpoints && anyField(locality, func(n protowire.Number, list []byte) bool {
			return n == fieldLbEndpoints || n == fieldLeds || n == fieldEndpointList &&
				anyField(list, func(n protowire.Number, _ []byte) bool { return n == fieldListed })
		})
	})
}

// anyField reports whether a length-delimited field satisfies is.
func anyField(b []byte, is func(protowire.Number, []byte) bool) bool {
	for len(b) > 0 {
		n, t, size := protowire.ConsumeTag(b)
		if size < 0 {
			return true
		}
		b = b[size:]
		if t == protowire.BytesType {
			v, size := protowire.ConsumeBytes(b)
			if size < 0 || is(n, v) {
				return true
			}
			b = b[size:]
			continue
		}
		if size = protowire.ConsumeFieldValue(n, t, b); size < 0 {
			return true
		}
		b = b[size:]
	}
	return false
}

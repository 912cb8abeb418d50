package follow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
)

// ParseType finds a type by its API ("cds"), its kind ("cluster"), the words of
// Words, or its URL, which may also be one that the protocol does not define.
func ParseType(word string) (xds.Type, error) {
	if t, ok := xds.LookupType(word); ok {
		return t, nil
	}
	if rest, ok := strings.CutPrefix(word, xds.TypePrefix); ok && rest != "" {
		return xds.Type{URL: word, Kind: rest, Wildcard: true}, nil
	}
	lower := strings.ToLower(word)
	for _, t := range xds.Types() {
		if w := wordOf(t); lower == w || strings.TrimSuffix(lower, "s") == w {
			return t, nil
		}
	}
	return xds.Type{}, fmt.Errorf("%q is no resource type: write one of %s, an API such as cds, or a type URL (%s…)", word, strings.Join(Words(), ", "), xds.TypePrefix)
}

// Words are what people call the types, in the plural.
func Words() []string {
	var words []string
	for _, t := range xds.Types() {
		words = append(words, wordOf(t)+"s")
	}
	slices.Sort(words)
	return words
}

// wordOf is what people call a resource of a type.
func wordOf(t xds.Type) string {
	switch t.URL {
	case xds.RouteType:
		return "route"
	case xds.ScopedRouteType:
		return "scoped-route"
	case xds.VirtualHostType:
		return "virtual-host"
	case xds.EndpointType:
		return "endpoint"
	case xds.LocalityEndpointType:
		return "locality-endpoint"
	case xds.ExtensionConfigType:
		return "extension-config"
	}
	return strings.ToLower(t.Kind)
}

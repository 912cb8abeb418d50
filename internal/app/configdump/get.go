package configdump

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/xebec-proxy/xebec/internal/app/follow"
	"github.com/xebec-proxy/xebec/xds"
)

// Get reads the resources of a type from a file, all or those of some names,
// sorted by name. What there is is returned even with an error, which tells what
// is not.
func Get(path string, t xds.Type, names []string) ([]follow.Resource, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a config dump: %w", err)
	}
	list, err := Read(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if !Shows(t.URL) && t.URL != xds.EndpointType {
		return nil, errors.Join(err, fmt.Errorf("%s: config dumps do not show resources of type %s", path, t.Kind))
	}
	errs := []error{err}
	var out []follow.Resource
	found := map[string]bool{}
	for _, r := range list {
		if r.TypeURL == t.URL && (len(names) == 0 || slices.Contains(names, r.Name) || slices.Contains(names, "*")) {
			out = append(out, *follow.NewResource(r.Name, r.Version, r.TypeURL, r.Body))
			found[r.Name] = true
		}
	}
	for _, name := range names {
		if !found[name] && name != "*" {
			errs = append(errs, fmt.Errorf("%s: there is no %s %q", path, t.Kind, name))
		}
	}
	return out, errors.Join(errs...)
}

// Shows reports whether a dump has the resources of a type as a server sends
// them. Endpoints are there as they have become, and only with ?include_eds.
func Shows(typeURL string) bool {
	switch typeURL {
	case xds.ListenerType, xds.ClusterType, xds.RouteType, xds.ScopedRouteType, xds.SecretType, xds.ExtensionConfigType:
		return true
	}
	return false
}

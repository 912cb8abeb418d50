package mem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/xebec-proxy/xebec/internal/apiv2"
	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/xds"
)

func old(r *xds.Resource) bool { return r != nil && xds.V3Type(r.TypeURL()) != "" }

// modern reads resources of v2 of the API as those of v3 that followed them (XV-05).
func modern(list []*xds.Resource) ([]*xds.Resource, error) {
	if !slices.ContainsFunc(list, old) {
		return list, nil
	}
	list = slices.Clone(list)
	loader := &configload.Loader{Successor: apiv2.Successor()}
	for i, r := range list {
		if !old(r) {
			continue
		}
		var err error
		if list[i], err = upgraded(loader, r); err != nil {
			return nil, &xds.ResourceError{Type: r.TypeURL(), Name: r.Name(), Pos: r.Origin(), Err: err}
		}
	}
	return list, nil
}

// upgraded is a resource in v3, with the version that it had.
func upgraded(loader *configload.Loader, r *xds.Resource) (*xds.Resource, error) {
	if r.Indirect() {
		return nil, errors.New("v2 of the API has neither redirects nor collections")
	}
	to, problems := loader.Upgrade(r.TypeURL(), r.Body())
	if len(problems) > 0 {
		return nil, problems[0]
	}
	up, err := xds.Marshal(r.Name(), to.Message, xds.WithVersion(r.Version()), xds.WithAliases(r.Aliases()...),
		xds.WithReferences(model.References(to.Message)), xds.WithOrigin(r.Origin()), xds.WithUpdated(r.Updated()))
	if err != nil {
		return nil, fmt.Errorf("in v3 of the API: %w", err)
	}
	return up, nil
}

// modernKey is what a key of v2 means.
func modernKey(k xds.Key) xds.Key {
	k.Type = cmp.Or(xds.V3Type(k.Type), k.Type)
	return k
}

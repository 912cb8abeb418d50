package xdsserver

import (
	"cmp"
	"errors"
	"sync"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/apiv2"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// Two things have a version: methods, whose requests and responses in v2 lack
// some fields (XV-06), and resources, whose type URL says theirs (XV-02). Streams
// carry v3 resources; those who ask for a type by its v2 name are sent its other
// form.

// canonical is the type of the resources that a type URL stands for.
func canonical(typeURL string) string { return cmp.Or(xds.V3Type(typeURL), typeURL) }

// carries is the method as its first request makes it: a method for one type
// carries that in either version.
func (m method) carries(typeURL string) method {
	if m.only != "" && typeURL != "" && canonical(typeURL) == canonical(m.only) {
		m.only = typeURL
	}
	return m
}

// v2Forms makes v2 resources out of those of v3.
func v2Forms(toV2 func(*anypb.Any) (*anypb.Any, error), failed func(*xds.Resource, error)) *forms {
	return &forms{failed: failed, convert: func(r *xds.Resource) (*xds.Resource, error) {
		v2 := xds.V2Type(r.TypeURL())
		switch {
		case v2 == "":
			return nil, errors.New("v2 of the API has no such type")
		case r.Indirect():
			return nil, errors.New("v2 of the API has neither redirects nor collections")
		case xds.IsURN(r.Name()) && !r.HasOwnName():
			return nil, errors.New("v2 of the API has no structured names")
		}
		a, err := toV2(r.Any())
		if err != nil {
			return nil, err //nolint:wrapcheck // says it all
		}
		return xds.NewResource(v2, r.Name(), a.GetValue(), xds.WithVersion(r.Version()), xds.WithAliases(r.Aliases()...),
			xds.WithReferences(r.References()), xds.WithOrigin(r.Origin()), xds.WithUpdated(r.Updated())), nil
	}}
}

// newToV2 makes the converter for the first who needs it: to make it takes
// milliseconds and some hundred KiB.
func newToV2() func(*anypb.Any) (*anypb.Any, error) {
	converter := sync.OnceValue(apiv2.New)
	return func(a *anypb.Any) (*anypb.Any, error) { return converter().ToV2(a) }
}

// leftOut counts and logs a content that v2 cannot say, once.
func (s *Server) leftOut(r *xds.Resource, err error) {
	if n := s.counters.leftOut[xds.V2Type(r.TypeURL())]; n != nil {
		n.Add(1)
	}
	s.log.Warn("a resource cannot be said in v2 of the API, and is left out for clients that ask for that",
		"type", r.TypeURL(), "resource", r.Name(), "origin", r.Origin().String(), "reason", err)
}

// inForm is resources as a client that asked for a type URL is sent them.
func (s *Server) inForm(typeURL string, needsStruct bool, resources []*xds.Resource) []*xds.Resource {
	if needsStruct && s.structs != nil {
		resources = s.structs.list(resources)
	}
	if canonical(typeURL) != typeURL {
		resources = s.v2.list(resources)
	}
	return resources
}

var errV2 = errors.New("the server holds v3 and serves v2 clients from that; give it the resource in v3, or to a source, which reads v2 as v3")

// onlyV3 refuses resources that no client would be sent.
func onlyV3(c snapshot.Changes) error {
	for _, r := range c.Set {
		if xds.V3Type(r.TypeURL()) != "" {
			return &xds.ResourceError{Type: r.TypeURL(), Name: r.Name(), Pos: r.Origin(), Err: errV2}
		}
	}
	return nil
}

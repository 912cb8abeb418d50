package discovery

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
)

// naming is how resources of a type are called by what is in them, since that need not
// be what the server calls them.
type naming[T any] struct {
	name func(T) string
	// named is a copy with another name.
	named func(T, string) T
	// refusal is Envoy's text for one of another name, with what was expected and what came.
	refusal string
}

// asked is a resource as who has asked for a name is to get it. One that calls itself
// otherwise is refused, as Envoy does: to use it would be to use it as something else.
// But what a name of the form xdstp: leads to, by redirects, may be called by another such
// name, and is used under that by which it was asked for.
func (n *naming[T]) asked(name string, v T) (T, error) {
	switch own := n.name(v); {
	case own == name:
		return v, nil
	case xds.IsURN(name):
		return n.named(v, name), nil
	default:
		return v, fmt.Errorf(n.refusal, name, own)
	}
}

// renamed is a copy of a message that is given another name.
func renamed[T proto.Message](v T, rename func(T)) T {
	out := proto.CloneOf(v)
	rename(out)
	return out
}

func assignmentNaming() naming[*assignment] {
	return naming[*assignment]{
		name: func(a *assignment) string { return a.la.GetClusterName() },
		named: func(a *assignment, name string) *assignment {
			la := proto.CloneOf(a.la)
			la.ClusterName = name
			return &assignment{la: la}
		},
		refusal: "Unexpected EDS cluster (expecting %s): %s",
	}
}

func routesNaming() naming[*routev3.RouteConfiguration] {
	return naming[*routev3.RouteConfiguration]{
		name: (*routev3.RouteConfiguration).GetName,
		named: func(rc *routev3.RouteConfiguration, name string) *routev3.RouteConfiguration {
			return renamed(rc, func(rc *routev3.RouteConfiguration) { rc.Name = name })
		},
		refusal: "Unexpected RDS configuration (expecting %s): %s",
	}
}

func secretNaming() naming[*tlsv3.Secret] {
	return naming[*tlsv3.Secret]{
		name: (*tlsv3.Secret).GetName,
		named: func(s *tlsv3.Secret, name string) *tlsv3.Secret {
			return renamed(s, func(s *tlsv3.Secret) { s.Name = name })
		},
		refusal: "Unexpected SDS secret (expecting %s): %s",
	}
}

func runtimeNaming() naming[*runtimev3.Runtime] {
	return naming[*runtimev3.Runtime]{
		name: (*runtimev3.Runtime).GetName,
		named: func(rt *runtimev3.Runtime, name string) *runtimev3.Runtime {
			return renamed(rt, func(rt *runtimev3.Runtime) { rt.Name = name })
		},
		refusal: "Unexpected RTDS runtime (expecting %s): %s",
	}
}

func extensionNaming() naming[*corev3.TypedExtensionConfig] {
	return naming[*corev3.TypedExtensionConfig]{
		name: (*corev3.TypedExtensionConfig).GetName,
		named: func(c *corev3.TypedExtensionConfig, name string) *corev3.TypedExtensionConfig {
			return renamed(c, func(c *corev3.TypedExtensionConfig) { c.Name = name })
		},
		refusal: "Unexpected resource name in ExtensionConfigDS response (expecting %s): %s",
	}
}

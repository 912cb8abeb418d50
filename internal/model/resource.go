package model

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/xds"
)

// Name returns a resource's own name: cluster_name of a ClusterLoadAssignment,
// name of the other types, of v2 too. It reports false for a message that is no
// resource or, as LbEndpoint, does not hold its name. The name may be empty.
func Name(m proto.Message) (string, bool) {
	if m == nil {
		return "", false
	}
	r := m.ProtoReflect()
	field := nameField(r.Descriptor().FullName())
	if field == "" {
		return "", false
	}
	return r.Get(r.Descriptor().Fields().ByName(field)).String(), true
}

func nameField(message protoreflect.FullName) protoreflect.Name {
	switch xds.TypePrefix + string(message) {
	case xds.EndpointType, xds.TypePrefix + "envoy.api.v2.ClusterLoadAssignment":
		return "cluster_name"
	case xds.ListenerType, xds.RouteType, xds.ScopedRouteType, xds.VirtualHostType, xds.ClusterType,
		xds.SecretType, xds.RuntimeType, xds.ExtensionConfigType,
		thriftRouteType, dubboRouteType, genericRouteType:
		return "name"
	}
	switch message {
	case "envoy.api.v2.Listener", "envoy.api.v2.RouteConfiguration", "envoy.api.v2.ScopedRouteConfiguration",
		"envoy.api.v2.route.VirtualHost", "envoy.api.v2.Cluster", "envoy.api.v2.auth.Secret",
		"envoy.service.discovery.v2.Runtime":
		return "name"
	}
	return ""
}

// Resource builds a resource from a message: its name, what it refers to, and
// its deterministic encoding. Options come after, so they win. It fails for a
// message without a name of its own; build those with xds.Marshal.
func Resource(m proto.Message, opts ...xds.Option) (*xds.Resource, error) {
	name, ok := Name(m)
	if !ok {
		return nil, fmt.Errorf("%s is not a resource with a name of its own", describe(m))
	}
	if name == "" {
		return nil, fmt.Errorf("the %s has no name; set %s", describe(m), nameField(m.ProtoReflect().Descriptor().FullName()))
	}
	all := append([]xds.Option{xds.WithReferences(References(m))}, opts...)
	return xds.Marshal(name, m, all...)
}

func describe(m proto.Message) string {
	if m == nil {
		return "nil"
	}
	return string(m.ProtoReflect().Descriptor().FullName())
}

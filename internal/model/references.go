package model

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/xds"
)

// References lists what a resource refers to, the configurations nested in its
// Any fields included. Each resource is listed once, with the path of the first
// field that names it; it is optional if every such field is.
//
// Only what the configuration says to come over xDS counts: a route table, a
// secret or an assignment whose ConfigSource is a path is none, nor is a secret
// without ConfigSource, which is static. Clusters that a request decides
// (cluster_header, plugins) and virtual hosts of VHDS have no name to list. An
// Any of a type that is not linked in is passed over.
func References(m proto.Message) []xds.Reference {
	c := collector{seen: map[xds.Key]int{}, scopes: true}
	c.walker = Walker{Skip: opaque, Message: c.message}
	c.walker.Walk(m)
	return c.refs
}

// collector gathers references in the order in which the walk meets them.
type collector struct {
	walker Walker
	refs   []xds.Reference
	seen   map[xds.Key]int
	// scopes says that route tables named by ScopedRouteConfiguration messages
	// come over xDS: true for resources, else as their ScopedRoutes says.
	scopes bool
}

func (c *collector) message(m protoreflect.Message) {
	switch v := m.Interface().(type) {
	case *clusterv3.Cluster:
		c.endpoints(v)
	case *hcmv3.ScopedRoutes:
		c.scopes = fromServer(v.GetRdsConfigSource())
	case *routev3.ScopedRouteConfiguration:
		if c.scopes {
			c.add(xds.RouteType, v.GetRouteConfigurationName(), v.GetOnDemand(), "route_configuration_name")
		}
	default:
		if r, ok := ruleOf(m.Descriptor().FullName()); ok {
			c.apply(r, m)
		}
	}
}

func (c *collector) endpoints(v *clusterv3.Cluster) {
	eds := v.GetEdsClusterConfig()
	if v.GetType() != clusterv3.Cluster_EDS || !fromServer(eds.GetEdsConfig()) {
		return
	}
	if s := eds.GetServiceName(); s != "" {
		c.add(xds.EndpointType, s, false, "eds_cluster_config", "service_name")
		return
	}
	c.add(xds.EndpointType, v.GetName(), false, "name")
}

func (c *collector) apply(r rule, m protoreflect.Message) {
	optional := r.optional
	if r.source != "" {
		source, fallback := sourceOf(m, r.source)
		if !fromServer(source) {
			return
		}
		optional = optional || fallback
	}
	fd := m.Descriptor().Fields().ByName(r.field)
	if fd == nil || !m.Has(fd) {
		return
	}
	v := m.Get(fd)
	switch {
	case fd.IsMap():
		for _, k := range sortedKeys(v.Map()) {
			c.add(r.target, k.String(), optional, r.field)
		}
	case fd.IsList():
		for i := range v.List().Len() {
			c.add(r.target, v.List().Get(i).String(), optional, r.field)
		}
	default:
		c.add(r.target, v.String(), optional, r.field)
	}
}

// sourceOf finds the ConfigSource in a field of m, and whether a default makes
// up for what it does not deliver.
func sourceOf(m protoreflect.Message, field protoreflect.Name) (source *corev3.ConfigSource, fallback bool) {
	fd := m.Descriptor().Fields().ByName(field)
	if fd == nil || fd.Message() == nil || !m.Has(fd) {
		return nil, false
	}
	switch s := m.Get(fd).Message().Interface().(type) {
	case *corev3.ConfigSource:
		return s, false
	case *corev3.ExtensionConfigSource:
		return s.GetConfigSource(), s.GetDefaultConfig() != nil
	}
	return nil, false
}

// fromServer reports whether a source is a management server.
func fromServer(s *corev3.ConfigSource) bool {
	switch s.GetConfigSourceSpecifier().(type) {
	case *corev3.ConfigSource_Ads, *corev3.ConfigSource_Self, *corev3.ConfigSource_ApiConfigSource:
		return true
	}
	return false
}

func (c *collector) add(typeURL, name string, optional bool, fields ...protoreflect.Name) {
	if name == "" {
		return
	}
	k := xds.Key{Type: typeURL, Name: name}
	if i, ok := c.seen[k]; ok {
		c.refs[i].Optional = c.refs[i].Optional && optional
		return
	}
	c.seen[k] = len(c.refs)
	c.refs = append(c.refs, xds.Reference{Key: k, Path: c.walker.Path(fields...), Optional: optional})
}

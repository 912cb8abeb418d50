package xds

// v2Types are the resource types of v3 with what they are called in v2 of the
// API (transport specification, section 1). LEDS and ECDS came with v3.
var v2Types = [...][2]string{ //nolint:gochecknoglobals // read-only table
	{ListenerType, TypePrefix + "envoy.api.v2.Listener"},
	{RouteType, TypePrefix + "envoy.api.v2.RouteConfiguration"},
	{ScopedRouteType, TypePrefix + "envoy.api.v2.ScopedRouteConfiguration"},
	{VirtualHostType, TypePrefix + "envoy.api.v2.route.VirtualHost"},
	{ClusterType, TypePrefix + "envoy.api.v2.Cluster"},
	{EndpointType, TypePrefix + "envoy.api.v2.ClusterLoadAssignment"},
	{SecretType, TypePrefix + "envoy.api.v2.auth.Secret"},
	{RuntimeType, TypePrefix + "envoy.service.discovery.v2.Runtime"},
}

// V2Type is the type URL that resources of a type have in v2 of the API (XV-03),
// given the one they have in v3; empty if v2 has no such type.
func V2Type(v3 string) string {
	for _, p := range v2Types {
		if p[0] == v3 {
			return p[1]
		}
	}
	return ""
}

// V3Type is the type URL in v3 of what has the given one in v2 of the API
// (XV-03); empty if that is not a resource type of v2.
func V3Type(v2 string) string {
	for _, p := range v2Types {
		if p[1] == v2 {
			return p[0]
		}
	}
	return ""
}

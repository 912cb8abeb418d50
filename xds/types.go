package xds

// TypePrefix starts every type URL of the protocol.
const TypePrefix = "type.googleapis.com/"

// Type URLs of the v3 resource types (transport specification, section 1).
const (
	ListenerType         = TypePrefix + "envoy.config.listener.v3.Listener"
	RouteType            = TypePrefix + "envoy.config.route.v3.RouteConfiguration"
	ScopedRouteType      = TypePrefix + "envoy.config.route.v3.ScopedRouteConfiguration"
	VirtualHostType      = TypePrefix + "envoy.config.route.v3.VirtualHost"
	ClusterType          = TypePrefix + "envoy.config.cluster.v3.Cluster"
	EndpointType         = TypePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	LocalityEndpointType = TypePrefix + "envoy.config.endpoint.v3.LbEndpoint"
	SecretType           = TypePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
	RuntimeType          = TypePrefix + "envoy.service.runtime.v3.Runtime"
	ExtensionConfigType  = TypePrefix + "envoy.config.core.v3.TypedExtensionConfig"
)

// Type describes how a resource type behaves on the wire.
type Type struct {
	// URL is the full type URL, TypePrefix included.
	URL string
	// API is the short name of the discovery service, such as "CDS".
	API string
	// Kind is the short name people use for a resource of the type, such as
	// "Cluster".
	Kind string
	// FullState says that a state-of-the-world response holds every subscribed
	// resource, so that a missing one is deleted: Listener and Cluster, and
	// ScopedRouteConfiguration, of which Envoy drops every scope that a response
	// leaves out.
	FullState bool
	// Wildcard says that an empty first list of names, or "*", means all
	// resources of the node's group (XS-35).
	Wildcard bool
	// ResendOnReconnect says that a resource named in the first delta request
	// of a stream is sent even if the client holds its version (XS-61).
	ResendOnReconnect bool
	// DeltaOnly says that the type has no state-of-the-world form (VHDS, LEDS).
	DeltaOnly bool
}

// Types returns the types the protocol defines, in the order in which an
// aggregated stream sends them (XS-67, XS-74). The slice is the caller's.
func Types() []Type {
	return []Type{
		{URL: SecretType, API: "SDS", Kind: "Secret", ResendOnReconnect: true},
		{URL: RuntimeType, API: "RTDS", Kind: "Runtime"},
		{URL: ExtensionConfigType, API: "ECDS", Kind: "TypedExtensionConfig"},
		{URL: ClusterType, API: "CDS", Kind: "Cluster", FullState: true, Wildcard: true},
		{URL: EndpointType, API: "EDS", Kind: "ClusterLoadAssignment", ResendOnReconnect: true},
		{URL: LocalityEndpointType, API: "LEDS", Kind: "LbEndpoint", DeltaOnly: true},
		{URL: ListenerType, API: "LDS", Kind: "Listener", FullState: true, Wildcard: true},
		{URL: RouteType, API: "RDS", Kind: "RouteConfiguration"},
		{URL: ScopedRouteType, API: "SRDS", Kind: "ScopedRouteConfiguration", FullState: true, Wildcard: true},
		{URL: VirtualHostType, API: "VHDS", Kind: "VirtualHost", DeltaOnly: true},
	}
}

// LookupType finds a type by its URL, by its API name ("CDS", "cds") or by its
// kind ("Cluster", "cluster"). It reports false for a type the protocol does
// not define.
func LookupType(word string) (Type, bool) {
	for _, t := range Types() {
		if word == t.URL || equalFold(word, t.API) || equalFold(word, t.Kind) {
			return t, true
		}
	}
	return Type{}, false
}

// Kind is the short name of a type URL: its kind if the protocol defines it,
// else the URL without TypePrefix.
func Kind(typeURL string) string {
	if t, ok := LookupType(typeURL); ok {
		return t.Kind
	}
	return trimTypePrefix(typeURL)
}

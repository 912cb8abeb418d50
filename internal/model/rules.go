package model

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/xds"
)

// rule says that a field of a message names resources. The field is a string,
// a list of strings, or a map whose keys are names.
type rule struct {
	field  protoreflect.Name
	target string // type URL
	// source is the field that says where the resource comes from: a
	// ConfigSource, or something that holds one as config_source. Empty if the
	// protocol has no choice, as for clusters.
	source   protoreflect.Name
	optional bool
}

const (
	thriftRouteType  = xds.TypePrefix + "envoy.extensions.filters.network.thrift_proxy.v3.RouteConfiguration"
	dubboRouteType   = xds.TypePrefix + "envoy.extensions.filters.network.dubbo_proxy.v3.RouteConfiguration"
	genericRouteType = xds.TypePrefix + "envoy.extensions.filters.network.generic_proxy.v3.RouteConfiguration"
)

// cluster is the rule of a field that names clusters which may come later.
func cluster(field protoreflect.Name) (rule, bool) {
	return rule{field: field, target: xds.ClusterType, optional: true}, true
}

// discovered is the rule of a resource that the holder waits for.
func discovered(field, source protoreflect.Name, target string) (rule, bool) {
	return rule{field: field, source: source, target: target}, true
}

// ruleOf is the table of the fields that hold references. What depends on more
// than a name and its source (EDS, inline scopes) is in references.go.
func ruleOf(message protoreflect.FullName) (rule, bool) {
	if r, ok := clusterRule(message); ok {
		return r, true
	}
	const (
		network = "envoy.extensions.filters.network."
		tls     = "envoy.extensions.transport_sockets.tls."
	)
	switch message {
	case network + "http_connection_manager.v3.Rds":
		return discovered("route_config_name", "config_source", xds.RouteType)
	case network + "thrift_proxy.v3.Trds":
		return discovered("route_config_name", "config_source", thriftRouteType)
	case network + "dubbo_proxy.v3.Drds":
		return discovered("route_config_name", "config_source", dubboRouteType)
	case network + "generic_proxy.v3.GenericRds":
		return discovered("route_config_name", "config_source", genericRouteType)
	case tls + "v3.SdsSecretConfig":
		return discovered("name", "sds_config", xds.SecretType)
	case tls + "cert_selectors.on_demand_secret.v3.Config":
		return rule{field: "prefetch_secret_names", source: "config_source", target: xds.SecretType, optional: true}, true
	case "envoy.config.listener.v3.Filter",
		"envoy.config.listener.v3.ListenerFilter",
		"envoy.config.cluster.v3.Filter",
		"envoy.extensions.filters.http.composite.v3.DynamicConfig",
		network + "http_connection_manager.v3.HttpFilter",
		"envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.SessionFilter":
		return discovered("name", "config_discovery", xds.ExtensionConfigType)
	case "envoy.config.endpoint.v3.LedsClusterLocalityConfig":
		return discovered("leds_collection_name", "leds_config", xds.LocalityEndpointType)
	case "envoy.config.bootstrap.v3.RuntimeLayer.RtdsLayer":
		return discovered("name", "rtds_config", xds.RuntimeType)
	}
	return rule{}, false
}

// clusterRule is the part of the table for fields that name clusters. A test
// compares it with every message of the API.
func clusterRule(message protoreflect.FullName) (rule, bool) {
	const (
		network  = "envoy.extensions.filters.network."
		route    = "envoy.config.route.v3."
		redis    = network + "redis_proxy.v3.RedisProxy.PrefixRoutes.Route"
		clusters = "envoy.extensions.clusters."
	)
	switch message {
	case "envoy.config.core.v3.GrpcService.EnvoyGrpc":
		return rule{field: "cluster_name", target: xds.ClusterType}, true
	case "envoy.config.core.v3.HttpUri",
		route + "RouteAction", route + "RouteAction.RequestMirrorPolicy",
		network + "tcp_proxy.v3.TcpProxy",
		redis, redis + ".RequestMirrorPolicy", redis + ".ReadCommandPolicy",
		network + "thrift_proxy.v3.RouteAction", network + "thrift_proxy.v3.RouteAction.RequestMirrorPolicy",
		network + "dubbo_proxy.v3.RouteAction",
		network + "generic_proxy.action.v3.RouteAction",
		"envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig",
		"envoy.extensions.filters.udp.udp_proxy.v3.Route",
		"envoy.extensions.filters.http.gcp_authn.v3.GcpAuthnFilterConfig",
		"envoy.extensions.filters.http.mcp_router.v3.McpRouter.McpCluster",
		"envoy.extensions.router.cluster_specifiers.matcher.v3.ClusterAction",
		"envoy.extensions.access_loggers.fluentd.v3.FluentdAccessLogConfig",
		"envoy.extensions.tracers.fluentd.v3.FluentdConfig",
		clusters + "mcp_multicluster.v3.ClusterConfig.McpCluster":
		return cluster("cluster")
	case route + "WeightedCluster.ClusterWeight",
		network + "tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight",
		network + "thrift_proxy.v3.WeightedCluster.ClusterWeight",
		clusters + "composite.v3.ClusterConfig.ClusterEntry":
		return cluster("name")
	case clusters + "aggregate.v3.ClusterConfig":
		return cluster("clusters")
	case "envoy.config.trace.v3.ZipkinConfig", "envoy.config.trace.v3.LightstepConfig",
		"envoy.config.trace.v3.DatadogConfig":
		return cluster("collector_cluster")
	case "envoy.extensions.router.cluster_specifiers.lua.v3.LuaConfig":
		return cluster("default_cluster")
	case "envoy.extensions.router.cluster_specifiers.priority_group.v3.ClusterWeight",
		"envoy.data.dns.v3.DnsTable.DnsEndpoint", "envoy.data.dns.v3.DnsTable.DnsServiceTarget":
		return cluster("cluster_name")
	case "envoy.extensions.filters.http.cache_v2.v3.CacheV2Config":
		return cluster("override_upstream_cluster")
	case "envoy.extensions.filters.http.health_check.v3.HealthCheck":
		return cluster("cluster_min_healthy_percentages")
	case "envoy.config.metrics.v3.StatsdSink":
		return cluster("tcp_cluster_name")
	case "envoy.config.bootstrap.v3.ClusterManager":
		return cluster("local_cluster_name")
	}
	return rule{}, false
}

// opaque names the messages that hold no reference to a resource, so that long
// lists of them (endpoints, matchers) are not entered. A ConfigSource names
// only clusters of the bootstrap.
func opaque(message protoreflect.FullName) bool {
	switch message {
	case "google.protobuf.Any":
		return false
	case "envoy.config.endpoint.v3.LbEndpoint",
		"envoy.config.core.v3.Address",
		"envoy.config.core.v3.ConfigSource",
		"envoy.config.core.v3.HeaderValueOption",
		"envoy.config.core.v3.Locality",
		"envoy.config.core.v3.Metadata",
		"envoy.config.listener.v3.FilterChainMatch",
		"envoy.config.route.v3.HeaderMatcher",
		"envoy.config.route.v3.RouteMatch",
		"envoy.type.matcher.v3.RegexMatchAndSubstitute",
		"envoy.type.matcher.v3.StringMatcher",
		"udpa.type.v1.TypedStruct",
		"xds.type.v3.TypedStruct":
		return true
	}
	return strings.HasPrefix(string(message), "google.protobuf.")
}

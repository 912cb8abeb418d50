package model_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	// All messages of the API, for the tables' completeness.
	_ "github.com/xebec-proxy/xebec/internal/alltypes"
	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/xds"
)

// parse reads a message of a type URL from the text format.
func parse(t testing.TB, typeURL, text string) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		t.Fatal(err)
	}
	m := mt.New().Interface()
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return m
}

const (
	hcmURL     = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	hcmInChain = `filter_chains { filters { name: "hcm" typed_config { [` + hcmURL + `] { `
	endHCM     = ` } } } }`
	downTLS    = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
	upTLS      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
)

type referencesCase struct {
	name, typeURL, text string
	want                []xds.Reference
}

func ref(typeURL, name, path string) xds.Reference {
	return xds.Reference{Key: xds.Key{Type: typeURL, Name: name}, Path: path}
}

func optional(typeURL, name, path string) xds.Reference {
	r := ref(typeURL, name, path)
	r.Optional = true
	return r
}

func listenerCases() []referencesCase {
	const at = "filter_chains[0].filters[0].typed_config"
	return []referencesCase{
		{
			"rds by ads", xds.ListenerType, hcmInChain + `rds { route_config_name: "r" config_source { ads {} } }` + endHCM,
			[]xds.Reference{ref(xds.RouteType, "r", at+".rds.route_config_name")},
		},
		{
			"rds by api_config_source", xds.ListenerType,
			hcmInChain + `rds { route_config_name: "r" config_source { api_config_source { api_type: GRPC
				grpc_services { envoy_grpc { cluster_name: "xds_cluster" } } } } }` + endHCM,
			[]xds.Reference{ref(xds.RouteType, "r", at+".rds.route_config_name")},
		},
		{
			"rds by path is no reference", xds.ListenerType,
			hcmInChain + `rds { route_config_name: "r" config_source { path_config_source { path: "/r.yaml" } } }` + endHCM, nil,
		},
		{
			"rds by old path is no reference", xds.ListenerType,
			hcmInChain + `rds { route_config_name: "r" config_source { path: "/r.yaml" } }` + endHCM, nil,
		},
		{
			"rds in the default chain", xds.ListenerType, `default_filter_chain { filters { typed_config { [` + hcmURL + `] {
			rds { route_config_name: "r" config_source { self {} } } } } } }`,
			[]xds.Reference{ref(xds.RouteType, "r", "default_filter_chain.filters[0].typed_config.rds.route_config_name")},
		},
		{
			"rds of an API listener", xds.ListenerType, `api_listener { api_listener { [` + hcmURL + `] {
			rds { route_config_name: "r" config_source { ads {} } } } } }`,
			[]xds.Reference{ref(xds.RouteType, "r", "api_listener.api_listener.rds.route_config_name")},
		},
		{
			"inline routes", xds.ListenerType, hcmInChain + `route_config { virtual_hosts { routes { route { cluster: "c" } } } }` + endHCM,
			[]xds.Reference{optional(xds.ClusterType, "c", at+".route_config.virtual_hosts[0].routes[0].route.cluster")},
		},
		{
			"inline scopes", xds.ListenerType, hcmInChain + `scoped_routes { rds_config_source { ads {} }
			scoped_route_configurations_list { scoped_route_configurations { name: "s" route_configuration_name: "r" } } }` + endHCM,
			[]xds.Reference{ref(xds.RouteType, "r", at+
				".scoped_routes.scoped_route_configurations_list.scoped_route_configurations[0].route_configuration_name")},
		},
		{"inline scopes with tables by path", xds.ListenerType, hcmInChain + `scoped_routes { rds_config_source { path: "/r" }
			scoped_route_configurations_list { scoped_route_configurations { name: "s" route_configuration_name: "r" } } }` + endHCM, nil},
		{
			"extension configs", xds.ListenerType, `
			listener_filters { name: "l" config_discovery { config_source { ads {} } } }
			filter_chains { filters { name: "n" config_discovery { config_source { ads {} }
				default_config { [` + hcmURL + `] { rds { route_config_name: "r" config_source { ads {} } } } } } } }`,
			[]xds.Reference{
				optional(xds.ExtensionConfigType, "n", "filter_chains[0].filters[0].name"),
				ref(xds.RouteType, "r", "filter_chains[0].filters[0].config_discovery.default_config.rds.route_config_name"),
				ref(xds.ExtensionConfigType, "l", "listener_filters[0].name"),
			},
		},
		{
			"HTTP extension config", xds.ListenerType,
			hcmInChain + `http_filters { name: "h" config_discovery { config_source { ads {} } } }` + endHCM,
			[]xds.Reference{ref(xds.ExtensionConfigType, "h", at+".http_filters[0].name")},
		},
		{
			"tcp proxy", xds.ListenerType, `filter_chains { filters { typed_config {
			[type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy] {
				weighted_clusters { clusters { name: "a" weight: 1 } clusters { name: "b" weight: 1 } } } } } }`,
			[]xds.Reference{
				optional(xds.ClusterType, "a", at+".weighted_clusters.clusters[0].name"),
				optional(xds.ClusterType, "b", at+".weighted_clusters.clusters[1].name"),
			},
		},
		{
			"access log service", xds.ListenerType, `access_log { typed_config {
			[type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig] {
				common_config { grpc_service { envoy_grpc { cluster_name: "als" } } } } } }`,
			[]xds.Reference{ref(xds.ClusterType, "als", "access_log[0].typed_config.common_config.grpc_service.envoy_grpc.cluster_name")},
		},
		{
			"health check filter", xds.ListenerType, hcmInChain + `http_filters { typed_config {
			[type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck] {
				cluster_min_healthy_percentages { key: "z" value {} } cluster_min_healthy_percentages { key: "a" value {} } } } }` + endHCM,
			[]xds.Reference{
				optional(xds.ClusterType, "a", at+".http_filters[0].typed_config.cluster_min_healthy_percentages"),
				optional(xds.ClusterType, "z", at+".http_filters[0].typed_config.cluster_min_healthy_percentages"),
			},
		},
		{
			"JWT key set", xds.ListenerType, hcmInChain + `http_filters { typed_config {
			[type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication] {
				providers { key: "p.q" value { remote_jwks { http_uri { uri: "https://a" cluster: "keys" } } } } } } }` + endHCM,
			[]xds.Reference{optional(xds.ClusterType, "keys",
				at+`.http_filters[0].typed_config.providers["p.q"].remote_jwks.http_uri.cluster`)},
		},
		{
			"secrets", xds.ListenerType, `filter_chains { transport_socket { typed_config { [` + downTLS + `] { common_tls_context {
			tls_certificate_sds_secret_configs { name: "cert" sds_config { ads {} } }
			tls_certificate_sds_secret_configs { name: "file" sds_config { path_config_source { path: "/s" } } }
			tls_certificate_sds_secret_configs { name: "static" }
			combined_validation_context { default_validation_context {}
				validation_context_sds_secret_config { name: "ca" sds_config { ads {} } } } } } } } }`,
			[]xds.Reference{
				ref(xds.SecretType, "cert", "filter_chains[0].transport_socket.typed_config.common_tls_context"+
					".tls_certificate_sds_secret_configs[0].name"),
				ref(xds.SecretType, "ca", "filter_chains[0].transport_socket.typed_config.common_tls_context"+
					".combined_validation_context.validation_context_sds_secret_config.name"),
			},
		},
	}
}

func otherCases() []referencesCase {
	return []referencesCase{
		{
			"routes", xds.RouteType, `
			request_mirror_policies { cluster: "m" }
			virtual_hosts { domains: "*"
				routes { route { cluster: "a" request_mirror_policies { cluster: "m2" } } }
				routes { route { weighted_clusters { clusters { name: "b" } clusters { cluster_header: "x" } } } }
				routes { route { cluster_header: "x" } }
				routes { route { cluster: "a" } }
				routes { route { cluster_specifier_plugin: "p" } typed_per_filter_config { key: "envoy.filters.http.ext_authz" value {
					[type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute] {
						check_settings { grpc_service { envoy_grpc { cluster_name: "authz" } } } } } } } }`,
			[]xds.Reference{
				optional(xds.ClusterType, "a", "virtual_hosts[0].routes[0].route.cluster"),
				optional(xds.ClusterType, "m2", "virtual_hosts[0].routes[0].route.request_mirror_policies[0].cluster"),
				optional(xds.ClusterType, "b", "virtual_hosts[0].routes[1].route.weighted_clusters.clusters[0].name"),
				ref(xds.ClusterType, "authz", `virtual_hosts[0].routes[4].typed_per_filter_config["envoy.filters.http.ext_authz"]`+
					".check_settings.grpc_service.envoy_grpc.cluster_name"),
				optional(xds.ClusterType, "m", "request_mirror_policies[0].cluster"),
			},
		},
		{
			"virtual host", xds.VirtualHostType, `routes { route { cluster: "a" } }`,
			[]xds.Reference{optional(xds.ClusterType, "a", "routes[0].route.cluster")},
		},
		{
			"required wins over optional", xds.RouteType, `virtual_hosts { routes { route { cluster: "a" } typed_per_filter_config { key: "f" value {
			[type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute] {
				check_settings { grpc_service { envoy_grpc { cluster_name: "a" } } } } } } } }`,
			[]xds.Reference{ref(xds.ClusterType, "a", "virtual_hosts[0].routes[0].route.cluster")},
		},
		{
			"scope", xds.ScopedRouteType, `name: "s" route_configuration_name: "r"`,
			[]xds.Reference{ref(xds.RouteType, "r", "route_configuration_name")},
		},
		{
			"scope on demand", xds.ScopedRouteType, `name: "s" route_configuration_name: "r" on_demand: true`,
			[]xds.Reference{optional(xds.RouteType, "r", "route_configuration_name")},
		},
		{
			"EDS by cluster name", xds.ClusterType, `name: "c" type: EDS eds_cluster_config { eds_config { ads {} } }`,
			[]xds.Reference{ref(xds.EndpointType, "c", "name")},
		},
		{
			"EDS by service name", xds.ClusterType, `name: "c" type: EDS eds_cluster_config { service_name: "s" eds_config { ads {} } }`,
			[]xds.Reference{ref(xds.EndpointType, "s", "eds_cluster_config.service_name")},
		},
		{
			"EDS by path is no reference", xds.ClusterType,
			`name: "c" type: EDS eds_cluster_config { eds_config { path_config_source { path: "/e" } } }`, nil,
		},
		{"not EDS", xds.ClusterType, `name: "c" type: STATIC eds_cluster_config { eds_config { ads {} } }`, nil},
		{
			"upstream secret", xds.ClusterType, `name: "c" transport_socket { typed_config { [` + upTLS + `] { common_tls_context {
			validation_context_sds_secret_config { name: "ca" sds_config { ads {} } } } } } }`,
			[]xds.Reference{ref(xds.SecretType, "ca", "transport_socket.typed_config.common_tls_context.validation_context_sds_secret_config.name")},
		},
		{
			"aggregate", xds.ClusterType, `name: "c" cluster_type { typed_config {
			[type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig] { clusters: ["a", "b"] } } }`,
			[]xds.Reference{
				optional(xds.ClusterType, "a", "cluster_type.typed_config.clusters"),
				optional(xds.ClusterType, "b", "cluster_type.typed_config.clusters"),
			},
		},
		{
			"locality endpoints", xds.EndpointType,
			`cluster_name: "c" endpoints { leds_cluster_locality_config { leds_config { ads {} } leds_collection_name: "xdstp://a/b/*" } }`,
			[]xds.Reference{ref(xds.LocalityEndpointType, "xdstp://a/b/*", "endpoints[0].leds_cluster_locality_config.leds_collection_name")},
		},
		{
			"an unknown Any is passed over", xds.ClusterType,
			`name: "c" cluster_type { typed_config { type_url: "type.googleapis.com/no.Such" } }`, nil,
		},
		{
			"extension config", xds.ExtensionConfigType, `name: "x" typed_config {
			[type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy] { cluster: "c" } }`,
			[]xds.Reference{optional(xds.ClusterType, "c", "typed_config.cluster")},
		},
		{
			"runtime layer", "type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap",
			`layered_runtime { layers { rtds_layer { name: "rt" rtds_config { ads {} } } } }`,
			[]xds.Reference{ref(xds.RuntimeType, "rt", "layered_runtime.layers[0].rtds_layer.name")},
		},
	}
}

// The edges that the order of XS-67 to XS-74 follows, one case per kind.
func TestReferences(t *testing.T) {
	for _, tc := range append(listenerCases(), otherCases()...) {
		t.Run(tc.name, func(t *testing.T) {
			got := model.References(parse(t, tc.typeURL, tc.text))
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("references (-want +got):\n%s", d)
			}
		})
	}
}

func TestReferencesOfNothing(t *testing.T) {
	if got := model.References(nil); got != nil {
		t.Errorf("nil refers to %v", got)
	}
}

package cluster

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const h1Key = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

func httpExt(fields object) object {
	return object{"typed_extension_protocol_options": object{h1Key: packed(h1Key, fields)}}
}

func policies(ps ...object) object {
	var list []object
	for i, p := range ps {
		list = append(list, object{"typed_extension_config": object{"name": "p" + string(rune('0'+i)), "typed_config": p}})
	}
	return object{"load_balancing_policy": object{"policies": list}}
}

// Proves CM-06: a name in a STATIC cluster is an error that says what to do.
// Proves LB-01, LB-13: what no policy supports is an error.
// The quoted texts are those of Envoy 1.40 for the same configuration.
func TestNewRefuses(t *testing.T) {
	good := object{"load_assignment": load(at("127.0.0.1"))}
	strict := object{"type": "STRICT_DNS", "load_assignment": load(at("a.example"))}
	endpoint := func(o object) object { return object{"load_assignment": load(object{"endpoint": o})} }
	socket := func(o object) object { return endpoint(object{"address": object{"socket_address": o}}) }
	const lbp = "envoy.extensions.load_balancing_policies."
	tests := []struct {
		name string
		conf object
		want string
	}{
		{"DNS name", object{"load_assignment": load(at("foo.example"))}, "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: malformed IP address: foo.example. Consider setting resolver_name or setting cluster type to 'STRICT_DNS' or 'LOGICAL_DNS'"},
		{"short IPv4", object{"load_assignment": load(at("127.1"))}, "malformed IP address: 127.1."},
		{"leading zero", object{"load_assignment": load(at("127.0.0.01"))}, "malformed IP address: 127.0.0.01."},
		{"resolver", socket(object{"address": "1.1.1.1", "port_value": 1, "resolver_name": "foo"}), "Unknown address resolver: foo."},
		{"named port", socket(object{"address": "1.1.1.1", "named_port": "http"}), "IP resolver can't handle port specifier type 4."},
		{"UDP", socket(object{"address": "1.1.1.1", "port_value": 1, "protocol": "UDP"}), "only TCP endpoints are built"},
		{"no address", endpoint(object{}), "Address must be set"},
		{
			"TLV",
			object{"load_assignment": load(at("1.1.1.1").with(object{"metadata": object{"typed_filter_metadata": object{"envoy.transport_sockets.proxy_protocol": object{
				"@type": "type.googleapis.com/envoy.config.core.v3.PerHostConfig", "added_tlvs": []any{object{"type": 300}},
			}}}}))},
			"load_assignment.endpoints[0].lb_endpoints[0].metadata.typed_filter_metadata[envoy.transport_sockets.proxy_protocol].added_tlvs[0].type: 300: value must be less than 256",
		},
		{"endpoint_name", object{"load_assignment": load(object{"endpoint_name": "x"})}, "endpoint_name: named_endpoints are known but not built"},
		{"no port", socket(object{"address": "1.1.1.1"}), "Proto constraint validation failed"},
		{"port over", socket(object{"address": "1.1.1.1", "port_value": 70000}), "value must be less than or equal to 65535"},
		{"weight 0", object{"load_assignment": load(at("1.1.1.1").with(object{"load_balancing_weight": 0}))}, "LoadBalancingWeight: value must be greater than or equal to 1"},
		{"EDS", object{"type": "EDS"}, "eds_cluster_config: cannot create an EDS cluster without an EDS config"},
		{"ORIGINAL_DST", object{"type": "ORIGINAL_DST"}, "type: ORIGINAL_DST is known but not built"},
		{"eds_cluster_config", good.with(object{"eds_cluster_config": object{"service_name": "x"}}), "eds_cluster_config set in a non-EDS cluster"},
		{"cluster_type unknown", good.with(object{"cluster_type": object{"name": "foo"}}), "Didn't find a registered cluster factory implementation for name: 'foo'"},
		{"cluster_type aggregate", good.with(object{"cluster_type": object{"name": "envoy.clusters.aggregate"}}), "envoy.clusters.aggregate is known but not built"},
		{"two hosts LOGICAL_DNS", object{"type": "LOGICAL_DNS", "load_assignment": load(at("a"), at("b"))}, "LOGICAL_DNS clusters must have a single locality_lb_endpoint and a single lb_endpoint"},
		{"no host LOGICAL_DNS", object{"type": "LOGICAL_DNS"}, "LOGICAL_DNS clusters must have a single host"},
		{"pipe STRICT_DNS", object{"type": "STRICT_DNS", "load_assignment": load(object{"endpoint": object{"address": object{"pipe": object{"path": "/x"}}}})}, "a STRICT_DNS cluster resolves names: give a socket_address"},
		{"resolver STRICT_DNS", object{"type": "STRICT_DNS"}.with(socket(object{"address": "x", "port_value": 1, "resolver_name": "foo"})), "STRICT_DNS clusters must NOT have a custom resolver name set"},
		{"failure rate", strict.with(object{"dns_failure_refresh_rate": object{"base_interval": "5s", "max_interval": "1s"}}), "dns_failure_refresh_rate must have max_interval greater than or equal to the base_interval"},
		{"respect_dns_ttl", strict.with(object{"respect_dns_ttl": true}), "respect_dns_ttl: known but not built"},
		{"resolver addresses", strict.with(object{"typed_dns_resolver_config": object{"name": "x", "typed_config": packed("google.protobuf.Struct", object{"value": object{}})}}), "typed_dns_resolver_config: known but not built"},
		{"TCP lookups", strict.with(object{"use_tcp_for_dns_lookups": true}), "use_tcp_for_dns_lookups: known but not built"},
		{"CLUSTER_PROVIDED", good.with(object{"lb_policy": "CLUSTER_PROVIDED"}), "cluster manager: cluster provided LB specified but cluster 'c' did not provide one. Check cluster documentation."},
		{"policy config", good.with(object{"lb_policy": "LOAD_BALANCING_POLICY_CONFIG"}), "cluster: field load_balancing_policy need to be set"},
		{"typed pick first", good.with(policies(packed(lbp+"pick_first.v3.PickFirst", nil), packed(lbp+"random.v3.Random", nil))), "load_balancing_policy.policies[0].typed_extension_config.typed_config: envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst is known but not built"},
		{"typed provided", good.with(policies(packed(lbp+"cluster_provided.v3.ClusterProvided", nil))), "cluster provided LB specified but cluster 'c' did not provide one"},
		{"no supported policy", good.with(policies(packed("google.protobuf.Struct", object{"value": object{}}))), "cluster: didn't find a registered load balancer factory implementation for cluster: 'c' with names from [p0]"},
		{"policy list and subsets", good.with(policies(packed(lbp+"random.v3.Random", nil))).with(object{"lb_subset_config": object{"fallback_policy": "ANY_ENDPOINT"}}), "load_balancing_policy cannot be combined with lb_subset_config"},
		{"policy list and locality", good.with(policies(packed(lbp+"random.v3.Random", nil))).with(object{"common_lb_config": object{"locality_weighted_lb_config": object{}}}), "load_balancing_policy cannot be combined with partial fields"},
		{"slow start", good.with(object{"round_robin_lb_config": object{"slow_start_config": object{}}}), "round_robin_lb_config.slow_start_config: known but not built"},
		{"typed slow start", good.with(policies(packed(lbp+"least_request.v3.LeastRequest", object{"slow_start_config": object{}}))), "slow_start_config: known but not built"},
		{"choice_count 1", good.with(object{"lb_policy": "LEAST_REQUEST", "least_request_lb_config": object{"choice_count": 1}}), "ChoiceCount: value must be greater than or equal to 2"},
		{"per host requests", good.with(object{"circuit_breakers": object{"per_host_thresholds": []object{{"max_requests": 3}}}}), "circuit_breakers.per_host_thresholds[0]: Unsupported field in per_host_thresholds"},
		{"budget interval", good.with(object{"circuit_breakers": object{"thresholds": []object{{"retry_budget": object{"budget_interval": "1s"}}}}}), "circuit_breakers.thresholds[0].retry_budget.budget_interval: known but not built"},
		{"two drops", object{"load_assignment": load(at("1.1.1.1")).with(object{"policy": object{"drop_overloads": []object{{"category": "a"}, {"category": "b"}}}})}, "Cluster drop_overloads config has 2 categories. Envoy only support one."},
		{"drop over", object{"load_assignment": load(at("1.1.1.1")).with(object{"policy": object{"drop_overloads": []object{{"category": "a", "drop_percentage": object{"numerator": 101}}}}})}, "Cluster drop_overloads config is invalid. drop_ratio=1.01(Numerator 101 / Denominator 100). The valid range is 0~1."},
		{"match without socket", good.with(object{"transport_socket_matches": []object{{"name": "a"}}}), "transport_socket_matches[0].transport_socket: Didn't find a registered implementation for '' with type URL: ''"},
		{"no protocol", good.with(httpExt(nil)), "Proto constraint validation failed"},
		{"HTTP/3", good.with(httpExt(object{"explicit_http_config": object{"http3_protocol_options": object{}}})), "HTTP/3 is known but not built"},
		{"auto without TLS", good.with(httpExt(object{"auto_config": object{}})), "ALPN configured for cluster c which has a non-ALPN transport socket"},
		{"unknown options", good.with(object{"typed_extension_protocol_options": object{"foo": packed("google.protobuf.Struct", object{"value": object{}})}}), "Didn't find a registered network or http filter or protocol options implementation for name: 'foo'"},
		{"outlier detection", good.with(object{"outlier_detection": object{}}), "outlier_detection: known but not built"},
		{"happy eyeballs", good.with(object{"upstream_connection_options": object{"happy_eyeballs_config": object{}}}), "upstream_connection_options.happy_eyeballs_config: known but not built"},
		{"override_host_status", good.with(object{"common_lb_config": object{"override_host_status": object{"statuses": []string{"HEALTHY"}}}}), "common_lb_config.override_host_status: known but not built"},
		{"negative merge window", good.with(object{"common_lb_config": object{"update_merge_window": "-1s"}}), "common_lb_config.update_merge_window: Invalid duration: Expected positive duration"},
		{"connect timeout 0", good.with(object{"connect_timeout": "0s"}), "ConnectTimeout: value must be greater than 0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conf := configOf(t, object{"name": "c"}.with(tt.conf).String())
			o := optionsOn(registry(t), conf)
			o.Resolver = &net.Resolver{}
			_, err := New(conf, o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestErrorsAreCollected(t *testing.T) {
	conf := configOf(t, object{"name": "c", "outlier_detection": object{}, "load_assignment": load(at("a"), at("b"))}.String())
	_, err := New(conf, optionsOn(registry(t), conf))
	for _, want := range []string{"outlier_detection", "lb_endpoints[0]", "lb_endpoints[1]", `cluster "c"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// Proves CM-01 and CM-10: the forms of the discovery types are equal.
func TestDiscoveryForms(t *testing.T) {
	const dns = "envoy.extensions.clusters.dns.v3.DnsCluster"
	custom := func(name string, config object) object {
		o := object{"name": name}
		if config != nil {
			o["typed_config"] = config
		}
		return object{"cluster_type": o}
	}
	tests := []struct {
		name string
		conf object
		want kind
	}{
		{"default", object{}, kindStatic},
		{"STATIC", object{"type": "STATIC"}, kindStatic},
		{"envoy.cluster.static", custom("envoy.cluster.static", nil), kindStatic},
		{"STRICT_DNS", object{"type": "STRICT_DNS"}, kindStrictDNS},
		{"envoy.cluster.strict_dns", custom("envoy.cluster.strict_dns", nil), kindStrictDNS},
		{"envoy.cluster.dns", custom("envoy.cluster.dns", nil), kindStrictDNS},
		{"DnsCluster", custom("any", packed(dns, nil)), kindStrictDNS},
		{"LOGICAL_DNS", object{"type": "LOGICAL_DNS"}, kindLogicalDNS},
		{"envoy.cluster.logical_dns", custom("envoy.cluster.logical_dns", nil), kindLogicalDNS},
		{"logical_dns by name only", custom("envoy.cluster.logical_dns", packed(dns, nil)), kindStrictDNS},
		{"DnsCluster in one", custom("envoy.cluster.dns", packed(dns, object{"all_addresses_in_single_endpoint": true})), kindLogicalDNS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := build(t, object{"name": "c", "load_assignment": load(at("127.0.0.1"))}.with(tt.conf).String(),
				func(o *Options) { o.Resolver = &net.Resolver{} })
			if c.kind != tt.want {
				t.Errorf("kind %v, want %v", c.kind, tt.want)
			}
		})
	}
	typed, _ := build(t, object{"name": "c"}.with(custom("envoy.cluster.dns", packed(dns, object{
		"dns_refresh_rate": "7s", "dns_jitter": "1s", "dns_lookup_family": "ALL", "dns_min_refresh_rate": "3s",
		"dns_failure_refresh_rate": object{"base_interval": "2s", "max_interval": "9s"},
	}))).String(), func(o *Options) { o.Resolver = &net.Resolver{} })
	enum, _ := build(t, object{
		"name": "c", "type": "STRICT_DNS", "dns_refresh_rate": "7s", "dns_jitter": "1s", "dns_lookup_family": "ALL",
		"dns_failure_refresh_rate": object{"base_interval": "2s", "max_interval": "9s"},
	}.String(), func(o *Options) { o.Resolver = &net.Resolver{} })
	want := enum.dns
	want.minRefresh = 3 * time.Second
	if typed.dns != want {
		t.Errorf("typed form %+v, enum form %+v", typed.dns, want)
	}
}

// Proves CM-02 (alt_stat_name) and CM-03.
func TestDefaultsAndNames(t *testing.T) {
	c, _ := build(t, `{"name":"a"}`)
	if c.Name() != "a" || c.ObservabilityName() != "a" || c.ConnectTimeout() != 5*time.Second || c.BufferLimit() != 1<<20 {
		t.Errorf("defaults: %q %q %v %d", c.Name(), c.ObservabilityName(), c.ConnectTimeout(), c.BufferLimit())
	}
	if n := len(c.Hosts().Priorities); n != 1 {
		t.Errorf("%d priorities without endpoints, want 1", n)
	}
	c, _ = build(t, `{"name":"a","alt_stat_name":"b:c","connect_timeout":"0.25s","per_connection_buffer_limit_bytes":0,
		"close_connections_on_host_health_failure":true,"common_lb_config":{"close_connections_on_host_set_change":true}}`)
	if c.ObservabilityName() != "b:c" || c.ConnectTimeout() != 250*time.Millisecond || c.BufferLimit() != 0 {
		t.Errorf("set: %q %v %d", c.ObservabilityName(), c.ConnectTimeout(), c.BufferLimit())
	}
	if !c.CloseConnectionsOnHostHealthFailure() || !c.CloseConnectionsOnHostSetChange() {
		t.Error("the close_connections flags were lost")
	}
}

// Proves LB-01: the enum and the list of policies give the same balancers.
func TestLBForms(t *testing.T) {
	const lbp = "envoy.extensions.load_balancing_policies."
	weighted := object{"locality_lb_config": object{"locality_weighted_lb_config": object{}}}
	zone := object{"locality_lb_config": object{"zone_aware_lb_config": object{"fail_traffic_on_panic": true}}}
	lr := object{"choice_count": 4, "active_request_bias": object{"default_value": 0.5, "runtime_key": "k"}}
	unknown := packed("google.protobuf.Struct", object{"value": object{}})
	tests := []struct {
		name        string
		enum, typed object
		want        LBConfig
	}{
		{"round robin", object{}, policies(packed(lbp+"round_robin.v3.RoundRobin", nil)), LBConfig{ChoiceCount: 2, ActiveRequestBias: 1, PanicThreshold: 50}},
		{
			"least request",
			object{"lb_policy": "LEAST_REQUEST", "least_request_lb_config": lr},
			policies(unknown, packed(lbp+"least_request.v3.LeastRequest", lr)),
			LBConfig{Policy: LeastRequest, ChoiceCount: 4, ActiveRequestBias: 0.5, BiasKey: "k", PanicThreshold: 50},
		},
		{
			"random",
			object{"lb_policy": "RANDOM"},
			policies(packed(lbp+"random.v3.Random", nil), packed(lbp+"round_robin.v3.RoundRobin", nil)),
			LBConfig{Policy: Random, ChoiceCount: 2, ActiveRequestBias: 1, PanicThreshold: 50},
		},
		{
			"locality weighted",
			object{"common_lb_config": object{"locality_weighted_lb_config": object{}}},
			policies(packed(lbp+"round_robin.v3.RoundRobin", weighted)),
			LBConfig{ChoiceCount: 2, ActiveRequestBias: 1, PanicThreshold: 50, LocalityWeighted: true},
		},
		{
			"zone aware",
			object{"common_lb_config": object{"zone_aware_lb_config": object{"fail_traffic_on_panic": true}}},
			policies(packed(lbp+"round_robin.v3.RoundRobin", zone)),
			LBConfig{ChoiceCount: 2, ActiveRequestBias: 1, PanicThreshold: 50, FailTrafficOnPanic: true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for form, conf := range map[string]object{"enum": tt.enum, "typed": tt.typed} {
				c, _ := build(t, object{"name": "c"}.with(conf).String())
				if diff := cmp.Diff(tt.want, c.LB); diff != "" {
					t.Errorf("%s: %s", form, diff)
				}
			}
		})
	}
	full, _ := build(t, object{"name": "c", "lb_policy": "RING_HASH"}.with(policies(packed(lbp+"least_request.v3.LeastRequest", object{"selection_method": "FULL_SCAN"}))).
		with(object{"common_lb_config": object{"healthy_panic_threshold": object{"value": 33.4}}}).String())
	if !full.LB.FullScan || full.LB.Policy != LeastRequest || full.LB.PanicThreshold != 33 {
		t.Errorf("the list does not win over the enum: %+v", full.LB)
	}
	conf := configOf(t, `{"name":"c"}`)
	o := optionsOn(registry(t), conf)
	o.LocalCluster = "me"
	if _, err := New(conf, o); err == nil || !strings.Contains(err.Error(), "zone aware routing") {
		t.Errorf("with a local cluster: %v", err)
	}
}

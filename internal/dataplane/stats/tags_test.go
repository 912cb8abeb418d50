package stats

import (
	"fmt"
	"strings"
	"testing"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// extracted is series{tag=value,...}.
func extracted(r *Registry, name string) string {
	series, tags := r.conf.tags.extract(name)
	var b strings.Builder
	b.WriteString(series + "{")
	for i, t := range tags {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", strings.TrimPrefix(t.Name, "envoy."), t.Value)
	}
	return b.String() + "}"
}

// Proves ST-09. Nearly all were observed on Envoy 1.40; order of tags included.
func TestDefaultTags(t *testing.T) {
	r := registry(t, `{}`)
	for name, want := range map[string]string{
		"server.live":                              "server.live{}",
		"cluster.c1.upstream_cx_total":             "cluster.upstream_cx_total{cluster_name=c1}",
		"cluster.up.dotted_x.version":              "cluster.dotted_x.version{cluster_name=up}",
		"cluster.c1.upstream_rq_503":               "cluster.upstream_rq{response_code=503 cluster_name=c1}",
		"cluster.c1.external.upstream_rq_5xx":      "cluster.external.upstream_rq_xx{response_code_class=5 cluster_name=c1}",
		"cluster.c1.upstream_rq_completed":         "cluster.upstream_rq_completed{cluster_name=c1}",
		"cluster.c1.upstream_rq_1234":              "cluster.upstream_rq_1234{cluster_name=c1}",
		"cluster.c1.ssl.ciphers.ECDHE-ECDSA-AES":   "cluster.ssl.ciphers{cipher_suite=ECDHE-ECDSA-AES cluster_name=c1}",
		"cluster.c1.ssl.versions.TLSv1.2":          "cluster.ssl.versions{ssl_version=TLSv1.2 cluster_name=c1}",
		"cluster.c1.ssl.curves.X25519":             "cluster.ssl.curves{ssl_curve=X25519 cluster_name=c1}",
		"cluster.c1.ssl.sigalgs.ecdsa_secp256r1":   "cluster.ssl.sigalgs{ssl_sigalg=ecdsa_secp256r1 cluster_name=c1}",
		"cluster.c1.ext_authz.eap.error":           "cluster.ext_authz.error{cluster_name=c1 ext_authz_prefix=eap}",
		"cluster.c1.ext_authz.error":               "cluster.ext_authz.error{cluster_name=c1}",
		"cluster.c1.endpoint.127.0.0.1_80.rq_time": "cluster.endpoint.rq_time{cluster_name=c1 endpoint_address=127.0.0.1:80}",
		"cluster.c1.endpoint.[__1]_80.rq_time":     "cluster.endpoint.rq_time{cluster_name=c1 endpoint_address=[::1]:80}",
		"cluster.c1.grpc.svc.meth.success":         "cluster.grpc.success{grpc_bridge_method=meth grpc_bridge_service=svc cluster_name=c1}",
		"cluster.c1.health_check.attempt":          "cluster.health_check.attempt{cluster_name=c1}",
		"cluster.c1.health_check.name.h1.attempt":  "cluster.health_check.attempt{cluster_name=c1 health_check_name=h1}",

		"http.in.downstream_rq_total":               "http.downstream_rq_total{http_conn_manager_prefix=in}",
		"http.in.downstream_rq_2xx":                 "http.downstream_rq_xx{response_code_class=2 http_conn_manager_prefix=in}",
		"http.in.user_agent.ios.downstream_cx":      "http.user_agent.downstream_cx{http_user_agent=ios http_conn_manager_prefix=in}",
		"http.in.fault.cc.aborts_injected":          "http.fault.aborts_injected{fault_downstream_cluster=cc http_conn_manager_prefix=in}",
		"http.in.fault.aborts_injected":             "http.fault.aborts_injected{http_conn_manager_prefix=in}",
		"http.in.rds.r.c-1.config_reload":           "http.rds.config_reload{rds_route_config=r.c-1 http_conn_manager_prefix=in}",
		"http.in.rds.r c.config_reload":             "http.rds.r c.config_reload{http_conn_manager_prefix=in}",
		"http.in.scoped_rds.a/b.update_time":        "http.scoped_rds.update_time{scoped_rds_config=a/b http_conn_manager_prefix=in}",
		"http.in.rbac.allowed":                      "http.rbac.allowed{http_conn_manager_prefix=in}",
		"http.in.rbac.rrr.allowed":                  "http.rbac.allowed{rbac_http_prefix=rrr http_conn_manager_prefix=in}",
		"http.in.rbac.policy.p2.allowed":            "http.rbac.policy.allowed{rbac_policy_name=p2 http_conn_manager_prefix=in}",
		"http.in.rbac.rrr.policy.p1.shadow_denied":  "http.rbac.policy.shadow_denied{rbac_policy_name=p1 rbac_http_prefix=rrr http_conn_manager_prefix=in}",
		"http.in.ext_authz.eap.ok":                  "http.ext_authz.ok{ext_authz_prefix=eap http_conn_manager_prefix=in}",
		"http.in.ext_authz.ok":                      "http.ext_authz.ok{http_conn_manager_prefix=in}",
		"http.in.dynamodb.operation.Query.upstream": "http.dynamodb.operation.upstream{dynamo_operation=Query http_conn_manager_prefix=in}",
		"http.in.dynamodb.table.t1.capacity.Query.__partition_id=1234567": "http.dynamodb.table.capacity{" +
			"dynamo_partition_id=1234567 dynamo_operation=Query dynamo_table=t1 http_conn_manager_prefix=in}",

		"listener.127.0.0.1_18410.downstream_cx_total":                          "listener.downstream_cx_total{listener_address=127.0.0.1_18410}",
		"listener.127.0.0.1_18410.worker_3.downstream_cx_total":                 "listener.worker_downstream_cx_total{worker_id=3 listener_address=127.0.0.1_18410}",
		"listener.[__1]_18412.worker_12.downstream_cx_total":                    "listener.worker_downstream_cx_total{worker_id=12 listener_address=[__1]_18412}",
		"listener.127.0.0.1_80.http.in.downstream_rq_2xx":                       "listener.http.downstream_rq_xx{response_code_class=2 http_conn_manager_prefix=in listener_address=127.0.0.1_80}",
		"listener.my.pfx.downstream_cx_total":                                   "listener.pfx.downstream_cx_total{listener_address=my}",
		"listener.admin.downstream_cx_total":                                    "listener.admin.downstream_cx_total{}",
		"listener.admin.http.admin.downstream_rq_2xx":                           "listener.admin.http.downstream_rq_xx{response_code_class=2 http_conn_manager_prefix=admin}",
		"listener.127.0.0.1_80.ssl.ciphers.TLS_AES_256_GCM":                     "listener.ssl.ciphers{ssl_cipher=TLS_AES_256_GCM listener_address=127.0.0.1_80}",
		"listener.127.0.0.1_80.ssl.certificate.c_e3b0.expiration_unix_time_sec": "listener.ssl.certificate.expiration_unix_time_sec{tls_certificate=c_e3b0 listener_address=127.0.0.1_80}",
		"server.worker_0.watchdog_miss":                                         "server.worker_watchdog_miss{worker_id=0}",
		"listener_manager.worker_1.dispatcher.poll_delay_us":                    "listener_manager.worker_dispatcher.poll_delay_us{worker_id=1}",
		"listener_manager.workers_started":                                      "listener_manager.workers_started{}",

		"vhost.v1.vcluster.vc.upstream_rq_200": "vhost.vcluster.upstream_rq{response_code=200 virtual_cluster=vc virtual_host=v1}",
		"vhost.v1.route.rs1.upstream_rq_total": "vhost.route.upstream_rq_total{virtual_host=v1 route=rs1}",
		"tcp.tp.downstream_cx_total":           "tcp.downstream_cx_total{tcp_prefix=tp}",
		"udp.u.downstream_sess_total":          "udp.downstream_sess_total{udp_prefix=u}",
		"redis.rd.command.append.total":        "redis.command.append.total{redis_prefix=rd}",
		"thrift.t.request":                     "thrift.request{thrift_prefix=t}",
		"mongo.mg.cmd.ping.total":              "mongo.cmd.total{mongo_cmd=ping mongo_prefix=mg}",
		"mongo.mg.collection.c1.query.total":   "mongo.collection.query.total{mongo_collection=c1 mongo_prefix=mg}",
		"mongo.mg.collection.c1.callsite.get.query.total": "mongo.collection.callsite.query.total{" +
			"mongo_callsite=get mongo_collection=c1 mongo_prefix=mg}",
		"ratelimit.rlp.over_limit":              "ratelimit.over_limit{ratelimit_prefix=rlp}",
		"auth.clientssl.x.auth_no_ssl":          "auth.clientssl.auth_no_ssl{clientssl_prefix=x}",
		"grpc.ggp.streams_total":                "grpc.streams_total{google_grpc_client_prefix=ggp}",
		"dns_filter.d.unanswered_queries":       "dns_filter.unanswered_queries{dns_filter_prefix=d}",
		"connection_limit.c.active_connections": "connection_limit.active_connections{connection_limit_prefix=c}",
		"local_rate_limit.l.rate_limited":       "local_rate_limit.rate_limited{local_network_ratelimit_prefix=l}",
		"listener_local_ratelimit.l.limited":    "listener_local_ratelimit.limited{local_listener_ratelimit_prefix=l}",
		"hlrl.http_local_rate_limit.ok":         "http_local_rate_limit.ok{local_http_ratelimit_prefix=hlrl}",
		"netrbac.rbac.allowed":                  "rbac.allowed{rbac_prefix=netrbac}",
		"proxy_proto.not_found_allowed":         "proxy_proto.not_found_allowed{}",
		"proxy_proto.ppx.versions.v2.found":     "proxy_proto.found{proxy_protocol_prefix=ppx proxy_protocol_version=2}",
		"proxy_proto.versions.v1.error":         "proxy_proto.error{proxy_protocol_version=1}",
	} {
		if got := extracted(r, name); got != want {
			t.Errorf("%s\n got %s\nwant %s", name, got, want)
		}
	}
}

// Proves ST-09: stats_tags and use_all_default_tags.
func TestConfiguredTags(t *testing.T) {
	for name, tc := range map[string]struct{ config, stat, want string }{
		"fixed goes before the rules for prefixes": {
			`{"stats_tags":[{"tag_name":"f","fixed_value":"x"}]}`, "cluster.c.a", "cluster.a{f=x cluster_name=c}",
		},
		"regex with two groups": {
			`{"stats_tags":[{"tag_name":"m","regex":"^cluster\\.(a(\\w)\\.)"}]}`, "cluster.aX.n", "cluster.n{cluster_name=aX m=X}",
		},
		"regex with one group": {
			`{"use_all_default_tags":false,"stats_tags":[{"tag_name":"m","regex":"_(\\d+)$"}]}`, "q.w_17", "q.w_{m=17}",
		},
		"no defaults": {`{"use_all_default_tags":false}`, "cluster.c.a", "cluster.c.a{}"},
		"one default": {
			`{"use_all_default_tags":false,"stats_tags":[{"tag_name":"envoy.cluster_name"}]}`,
			"cluster.c.upstream_rq_200", "cluster.upstream_rq_200{cluster_name=c}",
		},
		"a default named again is once": {
			`{"stats_tags":[{"tag_name":"envoy.cluster_name"}]}`, "cluster.c.a", "cluster.a{cluster_name=c}",
		},
		"a default wins over a regex of its name": {
			`{"stats_tags":[{"tag_name":"envoy.cluster_name","regex":"^cluster\\.(.)"}]}`, "cluster.cc.a", "cluster.a{cluster_name=cc}",
		},
		"unless told otherwise": {
			`{"allow_default_tag_overrides":true,"stats_tags":[{"tag_name":"envoy.cluster_name","regex":"^cluster\\.((.)c\\.)"}]}`,
			"cluster.xc.a", "cluster.a{cluster_name=x}",
		},
	} {
		if got := extracted(registry(t, tc.config), tc.stat); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// Proves ST-09 and ST-10: what is wrong is named.
func TestConfigurationErrors(t *testing.T) {
	for config, want := range map[string]string{
		`{"stats_tags":[{"tag_name":"a","regex":"("}]}`:                                        "stats_tags[0].regex: missing ): (",
		`{"stats_tags":[{"tag_name":"a","regex":"a+"}]}`:                                       "stats_tags[0].regex: a+ has no capture group",
		`{"stats_tags":[{"tag_name":"a"}]}`:                                                    "No regex specified for tag specifier and no default regex for name: 'a'",
		`{"stats_tags":[{"fixed_value":"a"}]}`:                                                 "stats_tags[0].tag_name",
		`{"stats_matcher":{}}`:                                                                 "stats_matcher: value is required",
		`{"stats_matcher":{"inclusion_list":{}}}`:                                              "stats_matcher.inclusion_list.patterns",
		`{"stats_matcher":{"exclusion_list":{"patterns":[{"safe_regex":{"regex":"[a"}}]}}}`:    "stats_matcher.exclusion_list.patterns[0].safe_regex: missing ]: [a",
		`{"stats_matcher":{"exclusion_list":{"patterns":[{"exact":"a"},{}]}}}`:                 "patterns[1].match_pattern",
		`{"histogram_bucket_settings":[{"match":{"prefix":"a"},"buckets":[1,0]}]}`:             "histogram_bucket_settings[0].buckets[1]: 0 must be greater than 0",
		`{"histogram_bucket_settings":[{"match":{"prefix":"a"}}]}`:                             "histogram_bucket_settings[0].buckets",
		`{"histogram_bucket_settings":[{"match":{"prefix":"a"},"buckets":[1,1]}]}`:             "unique",
		`{"histogram_bucket_settings":[{"match":{"prefix":"a"},"buckets":[1],"bins":7}]}`:      "histogram_bucket_settings[0].bins",
		`{"histogram_bucket_settings":[{"match":{"safe_regex":{"regex":"*"}},"buckets":[1]}]}`: "no argument for repetition operator: *",
	} {
		cfg := &metricsv3.StatsConfig{}
		if err := protojson.Unmarshal([]byte(config), cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
	}
}

// Proves ST-09: no name makes extraction fail, and the series is what is left.
func FuzzExtract(f *testing.F) {
	for _, s := range []string{
		"", ".", "..", "cluster", "cluster.", "http.a.rds.b.c", "listener.1.2.3.4_5.http.x.y_rq_200", "vhost.a.vcluster.b.c",
		"proxy_proto.versions.v1.x", "server.worker_1.x", "http.a.dynamodb.table.t.capacity.q.__partition_id=1234567", "mongo.a.collection.b.query.c",
	} {
		f.Add(s)
	}
	r, err := New(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		series, tags := r.conf.tags.extract(name)
		if len(series) > len(name) {
			t.Errorf("series %q is longer than %q", series, name)
		}
		if len(tags) == 0 && series != name {
			t.Errorf("%q became %q without tags", name, series)
		}
		seen := map[string]bool{}
		for _, tag := range tags {
			if seen[tag.Name] {
				t.Errorf("%q: tag %s twice", name, tag.Name)
			}
			seen[tag.Name] = true
			if tag.Name != "envoy.endpoint_address" && !strings.Contains(name, tag.Value) {
				t.Errorf("%q has no %q", name, tag.Value)
			}
		}
	})
}

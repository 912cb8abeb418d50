package route

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Proves RT-01. The texts are Envoy's.
func TestDuplicateDomains(t *testing.T) {
	for domains, want := range map[string]string{
		"[a, A]":       "Only unique values for domains are permitted. Duplicate entry of domain a in route r",
		"['*.a', *.A]": "Only unique values for domains are permitted. Duplicate entry of domain *.a in route r",
		"[a.*, 'a.*']": "Duplicate entry of domain a.* in route r",
		"['*', '*']":   "Only a single wildcard domain is permitted in route r",
		"[]":           "no domain",
	} {
		domains = strings.ReplaceAll(domains, " *.A", " '*.A'")
		got := newError(t, "name: r\nvirtual_hosts: [{name: v, domains: "+domains+"}]", testEnv())
		if !strings.Contains(got, want) || !strings.Contains(got, "virtual_hosts[0].domains") {
			t.Errorf("%s: %s, want %s", domains, got, want)
		}
	}
	newTable(t, "name: r\nvirtual_hosts: [{name: v, domains: ['', 'a*b', '**', '*a', 'a*']}]")
}

// Every error is told with its field, all at once.
//
// Proves BS-35, RT-20, RT-22, RT-23.
func TestErrors(t *testing.T) {
	const m, c = "match: {prefix: /}", "route: {cluster: c}"
	for _, tc := range []struct{ route, want string }{
		{"{match: {safe_regex: {regex: '('}}, " + c + "}", ".match.safe_regex: invalid regular expression \"(\""},
		{"{match: {safe_regex: {regex: 'a)(b'}}, " + c + "}", ".match.safe_regex: invalid regular expression"},
		{"{match: {safe_regex: {regex: ''}}, " + c + "}", ".match.safe_regex: the regular expression is empty"},
		{"{match: {path_separated_prefix: /a/}, " + c + "}", ".match.path_separated_prefix: "},
		{"{match: {path_separated_prefix: /}, " + c + "}", ".match.path_separated_prefix: "},
		{"{match: {path_separated_prefix: '/a?b'}, " + c + "}", ".match.path_separated_prefix: "},
		{"{match: {grpc: {}}, " + c + "}", ".match: no path is given"},
		{"{" + c + "}", ".match: it is missing"},
		{"{" + m + "}", ": the route has no action"},
		{"{" + m + ", route: {timeout: 1s}}", ".route: no cluster is given"},
		{"{" + m + ", route: {cluster: ''}}", ".route.cluster: the cluster's name is empty"},
		{"{" + m + ", route: {cluster_header: 'a b'}}", ".route.cluster_header: "},
		{"{" + m + ", route: {cluster: c, timeout: -1s}}", ".route.timeout: the time is negative"},
		{"{" + m + ", route: {cluster: c, prefix_rewrite: /a, path_rewrite: /b}}", ".route: Specify only one of prefix_rewrite, regex_rewrite or path_rewrite_policy"},
		{"{" + m + ", route: {cluster: c, regex_rewrite: {pattern: {regex: a}, substitution: '\\1'}}}", ".route.regex_rewrite.substitution: \\1 refers to a group"},
		{"{" + m + ", route: {cluster: c, regex_rewrite: {pattern: {regex: '('}, substitution: a}}}", ".route.regex_rewrite.pattern: "},
		{"{" + m + ", route: {cluster: c, path_rewrite: '%NOPE%'}}", ".route.path_rewrite: unknown operator NOPE"},
		{"{" + m + ", route: {cluster: c, host_rewrite: '%NOPE%'}}", ".route.host_rewrite: unknown operator NOPE"},
		{"{" + m + ", " + c + ", request_headers_to_add: [{header: {key: a, value: '%NOPE%'}}]}", ".request_headers_to_add[0].header.value: unknown operator NOPE"},
		{"{" + m + ", " + c + ", request_headers_to_add: [{header: {key: a, value: '100%'}}]}", ".request_headers_to_add[0].header.value: "},
		{"{" + m + ", " + c + ", request_headers_to_add: [{header: {key: ':path', value: a}}]}", "request_headers_to_add[0].header.key: :path: :-prefixed or host headers may not be modified"},
		{"{" + m + ", " + c + ", response_headers_to_add: [{header: {key: Host, value: a}}]}", "response_headers_to_add[0].header.key: host: :-prefixed or host headers may not be modified"},
		{"{" + m + ", " + c + ", request_headers_to_remove: [host]}", "request_headers_to_remove[0]: :-prefixed or host headers may not be removed"},
		{"{" + m + ", " + c + ", response_headers_to_remove: [':status']}", "response_headers_to_remove[0]: :-prefixed or host headers may not be removed"},
		{"{" + m + ", " + c + ", request_headers_to_add: [{header: {key: a}, append: true, append_action: ADD_IF_ABSENT}]}", "Both append and append_action are set"},
		{"{" + m + ", " + c + ", request_headers_to_add: [{header: {key: 'a b'}}]}", "is no header name"},
		{"{" + m + ", route: {weighted_clusters: {clusters: []}}}", ".route.weighted_clusters.clusters: there is none"},
		{"{" + m + ", route: {weighted_clusters: {clusters: [{name: c, weight: 0}]}}}", "Sum of weights in the weighted_cluster must be greater than 0."},
		{"{" + m + ", route: {weighted_clusters: {clusters: [{name: c, weight: 4294967295}, {name: d, weight: 1}]}}}", "exceeds 4294967295"},
		{"{" + m + ", route: {weighted_clusters: {clusters: [{name: c}]}}}", ".clusters[0].weight: it is missing"},
		{"{" + m + ", route: {weighted_clusters: {clusters: [{name: c, cluster_header: x, weight: 1}]}}}", "Only one of name or cluster_header can be specified"},
		{"{" + m + ", route: {weighted_clusters: {clusters: [{weight: 1}]}}}", "At least one of name or cluster_header need to be specified"},
		{"{" + m + ", route: {cluster: c, upgrade_configs: [{upgrade_type: websocket}, {upgrade_type: WebSocket}]}}", "Duplicate upgrade WebSocket"},
		{"{" + m + ", route: {cluster: c, retry_policy: {retry_back_off: {base_interval: 2s, max_interval: 1s}}}}", "retry_policy.max_interval must greater than or equal to the base_interval"},
		{"{" + m + ", route: {cluster: c, retry_policy: {retry_back_off: {max_interval: 1s}}}}", ".retry_back_off.base_interval: it must be more than 0"},
		{"{" + m + ", route: {cluster: c, retry_policy: {rate_limited_retry_back_off: {max_interval: 1s}}}}", ".reset_headers: there is none"},
		{"{match: {prefix: /, headers: [{name: '', present_match: true}]}, " + c + "}", ".match.headers[0].name: "},
		{"{match: {prefix: /, headers: [{name: a, string_match: {prefix: ''}}]}, " + c + "}", ".match.headers[0].string_match: the text is empty"},
		{"{match: {prefix: /, query_parameters: [{string_match: {exact: a}}]}, " + c + "}", ".match.query_parameters[0].name: "},
		{"{match: {prefix: /, runtime_fraction: {runtime_key: a}}, " + c + "}", ".match.runtime_fraction: default_value is missing"},
		{"{" + m + ", redirect: {port_redirect: 70000}}", ".redirect.port_redirect: "},
	} {
		got := newError(t, "name: r\nvirtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /ok}, route: {cluster: c}}, "+tc.route+"]}]", testEnv())
		if !strings.HasPrefix(got, `route configuration "r": virtual_hosts[0].routes[1]`) || !strings.Contains(got, tc.want) {
			t.Errorf("%s:\n got %s\nwant %s", tc.route, got, tc.want)
		}
	}
	got := newError(t, "virtual_hosts: [{name: '', domains: ['*'], routes: [{match: {safe_regex: {regex: '('}}}, {match: {prefix: /}}]}]", testEnv())
	for _, want := range []string{"virtual_hosts[0].name", "routes[0].match.safe_regex", "routes[0]: the route has no action", "routes[1]: the route has no action"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not told in:\n%s", want, got)
		}
	}
}

// What is understood and not built is refused by its name.
//
// Proves RT-19.
func TestUnbuilt(t *testing.T) {
	route := func(field string) string {
		return "virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: c, " + field + "}}]}]"
	}
	host := func(field string) string { return "virtual_hosts: [{name: v, domains: ['*'], " + field + "}]" }
	for text, want := range map[string]string{
		route("request_mirror_policies: [{cluster: d}]"):          "route.request_mirror_policies: RouteAction.request_mirror_policies is not built",
		route("hedge_policy: {hedge_on_per_try_timeout: true}"):   "route.hedge_policy: ",
		route("internal_redirect_policy: {}"):                     "route.internal_redirect_policy: ",
		route("rate_limits: [{actions: [{remote_address: {}}]}]"): "route.rate_limits: ",
		route("cors: {}"): "route.cors: ",
		route("retry_policy: {retry_host_predicate: [{name: x}]}"):                                                                                   "retry_policy.retry_host_predicate: ",
		route("retry_policy: {retry_priority: {name: x}}"):                                                                                           "retry_policy.retry_priority: ",
		route("upgrade_configs: [{upgrade_type: CONNECT-UDP}]"):                                                                                      "upgrade_configs[0].upgrade_type: tunnels of datagrams",
		route("upgrade_configs: [{upgrade_type: websocket, connect_config: {}}]"):                                                                    "upgrade_configs[0].connect_config: Non-CONNECT upgrade type websocket has ConnectConfig",
		route("upgrade_configs: [{upgrade_type: CONNECT, connect_config: {proxy_protocol_config: {pass_through_tlvs: {match_type: INCLUDE_ALL}}}}]"): "connect_config.proxy_protocol_config.pass_through_tlvs: ",
		host("virtual_clusters: [{name: x}]"):                                                                                                        "virtual_hosts[0].virtual_clusters[0]: virtual clusters must define both",
		host("rate_limits: [{actions: [{remote_address: {}}]}]"):                                                                                     "virtual_hosts[0].rate_limits: ",
		host("cors: {}"):    "virtual_hosts[0].cors: ",
		host("matcher: {}"): "virtual_hosts[0].matcher: ",
		host("routes: [{match: {prefix: /}, non_forwarding_action: {}}]"):                      "non_forwarding_action: it belongs to gRPC servers",
		host("routes: [{match: {prefix: /}, filter_action: {}}]"):                              "filter_action: ",
		host("routes: [{match: {prefix: /}, route: {cluster_specifier_plugin: p}}]"):           "route.cluster_specifier_plugin: ",
		host("routes: [{match: {prefix: /}, tracing: {}, route: {cluster: c}}]"):               "routes[0].tracing: ",
		host("routes: [{match: {prefix: /}, decorator: {operation: x}, route: {cluster: c}}]"): "routes[0].decorator: ",

		"internal_only_headers: [x]":              "internal_only_headers: ",
		"vhost_header: x":                         "vhost_header: ",
		"request_mirror_policies: [{cluster: d}]": "request_mirror_policies: ",
		host("routes: [{match: {path_match_policy: {name: x, typed_config: {'@type': type.googleapis.com/google.protobuf.Struct, value: {}}}}, route: {cluster: c}}]"): "path_match_policy.typed_config: google.protobuf.Struct is not built",
	} {
		if got := newError(t, text, testEnv()); !strings.Contains(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// Proves RT-31.
func TestLegacyForms(t *testing.T) {
	var log bytes.Buffer
	env := testEnv()
	env.Logger = slog.New(slog.NewTextHandler(&log, nil))
	tab := newTableIn(t, `
virtual_hosts:
- name: v
  domains: ['*']
  routes:
  - match: {safe_regex: {google_re2: {max_program_size: 5}, regex: "/a.*"}, headers: [{name: x, exact_match: "1"}, {name: y, prefix_match: p}]}
    route: {weighted_clusters: {total_weight: 3, clusters: [{name: c, weight: 1}]}, max_grpc_timeout: 1s}
    request_headers_to_add: [{header: {key: z, value: new}, append: false}]
`, env)
	h := finalize(t, tab, context(request("h", "/abc", "x: 1", "y: pq", "z: old")))
	if h.Get("z") != "new" {
		t.Errorf("z is %q", h.Get("z"))
	}
	for _, field := range []string{".safe_regex", "headers[0].exact_match", "headers[1].prefix_match", "total_weight", "request_headers_to_add[0].append"} {
		if !strings.Contains(log.String(), field) {
			t.Errorf("no warning of %s in\n%s", field, log.String())
		}
	}
}

// The errors of templates.
func TestTemplateErrors(t *testing.T) {
	for _, s := range []string{"a", "/a//b", "/{a}{b}", "/{a}/{a}", "/{a}/{b}/{c}/{d}/{e}/{f}", "/a*b", "/{a}*", "/***", "/{1a}", "/{abcdefghijklmnopq}", "/{a=}", "/{a={b}}", "/a?b", "/**{a}x{b}", "/{a", "/x{a}y{b}z", "/é"} {
		if _, err := parseTemplate(s); err == nil {
			t.Errorf("%s is accepted", s)
		}
	}
	from, err := parseTemplate("/{a}")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"/{b}", "{a}", "/x//{a}", "/x y", "/{a", "/a}", "/é"} {
		r := templateRewrite{from: from}
		if err := r.parse(s); err == nil {
			t.Errorf("the rewrite %s is accepted", s)
		}
	}
}

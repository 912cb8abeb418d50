package stats

import "strings"

// defaultTagRules are the tags that Envoy finds without being told, in its
// order (ST-09).
func defaultTagRules() []tagRule {
	var rules []tagRule
	rules = append(rules,
		tagRule{tag: "envoy.response_code", find: findCode},
		tagRule{tag: "envoy.response_code_class", find: findClass},
	)
	rules = append(rules, protocolRules()...)
	rules = append(rules, prefixRules()...)
	rules = append(rules, sharedRules()...)
	return rules
}

func rule(tag, p string) tagRule { return checked(tag, p, nil) }

func checked(tag, p string, value func(string) bool) tagRule {
	first, _, _ := strings.Cut(p, ".")
	if strings.ContainsAny(first, "*$@") {
		first = ""
	}
	return tagRule{tag: tag, first: first, find: newPattern(p, value).find}
}

// protocolRules come before those for prefixes.
func protocolRules() []tagRule {
	return []tagRule{
		{tag: "envoy.dynamo_partition_id", first: "http", find: findPartition},
		{tag: "envoy.dynamo_operation", first: "http", find: findOperation},
		rule("envoy.mongo_callsite", "mongo.*.collection.*.callsite.$.query.**"),
		rule("envoy.dynamo_table", "http.*.dynamodb.table.$.**"),
		rule("envoy.dynamo_table", "http.*.dynamodb.error.$.**"),
		rule("envoy.mongo_collection", "mongo.*.collection.$.**.query.*"),
		rule("envoy.mongo_cmd", "mongo.*.cmd.$.**"),
		rule("envoy.grpc_bridge_method", "cluster.*.grpc.*.$.**"),
		rule("envoy.http_user_agent", "http.*.user_agent.$.**"),
		rule("envoy.virtual_cluster", "vhost.*.vcluster.$.**"),
		rule("envoy.fault_downstream_cluster", "http.*.fault.$.**"),
		checked("envoy.ssl_cipher", "listener.**.ssl.ciphers.$", wordOrDash),
		checked("cipher_suite", "cluster.*.ssl.ciphers.$", wordOrDash),
		tlsRule("envoy.ssl_curve", "ssl.curves.$", wordOrDash),
		tlsRule("envoy.ssl_sigalg", "ssl.sigalgs.$", wordOrDash),
		tlsRule("envoy.ssl_version", "ssl.versions.$$", tlsVersion),
		tlsRule("envoy.tls_certificate", "ssl.certificate.$.**", nil),
		rule("envoy.grpc_bridge_service", "cluster.*.grpc.$.**"),
	}
}

// prefixRules are about the names people give in configurations.
func prefixRules() []tagRule {
	return []tagRule{
		rule("envoy.tcp_prefix", "tcp.$.**"),
		rule("envoy.udp_prefix", "udp.$.**"),
		rule("envoy.clientssl_prefix", "auth.clientssl.$.**"),
		rule("envoy.ratelimit_prefix", "ratelimit.$.**"),
		rule("envoy.cluster_name", "cluster.$.**"),
		{tag: "envoy.endpoint_address", first: "cluster", find: findEndpoint},
		rule("envoy.ext_authz_prefix", "http.*.ext_authz.$.**"),
		{tag: "envoy.rbac_policy_name", first: "http", find: findPolicy},
		{tag: "envoy.rbac_http_prefix", first: "http", find: findHTTPRBAC},
		checked("envoy.rds_route_config", "http.*.rds.$$.*", wordDashDot),
		checked("envoy.scoped_rds_config", "http.*.scoped_rds.$$.*", wordDashDotSlash),
		rule("envoy.http_conn_manager_prefix", "listener.**.http.$.**"),
		rule("envoy.http_conn_manager_prefix", "http.$.**"),
		{tag: "envoy.listener_address", first: "listener", find: findListener},
		rule("envoy.virtual_host", "vhost.$.**"),
		rule("envoy.mongo_prefix", "mongo.$.**"),
		rule("envoy.route", "vhost.*.route.$.**"),
		rule("envoy.thrift_prefix", "thrift.$.**"),
		rule("envoy.redis_prefix", "redis.$.**"),
		rule("envoy.google_grpc_client_prefix", "grpc.$.**"),
		rule("envoy.dns_filter_prefix", "dns_filter.$.**"),
		rule("envoy.connection_limit_prefix", "connection_limit.$.**"),
		rule("envoy.local_network_ratelimit_prefix", "local_rate_limit.$.**"),
		rule("envoy.local_listener_ratelimit_prefix", "listener_local_ratelimit.$.**"),
		rule("envoy.local_http_ratelimit_prefix", "$.http_local_rate_limit.**"),
	}
}

// sharedRules are about what several parts of Envoy have.
func sharedRules() []tagRule {
	return []tagRule{
		rule("envoy.rbac_prefix", "$.rbac.**"),
		rule("envoy.ext_authz_prefix", "cluster.*.ext_authz.$.**"),
		{tag: "envoy.worker_id", find: findWorker},
		{tag: "envoy.proxy_protocol_prefix", first: "proxy_proto", find: findProxyPrefix},
		{tag: "envoy.proxy_protocol_version", first: "proxy_proto", find: findProxyVersion},
		{tag: "envoy.health_check_name", first: "cluster", find: findHealthCheck},
	}
}

// tlsRule looks below listeners and clusters, but counts as a rule for any
// name, which decides the order of the tags.
func tlsRule(tag, below string, value func(string) bool) tagRule {
	l, c := newPattern("listener.**."+below, value), newPattern("cluster.**."+below, value)
	return tagRule{tag: tag, find: func(n *tokens) (span, bool) {
		if s, ok := l.find(n); ok {
			return s, true
		}
		return c.find(n)
	}}
}

func allOf(s, more string) bool {
	for _, c := range s {
		if !isAlnum(c) && c != '_' && !strings.ContainsRune(more, c) {
			return false
		}
	}
	return true
}

func wordOrDash(s string) bool       { return allOf(s, "-") }
func wordDashDot(s string) bool      { return allOf(s, "-.") }
func wordDashDotSlash(s string) bool { return allOf(s, "-./") }
func tlsVersion(s string) bool       { return strings.HasPrefix(s, "TLSv") || strings.HasPrefix(s, "SSLv") }

// findListener takes the address, except that of the admin endpoint, which is
// no address.
func findListener(n *tokens) (span, bool) {
	if len(n.ends) < 3 || n.token(1) == "admin" {
		return span{}, false
	}
	return n.span(1, 1+n.address(1)), 1+n.address(1) < len(n.ends)
}

// findCode takes _200 from …_rq_200.
func findCode(n *tokens) (span, bool) {
	at := len(n.name) - 4
	if at < 3 || !strings.HasSuffix(n.name[:at], "_rq") || n.name[at] != '_' || !digits(n.name[at+1:]) {
		return span{}, false
	}
	return span{value: n.name[at+1:], from: at, to: len(n.name)}, true
}

// findClass takes 2 from …_rq_2xx.
func findClass(n *tokens) (span, bool) {
	at := len(n.name) - 3
	if at < 4 || !strings.HasSuffix(n.name, "xx") || !strings.HasSuffix(n.name[:at], "_rq_") || !digits(n.name[at:at+1]) {
		return span{}, false
	}
	return span{value: n.name[at : at+1], from: at, to: at + 1}, true
}

// findPartition takes .__partition_id=1234567 from the end.
func findPartition(n *tokens) (span, bool) {
	const key = "__partition_id="
	last := len(n.ends) - 1
	id, ok := strings.CutPrefix(n.token(last), key)
	if last != 7 || !ok || len(id) != 7 || !allOf(id, "") ||
		n.token(2) != "dynamodb" || n.token(3) != "table" || n.token(5) != "capacity" {
		return span{}, false
	}
	return span{value: id, from: n.start(last) - 1, to: len(n.name)}, true
}

// findOperation takes .Query from http.p.dynamodb.operation.Query.x or
// http.p.dynamodb.table.t.capacity.Query.
func findOperation(n *tokens) (span, bool) {
	at := 4
	switch {
	case len(n.ends) >= 7 && n.token(3) == "table" && n.token(5) == "capacity":
		at = 6
	case len(n.ends) >= 5 && n.token(3) == "operation":
	default:
		return span{}, false
	}
	if n.token(2) != "dynamodb" {
		return span{}, false
	}
	return span{value: n.token(at), from: n.start(at) - 1, to: n.ends[at]}, true
}

// findPolicy takes the policy from http.p.rbac.[prefix.]policy.P.allowed.
func findPolicy(n *tokens) (span, bool) {
	k := len(n.ends)
	if k != 6 && k != 7 || n.token(2) != "rbac" || n.token(k-3) != "policy" {
		return span{}, false
	}
	switch n.token(k - 1) {
	case "allowed", "denied", "shadow_allowed", "shadow_denied":
		return n.span(k-2, k-1), true
	}
	return span{}, false
}

// findHTTPRBAC takes the prefix from http.p.rbac.PREFIX.allowed.
func findHTTPRBAC(n *tokens) (span, bool) {
	if len(n.ends) < 5 || n.token(2) != "rbac" || n.token(3) == "policy" {
		return span{}, false
	}
	return n.span(3, 4), true
}

// findEndpoint takes the address from cluster.c.endpoint.ADDRESS.x; the tag
// has the address as people write it, with colons.
func findEndpoint(n *tokens) (span, bool) {
	if len(n.ends) < 5 || n.token(2) != "endpoint" {
		return span{}, false
	}
	w := n.address(3)
	if 3+w >= len(n.ends) {
		return span{}, false
	}
	s := n.span(3, 3+w)
	if w == 4 || strings.HasPrefix(s.value, "[") {
		s.value = strings.ReplaceAll(s.value, "_", ":")
	}
	return s, true
}

// findWorker takes 3. from listener.ADDRESS.worker_3.x and the like, so that
// "worker_" stays.
func findWorker(n *tokens) (span, bool) {
	at := 1
	switch n.token(0) {
	case "listener":
		if len(n.ends) < 3 {
			return span{}, false
		}
		at = 1 + n.address(1)
	case "server", "listener_manager", "thread_local_cluster_manager":
	default:
		return span{}, false
	}
	if at >= len(n.ends)-1 {
		return span{}, false
	}
	id, ok := strings.CutPrefix(n.token(at), "worker_")
	if !ok || !digits(id) {
		return span{}, false
	}
	return span{value: id, from: n.ends[at] - len(id), to: n.ends[at] + 1}, true
}

// findProxyVersion takes versions.v2. with a prefix before it from
// proxy_proto.[prefix.]versions.v2.found.
func findProxyVersion(n *tokens) (span, bool) {
	k := len(n.ends)
	if k != 4 && k != 5 || n.token(k-3) != "versions" {
		return span{}, false
	}
	v, ok := strings.CutPrefix(n.token(k-2), "v")
	if !ok || !digits(v) {
		return span{}, false
	}
	return span{value: v, from: n.start(1), to: n.start(k - 1)}, true
}

// findProxyPrefix takes the prefix from proxy_proto.PREFIX.x.
func findProxyPrefix(n *tokens) (span, bool) {
	if len(n.ends) < 3 || n.token(1) == "versions" {
		return span{}, false
	}
	return n.span(1, 2), true
}

// findHealthCheck takes .name.N from cluster.c.health_check.name.N.x.
func findHealthCheck(n *tokens) (span, bool) {
	if len(n.ends) < 6 || n.token(2) != "health_check" || n.token(3) != "name" {
		return span{}, false
	}
	return span{value: n.token(4), from: n.start(3) - 1, to: n.ends[4]}, true
}

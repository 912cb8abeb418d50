package configload

import "google.golang.org/protobuf/reflect/protoreflect"

// configTypes says, by message with a typed_config, which type the struct config of
// v2 had, by the extension's name in v2 and its later one.
func configTypes() map[protoreflect.FullName]map[string]string {
	const network, http, listener = "envoy.extensions.filters.network.", "envoy.extensions.filters.http.", "envoy.extensions.filters.listener."
	both := func(old, now string, names map[string]string) map[string]string {
		all := make(map[string]string, 2*len(names))
		for name, v3 := range names {
			all[old+name], all[now+name] = v3, v3
		}
		return all
	}
	return map[protoreflect.FullName]map[string]string{
		"envoy.config.listener.v3.Filter": both("envoy.", "envoy.filters.network.", map[string]string{
			"http_connection_manager": network + "http_connection_manager.v3.HttpConnectionManager",
			"tcp_proxy":               network + "tcp_proxy.v3.TcpProxy",
			"redis_proxy":             network + "redis_proxy.v3.RedisProxy",
			"mongo_proxy":             network + "mongo_proxy.v3.MongoProxy",
			"ext_authz":               network + "ext_authz.v3.ExtAuthz",
			"ratelimit":               network + "ratelimit.v3.RateLimit",
			"rbac":                    network + "rbac.v3.RBAC",
			"echo":                    network + "echo.v3.Echo",
			"sni_cluster":             network + "sni_cluster.v3.SniCluster",
		}),
		"envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter": both("envoy.", "envoy.filters.http.", map[string]string{
			"router":               http + "router.v3.Router",
			"fault":                http + "fault.v3.HTTPFault",
			"cors":                 http + "cors.v3.Cors",
			"csrf":                 http + "csrf.v3.CsrfPolicy",
			"buffer":               http + "buffer.v3.Buffer",
			"ext_authz":            http + "ext_authz.v3.ExtAuthz",
			"rate_limit":           http + "ratelimit.v3.RateLimit",
			"ratelimit":            http + "ratelimit.v3.RateLimit",
			"rbac":                 http + "rbac.v3.RBAC",
			"jwt_authn":            http + "jwt_authn.v3.JwtAuthentication",
			"lua":                  http + "lua.v3.Lua",
			"health_check":         http + "health_check.v3.HealthCheck",
			"header_to_metadata":   http + "header_to_metadata.v3.Config",
			"ip_tagging":           http + "ip_tagging.v3.IPTagging",
			"grpc_web":             http + "grpc_web.v3.GrpcWeb",
			"grpc_http1_bridge":    http + "grpc_http1_bridge.v3.Config",
			"grpc_json_transcoder": http + "grpc_json_transcoder.v3.GrpcJsonTranscoder",
			"on_demand":            http + "on_demand.v3.OnDemand",
			"original_src":         http + "original_src.v3.OriginalSrc",
		}),
		"envoy.config.listener.v3.ListenerFilter": both("envoy.listener.", "envoy.filters.listener.", map[string]string{
			"tls_inspector":  listener + "tls_inspector.v3.TlsInspector",
			"http_inspector": listener + "http_inspector.v3.HttpInspector",
			"original_dst":   listener + "original_dst.v3.OriginalDst",
			"original_src":   listener + "original_src.v3.OriginalSrc",
			"proxy_protocol": listener + "proxy_protocol.v3.ProxyProtocol",
		}),
		"envoy.config.accesslog.v3.AccessLog": {
			"envoy.file_access_log":          "envoy.extensions.access_loggers.file.v3.FileAccessLog",
			"envoy.access_loggers.file":      "envoy.extensions.access_loggers.file.v3.FileAccessLog",
			"envoy.http_grpc_access_log":     "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
			"envoy.access_loggers.http_grpc": "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
			"envoy.tcp_grpc_access_log":      "envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig",
			"envoy.access_loggers.tcp_grpc":  "envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig",
		},
		"envoy.config.core.v3.TransportSocket": {
			"tls": tlsPrefix + "TlsContext", "envoy.transport_sockets.tls": tlsPrefix + "TlsContext",
			"raw_buffer":                         "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
			"envoy.transport_sockets.raw_buffer": "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
		},
		"envoy.config.core.v3.HealthCheck.CustomHealthCheck": {
			"envoy.health_checkers.redis": "envoy.extensions.health_checkers.redis.v3.Redis",
		},
	}
}

// perFilterTypes says which type the struct of a filter in a route had, by the
// filter's name.
func perFilterTypes() map[string]string {
	const http = "envoy.extensions.filters.http."
	all := map[string]string{}
	for name, v3 := range map[string]string{
		"fault":                http + "fault.v3.HTTPFault",
		"buffer":               http + "buffer.v3.BufferPerRoute",
		"csrf":                 http + "csrf.v3.CsrfPolicy",
		"ext_authz":            http + "ext_authz.v3.ExtAuthzPerRoute",
		"rbac":                 http + "rbac.v3.RBACPerRoute",
		"grpc_json_transcoder": http + "grpc_json_transcoder.v3.GrpcJsonTranscoder",
	} {
		all["envoy."+name], all["envoy.filters.http."+name] = v3, v3
	}
	return all
}

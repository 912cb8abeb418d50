//go:build interop

package differential

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// builder makes the bootstrap of one proxy of a group.
type builder struct {
	group     *group
	dir       string // for log files
	origins   *origins
	cert, key string
	logFormat map[string]any
}

// typeNames are short for the messages that the configurations use.
func typeNames() map[string]string {
	const (
		filters = "type.googleapis.com/envoy.extensions.filters."
		inputs  = "type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3."
	)
	return map[string]string{
		"string":                "type.googleapis.com/google.protobuf.StringValue",
		"destination_ip":        inputs + "DestinationIPInput",
		"destination_port":      inputs + "DestinationPortInput",
		"source_ip":             inputs + "SourceIPInput",
		"source_port":           inputs + "SourcePortInput",
		"direct_source_ip":      inputs + "DirectSourceIPInput",
		"source_type":           inputs + "SourceTypeInput",
		"server_name":           inputs + "ServerNameInput",
		"transport_protocol":    inputs + "TransportProtocolInput",
		"application_protocol":  inputs + "ApplicationProtocolInput",
		"filter_state_input":    inputs + "FilterStateInput",
		"ip":                    "type.googleapis.com/envoy.extensions.matching.input_matchers.ip.v3.Ip",
		"ip_matcher":            "type.googleapis.com/xds.type.matcher.v3.IPMatcher",
		"server_name_matcher":   "type.googleapis.com/xds.type.matcher.v3.ServerNameMatcher",
		"hcm":                   filters + "network.http_connection_manager.v3.HttpConnectionManager",
		"tcp_proxy":             filters + "network.tcp_proxy.v3.TcpProxy",
		"echo":                  filters + "network.echo.v3.Echo",
		"direct_response":       filters + "network.direct_response.v3.Config",
		"router":                filters + "http.router.v3.Router",
		"fixed_heap":            "type.googleapis.com/envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
		"scale_timers":          "type.googleapis.com/envoy.config.overload.v3.ScaleTimersOverloadActionConfig",
		"buffer":                filters + "http.buffer.v3.Buffer",
		"buffer_route":          filters + "http.buffer.v3.BufferPerRoute",
		"fault":                 filters + "http.fault.v3.HTTPFault",
		"header_mutation":       filters + "http.header_mutation.v3.HeaderMutation",
		"header_mutation_route": filters + "http.header_mutation.v3.HeaderMutationPerRoute",
		"filter_config":         "type.googleapis.com/envoy.config.route.v3.FilterConfig",
		"tls_inspector":         filters + "listener.tls_inspector.v3.TlsInspector",
		"http_inspector":        filters + "listener.http_inspector.v3.HttpInspector",
		"proxy_protocol":        filters + "listener.proxy_protocol.v3.ProxyProtocol",
		"downstream_tls":        "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"upstream_tls":          "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
		"upstream_proxy":        "type.googleapis.com/envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
		"raw_buffer":            "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
		"per_host":              "type.googleapis.com/envoy.config.core.v3.PerHostConfig",
		"file_log":              "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
		"http_options":          "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
		"uuid":                  "type.googleapis.com/envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig",
		"preserve_case":         "type.googleapis.com/envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig",
	}
}

func (b *builder) write(file string) error {
	config := map[string]any{
		"admin":            map[string]any{"address": socketAddress(0)},
		"static_resources": map[string]any{},
	}
	var clusters, listeners []any
	for _, name := range slices.Sorted(maps.Keys(b.group.Clusters)) {
		c, err := b.cluster(name, b.group.Clusters[name])
		if err != nil {
			return err
		}
		clusters = append(clusters, c)
	}
	for _, name := range slices.Sorted(maps.Keys(b.group.Listeners)) {
		listeners = append(listeners, b.listener(name, b.group.Listeners[name]))
	}
	config["static_resources"] = map[string]any{"clusters": clusters, "listeners": listeners}
	merge(config, b.group.Bootstrap)
	data, err := json.MarshalIndent(b.finish(config), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func socketAddress(port int) map[string]any {
	return map[string]any{"socket_address": map[string]any{"address": "127.0.0.1", "port_value": port}}
}

func (b *builder) cluster(name string, spec clusterSpec) (map[string]any, error) {
	c := map[string]any{"name": name, "connect_timeout": "2s"}
	if spec.Kind != "none" {
		localities, err := b.localities(name, spec)
		if err != nil {
			return nil, err
		}
		c["load_assignment"] = map[string]any{"cluster_name": name, "endpoints": localities}
	}
	if strings.HasPrefix(spec.Kind, "h2") {
		c["typed_extension_protocol_options"] = map[string]any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
				"@type":                "http_options",
				"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
			},
		}
	}
	if strings.HasSuffix(spec.Kind, "s") {
		c["transport_socket"] = map[string]any{"name": "tls", "typed_config": map[string]any{"@type": "upstream_tls"}}
	}
	if spec.Proxy != nil {
		inner := c["transport_socket"]
		if inner == nil {
			inner = map[string]any{"name": "raw", "typed_config": map[string]any{"@type": "raw_buffer"}}
		}
		c["transport_socket"] = map[string]any{"name": "proxy", "typed_config": map[string]any{"@type": "upstream_proxy", "config": spec.Proxy, "transport_socket": inner}}
	}
	merge(c, spec.Config)
	return c, nil
}

// localities starts the servers of a cluster. Servers of hosts are numbered;
// equal endpoints are one to the comparison, for which of them is chosen is
// left to chance.
func (b *builder) localities(name string, spec clusterSpec) ([]any, error) {
	var equal, out []any
	for range max(spec.Endpoints, 1) {
		if spec.Hosts != nil {
			break
		}
		port, err := b.origins.listen(name, spec.Kind, spec.Proxy != nil)
		if err != nil {
			return nil, err
		}
		equal = append(equal, map[string]any{"endpoint": map[string]any{"address": socketAddress(port)}})
	}
	if equal != nil {
		out = append(out, map[string]any{"lb_endpoints": equal})
	}
	for i, host := range spec.Hosts {
		port, err := b.origins.listen(fmt.Sprintf("%s-%d", name, i), spec.Kind, spec.Proxy != nil)
		if err != nil {
			return nil, err
		}
		endpoint := map[string]any{"endpoint": map[string]any{"address": socketAddress(port)}}
		merge(endpoint, host.Endpoint)
		locality := map[string]any{"zone": fmt.Sprintf("zone-%d", i)}
		out = append(out, map[string]any{"priority": host.Priority, "locality": locality, "lb_endpoints": []any{endpoint}})
	}
	return out, nil
}

func (b *builder) listener(name string, spec listenerSpec) map[string]any {
	l := map[string]any{"name": name, "stat_prefix": name, "address": socketAddress(0)}
	chains := spec.Chains
	if chains == nil {
		chain := map[string]any{}
		if spec.TLS != nil {
			chain["tls"] = spec.TLS
		}
		if spec.Filters != nil {
			chain["filters"] = spec.Filters
		}
		merge(chain, spec.Chain)
		chains = []map[string]any{chain}
	}
	var out []any
	for _, chain := range chains {
		out = append(out, b.chain(name, spec, chain))
	}
	l["filter_chains"] = out
	merge(l, spec.Listener)
	return l
}

// chain completes a filter chain: "tls" becomes a transport socket, and one
// without filters gets an HTTP connection manager.
func (b *builder) chain(name string, spec listenerSpec, chain map[string]any) map[string]any {
	chain = maps.Clone(chain)
	if context, ok := chain["tls"].(map[string]any); ok {
		delete(chain, "tls")
		config := map[string]any{"@type": "downstream_tls", "common_tls_context": map[string]any{
			"alpn_protocols": []any{"h2", "http/1.1"},
			"tls_certificates": []any{map[string]any{
				"certificate_chain": map[string]any{"inline_string": b.cert},
				"private_key":       map[string]any{"inline_string": b.key},
			}},
		}}
		merge(config, context)
		chain["transport_socket"] = map[string]any{"name": "tls", "typed_config": config}
	}
	if chain["filters"] == nil {
		chain["filters"] = []any{map[string]any{"name": "hcm", "typed_config": b.hcm(name, spec)}}
	}
	return chain
}

func (b *builder) hcm(name string, spec listenerSpec) map[string]any {
	routes := map[string]any{"name": "routes"}
	merge(routes, b.group.Routes)
	merge(routes, spec.Routes)
	config := map[string]any{
		"@type": "hcm", "stat_prefix": name, "delayed_close_timeout": "0.1s",
		"access_log": "ACCESS_LOG", "route_config": routes,
	}
	merge(config, b.group.HCM)
	merge(config, spec.HCM)
	chain, _ := config["http_filters"].([]any)
	last := ""
	if n := len(chain); n > 0 {
		typed, _ := chain[n-1].(map[string]any)["typed_config"].(map[string]any)
		last, _ = typed["@type"].(string)
	}
	if last != "router" {
		router := map[string]any{"name": "router", "typed_config": map[string]any{"@type": "router"}}
		config["http_filters"] = append(slices.Clone(chain), router)
	}
	return config
}

// finish writes out the abbreviations in a configuration.
func (b *builder) finish(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[name] = b.finish(value)
		}
		if short, ok := v["@type"].(string); ok && !strings.Contains(short, "/") {
			full, ok := typeNames()[short]
			if !ok {
				panic(fmt.Sprintf("no message is called %q for short", short))
			}
			out["@type"] = full
			if short == "tcp_proxy" && v["access_log"] == nil {
				out["access_log"] = b.finish("ACCESS_LOG")
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = b.finish(v[i])
		}
		return out
	case []map[string]any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = b.finish(v[i])
		}
		return out
	case string:
		if v == "ACCESS_LOG" {
			return b.finish(b.accessLog())
		}
		return text(v)
	}
	return v
}

func (b *builder) accessLog() []any {
	file := func(name string, format any) any {
		config := map[string]any{"@type": "file_log", "path": filepath.Join(b.dir, name)}
		if format != nil {
			config["log_format"] = map[string]any{"json_format": format}
		}
		return map[string]any{"name": "file", "typed_config": config}
	}
	return []any{file("access.json", b.logFormat), file("access.txt", nil)}
}

// merge puts the fields of one map into another; null removes one.
func merge(into, from map[string]any) {
	for name, value := range from {
		old, wasMap := into[name].(map[string]any)
		add, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case wasMap && isMap:
			old = maps.Clone(old)
			merge(old, add)
			into[name] = old
		case isMap:
			into[name] = maps.Clone(add)
		default:
			into[name] = value
		}
	}
}

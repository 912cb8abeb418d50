package proxy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// edgeProfile is what Envoy's documentation advises for a proxy that strangers reach.
func edgeProfile(t *testing.T, host string) *site {
	t.Helper()
	cert, key := certificates(t)
	const heap = `"@type": type.googleapis.com/envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig`
	const connections = `"@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig`
	const h2 = "max_concurrent_streams: 100, initial_stream_window_size: 65536, initial_connection_window_size: 1048576"
	return &site{
		hosts: []string{host},
		top: `overload_manager: {refresh_interval: 0.25s, resource_monitors: [
  {name: envoy.resource_monitors.fixed_heap, typed_config: {` + heap + `, max_heap_size_bytes: 1073741824}},
  {name: envoy.resource_monitors.global_downstream_max_connections, typed_config: {` + connections + `, max_active_downstream_connections: 70}}], actions: [
  {name: envoy.overload_actions.shrink_heap, triggers: [{name: envoy.resource_monitors.fixed_heap, threshold: {value: 0.9}}]},
  {name: envoy.overload_actions.stop_accepting_requests, triggers: [{name: envoy.resource_monitors.fixed_heap, threshold: {value: 0.95}}]}]}
layered_runtime: {layers: [{name: s, static_layer: {envoy.resource_limits.listener.front.connection_limit: 10000}}]}
`,
		listener: `per_connection_buffer_limit_bytes: 32768, listener_filters: [{name: tls, typed_config: {
  "@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}}],`,
		chain: `filter_chain_match: {transport_protocol: raw_buffer},`,
		manager: `use_remote_address: true, normalize_path: true, merge_slashes: true, path_with_escaped_slashes_action: UNESCAPE_AND_REDIRECT,
  common_http_protocol_options: {idle_timeout: 3600s, headers_with_underscores_action: REJECT_REQUEST},
  http2_protocol_options: {` + h2 + `}, stream_idle_timeout: 300s, request_timeout: 300s,`,
		routes:  "{match: {prefix: /}, route: {cluster: back, idle_timeout: 15s}}",
		cluster: "connect_timeout: 15s, per_connection_buffer_limit_bytes: 32768, " + speaking("", h2) + "",
		more: `- {name: other, transport_socket: {name: tls, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {
        tls_certificates: [{certificate_chain: {filename: ` + cert + `}, private_key: {filename: ` + key + `}}]}}}}`,
	}
}

// inUse is what the process has in use.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Proves OV-07: the profile loads; strangers who send what they like are refused, and
// what they make the proxy hold is bounded for each connection, and so for all.
func TestEdgeProfile(t *testing.T) {
	up := backend(t, func(w *wire, _ int) { // takes the connection, and reads nothing
		for range 10 {
			if _, err := w.r.Discard(1); err != nil {
				return
			}
		}
		<-t.Context().Done()
	})
	v := edgeProfile(t, up).serve(t)
	for request, status := range map[string]int{
		"GET / HTTP/1.1\r\nhost: a\r\nx_y: 1\r\n\r\n":                                           400,
		"GET /a%2fb HTTP/1.1\r\nhost: a\r\n\r\n":                                                307,
		"GET /%00 HTTP/1.1\r\nhost: a\r\n\r\n":                                                  400,
		"GET / HTTP/1.1\r\nhost: a\r\nx: " + strings.Repeat("x", 70<<10) + "\r\n\r\n":           431,
		"GET / HTTP/1.1\r\nhost: a\r\n" + strings.Repeat("x: y\r\n", 101) + "\r\n":              431,
		"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n": 400,
	} {
		w := v.dial(t)
		w.send("%s", request)
		if got := w.reply().status; got != status {
			t.Errorf("%.40q: %d, want %d", request, got, status)
		}
		_ = w.Close()
	}
	v.counts(t, "listener.front.downstream_cx_active 0")
	body, much := make([]byte, 16<<10), make([]byte, 32<<20)
	before := inUse()
	const clients, each = 20, 5 << 18
	for range clients {
		w := v.dial(t) // a body without end
		w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n")
		_ = w.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := w.Write(much); err == nil {
			t.Errorf("the proxy has taken %d bytes", n)
		}
	}
	for range clients {
		f := v.dial2(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for id := uint32(1); id < 301; id += 2 { // more streams than there may be
			f.ask(id, "POST", "/", false)
		}
		for id := uint32(1); id < 128; id += 2 { // and as much as the window of the connection takes
			_ = f.WriteData(id, false, body)
		}
		f.answersPing(t)
		w := v.dial(t) // and a head without end
		w.send("GET / HTTP/1.1\r\nhost: a\r\nx: %s", strings.Repeat("x", 50<<10))
	}
	v.counts(t, fmt.Sprintf("listener.front.downstream_cx_active %d", 3*clients), fmt.Sprintf("http.in.downstream_rq_active %d", clients*101))
	if grown := inUse() - before; grown > clients*each {
		t.Errorf("%d clients hold %d KB each", clients, grown/clients>>10)
	} else {
		t.Logf("%d clients hold %d KB each", clients, grown/clients>>10)
	}
	for range 70 - 3*clients {
		v.dial(t)
	}
	v.counts(t, "overload.envoy.resource_monitors.global_downstream_max_connections.pressure 100")
	v.dial(t).ended()
	v.counts(t, "listener.front.downstream_global_cx_overflow 1", "overload.envoy.overload_actions.stop_accepting_requests.active 0")
}

package proxy_test

import (
	"strings"
	"testing"
)

// Proves RT-48: the runtime puts a cluster into maintenance, and forbids retries.
func TestRuntimeOfRequests(t *testing.T) {
	const top = "layered_runtime: {layers: [{name: fixed, static_layer: {upstream.maintenance_mode.closed: 100, upstream.use_retry: 0}}]}"
	addr := answering(t, "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy")
	v := (&site{
		top: top, hosts: []string{addr}, more: "- {name: closed, load_assignment: {cluster_name: closed, endpoints: [{lb_endpoints: [" + endpoints(t, []string{addr}) + "]}]}}",
		routes: "{match: {prefix: /closed}, route: {cluster: closed}}, {match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx}}}",
	}).serve(t)
	w := v.dial(t)
	w.get("/closed")
	if r := w.want("503 maintenance mode"); r.header.Get("x-envoy-overloaded") != "true" {
		t.Errorf("the headers are %v", r.header)
	}
	w.get("/")
	w.want("503 busy")
	v.counts(t, "cluster.closed.upstream_rq_maintenance_mode 1", "cluster.closed.upstream_rq_503 1", "cluster.closed.upstream_rq_total 0",
		"cluster.back.upstream_rq_total 1", "cluster.back.upstream_rq_retry 0")
	v.logged(t, "503 UO maintenance_mode", "503 - via_upstream")
}

// Half a head is a request that failed: it is counted and logged.
func TestHalfHead(t *testing.T) {
	v := (&site{hosts: []string{"127.0.0.1:1"}}).serve(t)
	w := v.dial(t)
	w.send("GET / HTTP/1.1\r\nhost: a")
	v.counts(t, "http.in.downstream_cx_active 1")
	_ = w.Close()
	v.logged(t, "0 DC downstream_remote_disconnect")
	v.counts(t, "http.in.downstream_rq_total 1", "http.in.downstream_rq_rx_reset 1", "http.in.downstream_cx_destroy_remote_active_rq 1", "http.in.downstream_rq_active 0")
}

// A 101 without Upgrade switches to nothing, also for a client that asked.
func TestSwitchToNothing(t *testing.T) {
	addr := backend(t, func(w *wire, _ int) {
		w.head()
		w.send("HTTP/1.1 101 Switching Protocols\r\n\r\nsecret")
		w.untilClosed()
	})
	v := (&site{hosts: []string{addr}, manager: "upgrade_configs: [{upgrade_type: websocket}],"}).serve(t)
	w := v.dial(t)
	w.send("GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
	if head := w.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") || strings.Contains(head, "secret") {
		t.Errorf("the head is %q", head)
	}
	w.ended()
	v.counts(t, "http.in.downstream_cx_upgrades_total 1", "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_cx_active 0")
}

// The case of a client's names goes on to an upstream, if the listener keeps it.
func TestCaseOfTheClient(t *testing.T) {
	heads := make(chan string, 2)
	addr := backend(t, func(w *wire, _ int) {
		for head := w.head(); head != ""; head = w.head() {
			heads <- head
			w.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
		}
	})
	const keep = `http_protocol_options: {header_key_format: {stateful_formatter: {name: keep, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig}}}},`
	for _, manager := range []string{keep, ""} {
		v := (&site{hosts: []string{addr}, manager: manager}).serve(t)
		w := v.dial(t)
		w.get("/", "X-Custom: a")
		w.want("200 ")
		if head := <-heads; strings.Contains(head, "X-Custom: a") != (manager != "") {
			t.Errorf("with %q the upstream got %q", manager, head)
		}
	}
}

package proxy_test

import (
	"strings"
	"testing"
)

// Proves that the name which a request from inside gives is counted by, and does
// not go on to the upstream; one from outside is only taken away.
func TestAlternativeStatName(t *testing.T) {
	heads := make(chan string, 10)
	up := backend(t, func(w *wire, _ int) {
		for h := w.head(); h != ""; h = w.head() {
			heads <- h
			w.send("HTTP/1.1 200 OK\r\nx-envoy-upstream-canary: true\r\ncontent-length: 2\r\n\r\nok")
		}
	})
	for manager, inside := range map[string]bool{
		"use_remote_address: true, internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]},": true,
		"use_remote_address: true, internal_address_config: {cidr_ranges: [{address_prefix: 10.0.0.0, prefix_len: 8}]},":  false,
	} {
		v := (&site{hosts: []string{up}, manager: manager}).serve(t)
		w := v.dial(t)
		w.get("/", "x-envoy-upstream-alt-stat-name: a.b")
		w.want("200 ok")
		if h := take(t, heads); strings.Contains(h, "alt-stat-name") {
			t.Errorf("the upstream is told the name:\n%s", h)
		}
		if inside {
			v.counts(t, "cluster.back.a.b.upstream_rq_200 1", "cluster.back.a.b.upstream_rq_2xx 1", "cluster.back.a.b.upstream_rq_completed 1",
				"cluster.back.a.b.internal.upstream_rq_200 1", "cluster.back.a.b.canary.upstream_rq_completed 1", "cluster.back.upstream_rq_200 1")
		} else if all := v.get(t, "/stats"); strings.Contains(all, "cluster.back.a.b.") {
			t.Error("a request from outside makes statistics")
		}
	}
}

// Codes of gRPC requests are left to the statistics of gRPC where the router is told
// so: they are completed, and no more is said of them, but for those that are told by
// where they came from.
func TestCodesOfGRPCLeftOut(t *testing.T) {
	up := backend(t, func(w *wire, _ int) {
		for h := w.head(); h != ""; h = w.head() {
			w.send("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n")
		}
	})
	routes := "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, num_retries: 1, retry_back_off: {base_interval: 0.001s}}}}"
	v := (&site{hosts: []string{up}, routes: routes, router: "suppress_grpc_request_failure_code_stats: true,"}).serve(t)
	w := v.dial(t)
	w.get("/", "content-type: application/grpc")
	w.want("503 ")
	w.get("/")
	w.want("503 ")
	v.counts(t, "cluster.back.upstream_rq_503 1", "cluster.back.upstream_rq_5xx 1", "cluster.back.upstream_rq_completed 2",
		"cluster.back.retry.upstream_rq_503 1", "cluster.back.retry.upstream_rq_completed 2", "cluster.back.external.upstream_rq_503 2", "cluster.back.external.upstream_rq_completed 2") // as Envoy
}

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

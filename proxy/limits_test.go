package proxy_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Proves HC-15: the last request that a connection may carry ends it.
func TestMaxRequestsPerConnection(t *testing.T) {
	v := (&site{routes: direct, manager: "drain_timeout: 0.1s, common_http_protocol_options: {max_requests_per_connection: 2},"}).serve(t)
	w := v.dial(t)
	for range 3 {
		w.get("/")
	}
	if w.want("200 ok").close {
		t.Error("the first response closes")
	}
	if !w.want("200 ok").close {
		t.Error("the second response does not close")
	}
	w.ended()
	v.counts(t, "http.in.downstream_cx_max_requests_reached 1", "http.in.downstream_rq_total 2")
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	f.want(1, "200 ok")
	v.counts(t, "http.in.downstream_cx_max_requests_reached 1")
	f.ask(3, "GET", "/", true)
	f.goAway()
	f.want(3, "200 ok")
	f.goAway()
	f.gone()
	v.counts(t, "http.in.downstream_cx_max_requests_reached 2", "http.in.downstream_cx_active 0")
}

// flooded plays an attack and reads the connection's end.
func flooded(t *testing.T, v *serving, stat string, attack func(f *wire2)) {
	t.Helper()
	f := v.dial2(t)
	f.ask(1, "POST", "/", false)
	attack(f)
	v.counts(t, stat+" 1", "http.in.downstream_cx_active 0", "http.in.downstream_rq_active 0", "http2.streams_active 0")
	_ = f.w.Close()
}

// Proves HC-06: each flood ends the connection and is counted.
func TestFloods(t *testing.T) {
	v := (&site{hosts: []string{silent(t)}}).serve(t)
	flooded(t, v, "http2.inbound_empty_frames_flood", func(f *wire2) {
		for range 3 {
			_ = f.WriteData(1, false, nil)
		}
	})
	flooded(t, v, "http2.inbound_priority_frames_flood", func(f *wire2) {
		for range 300 {
			_ = f.WritePriority(1, http2.PriorityParam{StreamDep: 5})
		}
	})
	flooded(t, v, "http2.inbound_window_update_frames_flood", func(f *wire2) {
		for range 100 {
			_ = f.WriteWindowUpdate(0, 1)
		}
	})
	flooded(t, v, "http2.outbound_control_flood", func(f *wire2) {
		for range 3_000_000 { // until the proxy cannot send its answers any more
			if f.WritePing(false, [8]byte{}) != nil {
				return
			}
		}
	})
	v.counts(t, "http.in.downstream_cx_protocol_error 4", "http.in.downstream_cx_total 4")
}

// Partly proves HC-06: answers that nobody reads.
func TestOutboundFlood(t *testing.T) {
	v := (&site{routes: "{match: {prefix: /}, direct_response: {status: 200}}", manager: "http2_protocol_options: {max_outbound_frames: 200},"}).serve(t)
	f := v.dial2(t)
	for id := uint32(1); id < 2_000_001; id += 2 {
		f.ask(id, "GET", "/", true)
		if f.w.Conn == nil || id%2001 == 0 && v.values(t)["http2.outbound_flood"] > 0 {
			break
		}
	}
	v.counts(t, "http2.outbound_flood 1", "http.in.downstream_cx_active 0", "http.in.downstream_rq_active 0")
}

// opened opens streams and resets them.
func (f *wire2) opened(n int) {
	for i := range n {
		id := uint32(2*i + 1)
		f.ask(id, "GET", "/", true)
		if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			return
		}
	}
}

// Proves HC-07: a client that opens streams only to reset them loses its
// connection when half of the streams that it may have were reset; the runtime
// says how many and what counts.
func TestRapidReset(t *testing.T) {
	up := silent(t)
	v := (&site{hosts: []string{up}}).serve(t)
	f := v.dial2(t)
	f.opened(249)
	f.answersPing(t)
	f.ask(499, "GET", "/", true)
	_ = f.WriteRSTStream(499, http2.ErrCodeCancel)
	f.gone()
	v.counts(t, "http.in.downstream_rq_too_many_premature_resets 1", "http.in.downstream_cx_active 0", "http.in.downstream_rq_active 0", "cluster.back.upstream_rq_active 0")

	layer := func(fields string) string {
		return "layered_runtime: {layers: [{name: static, static_layer: {" + fields + "}}]}"
	}
	v = (&site{hosts: []string{up}, top: layer("overload.premature_reset_total_stream_count: 10")}).serve(t)
	f = v.dial2(t)
	f.opened(50)
	f.gone()
	v.counts(t, "http.in.downstream_rq_too_many_premature_resets 1", "http.in.downstream_cx_active 0")

	v = (&site{
		hosts: []string{up}, top: layer("overload.premature_reset_total_stream_count: 10"),
		routes: "{match: {prefix: /ok}, direct_response: {status: 200}}, {match: {prefix: /}, route: {cluster: back}}",
	}).serve(t)
	f = v.dial2(t)
	for id := uint32(101); id < 113; id += 2 {
		f.ask(id, "GET", "/ok", true)
		f.want(id, "200 ")
	}
	for id := uint32(201); id < 211; id += 2 {
		f.ask(id, "GET", "/", true)
		_ = f.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	f.answersPing(t)
	f.ask(211, "GET", "/", true)
	_ = f.WriteRSTStream(211, http2.ErrCodeCancel)
	f.gone()
}

// answersPing is seen to be served after everything before it.
func (f *wire2) answersPing(t *testing.T) {
	t.Helper()
	_ = f.WritePing(false, [8]byte{})
	if f.next(func(fr http2.Frame) bool { p, is := fr.(*http2.PingFrame); return is && p.IsAck() }) == nil {
		t.Error("the connection ended too early")
	}
}

// Proves HC-07: the lifetime of a stream counts in whole seconds, so that with 0 a
// reset within the first second comes early, and none after it.
func TestRapidResetLifetime(t *testing.T) {
	v := (&site{hosts: []string{silent(t)}, top: "layered_runtime: {layers: [{name: static, static_layer: {" +
		"overload.premature_reset_total_stream_count: 10, overload.premature_reset_min_stream_lifetime_seconds: 0}}]}"}).serve(t)
	f := v.dial2(t)
	for i := range uint32(20) {
		f.ask(2*i+1, "GET", "/", true)
	}
	f.answersPing(t)
	time.Sleep(1001 * time.Millisecond) // what is measured
	for i := range uint32(20) {
		_ = f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	f.answersPing(t)
	v.counts(t, "http.in.downstream_rq_too_many_premature_resets 0", "http.in.downstream_rq_rx_reset 20", "http.in.downstream_cx_active 1")
	f = v.dial2(t)
	f.opened(10)
	f.gone()
	v.counts(t, "http.in.downstream_rq_too_many_premature_resets 1")
}

// Proves OV-08 with TestTimeAndCapacityLimits, TestFloods and TestRapidReset: each limit
// answers by itself and is seen in the log and the statistics.
func TestProtectiveLimits(t *testing.T) {
	v := (&site{routes: direct, listener: "", manager: "max_request_headers_kb: 1, common_http_protocol_options: {max_headers_count: 5},"}).serve(t)
	w := v.dial(t)
	w.get("/", "x: "+strings.Repeat("a", 2000))
	if got := w.reply(); got.status != 431 || !got.close {
		t.Error(got)
	}
	w = v.dial(t)
	w.get("/", "a: 1", "b: 1", "c: 1", "d: 1", "e: 1", "f: 1")
	if got := w.reply(); got.status != 431 || !got.close {
		t.Error(got)
	}
	f := v.dial2(t)
	f.ask(1, "GET", "/", true, "x: "+strings.Repeat("a", 2000))
	f.want(1, "reset INTERNAL_ERROR")
	f.ask(3, "GET", "/", true, "a: 1", "b: 1")
	f.want(3, "reset INTERNAL_ERROR")
	v.counts(t, "http.in.downstream_rq_4xx 2", "http.in.downstream_cx_protocol_error 2", "http.in.downstream_rq_active 0")
	v.logged(t, "431 DPE http1.headers_too_large", "431 DPE http1.too_many_headers", "0 DR http2.header_list_size_too_large", "0 DR http2.too_many_headers")
}

// Partly proves OV-08: timeouts, circuit breakers and the limit of connections.
func TestTimeAndCapacityLimits(t *testing.T) {
	v := (&site{
		hosts: []string{silent(t)}, cluster: "circuit_breakers: {thresholds: [{max_connections: 1, max_pending_requests: 1}]},",
		manager: "request_timeout: 0.5s,", routes: "{match: {prefix: /}, route: {cluster: back, timeout: 2s}}",
		top: "layered_runtime: {layers: [{name: static, static_layer: {envoy.resource_limits.listener.front.connection_limit: 3}}]}",
	}).serve(t)
	w := v.dial(t)
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n")
	w.want("408 request timeout")
	w.ended()
	_ = w.Close()
	v.counts(t, "http.in.downstream_rq_timeout 1", "cluster.back.upstream_cx_active 0", "listener.front.downstream_cx_active 0")
	under, waits, over := v.dial(t), v.dial(t), v.dial(t)
	under.get("/")
	v.counts(t, "cluster.back.upstream_rq_active 1")
	waits.get("/")
	v.counts(t, "cluster.back.upstream_rq_pending_active 1")
	over.get("/")
	over.want("503 upstream connect error or disconnect/reset before headers. reset reason: overflow")
	late := v.dial(t)
	late.untilClosed()
	v.counts(t, "cluster.back.upstream_rq_pending_overflow 1", "listener.front.downstream_cx_overflow 1", "listener.front.downstream_cx_active 3")
	under.want("504 upstream request timeout")
	waits.want("504 upstream request timeout")
	v.counts(t, "cluster.back.upstream_rq_timeout 2", "http.in.downstream_rq_active 0")
	v.logged(t, "408 - request_overall_timeout", "503 UO upstream_reset_before_response_started{overflow}", "504 UT response_timeout", "504 UT response_timeout")
}

package proxy_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

const (
	overflow  = "503 upstream connect error or disconnect/reset before headers. reset reason: overflow"
	cannot503 = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno"
)

// Proves CB-03: a request that would wait where too many do is refused.
func TestPendingOverflow(t *testing.T) {
	g := newGate(t)
	v := (&site{hosts: []string{g.addr}, cluster: "circuit_breakers: {thresholds: [{max_connections: 1, max_pending_requests: 1}]},"}).serve(t)
	first, second, third := v.dial(t), v.dial(t), v.dial(t)
	first.get("/")
	take(t, g.asked)
	second.get("/")
	v.counts(t, "cluster.back.upstream_rq_pending_active 1", "cluster.back.circuit_breakers.default.rq_pending_open 1")
	third.get("/")
	if r := third.want(overflow); r.header.Get("x-envoy-overloaded") != "true" {
		t.Error(r.header)
	}
	v.logged(t, "503 UO upstream_reset_before_response_started{overflow}")
	v.counts(t, "cluster.back.upstream_rq_pending_overflow 1", "cluster.back.upstream_rq_active_overflow 0", "cluster.back.upstream_rq_503 1")
	g.open <- ok
	first.want("200 ok")
	take(t, g.asked)
	g.open <- ok
	second.want("200 ok")
	v.counts(t, "cluster.back.upstream_rq_pending_active 0", "cluster.back.upstream_rq_active 0", "cluster.back.circuit_breakers.default.rq_pending_open 0", "cluster.back.upstream_cx_total 1")
}

// Proves CB-03: as is one beyond the requests that may be active.
func TestRequestOverflow(t *testing.T) {
	g := newGate2(t)
	v := (&site{
		hosts: []string{g.addr}, cluster: speaking("", "") + "circuit_breakers: {thresholds: [{max_requests: 2}]},",
		router: "suppress_envoy_headers: false,",
	}).serve(t)
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	f.ask(3, "GET", "/", true)
	one, two := take(t, g.asked), take(t, g.asked)
	w := v.dial(t)
	w.get("/")
	if r := w.want(overflow); r.header.Get("x-envoy-overloaded") != "true" {
		t.Error(r.header)
	}
	v.counts(t, "cluster.back.upstream_rq_pending_overflow 0", "cluster.back.upstream_rq_active_overflow 1", "cluster.back.upstream_rq_active 2", "cluster.back.circuit_breakers.default.rq_open 1")
	one.answer("one")
	f.want(1, "200 one")
	w.get("/")
	take(t, g.asked).answer("three")
	w.want("200 three")
	two.answer("two")
	f.want(3, "200 two")
	v.counts(t, "cluster.back.upstream_rq_active 0", "cluster.back.circuit_breakers.default.rq_open 0")
}

// Proves RT-43: without room for a retry the first response passes.
func TestRetryOverflow(t *testing.T) {
	up := answering(t, cannot503)
	retrying := "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, num_retries: 3}}}"
	for name, breaker := range map[string]string{
		"breaker": "max_retries: 0",
		"budget":  "retry_budget: {budget_percent: {value: 0}, min_retry_concurrency: 0}",
	} {
		t.Run(name, func(t *testing.T) {
			v := (&site{hosts: []string{up}, cluster: "circuit_breakers: {thresholds: [{" + breaker + "}]},", routes: retrying}).serve(t)
			w := v.dial(t)
			w.get("/")
			w.want("503 no")
			v.counts(t, "cluster.back.upstream_rq_retry_overflow 1", "cluster.back.upstream_rq_retry 0", "cluster.back.upstream_rq_total 1", "cluster.back.upstream_rq_503 1")
			v.logged(t, "503 UO via_upstream")
		})
	}
}

// Proves RT-45: what is counted of retries.
func TestRetryCounters(t *testing.T) {
	var asked atomic.Int64
	second := backend(t, func(w *wire, _ int) { // every second answer is good
		for w.head() != "" {
			w.send("%s", []string{ok, cannot503}[asked.Add(1)%2])
		}
	})
	v := (&site{hosts: []string{second}, routes: `{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, num_retries: 1, retry_back_off: {base_interval: 0.001s}}}}`}).serve(t)
	w := v.dial(t)
	for range 4 {
		w.get("/")
		w.want("200 ok")
	}
	v.counts(t, "cluster.back.upstream_rq_total 8", "cluster.back.upstream_rq_retry 4", "cluster.back.upstream_rq_retry_success 4", "cluster.back.upstream_rq_retry_limit_exceeded 0",
		"cluster.back.upstream_rq_retry_backoff_exponential 4", "cluster.back.upstream_rq_retry_backoff_ratelimited 0",
		"cluster.back.retry.upstream_rq_503 4", "cluster.back.retry.upstream_rq_5xx 4", "cluster.back.upstream_rq_200 4", "cluster.back.upstream_rq_completed 4")

	limited := answering(t, "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\nx-wait: 1\r\ncontent-length: 2\r\n\r\nno")
	v = (&site{hosts: []string{limited}, routes: `{match: {prefix: /limited}, route: {cluster: back, retry_policy: {retry_on: 5xx,
		rate_limited_retry_back_off: {reset_headers: [{name: x-wait, format: SECONDS}]}}}},
		{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, num_retries: 2, retry_back_off: {base_interval: 0.001s}}}}`}).serve(t)
	w = v.dial(t)
	w.get("/")
	w.want("503 no")
	v.counts(t, "cluster.back.upstream_rq_retry 2", "cluster.back.upstream_rq_retry_success 0", "cluster.back.upstream_rq_retry_limit_exceeded 1",
		"cluster.back.retry.upstream_rq_503 2", "cluster.back.upstream_rq_503 1", "cluster.back.upstream_rq_retry_backoff_exponential 2")
	w.get("/limited")
	w.want("503 no")
	v.counts(t, "cluster.back.upstream_rq_retry 3", "cluster.back.upstream_rq_retry_backoff_ratelimited 1")
	v.logged(t, "503 URX via_upstream", "503 URX via_upstream")
}

// Proves RT-45: each retry has a host of its own choice, and what depends on the
// host is done again.
func TestRetryRewritesHost(t *testing.T) {
	hosts := make(chan string, 10)
	var seen atomic.Int32
	up := func() string {
		return backend(t, func(w *wire, _ int) {
			for h := w.head(); h != ""; h = w.head() {
				hosts <- fieldOf(h, "host") + " " + fieldOf(h, "x-envoy-attempt-count")
				if seen.Add(1) == 1 { // whichever host comes first
					w.send("%s", cannot503)
					continue
				}
				w.send("%s", ok)
			}
		})
	}
	a, b := endpoints(t, []string{up()}), endpoints(t, []string{up()})
	called := func(e, name string) string { return e[:len(e)-2] + ", hostname: " + name + "}}" }
	v := (&site{
		hosts: nil, more: "- {name: two, load_assignment: {cluster_name: two, endpoints: [{lb_endpoints: [" + called(a, "a.com") + ", " + called(b, "b.com") + "]}]}, type: STRICT_DNS}",
		routes: `{match: {prefix: /}, route: {cluster: two, auto_host_rewrite: true, retry_policy: {retry_on: 5xx}}}`,
	}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("200 ok")
	first, second := take(t, hosts), take(t, hosts)
	if first > second {
		first, second = second, first
	}
	if first != "a.com " || second != "b.com " {
		t.Errorf("%q, %q", first, second)
	}
}

// Proves RT-46: what clients, the log and the counters are told of attempts that
// fail. What this side ends for itself has texts of its own, so that nobody is
// told of a local reset. Partly proves RT-49.
func TestResetTexts(t *testing.T) {
	closed := backend(t, func(*wire, int) {})
	const text = "upstream connect error or disconnect/reset before headers. "
	for _, x := range []struct {
		name, host, options, want, log string
		retry                          bool
	}{
		{
			"nobody there", "127.0.0.1:1", "", "503 " + text + "reset reason: remote connection failure",
			"503 UF upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}", false,
		},
		{
			"retried", "127.0.0.1:1", "", "503 " + text + "retried and the latest reset reason: remote connection failure",
			"503 URX,UF upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}", true,
		},
		{
			"closed", closed, "", "503 " + text + "reset reason: connection termination",
			"503 UC upstream_reset_before_response_started{connection_termination}", false,
		},
		{
			"cut head", backend(t, func(w *wire, _ int) { w.head(); w.send("HTTP/1.1 2") }), "", "502 " + text + "reset reason: protocol error",
			"502 UPE upstream_reset_before_response_started{protocol_error}", false,
		},
		{
			"no HTTP", answering(t, "hello\r\n\r\n"), "", "502 " + text + "reset reason: protocol error",
			"502 UPE upstream_reset_before_response_started{protocol_error}", false,
		},
		{
			"reset", resetting(t, http2.ErrCodeCancel), speaking("", ""), "503 " + text + "reset reason: remote reset",
			"503 UR upstream_reset_before_response_started{remote_reset}", false,
		},
		{
			"refused", resetting(t, http2.ErrCodeRefusedStream), speaking("", ""), "503 " + text + "reset reason: remote refused stream reset",
			"503 UR upstream_reset_before_response_started{remote_refused_stream_reset}", false,
		},
		{
			"no handshake", silent(t), "connect_timeout: 0.1s," + overTLS, "503 " + text + "reset reason: connection timeout",
			"503 UF upstream_reset_before_response_started{connection_timeout}", false,
		},
		{
			"full", silent(t), "circuit_breakers: {thresholds: [{max_requests: 0}]},", "503 " + text + "reset reason: overflow",
			"503 UO upstream_reset_before_response_started{overflow}", false,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := &site{hosts: []string{x.host}, cluster: x.options}
			if x.retry {
				s.routes = "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: connect-failure}}}"
			}
			v := s.serve(t)
			w := v.dial(t)
			w.get("/")
			r := w.want(x.want)
			if got := r.header.Get("x-envoy-overloaded"); (got == "true") != (x.name == "full") {
				t.Errorf("x-envoy-overloaded is %q", got)
			}
			v.logged(t, x.log)
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		plain := backend(t, func(w *wire, _ int) { w.send("%s", ok); w.untilClosed() })
		v := (&site{hosts: []string{plain}, cluster: overTLS}).serve(t)
		w := v.dial(t)
		w.get("/")
		w.want("503 " + text + "reset reason: remote connection failure") // what failed is in the log alone
		until(t, v.lines.String, func() bool {
			return strings.HasPrefix(v.lines.String(), "503 UF upstream_reset_before_response_started{remote_connection_failure|TLS_error:")
		})
	})
	t.Run("no host", func(t *testing.T) {
		v := (&site{}).serve(t)
		w := v.dial(t)
		w.get("/")
		w.want("503 no healthy upstream")
		v.logged(t, "503 UH no_healthy_upstream")
		v.counts(t, "cluster.back.upstream_cx_none_healthy 1", "cluster.back.upstream_rq_503 1", "cluster.back.upstream_rq_total 0")
	})
	t.Run("after the head", func(t *testing.T) {
		v := (&site{hosts: []string{backend(t, func(w *wire, _ int) {
			w.head()
			w.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
		})}}).serve(t)
		w := v.dial(t)
		w.get("/")
		w.want("200 half (unexpected EOF)")
		f := v.dial2(t)
		f.ask(1, "GET", "/", true)
		f.want(1, "200 halfreset INTERNAL_ERROR")
		v.logged(t, "200 UPE upstream_reset_after_response_started{protocol_error}", "200 UPE upstream_reset_after_response_started{protocol_error}")
	})
}

// overTLS makes a cluster speak TLS.
const overTLS = `transport_socket: {name: tls, typed_config: {
  "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}},`

// resetting is a host that resets every stream.
func resetting(t *testing.T, code http2.ErrCode) string {
	t.Helper()
	return backend(t, func(w *wire, _ int) {
		f := accept2(w)
		if f == nil {
			return
		}
		for h := f.request(); h != nil; h = f.request() {
			_ = f.WriteRSTStream(h.StreamID, code)
		}
	})
}

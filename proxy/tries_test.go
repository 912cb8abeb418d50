package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// Partly proves RT-35: per_try_timeout is until the head of a response; what follows may take
// longer.
func TestTryTimeoutEndsWithTheHead(t *testing.T) {
	up := backend(t, func(w *wire, _ int) {
		w.head()
		w.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nslow")
		time.Sleep(700 * time.Millisecond)
		w.send("!")
	})
	v := (&site{hosts: []string{up}, routes: "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, per_try_timeout: 0.5s}}}"}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("200 slow!")
	v.counts(t, "cluster.back.upstream_rq_per_try_timeout 0", "cluster.back.upstream_rq_retry 0")
}

// Proves RT-35, with TestIdleStreams and TestFlushTimeout here and the tests of package
// route: what a try that takes too long ends with, by the route or by what the client asks
// for.
func TestTimeoutsOfTries(t *testing.T) {
	half := backend(t, func(w *wire, _ int) {
		w.head()
		w.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
		w.untilClosed()
	})
	v := (&site{
		manager: "use_remote_address: true, internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]},",
		hosts:   []string{silent(t)},
		more:    "- {name: half, load_assignment: {cluster_name: half, endpoints: [{lb_endpoints: [" + endpoints(t, []string{half}) + "]}]}}",
		routes: `{match: {prefix: /try}, route: {cluster: back, retry_policy: {per_try_timeout: 0.1s}}},
			{match: {prefix: /idle}, route: {cluster: back, retry_policy: {per_try_idle_timeout: 0.1s}}},
			{match: {prefix: /half}, route: {cluster: half, retry_policy: {per_try_idle_timeout: 0.1s}}},
			{match: {prefix: /longer}, route: {cluster: back, timeout: 0.1s, retry_policy: {per_try_timeout: 0.1s}}},
			{match: {prefix: /route}, route: {cluster: back, timeout: 0.1s}},
			{match: {prefix: /}, route: {cluster: back}}`,
	}).serve(t)
	const alternative = "x-envoy-upstream-rq-timeout-alt-response: 1"
	var lines []string
	for _, tt := range []struct {
		path      string
		fields    []string
		want, log string
	}{
		{"/try", nil, "504 upstream request timeout", "504 UT upstream_per_try_timeout"},
		{"/try", []string{alternative}, "204 ", "204 UT upstream_per_try_timeout"},
		{"/idle", nil, "504 upstream request timeout", "504 UT upstream_per_try_idle_timeout"},
		{"/half", nil, "200 half (unexpected EOF)", "200 UT upstream_per_try_idle_timeout"},
		{"/longer", nil, "504 upstream request timeout", "504 UT response_timeout"},
		{"/route", []string{alternative}, "204 ", "204 UT response_timeout"},
		{"/", []string{"x-envoy-upstream-rq-per-try-timeout-ms: 100"}, "504 upstream request timeout", "504 UT upstream_per_try_timeout"},
	} {
		w := v.dial(t)
		w.get(tt.path, tt.fields...)
		w.want(tt.want)
		lines = append(lines, tt.log)
		v.logged(t, lines...)
	}
	v.counts(t, "cluster.back.upstream_rq_per_try_timeout 3", "cluster.back.upstream_rq_per_try_idle_timeout 1", "cluster.half.upstream_rq_per_try_idle_timeout 1")
}

// Partly proves RT-35: per_try_idle_timeout begins again with each part of a response.
func TestTryIsNotIdle(t *testing.T) {
	tick, tock := make(chan struct{}), make(chan struct{})
	up := backend(t, func(w *wire, _ int) {
		w.head()
		w.send("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n")
		for range 6 {
			<-tick
			w.send("x")
			tock <- struct{}{}
		}
	})
	v := (&site{
		hosts:  []string{up},
		more:   "- {name: hole, load_assignment: {cluster_name: hole, endpoints: [{lb_endpoints: [" + endpoints(t, []string{silent(t)}) + "]}]}}",
		routes: "{match: {prefix: /wait}, route: {cluster: hole, timeout: 0.35s}}, {match: {prefix: /}, route: {cluster: back, retry_policy: {per_try_idle_timeout: 1.5s}}}",
	}).serve(t)
	w := v.dial(t)
	w.get("/")
	for range 6 { // each turn takes 0.35 s of the proxy's own time
		pause := v.dial(t)
		pause.get("/wait")
		pause.want("504 upstream request timeout")
		tick <- struct{}{}
		<-tock
	}
	w.want("200 xxxxxx")
	v.counts(t, "cluster.back.upstream_rq_per_try_idle_timeout 0")
}

// Proves RT-40, with TestDetailsOfLimits: a request that was too large to be kept, in however
// many pieces it came, is not sent again, and goes on as it was; one that was not is sent
// again as a whole.
func TestLargeRequestsAreSentOnce(t *testing.T) {
	const limit = 4096
	began, bodies := make(chan struct{}, 100), make(chan string, 100)
	up := backend(t, func(w *wire, _ int) {
		for h := w.head(); h != ""; h = w.head() {
			var n int
			_, after, _ := strings.Cut(h, "content-length: ")
			_, _ = fmt.Sscan(after, &n)
			body := make([]byte, max(n, 1))
			if _, err := io.ReadFull(w.r, body[:1]); err != nil {
				return
			}
			began <- struct{}{}
			if _, err := io.ReadFull(w.r, body[1:]); err != nil {
				return
			}
			bodies <- string(body)
			w.send("%s", cannot503)
		}
	})
	v := (&site{
		hosts: []string{up}, listener: fmt.Sprintf("per_connection_buffer_limit_bytes: %d,", limit),
		routes: "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, retry_back_off: {base_interval: 0.001s}}}}",
	}).serve(t)
	w := v.dial(t)
	retries, abandoned := 0, 0
	for _, tt := range []struct {
		pieces []int
		again  bool
	}{{[]int{10}, true}, {[]int{2000, 2096}, true}, {[]int{2000, 2097}, false}, {[]int{20_000}, false}} {
		whole := ""
		for i, n := range tt.pieces {
			whole += strings.Repeat(string(rune('a'+i)), n)
		}
		w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n", len(whole))
		rest := whole
		for i, n := range tt.pieces {
			w.send("%s", rest[:n])
			if rest = rest[n:]; i == 0 {
				take(t, began)
			}
		}
		if got := w.reply(); got.status != 503 {
			t.Errorf("of %d bytes: %v", tt.pieces, got)
		}
		if tt.again {
			retries++
			take(t, began)
		} else {
			abandoned++
		}
		for range map[bool]int{true: 2, false: 1}[tt.again] {
			if got := take(t, bodies); got != whole {
				t.Errorf("of %d bytes %d arrived", tt.pieces, len(got))
			}
		}
		v.counts(t, fmt.Sprint("cluster.back.upstream_rq_retry ", retries), fmt.Sprint("cluster.back.retry_or_shadow_abandoned ", abandoned))
	}
}

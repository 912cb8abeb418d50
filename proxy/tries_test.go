package proxy_test

import (
	"fmt"
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

// Partly proves RT-40: a request that was too large to be kept is not sent again, and goes on
// as it was; one that was not is.
func TestLargeRequestsAreSentOnce(t *testing.T) {
	up := backend(t, func(w *wire, _ int) {
		for h := w.head(); h != ""; h = w.head() {
			var n int
			_, after, _ := strings.Cut(h, "content-length: ")
			_, _ = fmt.Sscan(after, &n)
			for range n {
				if _, err := w.r.ReadByte(); err != nil {
					return
				}
			}
			w.send("%s", cannot503)
		}
	})
	v := (&site{
		hosts: []string{up}, listener: "per_connection_buffer_limit_bytes: 4096,",
		routes: "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, retry_back_off: {base_interval: 0.001s}}}}",
	}).serve(t)
	w := v.dial(t)
	post := func(n int) {
		w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%s", n, strings.Repeat("a", n))
		if got := w.reply(); got.status != 503 {
			t.Errorf("of %d bytes: %v", n, got)
		}
	}
	post(10)
	v.counts(t, "cluster.back.upstream_rq_total 2", "cluster.back.upstream_rq_retry 1", "cluster.back.retry_or_shadow_abandoned 0")
	post(20_000)
	v.counts(t, "cluster.back.upstream_rq_total 3", "cluster.back.upstream_rq_retry 1", "cluster.back.retry_or_shadow_abandoned 1")
}

package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// tracing is a site whose router logs its attempts, with more fields of the
// router; the log is what it returns.
func tracing(t *testing.T, s *site, more string) (*serving, *syncBuffer) {
	t.Helper()
	s.router = `upstream_log: [{name: log, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StderrAccessLog,
          log_format: {text_format_source: {inline_string: "%ACCESS_LOG_TYPE% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% in %BYTES_RECEIVED% out %BYTES_SENT% ` +
		`%PROTOCOL% %UPSTREAM_REQUEST_ATTEMPT_COUNT% %REQ(X-ADDED)% %RESP(X-UP)% %RESP(X-ADDED)% %REQUEST_DURATION% %UPSTREAM_TRANSPORT_FAILURE_REASON%\n"}}}}],` + more
	s.vhost = "request_headers_to_add: [{header: {key: x-added, value: req}}], response_headers_to_add: [{header: {key: x-added, value: resp}}],"
	log := &syncBuffer{}
	return s.serve(t, func(_ *proxyrun.Flags, o *proxy.Options) { o.Stderr = log }), log
}

// attempts waits for the lines of a router's log.
func attempts(t *testing.T, log *syncBuffer, want ...string) {
	t.Helper()
	all := strings.Join(want, "\n") + "\n"
	until(t, func() string { return "the log is\n" + log.String() + "want\n" + all }, func() bool { return log.String() == all })
}

// Proves AL-01, with TestLogsTellOfEveryEnd: the router writes a line for every
// attempt, with its own outcome, and what the request was with it.
func TestEveryAttemptIsLogged(t *testing.T) {
	up := backend(t, func(w *wire, n int) {
		for w.head() != "" {
			if n == 0 {
				w.send("HTTP/1.1 503 No\r\nx-up: 1\r\nconnection: close\r\ncontent-length: 3\r\n\r\nnot")
				return
			}
			w.send("HTTP/1.1 200 OK\r\nx-up: 2\r\ncontent-length: 5\r\n\r\nhello")
		}
	})
	v, log := tracing(t, &site{hosts: []string{up}, routes: "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx}}}"}, "")
	w := v.dial(t)
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody")
	w.want("200 hello")
	attempts(t, log,
		"UpstreamEnd 503 - - in 0 out 4 HTTP/1.1 0 req 1 - - -",
		"UpstreamEnd 200 - - in 5 out 4 HTTP/1.1 0 req 2 - - -")
}

// Proves AL-01: attempts that fail are logged, each with its reason.
func TestFailedAttemptsAreLogged(t *testing.T) {
	cut := answering(t, "HTTP/1.1 200 OK\r\nx-up: 1\r\ncontent-length: 50\r\n\r\ncut")
	gone := backend(t, func(w *wire, _ int) { w.head() })
	for _, c := range []struct {
		name, cluster, route, ask string
		hosts                     []string
		answer                    string
		want                      []string
	}{
		{
			name: "no connection", hosts: []string{"127.0.0.1:1"}, route: "retry_policy: {retry_on: connect-failure}", answer: "503",
			want: []string{
				"UpstreamEnd 0 UF - in 0 out 0 - 0 req - - - delayed_connect_error:_Connection_refused",
				"UpstreamEnd 0 UF - in 0 out 0 - 0 req - - - delayed_connect_error:_Connection_refused",
			},
		},
		{name: "full", hosts: []string{cut}, cluster: "circuit_breakers: {thresholds: [{max_requests: 0}]},", answer: "503", want: []string{"UpstreamEnd 0 UO - in 0 out 0 - 0 req - - - -"}},
		{name: "hung up", hosts: []string{gone}, answer: "503", want: []string{"UpstreamEnd 0 UC - in 0 out 0 HTTP/1.1 0 req - - - -"}},
		{
			name: "too slow", hosts: []string{silent(t)}, route: "retry_policy: {retry_on: 5xx, per_try_timeout: 0.05s, num_retries: 1}", answer: "504",
			want: []string{"UpstreamEnd 0 UT - in 0 out 0 HTTP/1.1 0 req - - - -", "UpstreamEnd 0 UT - in 0 out 0 HTTP/1.1 0 req - - - -"},
		},
		{name: "timeout", hosts: []string{silent(t)}, route: "timeout: 0.05s", answer: "504", want: []string{"UpstreamEnd 0 - - in 0 out 0 HTTP/1.1 0 req - - - -"}},
		{
			name: "idle", hosts: []string{silent(t)}, route: "retry_policy: {retry_on: 5xx, per_try_idle_timeout: 0.05s, num_retries: 0}", answer: "504",
			want: []string{"UpstreamEnd 0 SI - in 0 out 0 HTTP/1.1 0 req - - - -"},
		},
		{name: "no host", answer: "503", want: nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, log := tracing(t, &site{hosts: c.hosts, cluster: c.cluster, routes: "{match: {prefix: /}, route: {cluster: back, " + c.route + "}}"}, "")
			w := v.dial(t)
			w.get("/")
			if got := w.reply().String(); !strings.HasPrefix(got, c.answer) {
				t.Error(got)
			}
			if c.want == nil {
				v.counts(t, "http.in.downstream_rq_completed 1")
				if log.String() != "" {
					t.Error(log)
				}
				return
			}
			attempts(t, log, c.want...)
		})
	}
	t.Run("client leaves", func(t *testing.T) {
		v, log := tracing(t, &site{hosts: []string{cut}}, "")
		w := v.dial(t)
		w.get("/")
		w.head()
		_ = w.Close()
		attempts(t, log, "UpstreamEnd 200 - - in 3 out 0 HTTP/1.1 0 req 1 - - -")
	})
}

// Proves AL-01: options of the router's log ask for lines when an attempt has its
// connection, and again and again while it lasts.
func TestAttemptsAreLoggedOnTheWay(t *testing.T) {
	answer := make(chan struct{})
	up := backend(t, func(w *wire, _ int) {
		w.head()
		<-answer
		w.send(ok)
		w.untilClosed()
	})
	v, log := tracing(t, &site{hosts: []string{up}}, "upstream_log_options: {flush_upstream_log_on_upstream_stream: true, upstream_log_flush_interval: 0.02s},")
	w := v.dial(t)
	w.get("/")
	until(t, log.String, func() bool { return strings.Count(log.String(), "\n") >= 3 })
	close(answer)
	w.want("200 ok")
	until(t, log.String, func() bool { return strings.Contains(log.String(), "UpstreamEnd") })
	list := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	const idle = " 0 - - in 0 out 0 HTTP/1.1 0 req - - - -"
	for i, line := range list {
		want := "UpstreamPeriodic" + idle
		switch i {
		case 0:
			want = "UpstreamPoolReady" + idle
		case len(list) - 1:
			want = "UpstreamEnd 200 - - in 2 out 0 HTTP/1.1 0 req - - - -"
		}
		if line != want {
			t.Errorf("line %d is %q, want %q", i+1, line, want)
		}
	}
	time.Sleep(50 * time.Millisecond) // in which more would come
	if n := strings.Count(log.String(), "\n"); n != len(list) {
		t.Errorf("%d lines after the end", n-len(list))
	}
}

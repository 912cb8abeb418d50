package healthcheck

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
)

// httpHost is a host that answers checks as a test says.
type httpHost struct {
	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request)
	last   *http.Request
	body   string
	conns  int
}

func (h *httpHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	h.last, h.body = r, string(b)
	answer := h.answer
	h.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

func (h *httpHost) set(answer func(w http.ResponseWriter, r *http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// serve makes an address one of HTTP/1 and HTTP/2; the function ends it.
func (h *httpHost) serve(n *network, addr string) (stop func()) {
	l := n.listen(addr)
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, Protocols: &p, ReadHeaderTimeout: time.Hour, ConnState: func(_ net.Conn, c http.ConnState) {
		if c == http.StateNew {
			h.mu.Lock()
			h.conns++
			h.mu.Unlock()
		}
	}}
	go func() { _ = s.Serve(l) }()
	return func() { _ = s.Close() }
}

// slow keeps hosts without traffic under the same intervals.
const slow = `"no_traffic_interval": "2s", `

func httpCheck(fields string) string {
	return `{` + slow + required + `, "http_health_check": {"path": "/hc"` + fields + `}}`
}

// Proves HK-03 and HK-11, over HTTP/1 and HTTP/2: which answers are a success, count toward the
// threshold, or take the host out at once, and what is counted.
func TestAnswers(t *testing.T) {
	head := func(status int, lines ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(lines); i += 2 {
				w.Header().Set(lines[i], lines[i+1])
			}
			w.WriteHeader(status)
			if len(lines)%2 == 1 {
				_, _ = io.WriteString(w, lines[len(lines)-1])
			}
		}
	}
	body := func(text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	early := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-envoy-degraded", "")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("x-envoy-degraded")
	}
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, tt := range []struct {
		name, fields string
		answer       func(http.ResponseWriter, *http.Request)
		flags        string
		counters     map[string]int64
	}{
		{"200", ``, head(200), "healthy", map[string]int64{"attempt": 2, "success": 2, "healthy": 1}},
		{"302", ``, head(302), "/failed_active_hc", map[string]int64{"attempt": 2, "success": 1, "failure": 1}},
		{"503", ``, head(503), "/failed_active_hc", map[string]int64{"attempt": 2, "success": 1, "failure": 1}},
		{"201", ``, head(201), "/failed_active_hc", map[string]int64{"attempt": 2, "success": 1, "failure": 1}},
		{"expected", `, "expected_statuses": [{"start": 500, "end": 502}, {"start": 200, "end": 201}]`, head(501), "healthy", map[string]int64{"attempt": 2, "success": 2, "healthy": 1}},
		{"retriable", `, "retriable_statuses": [{"start": 500, "end": 501}]`, head(500), "healthy", map[string]int64{"attempt": 2, "success": 1, "failure": 1, "healthy": 1}},
		{"cut", ``, cut, "healthy", map[string]int64{"attempt": 2, "success": 1, "failure": 1, "network_failure": 1, "healthy": 1}},
		{"too late", ``, hang, "healthy", map[string]int64{"attempt": 2, "success": 1, "failure": 1, "network_failure": 1, "healthy": 1}},
		{"a body", `, "receive": [{"text": "6162"}, {"binary": "Yw=="}]`, body("-ab-c-"), "healthy", map[string]int64{"attempt": 2, "success": 2, "healthy": 1}},
		{"another body", `, "receive": [{"text": "6162"}, {"binary": "Yw=="}]`, body("-c-ab-"), "/failed_active_hc", map[string]int64{"attempt": 2, "success": 1, "failure": 1}},
		{"beyond what is looked at", `, "receive": [{"text": "6162"}, {"text": "63"}]`, body("ab" + strings.Repeat("-", 1022) + "c"), "/failed_active_hc", map[string]int64{"attempt": 2, "success": 1, "failure": 1}},
		{"all is looked at", `, "response_buffer_size": 0, "receive": [{"text": "6162"}, {"text": "63"}]`, body("ab" + strings.Repeat("-", 100_000) + "c"), "healthy", map[string]int64{"attempt": 2, "success": 2, "healthy": 1}},
		{"degraded", ``, head(200, "x-envoy-degraded", ""), "/degraded_active_hc", map[string]int64{"attempt": 2, "success": 2, "healthy": 1, "degraded": 1}},
		{"what a 1xx says is not of the answer", ``, early, "healthy", map[string]int64{"attempt": 2, "success": 2, "healthy": 1}},
		{"fails by itself", ``, head(503, "x-envoy-immediate-health-check-fail", "1"), "/failed_active_hc/excluded_via_immediate_hc_fail", map[string]int64{"attempt": 2, "success": 1, "failure": 1}},
		{"said with a success", ``, head(200, "x-envoy-immediate-health-check-fail", "1"), "healthy", map[string]int64{"attempt": 2, "success": 2, "healthy": 1}},
		{"the service", `, "service_name_matcher": {"prefix": "loc"}`, head(200, "x-envoy-upstream-healthchecked-cluster", "location"), "healthy", map[string]int64{"attempt": 2, "success": 2, "healthy": 1, "verify_cluster": 2}},
		{"another service", `, "service_name_matcher": {"prefix": "loc"}`, head(200, "x-envoy-upstream-healthchecked-cluster", "alloc"), "/failed_active_hc", map[string]int64{"attempt": 2, "success": 1, "failure": 1, "verify_cluster": 2}},
	} {
		for _, codec := range []string{"HTTP1", "HTTP2"} {
			t.Run(tt.name+" "+codec, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, httpCheck(`, "codec_client_type": "`+codec+`"`+tt.fields), "")
					h := &httpHost{}
					h.set(func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("x-envoy-upstream-healthchecked-cluster", "local")
						_, _ = io.WriteString(w, "abc")
					})
					defer h.serve(&b.net, "1.0.0.1:80")()
					defer b.run()()
					time.Sleep(time.Second)
					if b.flags() != "healthy" {
						t.Fatalf("%s before", b.flags())
					}
					h.set(tt.answer)
					time.Sleep(2500 * time.Millisecond)
					if b.flags() != tt.flags {
						t.Errorf("%s, want %s", b.flags(), tt.flags)
					}
					if diff := cmp.Diff(tt.counters, b.counters()); diff != "" {
						t.Error(diff)
					}
				})
			})
		}
	}
}

// Partly proves HK-03: what a check sends.
func TestRequests(t *testing.T) {
	for _, tt := range []struct{ name, fields, endpoint, want string }{
		{"nothing said", ``, ``, `GET /hc c "" User-Agent=Envoy/HC`},
		{"host", `, "host": "h.test"`, ``, `GET /hc h.test "" User-Agent=Envoy/HC`},
		{"of the endpoint", `, "host": "h.test"`, `"health_check_config": {"hostname": "own.test"}, `, `GET /hc own.test "" User-Agent=Envoy/HC`},
		{"the endpoint's other name", ``, `"hostname": "own.test", `, `GET /hc c "" User-Agent=Envoy/HC`},
		{"a body", `, "method": "POST", "send": {"text": "6869"}`, ``, `POST /hc c "hi" Content-Length=2 User-Agent=Envoy/HC`},
		{"headers", `, "request_headers_to_remove": ["USER-AGENT"], "request_headers_to_add": [
			{"header": {"key": "a", "value": "1"}}, {"header": {"key": "A", "value": "2"}}, {"header": {"key": "none", "value": ""}},
			{"header": {"key": "b", "value": "1"}, "append_action": "OVERWRITE_IF_EXISTS"}, {"header": {"key": "c", "value": "1"}, "append_action": "ADD_IF_ABSENT"},
			{"header": {"key": "c", "value": "2"}, "append_action": "ADD_IF_ABSENT"}, {"header": {"key": "c", "value": "3"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header": {"key": "empty", "value": ""}, "keep_empty_value": true}]`, ``, `GET /hc c "" A=1|2 C=3 Empty=`},
	} {
		for _, codec := range []string{"HTTP1", "HTTP2"} {
			t.Run(tt.name+" "+codec, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, httpCheck(`, "codec_client_type": "`+codec+`"`+tt.fields), "", strings.Replace(at("1.0.0.1"), `"address"`, tt.endpoint+`"address"`, 1))
					h := &httpHost{}
					defer h.serve(&b.net, "1.0.0.1:80")()
					defer b.run()()
					time.Sleep(time.Second)
					h.mu.Lock()
					defer h.mu.Unlock()
					if h.last == nil {
						t.Fatal("no request")
					}
					got := fmt.Sprintf("%s %s %s %q", h.last.Method, h.last.URL.Path, h.last.Host, h.body)
					for _, name := range []string{"A", "B", "C", "Content-Length", "Empty", "User-Agent"} {
						if v, ok := h.last.Header[name]; ok {
							got += " " + name + "=" + strings.Join(v, "|")
						}
					}
					if got != tt.want {
						t.Errorf("%s, want %s", got, tt.want)
					}
				})
			})
		}
	}
}

// Proves HK-07 on a clock: the first check after its jitter, every interval where it
// belongs, and the slow one until the cluster has a connection.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, `{"timeout": "1s", "interval": "2s", "unhealthy_threshold": 2, "healthy_threshold": 2, "initial_jitter": "10s",
			"no_traffic_interval": "30s", "no_traffic_healthy_interval": "20s", "unhealthy_interval": "3s", "unhealthy_edge_interval": "5s", "healthy_edge_interval": "7s",
			"http_health_check": {"path": "/", "retriable_statuses": [{"start": 500, "end": 501}]}}`, "")
		b.checker.o.Random = func() uint64 { return 4000 }
		began := time.Now()
		h := &httpHost{}
		script := []int{500, 200, 200, 200, 500, 500, 500, 200, 200, 200}
		n := 0
		var trace []string
		h.set(func(w http.ResponseWriter, _ *http.Request) {
			trace = append(trace, fmt.Sprintf("%v %d", time.Since(began), script[n]))
			w.WriteHeader(script[n])
			n++
			if n == 4 {
				b.c.Dialled()
			}
		})
		defer h.serve(&b.net, "1.0.0.1:80")()
		stop := b.run()
		time.Sleep(107 * time.Second)
		stop()
		synctest.Wait()
		want := []string{
			"4s 500",    // the first: initial_jitter
			"34s 200",   // has failed: no_traffic_interval
			"1m4s 200",  // on its way back: the same
			"1m24s 200", // healthy: no_traffic_healthy_interval
			"1m26s 500", // traffic: interval
			"1m31s 500", // one failure: unhealthy_edge_interval
			"1m34s 500", // failed: unhealthy_interval
			"1m37s 200", // the same
			"1m44s 200", // one success: healthy_edge_interval
			"1m46s 200", // healthy: interval
		}
		if diff := cmp.Diff(want, trace); diff != "" {
			t.Error(diff)
		}
	})
}

// Proves HK-08 for connections: one is used again and again, or each once.
func TestReuse(t *testing.T) {
	for _, tt := range []struct {
		name, fields, top string
		answer            func(http.ResponseWriter, *http.Request)
		want              int
	}{
		{"by default", ``, ``, nil, 1},
		{"HTTP/2", `, "codec_client_type": "HTTP2"`, ``, nil, 1},
		{"not wanted", ``, `"reuse_connection": false, `, nil, 5},
		{"not wanted, HTTP/2", `, "codec_client_type": "HTTP2"`, `"reuse_connection": false, `, nil, 5},
		{"the host closes", ``, ``, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("connection", "close") }, 5},
		{"the host says goodbye", `, "codec_client_type": "HTTP2"`, ``, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("connection", "close") }, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, strings.Replace(httpCheck(tt.fields), "{", "{"+tt.top, 1), "")
				h := &httpHost{answer: tt.answer}
				defer h.serve(&b.net, "1.0.0.1:80")()
				stop := b.run()
				time.Sleep(9 * time.Second)
				stop()
				if got := b.net.connections("1.0.0.1:80"); got != tt.want {
					t.Errorf("%d connections, want %d", got, tt.want)
				}
				if diff := cmp.Diff(map[string]int64{"attempt": 5, "success": 5}, b.counters()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// Partly proves HK-08: an idle connection that the host ends is no failure of HTTP.
func TestIdleConnectionEnds(t *testing.T) {
	for _, codec := range []string{"HTTP1", "HTTP2"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, httpCheck(`, "codec_client_type": "`+codec+`"`), "")
			h := &httpHost{}
			first := h.serve(&b.net, "1.0.0.1:80")
			stop := b.run()
			time.Sleep(time.Second)
			first()
			second := h.serve(&b.net, "1.0.0.1:80")
			time.Sleep(2 * time.Second)
			stop()
			second()
			if diff := cmp.Diff(map[string]int64{"attempt": 2, "success": 2}, b.counters()); diff != "" || b.net.connections("1.0.0.1:80") != 2 {
				t.Errorf("%s: %s", codec, diff)
			}
		})
	}
}

// Proves HK-01: with two checks a host is well when both say so. Both count for
// themselves, and the cluster's gauges count the hosts.
func TestSeveralChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := func(name string) string {
			return `{"name": "` + name + `", ` + slow + required + `, "http_health_check": {"path": "/` + name + `"}}`
		}
		b := newBench(t, check("a")+","+check("b"), "")
		h, bad := &httpHost{}, sync.Map{}
		h.set(func(w http.ResponseWriter, r *http.Request) {
			if _, is := bad.Load(r.URL.Path); is {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		bad.Store("/b", true)
		defer h.serve(&b.net, "1.0.0.1:80")()
		defer b.run()()
		healthy := func() int {
			synctest.Wait()
			s, err := b.reg.Snapshot(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return int(s.Gauge(b.checker.all.Healthy)) //nolint:gosec // small
		}
		time.Sleep(time.Second)
		if b.flags() != "/failed_active_hc" || !b.ready() || healthy() != 0 {
			t.Errorf("%s with one failing, ready %v, %d", b.flags(), b.ready(), healthy())
		}
		bad.Delete("/b")
		time.Sleep(4 * time.Second)
		if b.flags() != "healthy" || healthy() != 1 {
			t.Errorf("%s with both, %d", b.flags(), healthy())
		}
		bad.Store("/a", true)
		time.Sleep(2 * time.Second)
		if b.flags() != "/failed_active_hc" || healthy() != 0 {
			t.Errorf("%s with the other failing, %d", b.flags(), healthy())
		}
		if c := b.counters(); c["a.failure"] != 1 || c["b.failure"] != 1 || c["a.success"] != 3 || c["b.success"] != 3 || c["b.healthy"] != 1 || c["a.healthy"] != 0 {
			t.Error(c)
		}
	})
}

// Proves HK-10 for responses to requests: the host is excluded at once and fails
// its checks until enough of them succeed.
func TestHostFailsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, httpCheck(``), "")
		h := &httpHost{}
		defer h.serve(&b.net, "1.0.0.1:80")()
		defer b.run()()
		time.Sleep(time.Second)
		host := b.c.Hosts().Hosts()[0]
		b.c.FailedByItself(host)
		synctest.Wait()
		if b.flags() != "/failed_active_hc/excluded_via_immediate_hc_fail" || len(b.c.Hosts().Priorities[0].Excluded) != 1 {
			t.Error(b.flags())
		}
		if c := b.counters(); c["passive_failure"] != 1 || c["failure"] != 1 || c["network_failure"] != 0 {
			t.Error(c)
		}
		time.Sleep(2 * time.Second)
		if b.flags() != "/failed_active_hc/excluded_via_immediate_hc_fail" {
			t.Errorf("%s after one success", b.flags())
		}
		time.Sleep(2 * time.Second)
		if b.flags() != "healthy" || len(b.c.Hosts().Priorities[0].Excluded) != 0 {
			t.Errorf("%s after two", b.flags())
		}
		for range 3 * maxPassive { // nobody waits, and none is forgotten for good
			b.c.FailedByItself(host)
		}
		synctest.Wait()
		if b.flags() != "/failed_active_hc/excluded_via_immediate_hc_fail" {
			t.Error(b.flags())
		}
	})
}

// Partly proves HK-09: another address and port are asked, or nobody.
func TestWhereHostsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func(conf string) string {
			return strings.Replace(at("1.0.0.1"), `"address"`, `"health_check_config": {`+conf+`}, "address"`, 1)
		}
		b := newBench(t, httpCheck(``), "",
			with(`"port_value": 81`),
			with(`"address": {"socket_address": {"address": "1.0.0.2", "port_value": 82}}`),
			with(`"port_value": 83, "address": {"socket_address": {"address": "1.0.0.2", "port_value": 82}}`),
			with(`"disable_active_health_check": true`))
		stop := b.run()
		time.Sleep(time.Second)
		stop()
		for addr, want := range map[string]int{"1.0.0.1:80": 0, "1.0.0.1:81": 1, "1.0.0.2:82": 1, "1.0.0.2:83": 1} {
			if got := b.net.connections(addr); got != want {
				t.Errorf("%s was asked %d times", addr, got)
			}
		}
		healthy := b.c.Hosts().Priorities[0].Healthy
		if len(healthy) != 1 || !healthy[0].Unchecked() || !b.ready() {
			t.Errorf("healthy: %v", healthy)
		}
	})
}

// Partly proves HK-13: checks end with their host. What goes and comes a thousand times
// leaves nothing.
func TestChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, httpCheck(``)+"", `, "type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}, "ignore_health_on_host_removal": true`)
		h := &httpHost{}
		defer h.serve(&b.net, "1.0.0.1:80")()
		defer b.run()()
		assign := func(list string) {
			if err := b.c.Assign(clusterOf(t, `{"load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [`+list+`]}]}}`).GetLoadAssignment()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 1000 {
			assign(at("1.0.0.1"))
			if i%3 == 0 {
				time.Sleep(time.Duration(i) * time.Millisecond)
			}
			assign("")
		}
		synctest.Wait()
		if len(b.checker.targets) != 0 {
			t.Errorf("%d hosts are still checked", len(b.checker.targets))
		}
		if c := b.counters(); c["healthy"] != 0 || c["success"] == 0 {
			t.Error(c)
		}
		assign(at("1.0.0.1"))
		time.Sleep(time.Second)
		if b.flags() != "healthy" {
			t.Error(b.flags())
		}
	})
}

var _ cluster.Runtime = (*bench)(nil)

package route

import (
	"testing"
	"time"
)

const timeoutRoutes = `
- {match: {path: /default}, route: {cluster: c}}
- {match: {path: /off}, route: {cluster: c, timeout: 0s}}
- {match: {path: /a}, route: {cluster: c, timeout: 0.5s}}
- {match: {path: /b}, route: {cluster: c, timeout: 0.5s, max_stream_duration: {max_stream_duration: 5s}}}
- {match: {path: /c}, route: {cluster: c, timeout: 0.5s, max_stream_duration: {grpc_timeout_header_max: 5s}}}
- {match: {path: /d}, route: {cluster: c, timeout: 2s, max_grpc_timeout: 1s, grpc_timeout_offset: 0.1s}}
- {match: {path: /inf}, route: {cluster: c, max_grpc_timeout: 0s}}
- {match: {path: /e}, route: {cluster: c, timeout: 2s, retry_policy: {retry_on: 5xx, per_try_timeout: 0.3s, per_try_idle_timeout: 0.2s}}}
- {match: {path: /long}, route: {cluster: c, timeout: 2s, retry_policy: {retry_on: 5xx, per_try_timeout: 2s}}}
- {match: {path: /f}, route: {cluster: c, timeout: 0.5s, max_stream_duration: {}}}
`

// Proves RT-32, RT-33, RT-34. Partly proves RT-35. The results were measured with Envoy 1.40.
func TestFinalTimeouts(t *testing.T) {
	tab := oneHost(t, timeoutRoutes)
	const rq, expected, perTry = "x-envoy-upstream-rq-timeout-ms: ", "x-envoy-expected-rq-timeout-ms: ", "x-envoy-upstream-rq-per-try-timeout-ms: "
	const grpc, within = "content-type: application/grpc", "grpc-timeout: "
	ms := time.Millisecond
	for _, tc := range []struct {
		path         string
		headers      []string
		respect      bool
		total, try   time.Duration
		told, toldMs string // grpc-timeout, x-envoy-expected-rq-timeout-ms
	}{
		{path: "/default", total: 15000 * ms, toldMs: "15000"},
		{path: "/off"},
		{path: "/a", total: 500 * ms, toldMs: "500"},
		{path: "/a", headers: []string{rq + "5000"}, total: 5000 * ms, toldMs: "5000"},
		{path: "/a", headers: []string{rq + "bad"}, total: 500 * ms, toldMs: "500"},
		{path: "/a", headers: []string{rq + "0"}},
		{path: "/a", headers: []string{rq + "99999999999999999999"}, total: 500 * ms, toldMs: "500"},
		{path: "/a", headers: []string{expected + "77"}, total: 500 * ms, toldMs: "500"},
		{path: "/a", headers: []string{expected + "77"}, respect: true, total: 77 * ms, toldMs: "77"},
		{path: "/a", headers: []string{expected + "77", rq + "88"}, respect: true, total: 77 * ms, toldMs: "77"},
		{path: "/a", headers: []string{rq + "88"}, respect: true, total: 88 * ms, toldMs: "88"},
		{path: "/a", headers: []string{perTry + "100"}, total: 500 * ms, try: 100 * ms, toldMs: "100"},
		{path: "/a", headers: []string{perTry + "900"}, total: 500 * ms, toldMs: "500"},
		{path: "/b"},
		{path: "/c"},
		{path: "/f"},
		{path: "/b", headers: []string{rq + "5000"}, total: 5000 * ms, toldMs: "5000"},
		{path: "/b", headers: []string{perTry + "900"}, try: 900 * ms, toldMs: "900"},
		{path: "/d", total: 2000 * ms, toldMs: "2000"},
		{path: "/d", headers: []string{within + "9S"}, total: 2000 * ms, told: "9S", toldMs: "2000"},
		{path: "/d", headers: []string{grpc, within + "9S"}, total: 1000 * ms, told: "1000m", toldMs: "1000"},
		{path: "/d", headers: []string{grpc, within + "500m"}, total: 400 * ms, told: "400m", toldMs: "400"},
		{path: "/d", headers: []string{grpc, within + "50m"}, total: 50 * ms, told: "50m", toldMs: "50"},
		{path: "/d", headers: []string{grpc}, total: 1000 * ms, told: "1000m", toldMs: "1000"},
		{path: "/inf", headers: []string{grpc}},
		{path: "/inf", headers: []string{grpc, within + "2H"}, total: 2 * time.Hour, told: "7200000m", toldMs: "7200000"},
		{path: "/inf", headers: []string{grpc, within + "99999H"}, total: 99999 * time.Hour, told: "5999940M", toldMs: "359996400000"},
		{path: "/e", total: 2000 * ms, try: 300 * ms, toldMs: "300"},
		{path: "/e", headers: []string{perTry + "bad"}, total: 2000 * ms, try: 300 * ms, toldMs: "300"},
		{path: "/long", total: 2000 * ms, toldMs: "2000"},
	} {
		c := context(request("h", tc.path, tc.headers...))
		f := tab.Match(c).FinalTimeouts(c, true, tc.respect)
		h := c.Request
		if f.Timeout != tc.total || f.PerTry != tc.try || f.AltResponse {
			t.Errorf("%s %q: %+v, want %v and %v", tc.path, tc.headers, f, tc.total, tc.try)
		}
		if got := h.Get("grpc-timeout"); got != tc.told {
			t.Errorf("%s %q: grpc-timeout %q, want %q", tc.path, tc.headers, got, tc.told)
		}
		if got := h.Get("x-envoy-expected-rq-timeout-ms"); got != tc.toldMs {
			t.Errorf("%s %q: expected timeout %q, want %q", tc.path, tc.headers, got, tc.toldMs)
		}
		if h.Has("x-envoy-upstream-rq-timeout-ms") || h.Has("x-envoy-upstream-rq-per-try-timeout-ms") {
			t.Errorf("%s %q: wishes are left", tc.path, tc.headers)
		}
	}
}

// Partly proves RT-35.
func TestOtherTimeouts(t *testing.T) {
	tab := oneHost(t, `
- {match: {path: /a}, route: {cluster: c, idle_timeout: 0s, flush_timeout: 3s, retry_policy: {per_try_idle_timeout: 0.2s}}}
- {match: {path: /b}, route: {cluster: c}}
`)
	c := context(request("h", "/a", "x-envoy-upstream-rq-timeout-alt-response: 1"))
	e := tab.Match(c)
	f := e.FinalTimeouts(c, true, false)
	if !f.AltResponse || f.PerTryIdle != 200*time.Millisecond || c.Request.Has("x-envoy-upstream-rq-timeout-alt-response") {
		t.Errorf("%+v, %s", f, c.Request)
	}
	if s := e.Timeouts(); !s.HasIdle || s.Idle != 0 || !s.HasFlush || s.Flush != 3*time.Second || s.HasMaxStream {
		t.Errorf("%+v", s)
	}
	if s := tab.Match(context(request("h", "/b"))).Timeouts(); s.HasIdle || s.HasFlush || s.Route != 15*time.Second {
		t.Errorf("%+v", s)
	}
}

// Proves RT-34.
func TestStreamDuration(t *testing.T) {
	tab := oneHost(t, `
- {match: {path: /none}, route: {cluster: c}}
- {match: {path: /max}, route: {cluster: c, max_stream_duration: {max_stream_duration: 5s}}}
- {match: {path: /zero}, route: {cluster: c, max_stream_duration: {max_stream_duration: 0s}}}
- {match: {path: /header}, route: {cluster: c, max_stream_duration: {grpc_timeout_header_max: 0.5s, grpc_timeout_header_offset: 0.1s}}}
- {match: {path: /unbounded}, route: {cluster: c, max_stream_duration: {max_stream_duration: 5s, grpc_timeout_header_max: 0s}}}
`)
	for _, tc := range []struct {
		path, grpc string
		has        bool
		want       time.Duration
		told       string
	}{
		{"/none", "", false, 7 * time.Second, ""},
		{"/none", "1S", false, 7 * time.Second, "1S"},
		{"/max", "", true, 5 * time.Second, "5000m"},
		{"/max", "1S", true, 5 * time.Second, "5000m"},
		{"/zero", "", true, 0, ""},
		{"/zero", "1S", true, 0, ""},
		{"/header", "", true, 7 * time.Second, "7000m"},
		{"/header", "1S", true, 400 * time.Millisecond, "400m"},
		{"/header", "200m", true, 100 * time.Millisecond, "100m"},
		{"/header", "50m", true, time.Nanosecond, "0m"},
		{"/header", "bad", true, 7 * time.Second, "7000m"},
		{"/header", "200000u", true, 100 * time.Millisecond, "100m"},
		{"/header", "1234567890m", true, 7 * time.Second, "7000m"},
		{"/unbounded", "1H", true, time.Hour, "3600000m"},
		{"/unbounded", "1M", true, time.Minute, "60000m"},
		{"/unbounded", "1n", true, time.Millisecond, "1m"},
		{"/unbounded", "", true, 5 * time.Second, "5000m"},
	} {
		c := context(request("h", tc.path))
		if tc.grpc != "" {
			c.Request.Add("grpc-timeout", tc.grpc)
		}
		e := tab.Match(c)
		if got := e.StreamDuration(c, 7*time.Second); got != tc.want || c.Request.Get("grpc-timeout") != tc.grpc {
			t.Errorf("%s %s, not gRPC: %v %q, want %v", tc.path, tc.grpc, got, c.Request.Get("grpc-timeout"), tc.want)
		}
		c.Request.Add("content-type", "application/grpc")
		if got := e.StreamDuration(c, 7*time.Second); got != tc.want || e.Timeouts().HasMaxStream != tc.has || c.Request.Get("grpc-timeout") != tc.told {
			t.Errorf("%s %s: %v %t %q, want %v", tc.path, tc.grpc, got, e.Timeouts().HasMaxStream, c.Request.Get("grpc-timeout"), tc.want)
		}
	}
}

// Proves RT-33.
func TestTellTimeoutsAgain(t *testing.T) {
	tab := oneHost(t, timeoutRoutes)
	for _, tc := range []struct {
		path    string
		elapsed time.Duration
		want    string
	}{{"/a", 12 * time.Millisecond, "488"}, {"/a", time.Second, "1"}, {"/e", 1900 * time.Millisecond, "100"}, {"/e", time.Second, "300"}, {"/off", time.Second, ""}} {
		c := context(request("h", tc.path))
		e := tab.Match(c)
		f := e.FinalTimeouts(c, true, false)
		e.TellTimeouts(c, &f, tc.elapsed)
		if got := c.Request.Get("x-envoy-expected-rq-timeout-ms"); got != tc.want {
			t.Errorf("%s after %v: %q, want %q", tc.path, tc.elapsed, got, tc.want)
		}
	}
}

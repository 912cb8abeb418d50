package proxy_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// observer is a filter whose behaviour is a test's.
type observer struct {
	made, completed, destroyed atomic.Int64
	onHeaders                  func(cb filter.Callbacks, h *header.Map) filter.HeadersStatus
	onData                     func(cb filter.Callbacks, end bool) filter.DataStatus
	onComplete, onDestroy      func(cb filter.Callbacks)
}

// observing is the observer of one stream.
type observing struct {
	p  *observer
	cb filter.Callbacks
}

func (x *observing) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	if x.p.onHeaders != nil {
		return x.p.onHeaders(x.cb, h)
	}
	return filter.Continue
}

func (x *observing) DecodeData(_ *filter.Buffer, end bool) filter.DataStatus {
	if x.p.onData != nil {
		return x.p.onData(x.cb, end)
	}
	return filter.DataContinue
}

func (x *observing) DecodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

func (x *observing) OnStreamComplete() {
	x.p.completed.Add(1)
	if x.p.onComplete != nil {
		x.p.onComplete(x.cb)
	}
}

func (x *observing) OnDestroy() {
	x.p.destroyed.Add(1)
	if x.p.onDestroy != nil {
		x.p.onDestroy(x.cb)
	}
}

const probeFilter = `{name: probe, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: x}},`

// register makes the filter known to a proxy.
func (p *observer) register(_ *proxyrun.Flags, o *proxy.Options) {
	o.Register = func(r *filter.Registry) error {
		return r.AddHTTP(filter.HTTPType{Config: (*wrapperspb.StringValue)(nil), New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
			return func(cb filter.Callbacks) filter.HTTPFilter {
				p.made.Add(1)
				return filter.HTTPFilter{Decoder: &observing{p: p, cb: cb}}
			}, nil
		}})
	}
}

// Partly proves HC-01: what is refused early has no filter; what is not is seen as the
// rules and the route leave it.
func TestOrderOfRequestHeaders(t *testing.T) {
	seen := make(chan string, 10)
	p := &observer{onHeaders: func(cb filter.Callbacks, h *header.Map) filter.HeadersStatus {
		route := ""
		if r := cb.Route(); r != nil {
			route = r.Name()
		}
		seen <- fmt.Sprintf("%s %s xff=%v id=%v", route, h.Path(), h.HasID(header.XForwardedFor), h.HasID(header.XRequestID))
		return filter.Continue
	}}
	s := &site{
		filters: probeFilter, manager: "normalize_path: true, use_remote_address: true, path_with_escaped_slashes_action: REJECT_REQUEST,",
		routes: `{match: {prefix: /off}, direct_response: {status: 200, body: {inline_string: bare}}, typed_per_filter_config: {probe: {
				"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}}},
			{name: named, match: {prefix: /a}, direct_response: {status: 200, body: {inline_string: ok}}}`,
	}
	v := s.serve(t, p.register)
	for request, status := range map[string]int{
		"GET / HTTP/1.1\r\n\r\n":                                                 400, // no Host
		"GET /%2f HTTP/1.1\r\nhost: a\r\n\r\n":                                   400,
		"GET /%00 HTTP/1.1\r\nhost: a\r\n\r\n":                                   400,
		"GET / HTTP/1.0\r\nhost: a\r\n\r\n":                                      426,
		"GET / HTTP/1.1\r\nhost: a\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n": 403,
		"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n":                 400,
	} {
		w := v.dial(t)
		w.send("%s", request)
		if r := w.reply(); r.status != status {
			t.Errorf("%q: %d, want %d", request, r.status, status)
		}
	}
	w := v.dial(t)
	w.get("/off")
	w.want("200 bare")
	if n := p.made.Load(); n != 0 {
		t.Errorf("%d filters were made", n)
	}
	w.get("/x/../a//b")
	w.want("200 ok")
	if got := take(t, seen); got != "named /a//b xff=true id=true" {
		t.Error(got)
	}
	w.get("/nowhere")
	w.want("404 ")
	if got := take(t, seen); got != " /nowhere xff=true id=true" {
		t.Error(got)
	}
}

// Proves RQ-01: a stream ends once: first its filters hear of it, then the access
// log is written, then the filters go.
func TestOrderOfTheEnd(t *testing.T) {
	p := &observer{
		onComplete: func(cb filter.Callbacks) { cb.Info().Details += ",completed" },
		onDestroy:  func(cb filter.Callbacks) { cb.Info().Details += ",destroyed" },
	}
	v := (&site{
		hosts: []string{silent(t)}, filters: probeFilter, manager: "stream_idle_timeout: 0.2s,",
		routes: "{match: {prefix: /wait}, route: {cluster: back}}, " + direct,
	}).serve(t, p.register)
	w := v.dial(t)
	w.get("/")
	w.want("200 ok")
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	f.want(1, "200 ok")
	f.ask(3, "GET", "/wait", true)
	_ = f.WriteRSTStream(3, http2.ErrCodeCancel)
	v.logged(t, "200 - direct_response,completed", "200 - direct_response,completed", "0 DR http2.remote_reset,completed")
	w.get("/wait")
	w.want("504 stream timeout")
	until(t, func() string { return fmt.Sprint(p.destroyed.Load()) }, func() bool { return p.destroyed.Load() == 4 })
	if m, c := p.made.Load(), p.completed.Load(); m != 4 || c != 4 {
		t.Errorf("%d filters, %d completed", m, c)
	}
	v.logged(t, "200 - direct_response,completed", "200 - direct_response,completed", "0 DR http2.remote_reset,completed", "504 SI stream_idle_timeout,completed")
}

// aborts are the ways a stream may end before its time. Each is done when the
// upstream has got as far as the path says.
func aborts() map[string]func(v *serving, f *wire2, id uint32) {
	return map[string]func(v *serving, f *wire2, id uint32){
		"reset": func(_ *serving, f *wire2, id uint32) { _ = f.WriteRSTStream(id, http2.ErrCodeCancel) },
		"close": func(_ *serving, f *wire2, _ uint32) { _ = f.w.Close() },
		"goaway": func(_ *serving, f *wire2, _ uint32) {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			_ = f.w.Close()
		},
		"violate":    func(_ *serving, f *wire2, _ uint32) { _ = f.WriteData(0, true, nil) },
		"bad stream": func(_ *serving, f *wire2, id uint32) { _ = f.WriteWindowUpdate(id, 1<<31-1) },
		"timeout":    func(_ *serving, f *wire2, id uint32) { _ = f.outcome(id) },
	}
}

// Proves HC-26: at whatever point a stream is cut, by whomever, everything of it
// ends, and once.
func TestAbortsAnywhere(t *testing.T) {
	p := &observer{onHeaders: func(cb filter.Callbacks, h *header.Map) filter.HeadersStatus {
		cb.After(time.Hour, func() {})
		switch h.Get("x-filter") {
		case "reset":
			cb.ResetStream("filter_reset")
			return filter.StopIteration
		case "reply":
			cb.SendLocalReply(filter.LocalReply{Status: 418, Details: "filter_reply"})
			return filter.StopIteration
		case "hold":
			return filter.StopAllIterationAndWatermark
		case "later":
			cb.After(time.Millisecond, func() { cb.ResetStream("filter_reset") })
		}
		return filter.Continue
	}}
	at := make(chan struct{}, 1000)
	up := backend(t, func(w *wire, _ int) {
		for h := w.head(); h != ""; h = w.head() {
			switch {
			case strings.HasPrefix(h, "GET /head"):
				w.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
			case strings.HasPrefix(h, "GET /body"):
				w.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
			case strings.HasPrefix(h, "GET /retry"):
				w.send(cannot503)
			case strings.HasPrefix(h, "GET /cut"):
				w.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
				return
			}
			at <- struct{}{}
		}
	})
	v := (&site{
		hosts: []string{up}, filters: probeFilter, manager: "stream_idle_timeout: 0.5s,",
		routes: `{match: {prefix: /retry}, route: {cluster: back, retry_policy: {retry_on: 5xx, num_retries: 1000, retry_back_off: {base_interval: 0.002s}}}},
			{match: {prefix: /pending}, route: {cluster: hole}}, {match: {prefix: /}, route: {cluster: back}}`,
		more: `- {name: hole, connect_timeout: 0.3s, load_assignment: {cluster_name: hole, endpoints: [{lb_endpoints: [` + endpoints(t, []string{silent(t)}) + `]}]}, transport_socket: {name: tls, typed_config: {
			"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}}}`,
	}).serve(t, p.register)
	asked := 0
	for name, abort := range aborts() {
		for _, path := range []string{"/none", "/head", "/body", "/retry", "/pending", "/cut"} {
			for _, filters := range []string{"", "hold", "reset", "reply", "later"} {
				f := v.dial2(t)
				id := uint32(1)
				f.ask(id, "GET", path, len(name)%2 == 0, "x-filter: "+filters)
				asked++
				if filters == "" && path != "/pending" && path != "/cut" {
					take(t, at)
				}
				// What a reset overtakes is never read.
				until(t, func() string { return fmt.Sprintf("%d of %d requests were read", p.made.Load(), asked) }, func() bool { return p.made.Load() == int64(asked) })
				abort(v, f, id)
				_ = f.w.Close()
			}
		}
	}
	v.counts(t, "http.in.downstream_rq_total "+strconv.Itoa(asked), "http.in.downstream_rq_active 0", "http.in.downstream_cx_active 0", "http2.streams_active 0",
		"cluster.back.upstream_rq_active 0", "cluster.back.upstream_rq_pending_active 0", "cluster.hole.upstream_rq_pending_active 0", "cluster.hole.upstream_cx_active 0",
		"cluster.back.circuit_breakers.default.rq_retry_open 0")
	if m, c, d := p.made.Load(), p.completed.Load(), p.destroyed.Load(); m != int64(asked) || c != m || d != m {
		t.Errorf("of %d streams %d had filters, %d completed, %d were destroyed", asked, m, c, d)
	}
}

// Proves RQ-03: times are of the request, of the upstream, and of connections.
func TestTimes(t *testing.T) {
	const delay = 200
	up := backend(t, func(w *wire, _ int) {
		for w.head() != "" {
			time.Sleep(delay * time.Millisecond) // what is measured
			w.send(ok)
		}
	})
	v := (&site{hosts: []string{up}, top: "stats_flush_interval: 0.1s"}).serve(t)
	w := v.dial(t)
	w.get("/")
	if ms, err := strconv.Atoi(w.want("200 ok").header.Get("x-envoy-upstream-service-time")); err != nil || ms < delay {
		t.Errorf("service time %d, %v", ms, err)
	}
	_ = w.Close()
	for _, name := range []string{"http.in.downstream_rq_time", "cluster.back.upstream_rq_time", "http.in.downstream_cx_length_ms"} {
		p0 := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `: P0\([^,]*,([0-9.]+)\)`)
		var got []string
		until(t, func() string { return name + " has no sample" }, func() bool {
			got = p0.FindStringSubmatch(v.get(t, "/stats"))
			return got != nil
		})
		if ms, err := strconv.ParseFloat(got[1], 64); err != nil || ms < delay {
			t.Errorf("%s has the least value %s", name, got[1])
		}
	}
}

// Proves HF-07: the route is there for the first filter, stays though the request
// changes, and is matched again when a filter says so.
func TestClearedRoute(t *testing.T) {
	names := make(chan string, 10)
	p := &observer{onHeaders: func(cb filter.Callbacks, h *header.Map) filter.HeadersStatus {
		first := cb.Route().Name()
		h.Set("x-to", "b")
		kept := cb.Route().Name()
		if h.Get("x-clear") != "" {
			cb.ClearRouteCache()
		}
		names <- first + " " + kept
		return filter.Continue
	}}
	v := (&site{filters: probeFilter, routes: `{name: b, match: {prefix: /, headers: [{name: x-to, string_match: {exact: b}}]}, direct_response: {status: 200, body: {inline_string: b}}},
		{name: a, match: {prefix: /}, direct_response: {status: 200, body: {inline_string: a}}}`}).serve(t, p.register)
	w := v.dial(t)
	w.get("/")
	w.want("200 a")
	w.get("/", "x-clear: 1")
	w.want("200 b")
	if one, two := take(t, names), take(t, names); one != "a a" || two != "a a" {
		t.Error(one, two)
	}
}

// Proves HF-08: how much of a body is buffered for a filter.
func TestBufferLimits(t *testing.T) {
	p := &observer{onData: func(cb filter.Callbacks, end bool) filter.DataStatus {
		if end {
			return filter.DataContinue
		}
		return filter.DataStopIterationAndBuffer
	}, onHeaders: func(cb filter.Callbacks, h *header.Map) filter.HeadersStatus {
		if n, err := strconv.Atoi(h.Get("x-limit")); err == nil {
			cb.SetBufferLimit(n)
		}
		return filter.StopIteration
	}}
	v := (&site{
		filters: probeFilter, listener: "per_connection_buffer_limit_bytes: 10000,", manager: "http2_protocol_options: {initial_stream_window_size: 65535},",
		routes: `{match: {prefix: /more}, request_body_buffer_limit: 2097152, direct_response: {status: 200, body: {inline_string: ok}}}, ` + direct,
	}).serve(t, p.register)
	post := func(path string, size int, fields ...string) string {
		w := v.dial(t)
		w.send("POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n%s\r\n%s", path, size, lines(fields), strings.Repeat("x", size))
		return w.reply().String()
	}
	for _, x := range []struct {
		path, field string
		size        int
		want        string
	}{
		{"/", "a: b", 9000, "200 ok"},
		{"/", "a: b", 50000, "413 Payload Too Large"},
		{"/more", "a: b", 2000000, "200 ok"},
		{"/more", "a: b", 2200000, "413 Payload Too Large"},
		{"/", "x-limit: 60000", 50000, "200 ok"},
	} {
		if got := post(x.path, x.size, x.field); got != x.want {
			t.Errorf("%d bytes to %s: %s, want %s", x.size, x.path, got, x.want)
		}
	}
	f := v.dial2(t)
	f.ask(1, "POST", "/", false)
	for range 4 {
		_ = f.WriteData(1, false, make([]byte, 10000))
	}
	_ = f.WriteData(1, true, nil)
	f.want(1, "200 ok") // more than HTTP/1 may
}

// Proves HF-13: upstream filters are made again for each attempt, and what they
// do to a request is seen by the host.
func TestUpstreamFilters(t *testing.T) {
	heads := make(chan string, 10)
	up := backend(t, func(w *wire, _ int) {
		for h := w.head(); h != ""; h = w.head() {
			heads <- fieldOf(h, "x-up")
			w.send(cannot503)
		}
	})
	mutation := func(kind string) string {
		return `{name: ` + kind + `, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation, mutations: {request_mutations: [
			{append: {header: {key: x-up, value: ` + kind + `}, append_action: APPEND_IF_EXISTS_OR_ADD}}]}}},
			{name: codec, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec}}`
	}
	for name, s := range map[string]*site{
		"cluster": {cluster: speaking1("http_filters: [" + mutation("cluster") + "],")},
		"router":  {router: "upstream_http_filters: [" + mutation("router") + "],"},
	} {
		t.Run(name, func(t *testing.T) {
			s.hosts = []string{up}
			s.routes = "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, num_retries: 2, retry_back_off: {base_interval: 0.001s}}}}"
			v := s.serve(t)
			w := v.dial(t)
			w.get("/a")
			w.want("503 no")
			for attempt := range 3 {
				if got := take(t, heads); got != name {
					t.Errorf("attempt %d has x-up: %q", attempt, got)
				}
			}
		})
	}
}

// Partly proves HF-09: a client that does not read stops the host, and a host
// that does not read stops the client, until they do.
func TestBackPressure(t *testing.T) {
	const size = 4 << 20
	gone := make(chan struct{})
	up := backend(t, func(w *wire, _ int) {
		if h := w.head(); strings.HasPrefix(h, "POST") {
			<-gone
			_, _ = fmt.Fprint(w, ok)
			w.untilClosed()
			return
		}
		w.send("HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
	})
	v := (&site{hosts: []string{up}, cluster: "per_connection_buffer_limit_bytes: 10000,"}).serve(t)
	f := v.dial2(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	f.ask(1, "GET", "/", true)
	v.counts(t, "cluster.back.upstream_flow_control_paused_reading_total 1", "cluster.back.upstream_flow_control_resumed_reading_total 0")
	_ = f.WriteWindowUpdate(0, size)
	_ = f.WriteWindowUpdate(1, size)
	if got := f.outcome(1); len(got) != len("200 ")+size {
		t.Errorf("%d bytes of the response came", len(got))
	}
	close(gone)
}

// Proves RT-49, with TestResetTexts and TestDetailsOfLimits: details of ends that
// are not the upstream's doing. Those of heads that break rules are proved with the
// rules; filters that do not exist give none.
func TestResponseCodeDetails(t *testing.T) {
	v := (&site{
		hosts: []string{answering(t, ok)}, routes: `{match: {prefix: /direct}, direct_response: {status: 200}},
		{match: {prefix: /lost}, route: {cluster_header: x-cluster}},
		{match: {prefix: /drop}, route: {cluster: drop}},
		{match: {prefix: /slow}, route: {cluster: slow, timeout: 0.1s}},
		{match: {path: /try}, route: {cluster: slow, retry_policy: {retry_on: reset, num_retries: 0, per_try_timeout: 0.1s}}},
		{match: {prefix: /tryidle}, route: {cluster: slow, retry_policy: {retry_on: reset, num_retries: 0, per_try_idle_timeout: 0.1s}}},
		{match: {prefix: /max}, route: {cluster: max}},
		{match: {prefix: /leave}, route: {cluster: slow}},
		{match: {prefix: /up}, route: {cluster: back}}`,
		top:     "layered_runtime: {layers: [{name: s, static_layer: {upstream.maintenance_mode.drop: 100}}]}",
		manager: "upgrade_configs: [{upgrade_type: websocket}],",
		more: `- {name: drop, load_assignment: {cluster_name: drop, endpoints: []}}
  - {name: slow, load_assignment: {cluster_name: slow, endpoints: [{lb_endpoints: [` + endpoints(t, []string{silent(t)}) + `]}]}}
  - {name: max, ` + speaking1("common_http_protocol_options: {max_stream_duration: 0.1s},") + ` load_assignment: {cluster_name: max, endpoints: [{lb_endpoints: [` + endpoints(t, []string{silent(t)}) + `]}]}}`,
	}).
		serve(t)
	var want []string
	for _, x := range []struct{ request, log string }{
		{"GET /direct", "200 - direct_response"},
		{"GET /none", "404 NR route_not_found"},
		{"GET /lost", "503 NC cluster_not_found"},
		{"GET /drop", "503 UO maintenance_mode"},
		{"GET /slow", "504 UT response_timeout"},
		{"GET /try", "504 URX,UT upstream_per_try_timeout"},
		{"GET /tryidle", "504 URX,UT upstream_per_try_idle_timeout"},
		{"GET /max", "504 UMSDR upstream_max_stream_duration_reached"},
		{"GET /up", "200 - via_upstream"},
	} {
		w := v.dial(t)
		w.send("%s HTTP/1.1\r\nhost: a\r\nx-cluster: nowhere\r\n\r\n", x.request)
		w.reply()
		want = append(want, x.log)
		v.logged(t, want...)
	}
	w := v.dial(t)
	w.get("/leave")
	v.counts(t, "cluster.slow.upstream_rq_active 1")
	_ = w.Close()
	want = append(want, "0 DC downstream_remote_disconnect")
	v.logged(t, want...)
}

// Proves RT-47: the router's own headers, and their suppression. What the upstream
// says in such headers goes on to the client, as in Envoy 1.40, but for the time
// that the router has measured itself.
func TestRouterHeaders(t *testing.T) {
	heads := make(chan string, 10)
	up := backend(t, func(w *wire, _ int) {
		for h := w.head(); h != ""; h = w.head() {
			heads <- h
			w.send("HTTP/1.1 200 OK\r\nx-envoy-upstream-canary: true\r\nx-envoy-degraded: true\r\nx-envoy-immediate-health-check-fail: true\r\n" +
				"x-envoy-upstream-service-time: theirs\r\ncontent-length: 2\r\n\r\nok")
		}
	})
	for fields, own := range map[string]bool{"": true, "suppress_envoy_headers: true,": false} {
		v := (&site{
			hosts: []string{up}, router: fields, routes: "{match: {prefix: /a}, route: {cluster: back, prefix_rewrite: /b, timeout: 3s}}, {match: {prefix: /o}, route: {cluster: full}}",
			more: "- {name: full, circuit_breakers: {thresholds: [{max_pending_requests: 0}]}, load_assignment: {cluster_name: full, endpoints: [{lb_endpoints: [" + endpoints(t, []string{up}) + "]}]}}",
		}).serve(t)
		w := v.dial(t)
		w.get("/a")
		r, h := w.want("200 ok"), take(t, heads)
		for name, has := range map[string]bool{
			"x-envoy-upstream-service-time":  r.header.Get("x-envoy-upstream-service-time") != "theirs",
			"x-envoy-original-path":          fieldOf(h, "x-envoy-original-path") == "/a",
			"x-envoy-expected-rq-timeout-ms": fieldOf(h, "x-envoy-expected-rq-timeout-ms") == "3000",
		} {
			if has != own {
				t.Errorf("%q: %s is there: %v", fields, name, has)
			}
		}
		for _, name := range []string{"x-envoy-upstream-canary", "x-envoy-degraded", "x-envoy-immediate-health-check-fail"} {
			if got := r.header.Get(name); got != "true" {
				t.Errorf("%q: %s is %q", fields, name, got)
			}
		}
		w.get("/o")
		if got := w.want(overflow).header.Get("x-envoy-overloaded") == "true"; got != own {
			t.Errorf("%q: x-envoy-overloaded is there: %v", fields, got)
		}
		v.counts(t, "cluster.back.canary.upstream_rq_200 1", "cluster.back.canary.upstream_rq_2xx 1")
	}
}

package proxy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

const (
	injectedType = `"@type": type.googleapis.com/envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig`
	actionPrefix = "envoy.overload_actions."
)

// pressure is a resource of which a test says how much is used.
type pressure struct{ file string }

func newPressure(t *testing.T) *pressure {
	t.Helper()
	return &pressure{filepath.Join(t.TempDir(), "pressure")}
}

// to sets the pressure, and waits until the manager knows it.
func (p *pressure) to(t *testing.T, v *serving, value string) {
	t.Helper()
	next := p.file + ".next"
	if err := os.WriteFile(next, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, p.file); err != nil {
		t.Fatal(err)
	}
	var f float64
	if _, err := fmt.Sscan(value, &f); err != nil {
		t.Fatal(err)
	}
	v.counts(t, fmt.Sprintf("overload.pressed.pressure %d", int(f*100)))
}

// manager is an overload manager of which the actions go by the pressure: each is
// "NAME" for a threshold of 0.5, or "NAME=TRIGGER".
func (p *pressure) manager(actions ...string) string {
	var list []string
	for _, a := range actions {
		name, trigger, ok := strings.Cut(a, "=")
		if !ok {
			trigger = "threshold: {value: 0.5}}]"
		}
		if !strings.HasPrefix(name, "my.") {
			name = actionPrefix + name
		}
		list = append(list, fmt.Sprintf("{name: %s, triggers: [{name: pressed, %s}", name, trigger))
	}
	return fmt.Sprintf("overload_manager: {refresh_interval: 0.02s, resource_monitors: [{name: pressed, typed_config: {%s, filename: %s}}], actions: [%s]}\n",
		injectedType, p.file, strings.Join(list, ", "))
}

// Proves HC-01 with TestOrderOfRequestHeaders. Partly proves OV-03: a request that the
// proxy takes no more is refused after the codec has read it and before anything else
// looks at it, and no filter is made.
func TestStopAcceptingRequests(t *testing.T) {
	p, o := newPressure(t), &observer{}
	v := (&site{
		filters: probeFilter, routes: direct, top: p.manager("stop_accepting_requests"),
		manager: "use_remote_address: true, normalize_path: true, always_set_request_id_in_response: true, via: me,",
	}).serve(t, o.register)
	w := v.dial(t)
	w.get("/")
	w.want("200 ok")
	if o.made.Load() != 1 {
		t.Fatal("the filter is not there")
	}
	p.to(t, v, "0.5")
	lines := []string{"200 - direct_response"}
	for _, c := range []struct{ request, want, log string }{
		{"GET / HTTP/1.1\r\nhost: a\r\n\r\n", "503 envoy overloaded", ""},
		{"GET / HTTP/1.1\r\n\r\n", "503 envoy overloaded", ""},                                                          // before the host
		{"GET /%00 HTTP/1.1\r\nhost: a\r\n\r\n", "503 envoy overloaded", ""},                                            // and the path
		{"GET /nowhere HTTP/1.1\r\nhost: b\r\nconnection: x-request-id\r\n\r\n", "503 envoy overloaded", ""},            // and all else
		{"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n", "503 envoy overloaded", ""}, // no 100 comes first
		{"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", "503 envoy overloaded", ""},
		{"POST /s/m HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\r\n", "200 ", "200 OM overload"},
		{"GET / HTTP/1.0\r\nhost: a\r\n\r\n", "426 ", "426 DPE low_version"}, // what the codec refuses
		{"GET foo HTTP/1.1\r\nhost: a\r\n\r\n", "400 ", "400 DPE http1.codec_error"},
	} {
		w := v.dial(t)
		w.send("%s", c.request)
		r := w.reply()
		if !strings.HasPrefix(r.String(), c.want) {
			t.Errorf("%q: %s, want %s", c.request, r, c.want)
		}
		if strings.HasPrefix(c.want, "503") && (r.header.Get("x-request-id") != "" || r.header.Get("content-type") != "text/plain" || r.header.Get("via") != "me") {
			t.Errorf("%q: %v", c.request, r.header)
		}
		if strings.Contains(c.request, "grpc") && (r.header.Get("grpc-status") != "14" || r.header.Get("grpc-message") != "envoy overloaded") {
			t.Errorf("%v", r.header)
		}
		if whole := !strings.Contains(c.request, "POST / ") && !strings.Contains(c.request, "upgrade"); r.status == 503 && whole == r.close {
			t.Errorf("%q: close is %v", c.request, r.close)
		}
		if c.log == "" {
			c.log = "503 OM overload"
		}
		lines = append(lines, c.log)
	}
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	f.want(1, "503 envoy overloaded")
	w.get("/")
	w.want("503 envoy overloaded") // on a connection that there was
	v.logged(t, append(lines, "503 OM overload", "503 OM overload")...)
	v.counts(t, "http.in.downstream_rq_overload_close 9", "overload."+actionPrefix+"stop_accepting_requests.active 1",
		"overload."+actionPrefix+"stop_accepting_requests.scale_percent 100")
	if n := o.made.Load(); n != 1 {
		t.Errorf("%d filters were made", n)
	}
	p.to(t, v, "0.4")
	w.get("/")
	w.want("200 ok")
	if !strings.Contains(v.get(t, "/stats"), "overload.refresh_interval_delay: ") {
		t.Error("the delays of refreshes are not counted")
	}
}

// Partly proves OV-03: between its thresholds an action is taken for a part of the
// requests, and a listener may be left out.
func TestPartOfTheRequests(t *testing.T) {
	const n = 4000
	for listener, most := range map[string]int{"": 350, "bypass_overload_manager: true,": 0} {
		p := newPressure(t)
		v := (&site{listener: listener, routes: direct, top: p.manager("stop_accepting_requests=scaled: {scaling_threshold: 0, saturation_threshold: 1}}]")}).serve(t)
		p.to(t, v, "0.25")
		w := v.dial(t)
		refused := 0
		for range n / 100 {
			w.send("%s", strings.Repeat("GET / HTTP/1.1\r\nhost: a\r\n\r\n", 100))
			for range 100 {
				if w.reply().status == 503 {
					refused++
				}
			}
		}
		if off := refused - n/4; most > 0 && (off < -most || off > most) || most == 0 && refused > 0 {
			t.Errorf("%q: %d of %d are refused", listener, refused, n)
		}
	}
}

// Partly proves OV-03: with disable_http_keepalive a connection ends with its next
// response, and one at rest stays.
func TestDisableKeepalive(t *testing.T) {
	p := newPressure(t)
	v := (&site{routes: direct, manager: "drain_timeout: 0.1s,", top: p.manager("disable_http_keepalive")}).serve(t)
	w, rest, f := v.dial(t), v.dial(t), v.dial2(t)
	for _, x := range []*wire{w, rest} {
		x.get("/")
		x.want("200 ok")
	}
	f.ask(1, "GET", "/", true)
	f.want(1, "200 ok")
	p.to(t, v, "1")
	w.get("/")
	if r := w.want("200 ok"); !r.close {
		t.Error("HTTP/1 is not told")
	}
	w.ended()
	f.ask(3, "GET", "/", true)
	f.want(3, "200 ok")
	if g := f.goAway(); g == nil || g.LastStreamID != 3 || g.ErrCode != http2.ErrCodeNo {
		t.Errorf("the GOAWAY at the end of draining is %v", g)
	}
	f.gone()
	v.counts(t, "http.in.downstream_cx_overload_disable_keepalive 2", "http.in.downstream_cx_drain_close 2", "http.in.downstream_cx_active 1")
	p.to(t, v, "0")
	rest.get("/")
	if r := rest.want("200 ok"); r.close {
		t.Error("it is over")
	}
}

// Partly proves OV-03: with stop_accepting_connections new connections wait with the
// system, and are served when it is over; those that are open are served.
func TestStopAcceptingConnections(t *testing.T) {
	for _, n := range []int{1, 3} {
		p := newPressure(t)
		v := (&site{routes: direct, top: p.manager("stop_accepting_connections=scaled: {scaling_threshold: 0, saturation_threshold: 1}}]")}).serve(t, workers(n))
		open := v.dial(t)
		open.get("/")
		open.want("200 ok")
		p.to(t, v, "0.99")
		some := v.dial(t)
		some.get("/")
		some.want("200 ok") // not before it is saturated
		p.to(t, v, "1")
		time.Sleep(20 * time.Millisecond) // the workers are told; what must not come cannot be waited for
		var waiting []*wire
		for range 5 {
			w := v.dial(t)
			w.get("/")
			waiting = append(waiting, w)
		}
		open.get("/")
		open.want("200 ok")
		for _, w := range waiting {
			_ = w.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := w.r.Peek(1); err == nil {
				t.Error("a connection is served")
			}
			_ = w.SetReadDeadline(time.Now().Add(patience))
		}
		v.counts(t, "listener.front.downstream_cx_total 2")
		p.to(t, v, "0")
		for _, w := range waiting {
			w.r.Reset(w.Conn)
			w.want("200 ok")
		}
		v.counts(t, "listener.front.downstream_cx_total 7")
	}
}

// Partly proves OV-03: with reject_incoming_connections new connections are closed at
// once, and those that are open are served.
func TestRejectIncomingConnections(t *testing.T) {
	p := newPressure(t)
	v := (&site{
		routes: direct, top: p.manager("reject_incoming_connections") +
			"layered_runtime: {layers: [{name: s, static_layer: {overload.global_downstream_max_connections: 3}}]}\n",
	}).serve(t)
	open := v.dial(t)
	open.get("/")
	open.want("200 ok")
	p.to(t, v, "1")
	for range 3 {
		v.dial(t).ended()
	}
	v.counts(t, "listener.front.downstream_cx_overload_reject 3", "listener.front.downstream_cx_total 1", "listener.front.downstream_cx_active 1")
	open.get("/")
	open.want("200 ok")
	p.to(t, v, "0")
	w := v.dial(t)
	w.get("/")
	w.want("200 ok")
}

// Proves OV-06, and with TestFixedHeap, TestCgroupMemory and TestInjectedResource
// OV-02: a connection more than all may be is closed at once, by the monitor's limit and by that of the runtime, which may change; a listener may
// be left out.
func TestLimitOfAllConnections(t *testing.T) {
	monitor := `overload_manager: {refresh_interval: 0.005s, resource_monitors: [{name: envoy.resource_monitors.global_downstream_max_connections, typed_config: {
		"@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig, max_active_downstream_connections: 2}}]}` + "\n"
	runtime := "layered_runtime: {layers: [{name: s, static_layer: {overload.global_downstream_max_connections: 2}}, {name: admin, admin_layer: {}}]}\n"
	for name, top := range map[string]string{"monitor": monitor, "runtime": runtime} {
		t.Run(name, func(t *testing.T) {
			v := (&site{routes: direct, top: top}).serve(t, workers(2))
			var open []*wire
			for range 2 {
				w := v.dial(t)
				w.get("/")
				w.want("200 ok")
				open = append(open, w)
			}
			v.dial(t).ended()
			v.counts(t, "listener.front.downstream_global_cx_overflow 1", "listener.front.downstream_cx_active 2", "listener.front.downstream_cx_overflow 0")
			if name == "monitor" {
				v.counts(t, "overload.envoy.resource_monitors.global_downstream_max_connections.pressure 100",
					"overload.envoy.resource_monitors.global_downstream_max_connections.failed_updates 1")
			}
			_ = open[0].Close()
			v.counts(t, "listener.front.downstream_cx_active 1")
			w := v.dial(t)
			w.get("/")
			w.want("200 ok")
			if name == "runtime" {
				v.ask(t, "POST", "/runtime_modify?overload.global_downstream_max_connections=3", "")
				more := v.dial(t)
				more.get("/")
				more.want("200 ok")
			}
			v.dial(t).ended()
		})
	}
	for _, field := range []string{"ignore_global_conn_limit", "bypass_overload_manager"} {
		v := (&site{routes: direct, top: monitor, listener: field + ": true,"}).serve(t)
		for range 4 {
			w := v.dial(t)
			w.get("/")
			w.want("200 ok")
		}
		v.counts(t, "listener.front.downstream_global_cx_overflow 0", "overload.envoy.resource_monitors.global_downstream_max_connections.pressure 0")
	}
}

// Proves OV-03 with the tests above and TestShrinkHeap: reduce_timeouts makes timers
// shorter that run, those that are set later, and each of the five. What of OV-03 is
// not built is refused by name, see TestNotBuilt.
func TestReduceTimeouts(t *testing.T) {
	scale := func(timers ...string) string {
		return `my.timers=threshold: {value: 0.5}}], typed_config: {"@type": type.googleapis.com/envoy.config.overload.v3.ScaleTimersOverloadActionConfig, timer_scale_factors: [` +
			strings.Join(timers, ", ") + "]}"
	}
	least := func(timer string) string { return "{timer: " + timer + ", min_timeout: 0.05s}" }
	t.Run("idle connections", func(t *testing.T) {
		p := newPressure(t)
		v := (&site{routes: direct, manager: "common_http_protocol_options: {idle_timeout: 3600s},", top: p.manager(scale(least("HTTP_DOWNSTREAM_CONNECTION_IDLE")))}).serve(t)
		w := v.dial(t)
		w.get("/")
		w.want("200 ok")
		p.to(t, v, "1")
		w.ended()
		w = v.dial(t)
		w.get("/")
		w.want("200 ok")
		w.ended()
		v.counts(t, "http.in.downstream_cx_idle_timeout 2", "overload.my.timers.active 1")
	})
	t.Run("old connections", func(t *testing.T) {
		p := newPressure(t)
		v := (&site{
			routes: direct, manager: "drain_timeout: 0.01s, common_http_protocol_options: {max_connection_duration: 3600s},",
			top: p.manager(scale("{timer: HTTP_DOWNSTREAM_CONNECTION_MAX, min_scale: {value: 0.002}}")),
		}).serve(t)
		w := v.dial(t)
		w.get("/")
		w.want("200 ok")
		p.to(t, v, "1")
		w.ended()
		v.dial(t).ended()
		v.counts(t, "http.in.downstream_cx_max_duration_reached 2")
	})
	t.Run("idle streams", func(t *testing.T) {
		p := newPressure(t)
		v := (&site{hosts: []string{silent(t)}, manager: "stream_idle_timeout: 3600s,", top: p.manager(scale(least("HTTP_DOWNSTREAM_STREAM_IDLE")))}).serve(t)
		w := v.dial(t)
		w.get("/")
		v.counts(t, "http.in.downstream_rq_active 1")
		p.to(t, v, "1")
		w.want("504 stream timeout")
		w.get("/")
		w.want("504 stream timeout")
		v.counts(t, "http.in.downstream_rq_idle_timeout 2")
	})
	t.Run("handshakes", func(t *testing.T) {
		p := newPressure(t)
		cert, key := certificates(t)
		v := (&site{
			routes: direct, top: p.manager(scale(least("TRANSPORT_SOCKET_CONNECT"))),
			chain: "transport_socket_connect_timeout: 3600s, " + tlsSocket(cert, key) + ",",
		}).serve(t)
		w := v.dial(t)
		v.counts(t, "listener.front.downstream_cx_active 1")
		p.to(t, v, "1")
		w.untilClosed()
		v.dial(t).untilClosed()
		v.counts(t, "listener.front.downstream_cx_transport_socket_connect_timeout 2")
	})
	t.Run("responses that nobody takes", func(t *testing.T) {
		p := newPressure(t)
		v := (&site{
			routes: "{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: " + strings.Repeat("x", 4000) + "}}}",
			top:    p.manager(scale(least("HTTP_DOWNSTREAM_STREAM_FLUSH"))), manager: "stream_flush_timeout: 3600s,",
		}).serve(t)
		f := v.dial2(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		f.ask(1, "GET", "/", true)
		f.answersPing(t)
		p.to(t, v, "1")
		f.answersPing(t)
		f.ask(3, "GET", "/", true)
		v.counts(t, "http2.tx_flush_timeout 2")
	})
	t.Run("and not of a listener that is left out", func(t *testing.T) {
		p := newPressure(t)
		v := (&site{
			routes: direct, listener: "bypass_overload_manager: true,", manager: "common_http_protocol_options: {idle_timeout: 3600s},",
			top: p.manager(scale(least("HTTP_DOWNSTREAM_CONNECTION_IDLE"))),
		}).serve(t)
		w := v.dial(t)
		w.get("/")
		w.want("200 ok")
		p.to(t, v, "1")
		for range 2 {
			time.Sleep(100 * time.Millisecond) // what must not come
			w.get("/")
			w.want("200 ok")
		}
	})
}

// A request that is under way is not touched by actions, nor is the admin endpoint
// (AD-19).
func TestOverloadLeavesAlone(t *testing.T) {
	p := newPressure(t)
	started, release := make(chan struct{}), make(chan struct{})
	o := &observer{onHeaders: func(cb filter.Callbacks, _ *header.Map) filter.HeadersStatus {
		close(started)
		cb.Go(func(context.Context) func() { <-release; return cb.ContinueDecoding })
		return filter.StopIteration
	}}
	v := (&site{filters: probeFilter, routes: direct, top: p.manager("stop_accepting_requests", "reject_incoming_connections", "stop_accepting_connections")}).serve(t, o.register)
	w := v.dial(t)
	w.get("/")
	take(t, started)
	p.to(t, v, "1")
	if got := v.get(t, "/ready"); got != "LIVE\n" {
		t.Error(got)
	}
	close(release)
	w.want("200 ok")
}

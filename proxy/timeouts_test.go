package proxy_test

import (
	"io"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// silent is a host that takes requests and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	return backend(t, func(w *wire, _ int) { w.untilClosed() })
}

const direct = "{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: ok}}}"

// Proves HC-20: a connection without streams ends after idle_timeout, with
// GOAWAY if it speaks HTTP/2.
func TestIdleConnections(t *testing.T) {
	v := (&site{routes: direct, manager: "common_http_protocol_options: {idle_timeout: 0.1s},"}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("200 ok")
	w.ended()
	v.counts(t, "http.in.downstream_cx_idle_timeout 1", "http.in.downstream_cx_destroy_local 1")
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	f.want(1, "200 ok")
	if g := f.goAway(); g.ErrCode != http2.ErrCodeNo {
		t.Error(g)
	}
	v.counts(t, "http.in.downstream_cx_idle_timeout 2")
}

// Proves HC-20: with a stream the timeout does not run, and 0 is none.
func TestBusyConnectionsAreNotIdle(t *testing.T) {
	up := silent(t)
	v := (&site{
		hosts: []string{up}, routes: "{match: {prefix: /}, route: {cluster: back, timeout: 0.3s}}",
		manager: "common_http_protocol_options: {idle_timeout: 0.1s},",
	}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("504 upstream request timeout")
	w.ended()
	v.counts(t, "http.in.downstream_cx_idle_timeout 1")

	v = (&site{
		hosts: []string{up}, routes: "{match: {prefix: /}, route: {cluster: back, timeout: 0.3s}}",
		manager: "common_http_protocol_options: {idle_timeout: 0s},",
	}).serve(t)
	idle, w := v.dial(t), v.dial(t)
	idle.get("/")
	idle.want("504 upstream request timeout")
	w.get("/")
	w.want("504 upstream request timeout") // longer than the other has been idle
	idle.get("/")
	idle.want("504 upstream request timeout")
	v.counts(t, "http.in.downstream_cx_idle_timeout 0", "http.in.downstream_cx_active 2")
}

// Proves HC-21, partly proves RT-35: what a stream that does nothing ends with, unless the route says otherwise.
func TestIdleStreams(t *testing.T) {
	half := backend(t, func(w *wire, _ int) {
		w.head()
		w.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
		w.untilClosed()
	})
	v := (&site{
		hosts: []string{silent(t)}, manager: "stream_idle_timeout: 0.4s,",
		more: "- {name: half, load_assignment: {cluster_name: half, endpoints: [{lb_endpoints: [" + endpoints(t, []string{half}) + "]}]}}",
		routes: `{match: {prefix: /never}, route: {cluster: back, idle_timeout: 0s, timeout: 1s}},
			{match: {prefix: /longer}, route: {cluster: back, idle_timeout: 20s, timeout: 1s}},
			{match: {prefix: /half}, route: {cluster: half}},
			{match: {prefix: /}, route: {cluster: back}}`,
	}).serve(t)
	w := v.dial(t)
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab")
	if r := w.want("408 stream timeout"); !r.close {
		t.Error("the connection stays open before half a request")
	}
	v.logged(t, "408 SI stream_idle_timeout")
	w = v.dial(t)
	w.get("/")
	w.want("504 stream timeout")
	for _, path := range []string{"/never", "/longer"} {
		w.get(path)
		w.want("504 upstream request timeout")
	}
	w.get("/half")
	w.want("200 half (unexpected EOF)")
	f := v.dial2(t)
	f.ask(1, "GET", "/half", true)
	f.want(1, "200 halfreset INTERNAL_ERROR")
	f.ask(3, "POST", "/", false)
	f.want(3, "408 stream timeout")
	v.counts(t, "http.in.downstream_rq_idle_timeout 5", "http.in.downstream_rq_active 0")
	v.logged(t, "408 SI stream_idle_timeout", "504 SI stream_idle_timeout", "504 UT response_timeout", "504 UT response_timeout",
		"200 SI stream_idle_timeout", "200 SI stream_idle_timeout", "408 SI stream_idle_timeout")
}

// Proves HC-21: everything that moves pushes the timeout back, in either direction.
func TestActivityKeepsStreams(t *testing.T) {
	tick, tock := make(chan struct{}), make(chan struct{})
	up := backend(t, func(w *wire, _ int) {
		w.head()
		w.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
		for range 10 {
			<-tick
			w.send("x")
			tock <- struct{}{}
		}
	})
	takes := backend(t, func(w *wire, _ int) {
		w.head()
		_, _ = io.ReadFull(w.r, make([]byte, 10))
		w.send(ok)
	})
	cluster := func(name, addr string) string {
		return "- {name: " + name + ", load_assignment: {cluster_name: " + name + ", endpoints: [{lb_endpoints: [" + endpoints(t, []string{addr}) + "]}]}}\n  "
	}
	v := (&site{
		hosts: []string{up}, manager: "stream_idle_timeout: 3s,", routes: "{match: {prefix: /wait}, route: {cluster: hole, timeout: 0.35s}}, {match: {prefix: /up}, route: {cluster: takes}}, {match: {prefix: /}, route: {cluster: back}}",
		more: cluster("hole", silent(t)) + cluster("takes", takes),
	}).serve(t)
	w, upload := v.dial(t), v.dial(t)
	w.get("/")
	upload.send("POST /up HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n")
	for range 10 { // each turn takes 0.35 s of the proxy's own time
		pause := v.dial(t)
		pause.get("/wait")
		pause.want("504 upstream request timeout")
		tick <- struct{}{}
		<-tock
		upload.send("y")
	}
	w.want("200 xxxxxxxxxx")
	upload.want("200 ok")
	v.counts(t, "http.in.downstream_rq_idle_timeout 0")
}

// Proves HC-22, partly proves RT-35: a client that does not take what is buffered for it
// loses its stream after the flush timeout, of the manager or the route.
func TestFlushTimeout(t *testing.T) {
	body := "{match: {prefix: /short}, direct_response: {status: 200, body: {inline_string: ok}}}"
	for name, s := range map[string]*site{
		"of the manager":   {manager: "stream_flush_timeout: 0.1s,", routes: body},
		"the idle timeout": {manager: "stream_idle_timeout: 0.1s,", routes: body},
		"of the route": {
			manager: "stream_idle_timeout: 0s,", hosts: []string{answering(t, ok)},
			routes: "{match: {prefix: /}, route: {cluster: back, flush_timeout: 0.1s}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := s.serve(t)
			f := v.dial2(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			f.ask(1, "GET", "/short", true)
			f.want(1, "200 reset INTERNAL_ERROR")
			v.counts(t, "http2.tx_flush_timeout 1", "http2.streams_active 0", "http.in.downstream_rq_active 0")
		})
	}
}

// Proves HC-22: a client that takes the response in time keeps it, however long
// it has had nothing else to do.
func TestFlushInTime(t *testing.T) {
	v := (&site{manager: "stream_flush_timeout: 20s,", routes: direct}).serve(t)
	f := v.dial2(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	f.ask(1, "GET", "/", true)
	v.counts(t, "http2.streams_active 1", "http.in.downstream_rq_2xx 1")
	_ = f.WriteWindowUpdate(1, 10)
	f.want(1, "200 ok")
	v.counts(t, "http2.tx_flush_timeout 0", "http2.streams_active 0")
}

// Proves HC-23: what of a request does not come in time.
func TestSlowRequests(t *testing.T) {
	v := (&site{hosts: []string{silent(t)}, manager: "request_headers_timeout: 0.1s,"}).serve(t)
	w := v.dial(t)
	w.send("GET / HTTP/1.1\r\nhost: ")
	if r := w.want("408 request header timeout"); !r.close {
		t.Error("the connection stays open before half a head")
	}
	f := v.dial2(t)
	f.next(func(fr http2.Frame) bool { s, is := fr.(*http2.SettingsFrame); return is && !s.IsAck() })
	f.buf.Reset()
	_ = f.enc.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.buf.Bytes()})
	f.want(1, "408 request header timeout")
	v.counts(t, "http.in.downstream_rq_header_timeout 2", "http.in.downstream_rq_timeout 0", "http.in.downstream_rq_active 0", "http.in.downstream_rq_4xx 2")
	v.logged(t, "408 - request_header_timeout", "408 - request_header_timeout")

	v = (&site{hosts: []string{silent(t)}, manager: "request_timeout: 0.5s,", routes: "{match: {prefix: /}, route: {cluster: back, timeout: 1s}}"}).serve(t)
	w = v.dial(t)
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab")
	w.want("408 request timeout")
	w = v.dial(t)
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncont")
	w.want("408 request timeout")
	f = v.dial2(t)
	f.ask(1, "POST", "/", false)
	f.want(1, "408 request timeout")
	v.counts(t, "http.in.downstream_rq_header_timeout 0", "http.in.downstream_rq_timeout 3", "http.in.downstream_rq_active 0")
	w = v.dial(t)
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nab")
	w.want("504 upstream request timeout") // a complete request is free of it
	v.logged(t, "408 - request_overall_timeout", "408 - request_overall_timeout", "408 - request_overall_timeout", "504 UT response_timeout")
}

// Proves HC-24: a stream that takes too long, and what is made of it.
func TestMaxStreamDuration(t *testing.T) {
	half := backend(t, func(w *wire, _ int) {
		w.head()
		w.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
		w.untilClosed()
	})
	v := (&site{
		hosts: []string{silent(t)}, manager: "common_http_protocol_options: {max_stream_duration: 0.4s},",
		more: "- {name: half, load_assignment: {cluster_name: half, endpoints: [{lb_endpoints: [" + endpoints(t, []string{half}) + "]}]}}",
		routes: `{match: {prefix: /half}, route: {cluster: half}},
			{match: {prefix: /own}, route: {cluster: back, idle_timeout: 0.8s, max_stream_duration: {max_stream_duration: 0s}}},
			{match: {prefix: /longer}, route: {cluster: back, idle_timeout: 0.8s, max_stream_duration: {max_stream_duration: 20s}}},
			{match: {prefix: /}, route: {cluster: back, timeout: 20s}}`,
	}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("504 downstream duration timeout")
	for _, path := range []string{"/own", "/longer"} {
		w.get(path)
		w.want("504 stream timeout")
	}
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab")
	w.want("408 downstream duration timeout")
	w = v.dial(t)
	w.get("/half")
	w.want("200 half (unexpected EOF)")
	w = v.dial(t)
	w.get("/", "content-type: application/grpc")
	if r := w.want("200 "); r.header.Get("grpc-status") != "4" {
		t.Error(r.header)
	}
	v.counts(t, "http.in.downstream_rq_max_duration_reached 4")
	v.logged(t, "504 - max_duration_timeout", "504 SI stream_idle_timeout", "504 SI stream_idle_timeout", "408 - max_duration_timeout", "200 - max_duration_timeout", "200 - max_duration_timeout")
}

// Proves HC-24: an old connection is drained.
func TestMaxConnectionDuration(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	up := backend(t, func(w *wire, _ int) {
		for w.head() != "" {
			asked <- struct{}{}
			<-answer
			w.send(ok)
		}
	})
	v := (&site{hosts: []string{up}, manager: "drain_timeout: 0.1s, common_http_protocol_options: {max_connection_duration: 0.5s},"}).serve(t)
	w := v.dial(t)
	w.get("/")
	take(t, asked)
	v.counts(t, "http.in.downstream_cx_max_duration_reached 1")
	answer <- struct{}{}
	if r := w.want("200 ok"); !r.close {
		t.Error("the connection stays open")
	}
	w.ended()
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	take(t, asked)
	if g := f.goAway(); g.LastStreamID != 1<<31-1 {
		t.Error(g)
	}
	if g := f.goAway(); g.LastStreamID != 1 {
		t.Error(g)
	}
	answer <- struct{}{}
	f.want(1, "200 ok")
	f.gone()
	v.counts(t, "http.in.downstream_cx_max_duration_reached 2", "http.in.downstream_cx_active 0")
}

// Proves HC-24: an old connection of HTTP/1 without a request ends, unless it is
// to end only with a response.
func TestMaxDurationOfIdleConnections(t *testing.T) {
	site := func(fields string) *site {
		return &site{
			manager: "drain_timeout: 0.1s, common_http_protocol_options: {max_connection_duration: 0.5s}," + fields, hosts: []string{silent(t)},
			routes: "{match: {prefix: /wait}, route: {cluster: back, timeout: 0.3s}}, " + direct,
		}
	}
	v := site("").serve(t)
	w := v.dial(t)
	w.get("/")
	if r := w.want("200 ok"); !r.close {
		w.ended()
	}
	v.counts(t, "http.in.downstream_cx_active 0")

	v = site("http1_safe_max_connection_duration: true,").serve(t)
	w = v.dial(t)
	w.get("/")
	if w.want("200 ok").close {
		t.Skip("the machine was too slow to ask in time")
	}
	v.counts(t, "http.in.downstream_cx_max_duration_reached 1", "http.in.downstream_cx_http1_soft_drain 1")
	pause := v.dial(t)
	pause.get("/wait")
	pause.want("504 upstream request timeout")
	w.get("/")
	if r := w.want("200 ok"); !r.close {
		t.Error("an old connection stays open")
	}
	w.ended()
	v = site("http1_safe_max_connection_duration: true,").serve(t)
	f := v.dial2(t) // HTTP/2 can say so without a response
	f.ask(1, "GET", "/", true)
	f.want(1, "200 ok")
	f.goAway()
	f.gone()
	v.counts(t, "http.in.downstream_cx_http1_soft_drain 0", "http.in.downstream_cx_active 0")
}

// Proves HC-25: between the two GOAWAYs of a drain requests are served, after
// the second they are not.
func TestDrainTimeout(t *testing.T) {
	v := (&site{routes: direct, manager: "drain_timeout: 1s, common_http_protocol_options: {max_requests_per_connection: 1},"}).serve(t)
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	if g := f.goAway(); g.LastStreamID != 1<<31-1 || g.ErrCode != http2.ErrCodeNo {
		t.Error(g)
	}
	f.ask(3, "GET", "/", true)
	f.want(3, "200 ok")
	if g := f.goAway(); g.LastStreamID != 3 || g.ErrCode != http2.ErrCodeNo {
		t.Error(g)
	}
	f.gone()
}

// Proves HC-25: a client that is still sending its request can read the answer
// before the socket closes, and the wait for it is bounded.
func TestDelayedClose(t *testing.T) {
	v := (&site{routes: direct, manager: "delayed_close_timeout: 0.2s,"}).serve(t)
	w := v.dial(t)
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n")
	for range 50 { // what the proxy does not read would reset the connection
		w.send("%s", make([]byte, 10000))
	}
	if r := w.want("200 ok"); !r.close {
		t.Error("the connection stays open before half a request")
	}
	w.ended()
	v.counts(t, "http.in.downstream_cx_delayed_close_timeout 1", "http.in.downstream_cx_active 0")

	w = v.dial(t) // and it does not wait for a client that has gone
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n")
	w.want("200 ok")
	_ = w.Close()
	v.counts(t, "http.in.downstream_cx_delayed_close_timeout 1", "http.in.downstream_cx_active 0", "http.in.downstream_cx_total 2")
}

// Proves HC-25: without a timeout the socket closes at once.
func TestNoDelayedClose(t *testing.T) {
	v := (&site{routes: direct, manager: "delayed_close_timeout: 0s,"}).serve(t)
	w := v.dial(t)
	w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n")
	w.want("200 ok")
	w.untilClosed()
	v.counts(t, "http.in.downstream_cx_delayed_close_timeout 0", "http.in.downstream_cx_active 0")
}

// Partly proves HC-08: a client that does not answer PING loses its connection; one
// that does keeps it.
func TestKeepalive(t *testing.T) {
	v := (&site{routes: direct, manager: "http2_protocol_options: {connection_keepalive: {interval: 0.1s, timeout: 2s}},"}).serve(t)
	f := v.dial2(t)
	ping := func() *http2.PingFrame {
		p, _ := f.next(func(fr http2.Frame) bool { p, is := fr.(*http2.PingFrame); return is && !p.IsAck() }).(*http2.PingFrame)
		return p
	}
	for range 3 {
		p := ping()
		if p == nil {
			t.Fatal("the connection ended though its PINGs were answered")
		}
		_ = f.WritePing(true, p.Data)
	}
	if ping() == nil {
		t.Fatal("no PING")
	}
	f.gone()
	v.counts(t, "http2.keepalive_timeout 1", "http.in.downstream_cx_active 0")
}

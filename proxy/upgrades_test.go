package proxy_test

import (
	"io"
	"testing"

	"golang.org/x/net/http2"
)

const switching = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n"

// repeating is a host that upgrades and then sends back what it gets, and ends
// when that ends.
func repeating(t *testing.T) string {
	t.Helper()
	return backend(t, func(w *wire, _ int) {
		if w.head() == "" {
			return
		}
		w.send(switching)
		_, _ = io.Copy(w, w.r)
	})
}

// upgraded asks for a websocket.
func (v *serving) upgraded(t *testing.T, path string) *wire {
	t.Helper()
	w := v.dial(t)
	w.get(path, "upgrade: websocket", "connection: upgrade")
	if h := w.head(); fieldOf(h, "upgrade") != "websocket" {
		t.Fatalf("the answer is %q", h)
	}
	return w
}

// echo says something and waits for it to come back.
func (w *wire) echo(text string) {
	w.t.Helper()
	w.send("%s", text)
	b := make([]byte, len(text))
	if _, err := io.ReadFull(w.r, b); err != nil || string(b) != text {
		w.t.Fatalf("%q came back, %v", b, err)
	}
}

const websockets = "upgrade_configs: [{upgrade_type: websocket}],"

// Partly proves HC-46: an upgraded stream outlives the route's timeout.
func TestUpgradesOutliveTheRoute(t *testing.T) {
	v := (&site{
		hosts: []string{repeating(t)}, manager: websockets, more: "- {name: hole, load_assignment: {cluster_name: hole, endpoints: [{lb_endpoints: [" + endpoints(t, []string{silent(t)}) + "]}]}}",
		routes: "{match: {prefix: /wait}, route: {cluster: hole, timeout: 1s}}, {match: {prefix: /}, route: {cluster: back, timeout: 0.5s}}",
	}).serve(t)
	w := v.upgraded(t, "/")
	w.echo("one")
	pause := v.dial(t)
	pause.get("/wait")
	pause.want("504 upstream request timeout")
	w.echo("two")
	v.counts(t, "http.in.downstream_cx_upgrades_total 1", "http.in.downstream_cx_upgrades_active 1", "cluster.back.upstream_rq_timeout 0")
	_ = w.Close()
	v.counts(t, "http.in.downstream_cx_upgrades_total 1", "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_cx_active 0", "cluster.back.upstream_rq_active 0")
}

// Partly proves HC-46: it does not outlive the idle timeout.
func TestIdleUpgrades(t *testing.T) {
	v := (&site{hosts: []string{repeating(t)}, manager: websockets + "stream_idle_timeout: 0.5s,"}).serve(t)
	w := v.upgraded(t, "/")
	w.echo("one")
	w.ended()
	v.counts(t, "http.in.downstream_rq_idle_timeout 1", "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_cx_active 0")
	v.logged(t, "101 SI stream_idle_timeout")
}

// Partly proves HC-46: each side can end what it sends, and still be told the
// rest.
func TestHalfClosedUpgrades(t *testing.T) {
	said := make(chan string, 1)
	up := backend(t, func(w *wire, _ int) {
		w.head()
		w.send(switching)
		all, _ := io.ReadAll(w.r)
		said <- string(all)
		w.send("bye")
	})
	v := (&site{hosts: []string{up}, manager: websockets}).serve(t)
	w := v.upgraded(t, "/")
	w.send("hello")
	if err := w.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := take(t, said); got != "hello" {
		t.Errorf("the host got %q", got)
	}
	if b, err := io.ReadAll(w.r); string(b) != "bye" || err != nil {
		t.Errorf("the client got %q, %v", b, err)
	}
	v.counts(t, "http.in.downstream_cx_upgrades_active 0", "http.in.downstream_rq_active 0", "cluster.back.upstream_rq_active 0")
}

// Partly proves HC-46: an upgrade that the host does not take is a response.
func TestRefusedUpgrade(t *testing.T) {
	v := (&site{hosts: []string{answering(t, ok)}, manager: websockets}).serve(t)
	w := v.dial(t)
	w.get("/", "upgrade: websocket", "connection: upgrade")
	w.want("200 ok")
	v.counts(t, "http.in.downstream_cx_upgrades_total 1", "http.in.downstream_cx_upgrades_active 0")
}

// Proves HC-56: a response that ends first ends the stream, and what is left of
// the request is given up, on both sides.
func TestResponseEndsFirst(t *testing.T) {
	g := newGate2(t)
	v := (&site{hosts: []string{g.addr}, cluster: speaking("", "")}).serve(t)
	f := v.dial2(t)
	f.ask(1, "POST", "/", false, "content-type: application/grpc", "te: trailers")
	x := take(t, g.asked)
	_ = f.WriteData(1, false, []byte("half"))
	x.f.head(x.id, false, ":status: 200", "content-type: application/grpc")
	_ = x.f.WriteData(x.id, false, []byte("reply"))
	x.f.head(x.id, true, "grpc-status: 0")
	f.want(1, "200 reply; grpc-status: 0")
	rst, _ := f.next(func(fr http2.Frame) bool { _, is := fr.(*http2.RSTStreamFrame); return is }).(*http2.RSTStreamFrame)
	if rst == nil || rst.StreamID != 1 || rst.ErrCode != http2.ErrCodeNo {
		t.Errorf("after the response: %v", rst)
	}
	v.counts(t, "http.in.downstream_rq_active 0", "cluster.back.upstream_rq_active 0", "cluster.back.http2.streams_active 0", "http2.streams_active 0",
		"http.in.downstream_rq_response_before_rq_complete 1", "cluster.back.upstream_rq_tx_reset 1")
	f.ask(3, "GET", "/", true) // both connections are as good as before
	take(t, g.asked).answer("ok")
	f.want(3, "200 ok")
	v.counts(t, "cluster.back.upstream_cx_total 1")
}

// Proves HC-56: a request that ends first leaves the response alone.
func TestRequestEndsFirst(t *testing.T) {
	g := newGate2(t)
	v := (&site{hosts: []string{g.addr}, cluster: speaking("", "")}).serve(t)
	f := v.dial2(t)
	f.ask(1, "POST", "/", false)
	x := take(t, g.asked)
	x.f.head(x.id, false, ":status: 200")
	_ = x.f.WriteData(x.id, false, []byte("a"))
	_ = f.WriteData(1, true, []byte("all"))
	v.counts(t, "http.in.downstream_rq_active 1", "cluster.back.upstream_rq_active 1")
	_ = x.f.WriteData(x.id, true, []byte("b"))
	f.want(1, "200 ab")
	v.counts(t, "http.in.downstream_rq_active 0", "cluster.back.upstream_rq_active 0", "cluster.back.upstream_rq_tx_reset 0")
}

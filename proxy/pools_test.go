package proxy_test

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// gate is a host of HTTP/1 whose answers wait.
type gate struct {
	addr  string
	asked chan int // the connection's number, when a request is there
	open  chan string
}

// newGate makes one; what open gets is the answer to one of the requests.
func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{asked: make(chan int, 100), open: make(chan string, 100)}
	done := t.Context().Done()
	g.addr = backend(t, func(w *wire, n int) {
		for w.head() != "" {
			g.asked <- n
			select {
			case text := <-g.open:
				w.send("%s", text)
			case <-done:
				return
			}
		}
	})
	return g
}

// Proves CM-20 and RQ-04: requests at the same time have connections of their
// own; one after another they share the one used last.
func TestHTTP1Pool(t *testing.T) {
	g := newGate(t)
	v := (&site{hosts: []string{g.addr}}).serve(t)
	var clients []*wire
	for i := range 10 {
		w := v.dial(t)
		w.get("/")
		if n := take(t, g.asked); n != i {
			t.Errorf("request %d came on connection %d", i, n)
		}
		clients = append(clients, w)
	}
	for range clients {
		g.open <- ok
	}
	for _, w := range clients {
		w.want("200 ok")
	}
	v.counts(t, "cluster.back.upstream_cx_total 10", "cluster.back.upstream_cx_http1_total 10", "cluster.back.upstream_rq_total 10", "cluster.back.upstream_rq_active 0")
	clients[0].get("/")
	last := take(t, g.asked)
	g.open <- ok
	clients[0].want("200 ok")
	for range 3 {
		clients[1].get("/")
		if n := take(t, g.asked); n != last {
			t.Errorf("connection %d was used, not the last, %d", n, last)
		}
		g.open <- ok
		clients[1].want("200 ok")
	}
	v.counts(t, "cluster.back.upstream_cx_total 10", "cluster.back.upstream_cx_active 10")
}

// Proves CM-20 and RQ-04: connections that cannot carry another request are
// not used again.
func TestHTTP1ConnectionsThatEnd(t *testing.T) {
	for name, answer := range map[string]string{
		"close":     "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
		"left over": ok + "x",
		"1.0":       "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			v := (&site{hosts: []string{answering(t, answer)}}).serve(t)
			w := v.dial(t)
			for range 3 {
				w.get("/")
				w.want("200 ok")
			}
			v.counts(t, "cluster.back.upstream_cx_total 3", "cluster.back.upstream_cx_active 0", "cluster.back.upstream_cx_destroy 3", "cluster.back.upstream_rq_200 3")
		})
	}
	t.Run("unread", func(t *testing.T) {
		v := (&site{hosts: []string{backend(t, func(w *wire, n int) {
			for w.head() != "" {
				if n == 0 {
					w.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
				} else {
					w.send(ok)
				}
			}
		})}, routes: "{match: {prefix: /}, route: {cluster: back, timeout: 0.2s}}"}).serve(t)
		v.dial(t).get("/") // cut by the timeout
		v.counts(t, "cluster.back.upstream_cx_total 1", "cluster.back.upstream_cx_active 0", "cluster.back.upstream_cx_destroy_local_with_active_rq 1")
		w := v.dial(t)
		w.get("/")
		w.want("200 ok")
	})
	t.Run("early answer", func(t *testing.T) {
		v := (&site{hosts: []string{answering(t, ok)}}).serve(t)
		w := v.dial(t)
		w.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf")
		w.want("200 ok")
		v.counts(t, "cluster.back.upstream_cx_active 0", "cluster.back.upstream_cx_destroy_local 1")
	})
	t.Run("max requests", func(t *testing.T) {
		v := (&site{hosts: []string{answering(t, ok)}, cluster: speaking1("common_http_protocol_options: {max_requests_per_connection: 2},")}).serve(t)
		w := v.dial(t)
		for range 5 {
			w.get("/")
			w.want("200 ok")
		}
		v.counts(t, "cluster.back.upstream_cx_total 3", "cluster.back.upstream_cx_active 1", "cluster.back.upstream_cx_max_requests 2")
	})
}

// gate2 is a host of HTTP/2 that allows two streams and answers when told.
type gate2 struct {
	addr  string
	asked chan *stream2
}

// stream2 is a request that a host got.
type stream2 struct {
	f    *wire2
	conn int
	id   uint32
}

func (s *stream2) answer(text string) {
	s.f.head(s.id, false, ":status: 200")
	_ = s.f.WriteData(s.id, true, []byte(text))
}

func newGate2(t *testing.T, settings ...http2.Setting) *gate2 {
	t.Helper()
	g := &gate2{asked: make(chan *stream2, 100)}
	g.addr = backend(t, func(w *wire, n int) {
		f := accept2(w, settings...)
		if f == nil {
			return
		}
		for h := f.request(); h != nil; h = f.request() {
			g.asked <- &stream2{f, n, h.StreamID}
		}
	})
	return g
}

// Proves CM-21 and CM-19: a connection carries as many streams as its host
// allows, the others wait as pending or get a connection of their own.
func TestHTTP2Pool(t *testing.T) {
	for name, s := range map[string]struct {
		cluster string
		setting []http2.Setting
	}{
		"the host's limit": {speaking("", ""), []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 2}}},
		"its own limit":    {speaking("", "max_concurrent_streams: 2"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate2(t, s.setting...)
			v := (&site{hosts: []string{g.addr}, cluster: s.cluster}).serve(t)
			f := v.dial2(t)
			got := map[int]int{}
			var streams []*stream2
			for i := range 5 {
				f.ask(uint32(2*i+1), "GET", "/", true)
				x := take(t, g.asked)
				got[x.conn]++
				streams = append(streams, x)
			}
			if fmt.Sprint(got) != "map[0:2 1:2 2:1]" {
				t.Errorf("streams of connections: %v", got)
			}
			v.counts(t, "cluster.back.upstream_cx_total 3", "cluster.back.upstream_cx_http2_total 3", "cluster.back.http2.streams_active 5", "cluster.back.upstream_rq_active 5")
			for i, x := range streams {
				x.answer("ok")
				f.want(uint32(2*i+1), "200 ok")
			}
			f.ask(11, "GET", "/", true)
			take(t, g.asked).answer("ok")
			f.want(11, "200 ok")
			v.counts(t, "cluster.back.upstream_cx_total 3", "cluster.back.http2.streams_active 0")
		})
	}
}

// Proves CM-19: what cannot have a connection waits.
func TestPendingRequests(t *testing.T) {
	g := newGate2(t, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	v := (&site{hosts: []string{g.addr}, cluster: speaking("", "") + "circuit_breakers: {thresholds: [{max_connections: 1}]},"}).serve(t)
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	first := take(t, g.asked)
	f.ask(3, "GET", "/", true)
	v.counts(t, "cluster.back.upstream_rq_pending_active 1", "cluster.back.upstream_cx_overflow 1", "cluster.back.upstream_cx_total 1")
	first.answer("one")
	f.want(1, "200 one")
	take(t, g.asked).answer("two")
	f.want(3, "200 two")
	v.counts(t, "cluster.back.upstream_rq_pending_active 0", "cluster.back.upstream_rq_pending_total 2", "cluster.back.upstream_cx_total 1")

	f.ask(5, "GET", "/", true)
	first = take(t, g.asked)
	f.ask(7, "GET", "/", true)
	v.counts(t, "cluster.back.upstream_rq_pending_active 1")
	_ = f.WriteRSTStream(7, http2.ErrCodeCancel)
	v.counts(t, "cluster.back.upstream_rq_pending_active 0", "cluster.back.upstream_rq_cancelled 1")
	first.answer("ok")
	f.want(5, "200 ok")
}

// Proves CM-21 and CM-23: after GOAWAY streams that the host has taken go on,
// those it has not are safe to retry, and new ones have a new connection.
func TestGoAwayOfHost(t *testing.T) {
	g := newGate2(t)
	v := (&site{
		hosts: []string{g.addr}, cluster: speaking("", ""),
		routes: "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: refused-stream}}}",
	}).serve(t)
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	f.ask(3, "GET", "/", true)
	one, two := take(t, g.asked), take(t, g.asked)
	_ = one.f.WriteGoAway(one.id, http2.ErrCodeNo, nil) // two was not processed
	again := take(t, g.asked)
	if two.conn != 0 || again.conn != 1 {
		t.Errorf("the second request came on connection %d and then on %d", two.conn, again.conn)
	}
	again.answer("two")
	f.want(3, "200 two")
	one.answer("one")
	f.want(1, "200 one")
	f.ask(5, "GET", "/", true)
	three := take(t, g.asked)
	three.answer("three")
	f.want(5, "200 three")
	if three.conn != 1 {
		t.Errorf("the third request came on connection %d", three.conn)
	}
	v.counts(t, "cluster.back.upstream_cx_total 2", "cluster.back.upstream_cx_active 1", "cluster.back.upstream_cx_close_notify 1",
		"cluster.back.upstream_rq_retry 1", "cluster.back.upstream_rq_retry_success 1")
}

// Proves CM-21: max_requests_per_connection drains.
func TestHTTP2MaxRequests(t *testing.T) {
	g := newGate2(t)
	v := (&site{hosts: []string{g.addr}, cluster: speaking("common_http_protocol_options: {max_requests_per_connection: 2},", "")}).serve(t)
	f := v.dial2(t)
	for i := range 5 {
		f.ask(uint32(2*i+1), "GET", "/", true)
		if x := take(t, g.asked); x.conn != i/2 {
			t.Errorf("request %d came on connection %d", i, x.conn)
		} else {
			defer x.answer("late") // the connections are open all the time
		}
	}
	v.counts(t, "cluster.back.upstream_cx_total 3", "cluster.back.upstream_cx_max_requests 2", "cluster.back.upstream_cx_active 3")
}

// Proves CM-23: a stream that the host refuses is sent again.
func TestRefusedStream(t *testing.T) {
	g := newGate2(t)
	v := (&site{
		hosts: []string{g.addr}, cluster: speaking("", ""),
		routes: `{match: {prefix: /refused}, route: {cluster: back, retry_policy: {retry_on: refused-stream}}},
			{match: {prefix: /}, route: {cluster: back}}`,
	}).serve(t)
	f := v.dial2(t)
	f.ask(1, "GET", "/refused", true)
	x := take(t, g.asked)
	_ = x.f.WriteRSTStream(x.id, http2.ErrCodeRefusedStream)
	take(t, g.asked).answer("ok")
	f.want(1, "200 ok")
	f.ask(3, "GET", "/refused", true)
	x = take(t, g.asked)
	_ = x.f.WriteRSTStream(x.id, http2.ErrCodeCancel) // not safe
	f.want(3, "503 upstream connect error or disconnect/reset before headers. reset reason: remote reset")
	v.counts(t, "cluster.back.upstream_cx_total 1", "cluster.back.upstream_rq_retry 1", "cluster.back.upstream_rq_rx_reset 1")
}

// Proves CM-23. Partly proves HC-08: a host that does not answer PING loses its connection, with
// what waits there; one that does keeps it.
func TestUpstreamKeepalive(t *testing.T) {
	pinged := make(chan struct{}, 100)
	var quiet atomic.Bool
	up := backend(t, func(w *wire, _ int) {
		f := accept2(w)
		if f == nil {
			return
		}
		f.next(func(fr http2.Frame) bool {
			if p, is := fr.(*http2.PingFrame); is && !p.IsAck() {
				pinged <- struct{}{}
				if !quiet.Load() {
					_ = f.WritePing(true, p.Data)
				}
			}
			return false
		})
	})
	v := (&site{hosts: []string{up}, cluster: speaking("", "connection_keepalive: {interval: 0.1s, timeout: 2s}")}).serve(t)
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	for range 3 {
		take(t, pinged)
	}
	v.counts(t, "cluster.back.upstream_cx_active 1", "cluster.back.http2.keepalive_timeout 0")
	quiet.Store(true)
	f.want(1, "503 upstream connect error or disconnect/reset before headers. reset reason: connection termination")
	v.counts(t, "cluster.back.upstream_cx_active 0", "cluster.back.http2.keepalive_timeout 1")
}

// Proves TS-22: connecting includes the handshake.
func TestConnectTimeoutCoversHandshake(t *testing.T) {
	v := (&site{hosts: []string{silent(t)}, cluster: `connect_timeout: 0.2s, transport_socket: {name: tls, typed_config: {
		"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}},`}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("503 upstream connect error or disconnect/reset before headers. reset reason: connection timeout")
	v.counts(t, "cluster.back.upstream_cx_connect_timeout 1", "cluster.back.upstream_cx_connect_fail 1", "cluster.back.upstream_cx_active 0")
	v.logged(t, "503 UF upstream_reset_before_response_started{connection_timeout}")
}

// Proves CM-19: requests that ask for different server names do not share a
// connection, those that ask for the same do.
func TestPoolsByServerName(t *testing.T) {
	cert, key := certificates(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	names := make(chan string, 100)
	up := backend(t, func(w *wire, n int) {
		c := tls.Server(w, &tls.Config{Certificates: []tls.Certificate{pair}})
		w = newWire(t, c)
		for w.head() != "" {
			names <- fmt.Sprint(n, " ", c.ConnectionState().ServerName)
			w.send(ok)
		}
	})
	v := (&site{hosts: []string{up}, cluster: speaking1("upstream_http_protocol_options: {auto_sni: true},") + `transport_socket: {name: tls, typed_config: {
		"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}},`}).serve(t)
	w := v.dial(t)
	for _, x := range []struct{ host, want string }{{"a.com", "0 a.com"}, {"b.com:80", "1 b.com"}, {"a.com", "0 a.com"}, {"b.com", "1 b.com"}} {
		w.send("GET / HTTP/1.1\r\nhost: %s\r\n\r\n", x.host)
		w.want("200 ok")
		if got := take(t, names); got != x.want {
			t.Errorf("%s came as %q, want %q", x.host, got, x.want)
		}
	}
}

// Proves CM-23. Partly proves HC-08: a connection that has rested is asked whether it is
// alive ahead of the next stream.
func TestKeepaliveBeforeReuse(t *testing.T) {
	frames := make(chan string, 100)
	up := backend(t, func(w *wire, _ int) {
		f := accept2(w)
		if f == nil {
			return
		}
		f.next(func(fr http2.Frame) bool {
			switch x := fr.(type) {
			case *http2.PingFrame:
				if !x.IsAck() {
					frames <- "ping"
					_ = f.WritePing(true, x.Data)
				}
			case *http2.MetaHeadersFrame:
				frames <- "request"
				(&stream2{f, 0, x.StreamID}).answer("ok")
			}
			return false
		})
	})
	slow := endpoints(t, []string{silent(t)})
	v := (&site{
		hosts: []string{up}, cluster: speaking("", "connection_keepalive: {timeout: 5s, connection_idle_interval: 0.2s}"),
		routes: "{match: {prefix: /wait}, route: {cluster: slow, timeout: 0.3s}}, {match: {prefix: /}, route: {cluster: back}}",
		more:   "- {name: slow, load_assignment: {cluster_name: slow, endpoints: [{lb_endpoints: [" + slow + "]}]}}",
	}).serve(t)
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	f.want(1, "200 ok")
	f.ask(3, "GET", "/wait", true) // longer than the interval
	f.want(3, "504 upstream request timeout")
	f.ask(5, "GET", "/", true)
	f.want(5, "200 ok")
	for _, want := range []string{"request", "ping", "request"} {
		if got := take(t, frames); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	v.counts(t, "cluster.back.upstream_cx_total 1", "cluster.back.http2.keepalive_timeout 0")
}

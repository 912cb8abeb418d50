package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

const (
	connects    = "upgrade_configs: [{upgrade_type: CONNECT}],"
	connectsTo  = "{match: {connect_matcher: {}}, route: {cluster: back, timeout: 0.3s%s}}"
	endingHere  = ", upgrade_configs: [{upgrade_type: CONNECT, connect_config: {%s}}]"
	answersTo   = "HTTP/1.1 200 Connection established\r\nx: y\r\n\r\n"
	connectHead = "CONNECT far.test:443 HTTP/1.1\r\nhost: far.test:443\r\nx: y\r\n\r\n"
)

// connect asks for a tunnel on a connection of its own.
func (v *serving) connect(t *testing.T, h2 bool, early string) (end tube, head func() string) {
	t.Helper()
	if !h2 {
		w := v.dial(t)
		w.send("%s%s", connectHead, early)
		return tube1{w}, w.head
	}
	f := v.dial2(t)
	f.head(1, false, ":method: CONNECT", ":authority: far.test:443", "x: y")
	end = &tube2{f: f, id: 1}
	if early != "" {
		_, _ = end.Write([]byte(early))
	}
	return end, func() string {
		r := f.request()
		if r == nil {
			return ""
		}
		head := ""
		for _, x := range r.Fields {
			head += x.Name + ": " + x.Value + "\r\n"
		}
		return head
	}
}

// Partly proves HC-45: without connect_config a CONNECT is passed on, and the tunnel
// goes through both connections, in all combinations of protocols.
func TestConnectIsPassedOn(t *testing.T) {
	combinations(t, connects, fmt.Sprintf(connectsTo, ""), func(t *testing.T, v *serving, h2 [2]bool, got <-chan *asked) {
		client, head := v.connect(t, h2[0], "early")
		a := take(t, got)
		if h2[1] {
			holds(t, a.head, ":method: CONNECT\r\n", ":authority: far.test:443\r\n", "x: y\r\n", "!:path", "!:scheme", "!:protocol")
			a.answer(false, ":status: 200", "x: y")
		} else {
			holds(t, a.head, "CONNECT far.test:443 HTTP/1.1\r\n", "x: y\r\n", "!transfer-encoding", "!content-length")
			a.answer(false, "HTTP/1.1 200 Fine", "x: y", "content-length: 7")
		}
		h := head()
		holds(t, h, "200", "x: y", "!content-length", "!transfer-encoding")
		b := make([]byte, 5)
		if _, err := io.ReadFull(a, b); err != nil || string(b) != "early" {
			t.Errorf("the host got %q, %v", b, err)
		}
		time.Sleep(400 * time.Millisecond) // longer than the route's timeout
		says(t, client, a, "one")
		says(t, a, client, "two")
		_ = client.CloseWrite()
		if rest, err := io.ReadAll(a); len(rest) > 0 || err != nil {
			t.Errorf("the host got %q, %v", rest, err)
		}
		says(t, a, client, strings.Repeat("three", 10000))
		v.counts(t, "http.in.downstream_cx_upgrades_active 1")
		_ = a.CloseWrite()
		if rest, err := io.ReadAll(client); len(rest) > 0 || err != nil {
			t.Errorf("the client got %q, %v", rest, err)
		}
		v.counts(t, "http.in.downstream_cx_upgrades_total 1", "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_rq_active 0", "cluster.back.upstream_rq_200 1")
	})
}

// Partly proves HC-45: of a CONNECT that the host refuses nothing more is told it.
func TestRefusedConnect(t *testing.T) {
	combinations(t, connects, fmt.Sprintf(connectsTo, ""), func(t *testing.T, v *serving, h2 [2]bool, got <-chan *asked) {
		_, head := v.connect(t, h2[0], "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n")
		a := take(t, got)
		v.counts(t, "http.in.downstream_cx_upgrades_active 1")
		time.Sleep(100 * time.Millisecond) // for what must not come
		if h2[1] {
			a.answer(true, ":status: 407")
		} else {
			a.answer(true, "HTTP/1.1 407 No", "content-length: 0")
		}
		holds(t, head(), "407")
		if b, _ := io.ReadAll(a); len(b) > 0 {
			t.Errorf("the host got %q", b)
		}
		v.counts(t, "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_rq_active 0")
	})
}

// plainHost hands on its connections.
func plainHost(t *testing.T) (addr string, got <-chan *wire) {
	t.Helper()
	ch, over := make(chan *wire, 10), make(chan struct{})
	addr = backend(t, func(w *wire, _ int) {
		ch <- w
		<-over
	})
	t.Cleanup(func() { close(over) })
	return addr, ch
}

// Proves HC-45: with connect_config the tunnel ends here, and what goes through it
// is the host's, after a PROXY header if that is configured. Without a route it is
// 404, without being enabled 403.
func TestConnectEndsHere(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for name, cfg := range map[string]string{"plain": "", "PROXY v1": "proxy_protocol_config: {}", "PROXY v2": "proxy_protocol_config: {version: V2}"} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", name, h2), func(t *testing.T) {
				addr, got := plainHost(t)
				v := (&site{hosts: []string{addr}, manager: connects, routes: fmt.Sprintf(connectsTo, fmt.Sprintf(endingHere, cfg))}).serve(t)
				client, head := v.connect(t, h2, "early")
				host := tube1{take(t, got)}
				holds(t, head(), "200", "!content-length", "!transfer-encoding")
				switch name {
				case "PROXY v1":
					if line, _ := host.r.ReadString('\n'); !strings.HasPrefix(line, "PROXY TCP4 127.0.0.1 127.0.0.1 ") || !strings.HasSuffix(line, v.front[strings.LastIndexByte(v.front, ':')+1:]+"\r\n") {
						t.Errorf("the PROXY header is %q", line)
					}
				case "PROXY v2":
					b := make([]byte, 28)
					if _, err := io.ReadFull(host, b); err != nil || !strings.HasPrefix(string(b), "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01") {
						t.Errorf("the PROXY header is %q, %v", b, err)
					}
				}
				says(t, said{client}, host, "early")
				time.Sleep(400 * time.Millisecond) // longer than the route's timeout
				says(t, client, host, "one")
				says(t, host, client, strings.Repeat("two", 10000))
				_ = client.CloseWrite()
				if rest, err := io.ReadAll(host); len(rest) > 0 || err != nil {
					t.Errorf("the host got %q, %v", rest, err)
				}
				says(t, host, client, "three")
				v.counts(t, "cluster.back.upstream_rq_active 1", "cluster.back.upstream_cx_active 1", "http.in.downstream_cx_upgrades_active 1")
				_ = host.CloseWrite()
				if rest, err := io.ReadAll(client); len(rest) > 0 || err != nil {
					t.Errorf("the client got %q, %v", rest, err)
				}
				v.counts(t, "cluster.back.upstream_rq_active 0", "cluster.back.upstream_cx_active 0", "cluster.back.upstream_cx_destroy_with_active_rq 0",
					"http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_rq_200 1")
				v.logged(t, "200 - via_upstream")
			})
		}
	}
	t.Run("no route, not enabled", func(t *testing.T) {
		v := (&site{hosts: []string{answering(t, ok)}, manager: connects}).serve(t) // the only route has a path
		_, head := v.connect(t, false, "")
		holds(t, head(), "HTTP/1.1 404 ")
		v.logged(t, "404 NR route_not_found")
		v = (&site{hosts: []string{answering(t, ok)}, routes: fmt.Sprintf(connectsTo, "")}).serve(t)
		for _, h2 := range []bool{false, true} {
			_, head := v.connect(t, h2, "")
			holds(t, head(), "403")
		}
		v.counts(t, "http.in.downstream_rq_ws_on_non_ws_route 2", "http.in.downstream_cx_upgrades_total 0")
		v = (&site{hosts: []string{answering(t, ok)}, routes: "{match: {connect_matcher: {}}, route: {cluster: back}}"}).serve(t)
		w := v.dial(t)
		w.get("/")
		w.want("404 ")
	})
}

// said is a tube to which nothing is written any more.
type said struct{ tube }

func (said) Write(b []byte) (int, error) { return len(b), nil }

// Partly proves HC-45: either side's break ends the tunnel that ends here, and what
// cannot be connected to is 503.
func TestBrokenConnect(t *testing.T) {
	addr, got := plainHost(t)
	routes := fmt.Sprintf(connectsTo, fmt.Sprintf(endingHere, ""))
	v := (&site{hosts: []string{addr}, manager: connects, routes: routes}).serve(t)
	client, head := v.connect(t, true, "")
	host := tube1{take(t, got)}
	head()
	says(t, client, host, "one")
	reset(host.Conn)
	if _, err := io.ReadAll(client); err == nil || err.Error() != "reset CONNECT_ERROR" {
		t.Errorf("the tunnel ended with %v", err)
	}
	client, head = v.connect(t, false, "")
	host = tube1{take(t, got)}
	head()
	says(t, host, client, "two")
	reset(client.(tube1).Conn)
	host.untilClosed()
	v.counts(t, "cluster.back.upstream_rq_active 0", "cluster.back.upstream_cx_active 0", "http.in.downstream_cx_upgrades_active 0",
		"cluster.back.upstream_cx_destroy_with_active_rq 2", "cluster.back.upstream_cx_destroy_local_with_active_rq 1")

	v = (&site{hosts: []string{freeAddress(t)}, manager: connects, routes: routes}).serve(t)
	_, head = v.connect(t, false, "early")
	holds(t, head(), "HTTP/1.1 503 ")
	v.counts(t, "cluster.back.upstream_cx_connect_fail 1", "cluster.back.upstream_rq_active 0", "cluster.back.upstream_rq_pending_active 0")

	// A client that leaves while the host is being connected to.
	v = (&site{hosts: []string{silent(t)}, cluster: `transport_socket: {name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}},`, manager: connects, routes: routes}).serve(t)
	client, _ = v.connect(t, false, "")
	v.counts(t, "http.in.downstream_cx_upgrades_active 1")
	_ = client.(tube1).Close()
	v.counts(t, "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_cx_active 0", "cluster.back.upstream_rq_pending_active 0")
}

// Partly proves HC-45: with allow_post a POST is such a tunnel, with a body.
func TestPostThroughTunnels(t *testing.T) {
	addr, got := plainHost(t)
	v := (&site{hosts: []string{addr}, routes: "{match: {prefix: /}, route: {cluster: back" + fmt.Sprintf(endingHere, "allow_post: true") + "}}"}).serve(t)
	w := v.dial(t)
	for i := range 2 {
		w.send("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello")
		host := tube1{take(t, got)}
		if b, err := io.ReadAll(host); string(b) != "hello" || err != nil {
			t.Errorf("the host got %q, %v", b, err)
		}
		_, _ = host.Write([]byte("world"))
		_ = host.CloseWrite()
		w.want("200 world")
		v.counts(t, fmt.Sprintf("cluster.back.upstream_rq_200 %d", i+1), "cluster.back.upstream_rq_active 0", "cluster.back.upstream_cx_active 0")
	}
}

// Partly proves HC-45, HC-41: routes may leave the port out, the host gets it.
func TestConnectKeepsItsPort(t *testing.T) {
	addr, got := tunneller(t, false)
	v := (&site{hosts: []string{addr}, manager: connects + "strip_any_host_port: true,", routes: `{match: {connect_matcher: {}, headers: [{name: ":authority", string_match: {exact: far.test}}]}, route: {cluster: back}}`}).serve(t)
	v.connect(t, false, "")
	holds(t, take(t, got).head, "CONNECT far.test:443 HTTP/1.1\r\n")
}

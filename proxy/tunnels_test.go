package proxy_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// tube is one end of a tunnel.
type tube interface {
	io.ReadWriter
	// CloseWrite says that no more is written.
	CloseWrite() error
}

// CloseWrite ends what a connection of HTTP/1 sends.
func (w *wire) CloseWrite() error { return w.Conn.(*net.TCPConn).CloseWrite() }

// tube1 is a tunnel that fills its connection.
type tube1 struct{ *wire }

func (t tube1) Read(b []byte) (int, error) { return t.r.Read(b) }

// tube2 is a tunnel on a stream of HTTP/2.
type tube2 struct {
	f    *wire2
	id   uint32
	rest []byte
	over error
}

func (t *tube2) CloseWrite() error { return t.f.WriteData(t.id, true, nil) }

func (t *tube2) Write(b []byte) (n int, err error) {
	for part := range slices.Chunk(b, 16<<10) {
		if err := t.f.WriteData(t.id, false, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (t *tube2) Read(b []byte) (int, error) {
	for len(t.rest) == 0 && t.over == nil {
		switch x := t.f.next(func(fr http2.Frame) bool { return fr.Header().StreamID == t.id }).(type) {
		case nil:
			t.over = io.ErrUnexpectedEOF
		case *http2.DataFrame:
			t.rest = append(t.rest, x.Data()...)
			if x.StreamEnded() {
				t.over = io.EOF
			}
		case *http2.RSTStreamFrame:
			t.over = fmt.Errorf("reset %v", x.ErrCode)
		}
	}
	n := copy(b, t.rest)
	if t.rest = t.rest[n:]; n > 0 {
		return n, nil
	}
	return 0, t.over
}

// says writes to one end of a tunnel and waits for it at the other.
func says(t *testing.T, from, to tube, text string) {
	t.Helper()
	if _, err := from.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(text))
	if n, err := io.ReadFull(to, b); err != nil || string(b) != text {
		t.Fatalf("%.50q came, %d bytes, %v, want %.50q, %d bytes", b, n, err, text, len(text))
	}
}

// asked is a request for a tunnel that a host got.
type asked struct {
	tube
	head string // lines "name: value", the first one that of the request in HTTP/1
	// answer sends a head, of HTTP/1 or fields ":status: 200" of HTTP/2.
	answer func(end bool, fields ...string)
	done   chan<- struct{}
}

// tunneller is a host of HTTP/1 or HTTP/2 that hands on what it is asked.
func tunneller(t *testing.T, h2 bool) (addr string, got <-chan *asked) {
	t.Helper()
	ch := make(chan *asked, 10)
	over := make(chan struct{})
	addr = backend(t, func(w *wire, _ int) {
		done := make(chan struct{})
		if !h2 {
			if h := w.head(); h != "" {
				ch <- &asked{tube1{w}, h, func(_ bool, f ...string) { w.send("%s\r\n\r\n", strings.Join(f, "\r\n")) }, done}
			}
		} else if f := accept2(w); f != nil {
			r := f.request()
			if r == nil {
				return
			}
			head := ""
			for _, x := range r.Fields {
				head += x.Name + ": " + x.Value + "\r\n"
			}
			ch <- &asked{&tube2{f: f, id: r.StreamID}, head, func(end bool, fields ...string) { f.head(r.StreamID, end, fields...) }, done}
		}
		select {
		case <-done:
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) }) // which comes before the host's own end
	return addr, ch
}

// accept answers as a websocket's host, in its protocol.
func (a *asked) accept() {
	if _, h1 := a.tube.(tube1); h1 {
		a.answer(false, "HTTP/1.1 101 Switching Protocols", "upgrade: websocket", "connection: Upgrade", "x: y")
		return
	}
	a.answer(false, ":status: 200", "x: y")
}

// wsOver asks for a websocket on a connection of its own. head is called for the
// answer's, as a list of lines, once the host has answered.
func (v *serving) wsOver(t *testing.T, h2 bool, path string) (end tube, head func() string) {
	t.Helper()
	if !h2 {
		w := v.dial(t)
		w.get(path, "upgrade: websocket", "connection: Upgrade", "sec-websocket-version: 13")
		return tube1{w}, w.head
	}
	f := v.dial2(t)
	f.ask(1, "CONNECT", path, false, ":protocol: websocket", "sec-websocket-version: 13")
	return &tube2{f: f, id: 1}, func() string {
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

const bothWebsockets = websockets + "http2_protocol_options: {allow_connect: true},"

// combinations runs a test for each protocol of the client and of the host.
func combinations(t *testing.T, manager, routes string, test func(t *testing.T, v *serving, h2 [2]bool, got <-chan *asked)) {
	for _, h2 := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		name := map[bool]string{false: "HTTP/1", true: "HTTP/2"}
		t.Run(name[h2[0]]+" to "+name[h2[1]], func(t *testing.T) {
			addr, got := tunneller(t, h2[1])
			s := &site{hosts: []string{addr}, manager: manager, routes: routes}
			if h2[1] {
				s.cluster = speaking("", "allow_connect: true")
			}
			test(t, s.serve(t), h2, got)
		})
	}
}

func holds(t *testing.T, head string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		no, absent := strings.CutPrefix(l, "!")
		if strings.Contains(strings.ToLower(head), strings.ToLower(no)) == absent {
			t.Errorf("%q in %q", l, head)
		}
	}
}

// Proves HC-44: a websocket of HTTP/1 is an extended CONNECT in HTTP/2, and the
// other way round; what is between the connections has one form.
// Partly proves HC-46: whoever ends what it sends is still told the rest, upgrades
// are counted.
func TestTunnelsThroughBothProtocols(t *testing.T) {
	routes := `{match: {prefix: /, headers: [{name: ":method", string_match: {exact: GET}}, {name: upgrade, string_match: {exact: websocket}}]}, route: {cluster: back}}`
	combinations(t, bothWebsockets, routes, func(t *testing.T, v *serving, h2 [2]bool, got <-chan *asked) {
		client, head := v.wsOver(t, h2[0], "/chat")
		a := take(t, got)
		if h2[1] {
			holds(t, a.head, ":method: CONNECT\r\n", ":protocol: websocket\r\n", ":path: /chat\r\n", ":authority: a\r\n", ":scheme: http\r\n", "sec-websocket-version: 13\r\n", "!upgrade:", "!connection:")
		} else {
			holds(t, a.head, "GET /chat HTTP/1.1\r\n", "upgrade: websocket\r\n", "connection: upgrade\r\n", "host: a\r\n", "sec-websocket-version: 13\r\n", "!:protocol", "!chunked")
		}
		a.accept()
		if h := head(); h2[0] {
			holds(t, h, ":status: 200\r\n", "x: y\r\n", "!upgrade", "!connection")
		} else {
			holds(t, h, "HTTP/1.1 101 Switching Protocols\r\n", "x: y\r\n", "upgrade: websocket\r\n", "connection: upgrade\r\n")
		}
		v.counts(t, "http.in.downstream_cx_upgrades_total 1", "http.in.downstream_cx_upgrades_active 1", "http.in.downstream_rq_1xx 1", "cluster.back.upstream_rq_1xx 1")
		says(t, client, a, "one")
		says(t, a, client, "two")
		says(t, client, a, strings.Repeat("three", 10000))
		_ = client.CloseWrite()
		if rest, err := io.ReadAll(a); len(rest) > 0 || err != nil {
			t.Errorf("the host got %q, %v", rest, err)
		}
		says(t, a, client, "four")
		_ = a.CloseWrite()
		if rest, err := io.ReadAll(client); len(rest) > 0 || err != nil {
			t.Errorf("the client got %q, %v", rest, err)
		}
		v.counts(t, "http.in.downstream_cx_upgrades_total 1", "http.in.downstream_cx_upgrades_active 0", "http.in.downstream_rq_active 0",
			"cluster.back.upstream_rq_active 0", "cluster.back.upstream_rq_tx_reset 0", "http.in.downstream_rq_rx_reset 0")
		v.logged(t, "101 - via_upstream")
	})
}

// Partly proves HC-46: a client that has nothing to say may listen.
func TestTunnelsThatOnlyListen(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		addr, got := tunneller(t, h2)
		s := &site{hosts: []string{addr}, manager: bothWebsockets}
		if h2 {
			s.cluster = speaking("", "")
		}
		f := s.serve(t).dial2(t)
		f.ask(1, "CONNECT", "/", true, ":protocol: websocket")
		a := take(t, got)
		a.accept()
		if !h2 { // where the end comes with the head
			if b, err := io.ReadAll(a); len(b) > 0 || err != nil {
				t.Errorf("the host got %q, %v", b, err)
			}
		}
		_, _ = a.Write([]byte("news"))
		_ = a.CloseWrite()
		f.want(1, "200 news")
	}
}

// Proves HC-46: neither the route's timeout nor that of requests ends a tunnel, half
// open or not; that of idle streams does.
func TestTimesOfTunnels(t *testing.T) {
	routes := "{match: {prefix: /short}, route: {cluster: back, timeout: 0.3s}}, {match: {prefix: /idle}, route: {cluster: back, idle_timeout: 0.3s}}"
	combinations(t, bothWebsockets+"request_timeout: 0.3s,", routes, func(t *testing.T, v *serving, h2 [2]bool, got <-chan *asked) {
		client, head := v.wsOver(t, h2[0], "/short")
		a := take(t, got)
		a.accept()
		head()
		time.Sleep(500 * time.Millisecond)
		says(t, client, a, "late")
		_ = client.CloseWrite()
		if _, err := io.ReadAll(a); err != nil {
			t.Error(err)
		}
		time.Sleep(500 * time.Millisecond)
		says(t, a, client, "later")
		close(a.done)
		v.counts(t, "cluster.back.upstream_rq_timeout 0", "http.in.downstream_rq_timeout 0", "http.in.downstream_rq_idle_timeout 0")

		client, head = v.wsOver(t, h2[0], "/idle")
		a = take(t, got)
		a.accept()
		head()
		says(t, client, a, "one")
		if _, err := io.ReadAll(client); h2[0] && (err == nil || err.Error() != "reset INTERNAL_ERROR") {
			t.Errorf("the idle tunnel ended with %v", err)
		}
		v.counts(t, "http.in.downstream_rq_idle_timeout 1", "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_rq_active 0")
	})
}

// Partly proves HC-46: a host that does not answer is not waited for longer than the
// route says.
func TestTunnelsThatAreNotAnswered(t *testing.T) {
	combinations(t, bothWebsockets, "{match: {prefix: /}, route: {cluster: back, timeout: 0.2s}}", func(t *testing.T, v *serving, h2 [2]bool, got <-chan *asked) {
		_, head := v.wsOver(t, h2[0], "/")
		take(t, got)
		holds(t, head(), "504")
		v.counts(t, "cluster.back.upstream_rq_timeout 1", "http.in.downstream_cx_upgrades_active 0")
	})
}

// Partly proves HC-44: a refusal is an answer, and what the client has sent ahead
// stays here: the host would take it for a request.
func TestRefusedTunnels(t *testing.T) {
	combinations(t, bothWebsockets, "", func(t *testing.T, v *serving, h2 [2]bool, got <-chan *asked) {
		client, head := v.wsOver(t, h2[0], "/")
		a := take(t, got)
		_, _ = client.Write([]byte("GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"))
		v.counts(t, "http.in.downstream_cx_upgrades_active 1")
		time.Sleep(100 * time.Millisecond) // for what must not come
		if h2[1] {
			a.answer(true, ":status: 403")
		} else {
			a.answer(true, "HTTP/1.1 403 No", "content-length: 0")
		}
		holds(t, head(), "403")
		if b, _ := io.ReadAll(a); len(b) > 0 {
			t.Errorf("the host got %q", b)
		}
		v.counts(t, "http.in.downstream_rq_4xx 1", "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_rq_active 0")
	})
}

// Partly proves HC-44: what HTTP/1 says otherwise than HTTP/2 is never a consent in
// HTTP/2.
func TestRefusalsThatSoundLikeConsent(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody":    "200 ",
		"HTTP/1.1 101 Switching Protocols\r\n\r\nbody":        "502 upstream connect error or disconnect/reset before headers. reset reason: protocol error",
		"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n": "404 ",
	} {
		t.Run(answer[9:12], func(t *testing.T) {
			v := (&site{hosts: []string{answering(t, answer)}, manager: bothWebsockets}).serve(t)
			f := v.dial2(t)
			f.ask(1, "CONNECT", "/", false, ":protocol: websocket")
			f.want(1, want)
			v.counts(t, "http.in.downstream_cx_upgrades_active 0", "cluster.back.upstream_rq_active 0", "http.in.downstream_rq_active 0")
		})
	}
}

// Partly proves HC-44: clients are told whether they may ask, and of types that are
// not enabled that they may not.
func TestWhoMayUseExtendedConnect(t *testing.T) {
	v := (&site{hosts: []string{answering(t, ok)}, manager: bothWebsockets}).serve(t)
	f := v.dial2(t)
	s, _ := f.next(func(fr http2.Frame) bool { _, is := fr.(*http2.SettingsFrame); return is }).(*http2.SettingsFrame)
	if n, has := s.Value(http2.SettingEnableConnectProtocol); !has || n != 1 {
		t.Errorf("SETTINGS_ENABLE_CONNECT_PROTOCOL is %d, %v", n, has)
	}
	for i, kind := range []string{"other", "connect-udp", "bytestream", "connect"} {
		f := v.dial2(t)
		f.ask(1, "CONNECT", "/", false, ":protocol: "+kind)
		if g := f.goAway(); g.LastStreamID != 1<<31-1 {
			t.Errorf("GOAWAY of %d", g.LastStreamID)
		}
		f.want(1, "403 ")
		v.counts(t, fmt.Sprintf("http.in.downstream_rq_ws_on_non_ws_route %d", i+1))
	}
	v = (&site{hosts: []string{answering(t, ok)}, manager: websockets}).serve(t)
	f = v.dial2(t)
	f.ask(1, "CONNECT", "/", false, ":protocol: websocket")
	s, _ = f.next(func(fr http2.Frame) bool { _, is := fr.(*http2.SettingsFrame); return is }).(*http2.SettingsFrame)
	if _, has := s.Value(http2.SettingEnableConnectProtocol); has {
		t.Error("extended CONNECT is announced although it is not allowed")
	}
	if g := f.goAway(); g.ErrCode != http2.ErrCodeProtocol {
		t.Errorf("GOAWAY with %v", g.ErrCode)
	}
}

// Partly proves HC-44: the end of a tunnel whose other end breaks has a code of its
// own.
func TestBrokenTunnels(t *testing.T) {
	v := (&site{manager: bothWebsockets, hosts: []string{freeAddress(t)}}).serve(t)
	f := v.dial2(t)
	f.ask(1, "CONNECT", "/", false, ":protocol: websocket")
	holds(t, f.outcome(1), "503")
	rst, _ := f.next(func(fr http2.Frame) bool { _, is := fr.(*http2.RSTStreamFrame); return is }).(*http2.RSTStreamFrame)
	if rst == nil || rst.ErrCode != http2.ErrCodeConnect {
		t.Errorf("after the answer: %v", rst)
	}
	addr, got := tunneller(t, false)
	v = (&site{manager: bothWebsockets, hosts: []string{addr}}).serve(t)
	client, head := v.wsOver(t, true, "/")
	a := take(t, got)
	a.accept()
	head()
	says(t, client, a, "one")
	reset(a.tube.(tube1).Conn)
	if _, err := io.ReadAll(client); err == nil || err.Error() != "reset CONNECT_ERROR" {
		t.Errorf("the tunnel ended with %v", err)
	}
}

// Partly proves HC-44, HC-45, HC-46: that code is for tunnels alone: of another request whose
// host breaks or cannot be reached it is not said.
func TestBrokenRequestsAreNoTunnels(t *testing.T) {
	v := (&site{manager: bothWebsockets, hosts: []string{freeAddress(t)}}).serve(t)
	f := v.dial2(t)
	f.ask(1, "POST", "/", false)
	holds(t, f.outcome(1), "503")
	rst, _ := f.next(func(fr http2.Frame) bool { _, is := fr.(*http2.RSTStreamFrame); return is }).(*http2.RSTStreamFrame)
	if rst == nil || rst.ErrCode != http2.ErrCodeNo {
		t.Errorf("after the answer: %v", rst)
	}
	breaks := make(chan struct{})
	v = (&site{manager: bothWebsockets, hosts: []string{backend(t, func(w *wire, _ int) {
		w.head()
		w.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
		<-breaks
		reset(w.Conn)
	})}}).serve(t)
	f = v.dial2(t)
	f.ask(1, "GET", "/", true)
	f.next(func(fr http2.Frame) bool { _, is := fr.(*http2.DataFrame); return is })
	close(breaks)
	rst, _ = f.next(func(fr http2.Frame) bool { _, is := fr.(*http2.RSTStreamFrame); return is }).(*http2.RSTStreamFrame)
	if rst == nil || rst.ErrCode != http2.ErrCodeInternal {
		t.Errorf("after half of an answer: %v", rst)
	}
}

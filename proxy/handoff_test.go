package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// via connects to a listener that believes PROXY headers, and says where the
// connection wanted to go.
func (r *running) via(t *testing.T, name, destination string, port int, rest string) net.Conn {
	t.Helper()
	c := r.dial(t, name)
	family, source := "TCP4", "192.0.2.1"
	if strings.Contains(destination, ":") {
		family, source = "TCP6", "2001:db8::1"
	}
	say(t, c, fmt.Sprintf("PROXY %s %s %s 1000 %d\r\n%s", family, source, destination, port, rest))
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// unbound is a listener that others hand connections to.
func unbound(name, address string, port int, more ...string) string {
	more = append(more, "bind_to_port: false")
	return listenAt(name, fmt.Sprintf("{socket_address: {address: '%s', port_value: %d}}", address, port), more...)
}

// TestHandOff says in PROXY headers what was wanted. Proves LM-12 with
// TestHandOffOfRedirected, in which the system redirects: use_original_dst gives a
// connection to the listener of the address that was wanted, that of the very
// address before that of all addresses, and handles it itself if there is none.
// One with bind_to_port false is reached like that only.
func TestHandOff(t *testing.T) {
	chain := func(text string) string { return "filter_chains: [{filters: [" + canned(text) + "]}]" }
	var logs syncBuffer
	const original = "use_original_dst: true, listener_filters: [" + proxyHeader + "]"
	r := start(t, bootstrapOf(listen("front", canned("itself"), original)+
		listen("plain", canned("plain"), "listener_filters: ["+proxyHeader+"]")+
		unbound("exact", "203.0.113.7", 443, chain("exact"))+
		unbound("all", "0.0.0.0", 443, chain("all"), logTo("all", "%DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_DIRECT_LOCAL_ADDRESS%"))+
		unbound("all6", "::", 443, chain("all6"))+
		unbound("both", "::", 444, chain("never"))+
		listenAt("compat", "{socket_address: {address: '::', port_value: 445, ipv4_compat: true}}", chain("compat"), "bind_to_port: false")+
		unbound("http", "203.0.113.7", 80, "filter_chains: [{filters: ["+okFilter+"]}]", "listener_filters: ["+tlsInspector+"]")+
		unbound("again", "203.0.113.8", 80, chain("again"), "use_original_dst: true"), ""), logged(&logs))
	for _, tc := range []struct {
		to   string
		port int
		want string
	}{
		{"203.0.113.7", 443, "exact"},
		{"203.0.113.8", 443, "all"},
		{"203.0.113.8", 80, "again"},
		{"203.0.113.9", 80, "itself"},
		{"2001:db8::7", 443, "all6"},
		{"2001:db8::7", 80, "itself"},
		{"203.0.113.7", 444, "itself"},
		{"203.0.113.7", 445, "compat"},
	} {
		ends(t, r.via(t, "front", tc.to, tc.port, ""), tc.want)
		ends(t, r.via(t, "plain", tc.to, tc.port, ""), "plain")
	}
	c := r.via(t, "front", "203.0.113.7", 80, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
	if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "\r\n\r\nfine") {
		t.Errorf("what follows the header: %q, %v", b, err)
	}
	for _, port := range []int{443, 445} {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = c.Close()
			t.Errorf("port %d is bound", port)
		}
	}
	r.until(t, "listener.exact.downstream_cx_total: 1", "listener.all.downstream_cx_total: 1", "listener.http.downstream_cx_total: 1",
		"listener.front.downstream_cx_total: 3", "listener.http.downstream_cx_active: 0", "listener.front.downstream_pre_cx_active: 0")
	local := r.at("front")
	r.finish(t)
	if got, want := logs.String(), "all 203.0.113.8:443 "+local+"\n"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// Partly proves LM-12: listeners that are handed connections come, are replaced and
// go like others, and have no address twice. Their limits are for what they accept
// themselves, though what they are handed counts, as in Envoy.
func TestHandOffChanges(t *testing.T) {
	const limited = `layered_runtime: {layers: [{name: static, static_layer: {envoy.resource_limits.listener.full.connection_limit: 0,
  envoy.resource_limits.listener.counted.connection_limit: 1}}]}
`
	r := start(t, limited+bootstrapOf(listen("front", canned("itself"), "use_original_dst: true, listener_filters: ["+proxyHeader+"]"), ""))
	res := r.Resources()
	unbound := func(name, body, address string) *listenerv3.Listener {
		l := listenerAt(name, address, chainOf(manager(with(saying("r", body)))))
		l.BindToPort = wrapperspb.Bool(false)
		return l
	}
	becomes := func(port int, want string) {
		t.Helper()
		var b []byte
		for range 500 {
			c := r.via(t, "front", "203.0.113.7", port, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
			b, _ = io.ReadAll(c)
			if strings.HasSuffix(string(b), want) {
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
		t.Fatalf("port %d gives %q, want %q", port, b, want)
	}
	must(t, res.SetListener(unbound("l", "one", "203.0.113.7:80"), "1"))
	becomes(80, "\r\n\r\none")
	must(t, res.SetListener(unbound("l", "two", "203.0.113.7:80"), "2"))
	becomes(80, "\r\n\r\ntwo")
	must(t, res.SetListener(unbound("l", "two", "203.0.113.7:81"), "3"))
	becomes(81, "\r\n\r\ntwo")
	becomes(80, "itself")
	if err := res.SetListener(unbound("m", "x", "203.0.113.7:81"), "1"); err == nil || !strings.Contains(err.Error(), "has duplicate address '203.0.113.7:81' as existing listener 'l'") {
		t.Errorf("an address twice: %v", err)
	}
	must(t, res.SetListener(unbound("full", "x", "203.0.113.7:82"), "1"))
	becomes(82, "\r\n\r\nx")
	r.until(t, "listener.203.0.113.7_82.downstream_cx_total: 1", "listener.203.0.113.7_82.downstream_cx_overflow: 0")
	address := freeAddress(t)
	must(t, res.SetListener(listenerAt("counted", address, chainOf(manager(with(saying("r", "counted"))))), "1"))
	waitOpen(t, address)
	at := netip.MustParseAddrPort(address)
	stat := fmt.Sprintf("listener.%s_%d.", at.Addr(), at.Port())
	r.until(t, stat+"downstream_cx_total: 1", stat+"downstream_cx_active: 0")
	kept := r.via(t, "front", at.Addr().String(), int(at.Port()), "GET / HTTP/1.1\r\nhost: a\r\n\r\n")
	r.until(t, stat+"downstream_cx_active: 1")
	c, err := net.Dial("tcp", address)
	must(t, err)
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("over the limit: %q", b)
	}
	_ = c.Close()
	r.until(t, stat+"downstream_cx_overflow: 1")
	_ = kept.Close()
	res.RemoveListener("l")
	becomes(81, "itself")
}

package proxy_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// looker is a listener filter whose calls are written down.
type looker struct {
	name   string
	events chan string
	accept func(*filter.Accepted) filter.ListenerStatus
	data   func(*filter.Accepted, []byte) (filter.ListenerStatus, int)
}

func (l *looker) OnAccept(a *filter.Accepted) filter.ListenerStatus {
	l.events <- l.name + " accept"
	if l.accept != nil {
		return l.accept(a)
	}
	return filter.ListenerContinue
}

func (l *looker) OnData(a *filter.Accepted, peeked []byte) (filter.ListenerStatus, int) {
	l.events <- l.name + " data " + string(peeked)
	if l.data != nil {
		return l.data(a, peeked)
	}
	return filter.ListenerContinue, 0
}

// waits is a looker that wants n bytes and consumes some of them.
func waits(name string, n, used int) looker {
	return looker{
		name: name, accept: func(*filter.Accepted) filter.ListenerStatus { return filter.ListenerWait },
		data: func(_ *filter.Accepted, b []byte) (filter.ListenerStatus, int) {
			if len(b) < n {
				return filter.ListenerWait, 0
			}
			return filter.ListenerContinue, used
		},
	}
}

// listenerProbes registers listener filters by the name that probe gives them.
func listenerProbes(events chan string, list ...looker) func(*proxyrun.Flags, *proxy.Options) {
	kind := filter.ListenerType{Config: (*wrapperspb.StringValue)(nil), New: func(m proto.Message, _ *filter.Env) (filter.ListenerFactory, error) {
		v, _ := m.(*wrapperspb.StringValue)
		for _, l := range list {
			if l.name == v.GetValue() {
				l.events = events
				return func() filter.ListenerFilter { made := l; return &made }, nil
			}
		}
		return nil, fmt.Errorf("no probe %q", v.GetValue())
	}}
	return func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddListener(kind) }
	}
}

// Proves LF-01 and partly proves LF-02: in order on one connection, made for each
// one; a filter that waits is asked again with all bytes, the next one follows,
// and what was peeked reaches the network filters, but for what was consumed.
func TestListenerFilterOrder(t *testing.T) {
	events := make(chan string, 100)
	r := start(t, bootstrapOf(listen("l", echoFilter, "listener_filters: ["+probe("a")+","+probe("b")+","+probe("c")+"]"), ""),
		listenerProbes(events, waits("a", 4, 2), looker{name: "b"}, waits("c", 3, 0)))
	for range 2 {
		c := r.dial(t, "l")
		expect(t, events, "a accept")
		say(t, c, "12")
		expect(t, events, "a data 12")
		say(t, c, "34")
		expect(t, events, "a data 1234", "b accept", "c accept", "c data 34")
		say(t, c, "5")
		expect(t, events, "c data 345")
		hear(t, c, "345")
	}
}

// Partly proves LF-01: filters may set what the choice of the chain and the logs
// see; one that rejects closes the connection.
func TestListenerFiltersSet(t *testing.T) {
	events := make(chan string, 100)
	log := &syncBuffer{}
	set := looker{name: "set", accept: func(a *filter.Accepted) filter.ListenerStatus {
		c := a.Info.Connection
		c.RequestedServerName = "a.example"
		a.TransportProtocol, a.ApplicationProtocols = "tls", []string{"x"}
		c.Remote, c.Local = filter.IPAddress(netip.MustParseAddrPort("192.0.2.1:7")), filter.IPAddress(netip.MustParseAddrPort("192.0.2.9:8"))
		a.Info.SetMetadata("ns", "key", structpb.NewStringValue("value"))
		return filter.ListenerContinue
	}}
	reject := looker{name: "reject", accept: func(*filter.Accepted) filter.ListenerStatus { return filter.ListenerReject }}
	chains := "{filter_chain_match: {server_names: [a.example], transport_protocol: tls, application_protocols: [x], prefix_ranges: [{address_prefix: 192.0.2.9, prefix_len: 32}]}, filters: [" + canned("chosen") + "]}"
	off := strings.TrimSuffix(tlsInspector, "}") + ", filter_disabled: {any_match: true}}" // or one is added
	r := start(t, bootstrapOf(
		listenChains("l", chains, "listener_filters: ["+probe("set")+","+off+"]", logTo("log", "%REQUESTED_SERVER_NAME% %DOWNSTREAM_REMOTE_ADDRESS% %DYNAMIC_METADATA(ns:key)%"))+
			listen("refuse", echoFilter, "listener_filters: ["+probe("reject")+"]"), ""), logged(log), listenerProbes(events, set, reject))
	ends(t, r.dial(t, "l"), "chosen")
	if c, err := net.Dial("tcp", r.at("refuse")); err == nil { // or it was reset before
		b, err := io.ReadAll(c)
		_ = c.Close()
		if len(b) > 0 || err == nil {
			t.Errorf("%q, %v instead of a reset", b, err)
		}
	}
	r.until(t, "listener.refuse.downstream_pre_cx_active: 0", "listener.refuse.downstream_cx_total: 0", "listener.l.downstream_cx_destroy: 1")
	r.finish(t)
	if got := log.String(); got != "log a.example 192.0.2.1:7 value\n" {
		t.Errorf("%q", got)
	}
}

// Proves LF-02: a PROXY header and a ClientHello in one stream, split at every
// byte: the header is consumed, and what follows reaches the inspector and the
// handshake.
func TestProxyHeaderThenTLS(t *testing.T) {
	cert, key := certificates(t)
	r := start(t, bootstrapOf(listenChains("l", "{filter_chain_match: {server_names: [acme.com]}, filters: ["+echoFilter+"], "+tlsSocket(cert, key)+"}",
		"listener_filters: ["+proxyHeader+","+tlsInspector+"]"), ""))
	const header = "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n"
	whole := recordHello(t)
	for at := 1; at < len(header)+len(whole); at += 7 {
		tcp := r.dial(t, "l")
		c := tls.Client(&splitting{Conn: tcp, head: header, at: at}, &tls.Config{ServerName: "acme.com", InsecureSkipVerify: true}) //nolint:gosec // a test
		say(t, c, "x")
		hear(t, c, "x")
		_ = tcp.Close()
	}
}

// recordHello is what a client sends first.
func recordHello(t *testing.T) []byte {
	t.Helper()
	a, b := net.Pipe()
	go func() {
		_ = tls.Client(a, &tls.Config{ServerName: "acme.com", InsecureSkipVerify: true}).Handshake() //nolint:gosec // a test
	}()
	defer a.Close()
	defer b.Close()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// splitting is a connection whose first write has a head and is cut in two.
type splitting struct {
	net.Conn
	head string
	at   int
	done bool
}

func (s *splitting) Write(b []byte) (int, error) {
	if s.done {
		return s.Conn.Write(b)
	}
	s.done = true
	all := append([]byte(s.head), b...)
	at := min(s.at, len(all))
	for _, part := range [][]byte{all[:at], all[at:]} {
		if _, err := s.Conn.Write(part); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// tlsSocket is a chain's transport socket.
func tlsSocket(cert, key string) string {
	return fmt.Sprintf(`transport_socket: {name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext,
      common_tls_context: {tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]}}}`, cert, key)
}

// Proves LF-03.
func TestListenerFilterDisabled(t *testing.T) {
	in, out := "{destination_port_range: {start: 1, end: 65536}}", "{destination_port_range: {start: 1, end: 2}}"
	tests := []struct {
		name, predicate string
		skipped         bool
	}{
		{"any", "{any_match: true}", true},
		{"port", in, true},
		{"other port", out, false},
		{"not", "{not_match: " + out + "}", true},
		{"or", "{or_match: {rules: [" + out + ", " + in + "]}}", true},
		{"or none", "{or_match: {rules: [" + out + ", " + out + "]}}", false},
		{"and", "{and_match: {rules: [" + in + ", " + in + "]}}", true},
		{"and not all", "{and_match: {rules: [" + in + ", " + out + "]}}", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := make(chan string, 10)
			f := strings.TrimSuffix(probe("a"), "}") + ", filter_disabled: " + tt.predicate + "}"
			r := start(t, bootstrapOf(listen("l", canned("ok"), "listener_filters: ["+f+"]"), ""), listenerProbes(events, looker{name: "a"}))
			ends(t, r.dial(t, "l"), "ok")
			if skipped := len(events) == 0; skipped != tt.skipped {
				t.Errorf("skipped %t", skipped)
			}
		})
	}
}

// Proves LF-05 and FC-14, partly proves FC-09: without listener filters the
// chain is chosen by the server name, with a warning; it brings its certificate and
// its network filters; a name that no chain has gets the default chain.
func TestInspectorIsAdded(t *testing.T) {
	var chains []string
	for _, name := range []string{"one", "two"} {
		cert, key := certificates(t)
		chains = append(chains, fmt.Sprintf("{name: %s, filter_chain_match: {server_names: [%s.example]}, filters: [%s], %s}", name, name, canned(name), tlsSocket(cert, key)))
	}
	r := start(t, bootstrapOf(listenChains("l", strings.Join(chains, ","), "default_filter_chain: {filters: ["+canned("default")+"]}"), ""))
	if !strings.Contains(r.log.String(), "adding listener filter envoy.filters.listener.tls_inspector") {
		t.Errorf("no warning in %s", r.log.String())
	}
	var leaves [][]byte
	for _, name := range []string{"one", "two"} {
		c, err := tls.Dial("tcp", r.at("l"), &tls.Config{ServerName: name + ".example", InsecureSkipVerify: true}) //nolint:gosec // a test
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, c.ConnectionState().PeerCertificates[0].Raw)
		ends(t, c, name)
		_ = c.Close()
	}
	if bytes.Equal(leaves[0], leaves[1]) {
		t.Error("both chains have one certificate")
	}
	c := r.dial(t, "l")
	say(t, c, "plain")
	b, _ := io.ReadAll(c)
	if string(b) != "default" {
		t.Errorf("%q", b)
	}
}

// Proves FC-09 and LM-16: a server name that no chain has: closed, counted, and
// one line in the listener's log; stat_prefix names the statistics.
func TestNoChain(t *testing.T) {
	cert, key := certificates(t)
	log := &syncBuffer{}
	r := start(t, bootstrapOf(listenChains("l", "{filter_chain_match: {server_names: [a.example]}, filters: ["+echoFilter+"], "+tlsSocket(cert, key)+"}",
		logTo("log", "%RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %REQUESTED_SERVER_NAME%"))+
		listen("plain", canned("x"), logTo("plain", "%RESPONSE_FLAGS% %BYTES_SENT%")), ""), logged(log))
	_, err := tls.Dial("tcp", r.at("l"), &tls.Config{ServerName: "b.example", InsecureSkipVerify: true}) //nolint:gosec // a test
	if err == nil {
		t.Error("the connection is served")
	}
	ends(t, r.dial(t, "plain"), "x")
	r.until(t, "listener.l.no_filter_chain_match: 1", "listener.l.downstream_cx_total: 0", "listener.l.downstream_cx_active: 0", "listener.plain.downstream_cx_destroy: 1")
	r.finish(t)
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	slices.Sort(got)
	if diff := cmp.Diff([]string{"log NR filter_chain_not_found b.example", "plain - 1"}, got); diff != "" {
		t.Error(diff)
	}
}

// Proves LM-14: a client that says nothing is closed and counted, or goes on to a
// protocol whose server speaks first; without a timeout it may take its time.
func TestListenerFilterTimeout(t *testing.T) {
	inspect := "listener_filters: [" + tlsInspector + "]"
	r := start(t, bootstrapOf(
		listen("closes", canned("never"), inspect, "listener_filters_timeout: 0.05s")+
			listen("goes_on", canned("hello"), inspect, "listener_filters_timeout: 0.05s", "continue_on_listener_filters_timeout: true")+
			listen("waits", canned("late"), inspect, "listener_filters_timeout: 0s")+
			listen("decided", okFilter, inspect, "listener_filters_timeout: 0.05s"), ""))
	waiting, decided := r.dial(t, "waits"), r.dial(t, "decided")
	say(t, decided, "G") // not TLS: the timeout has nothing more to do here
	ends(t, r.dial(t, "closes"), "")
	ends(t, r.dial(t, "goes_on"), "hello")
	r.until(t, "listener.closes.downstream_pre_cx_timeout: 1", "listener.closes.downstream_cx_total: 0", "listener.closes.downstream_pre_cx_active: 0",
		"listener.goes_on.downstream_pre_cx_timeout: 1", "listener.goes_on.downstream_cx_total: 1",
		"listener.waits.downstream_pre_cx_timeout: 0", "listener.waits.downstream_pre_cx_active: 1", "listener.decided.downstream_pre_cx_timeout: 0")
	say(t, waiting, "x")
	b, _ := io.ReadAll(waiting)
	if string(b) != "late" {
		t.Errorf("%q", b)
	}
	say(t, decided, "ET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(decided); !bytes.HasPrefix(b, []byte("HTTP/1.1 200 OK\r\n")) {
		t.Errorf("%q", b)
	}
}

// Proves FC-12.
func TestHandshakeTimeout(t *testing.T) {
	cert, key := certificates(t)
	log := &syncBuffer{}
	r := start(t, bootstrapOf(listenChains("l", "{transport_socket_connect_timeout: 0.05s, filters: ["+echoFilter+"], "+tlsSocket(cert, key)+"}",
		logTo("log", "%CONNECTION_TERMINATION_DETAILS%|%DOWNSTREAM_LOCAL_CLOSE_REASON%")), ""), logged(log))
	ends(t, r.dial(t, "l"), "")
	r.until(t, "listener.l.downstream_cx_transport_socket_connect_timeout: 1", "listener.l.downstream_cx_active: 0", "listener.l.downstream_cx_destroy: 1")
	r.finish(t)
	if got := log.String(); got != "log transport socket timeout was reached|transport_socket_timeout\n" {
		t.Errorf("%q", got)
	}
}

// Partly proves LM-15: a chain without filters closes.
func TestEmptyChainCloses(t *testing.T) {
	r := start(t, bootstrapOf(listen("l", ""), ""))
	ends(t, r.dial(t, "l"), "")
	r.until(t, "listener.l.downstream_cx_total: 1", "listener.l.downstream_cx_active: 0", "listener.l.network_extension_config_missing: 1")
}

// Proves LM-19: with the limit of now, which an operator may change.
func TestConnectionLimit(t *testing.T) {
	r := start(t, bootstrapOf(listen("l", echoFilter)+listen("none", echoFilter), "")+`
layered_runtime: {layers: [
  {name: static, static_layer: {envoy.resource_limits.listener.l.connection_limit: 2, envoy.resource_limits.listener.none.connection_limit: 0}},
  {name: admin, admin_layer: {}}]}
`, workers(2))
	open := func() net.Conn {
		c := r.dial(t, "l")
		say(t, c, "x")
		hear(t, c, "x")
		return c
	}
	first := open()
	open()
	refusedAt(t, r, "l")
	refusedAt(t, r, "none")
	r.until(t, "listener.l.downstream_cx_overflow: 1", "listener.l.downstream_cx_active: 2", "listener.l.downstream_cx_total: 2", "listener.none.downstream_cx_overflow: 1")
	_ = first.Close()
	r.until(t, "listener.l.downstream_cx_active: 1")
	open()
	if a := r.ask(t, "POST", "/runtime_modify?envoy.resource_limits.listener.l.connection_limit=3", ""); a.status != 200 {
		t.Fatal(a.body)
	}
	open()
	refusedAt(t, r, "l")
}

// refusedAt finds that a listener closes a connection without a word.
func refusedAt(t *testing.T, r *running, name string) {
	t.Helper()
	if b, _ := io.ReadAll(r.dial(t, name)); len(b) > 0 {
		t.Errorf("%s says %q", name, b)
	}
}

// Proves that an inspected connection sees the end of a silent client as such.
func TestClientEndsBeforeChain(t *testing.T) {
	r := start(t, bootstrapOf(listen("l", echoFilter, "listener_filters: ["+tlsInspector+"]"), ""))
	c := r.dial(t, "l")
	_ = c.CloseWrite()
	ends(t, c, "")
	r.until(t, "listener.l.downstream_listener_filter_remote_close: 1", "listener.l.downstream_pre_cx_active: 0")
}

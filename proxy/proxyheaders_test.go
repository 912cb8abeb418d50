package proxy_test

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// announced is a transport socket that sends PROXY headers ahead of another, "" for raw
// bytes; fields are those of its config.
func announced(fields, inner string) string {
	if inner == "" {
		inner = `{name: raw, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}}`
	}
	return `transport_socket: {name: proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport,
	  config: {` + fields + `}, transport_socket: ` + inner + `}}`
}

const (
	tlsInner = `{name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}}`
	// keepsTLVs takes PROXY headers, if there are any, and keeps what they carry.
	keepsTLVs = `listener_filters: [{name: proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol,
	  allow_requests_without_proxy_protocol: true, pass_through_tlvs: {}}}],`
	toOther     = "{match: {prefix: /}, route: {cluster: other}}"
	signatureV2 = "\r\n\r\n\x00\r\nQUIT\n"
)

// ahead reads the PROXY header that a connection begins with: the line of version 1,
// or what follows the signature of version 2, in hexadecimal.
func (w *wire) ahead() string {
	first, err := w.r.Peek(1)
	if err != nil {
		return err.Error()
	}
	if first[0] == 'P' {
		line, _ := w.r.ReadString('\n')
		return strings.TrimSuffix(line, "\r\n")
	}
	head := make([]byte, 16)
	if _, err := io.ReadFull(w.r, head); err != nil || string(head[:12]) != signatureV2 {
		return fmt.Sprintf("no header: %q, %v", head, err)
	}
	body := make([]byte, binary.BigEndian.Uint16(head[14:]))
	_, _ = io.ReadFull(w.r, body)
	return hex.EncodeToString(head[12:]) + hex.EncodeToString(body)
}

// rest is a connection of which some has been read.
type rest struct{ *wire }

func (r rest) Read(b []byte) (int, error) { return r.r.Read(b) }

// toldOf is what a host hears of a client's connection in version 1.
func (v *serving) toldOf(c net.Conn) string {
	_, from, _ := net.SplitHostPort(c.LocalAddr().String())
	_, to, _ := net.SplitHostPort(v.front)
	return "PROXY TCP4 127.0.0.1 127.0.0.1 " + from + " " + to
}

// toldHost answers every request, after the connection's header, with that and the
// connection's number.
func toldHost(t *testing.T, status int) string {
	t.Helper()
	return backend(t, func(w *wire, n int) {
		said := fmt.Sprint(w.ahead(), " #", n)
		for w.head() != "" {
			w.send("HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%s", status, len(said), said)
		}
	})
}

// Partly proves TS-24: connections of HTTP/1 begin with the addresses of the client's
// connection, and are shared by its requests alone; their pools go with them.
func TestProxyHeadersHTTP1(t *testing.T) {
	v := (&site{
		hosts: []string{toldHost(t, 200)}, manager: "use_remote_address: true,",
		cluster: speaking1("common_http_protocol_options: {max_requests_per_connection: 2},") + announced("", "") +
			", circuit_breakers: {thresholds: [{max_connection_pools: 2, track_remaining: true}]},",
	}).serve(t)
	one, two, three := v.dial(t), v.dial(t), v.dial(t)
	ask := func() {
		one.get("/", "x-forwarded-for: 9.9.9.9")
		one.want("200 " + v.toldOf(one) + " #0")
		two.get("/")
		two.want("200 " + v.toldOf(two) + " #1")
	}
	ask()
	three.get("/") // a pool too many
	three.want("503 upstream connect error or disconnect/reset before headers. reset reason: overflow")
	ask()
	v.counts(t, "cluster.back.upstream_cx_total 2", "cluster.back.upstream_cx_pool_overflow 1",
		"cluster.back.upstream.proxyprotocol.v2_tlvs_exceed_max_length 0")
	v.counts(t, "cluster.back.upstream_cx_active 0", "cluster.back.circuit_breakers.default.remaining_cx_pools 2")
	three.get("/")
	three.want("200 " + v.toldOf(three) + " #2")
}

// Partly proves TS-24: a pool that never had a connection goes, too.
func TestProxyHeadersToNobody(t *testing.T) {
	v := (&site{
		hosts: []string{dead(t)}, cluster: announced("", "") + ", circuit_breakers: {thresholds: [{max_connection_pools: 5, max_pending_requests: 1, track_remaining: true}]},",
		routes: "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: connect-failure, num_retries: 2}}}",
	}).serve(t)
	for range 3 {
		w := v.dial(t)
		w.get("/")
		if r := w.reply(); r.status != 503 {
			t.Error(r)
		}
	}
	v.counts(t, "cluster.back.upstream_cx_connect_fail 9", "cluster.back.circuit_breakers.default.remaining_cx_pools 5")
	v = (&site{
		hosts: []string{toldHost(t, 200)}, cluster: announced("", "") + ", circuit_breakers: {thresholds: [{max_connection_pools: 5, max_pending_requests: 0, track_remaining: true}]},",
	}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("503 upstream connect error or disconnect/reset before headers. reset reason: overflow")
	v.counts(t, "cluster.back.upstream_rq_pending_overflow 1", "cluster.back.circuit_breakers.default.remaining_cx_pools 5")
}

// Partly proves TS-24: streams of one client's connection share one of HTTP/2, those of
// others do not.
func TestProxyHeadersHTTP2(t *testing.T) {
	asked := make(chan *stream2, 10)
	told := make(chan string, 10)
	addr := backend(t, func(w *wire, n int) {
		told <- w.ahead()
		f := accept2(w)
		if f == nil {
			return
		}
		for h := f.request(); h != nil; h = f.request() {
			asked <- &stream2{f, n, h.StreamID}
		}
	})
	v := (&site{hosts: []string{addr}, cluster: speaking("", "") + announced("version: V1", "") + ","}).serve(t)
	one, two := v.dial2(t), v.dial2(t)
	for i, c := range []*wire2{one, two} {
		for id := range uint32(3) {
			c.ask(2*id+1, "GET", "/", true)
			s := take(t, asked)
			if s.conn != i {
				t.Errorf("a stream of connection %d came on %d", i, s.conn)
			}
			s.answer("ok")
			c.want(2*id+1, "200 ok")
		}
		if got := take(t, told); got != v.toldOf(c.w) {
			t.Errorf("connection %d came with %q", i, got)
		}
	}
	v.counts(t, "cluster.back.upstream_cx_total 2", "cluster.back.upstream_cx_http2_total 2")
}

// Partly proves TS-24: the header goes in clear ahead of the handshake of the socket
// within, of HTTP/1, HTTP/2 and plain connections.
func TestProxyHeadersAheadOfTLS(t *testing.T) {
	cert, key := certificates(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	told := make(chan string, 10)
	secure := func(w *wire, protocol string) *wire {
		told <- w.ahead()
		return newWire(t, tls.Server(rest{w}, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{protocol}})) //nolint:gosec // a test
	}
	pre := signatureV2 + "\x21\x11\x00\x10\x01\x02\x03\x04\x05\x06\x07\x08\x00\x09\x00\x0a\x01\x00\x01a"
	const want = "21110016" + "0102030405060708" + "0009000a" + "f00003736f6b" + "01000161"
	socket := announced(`version: V2, pass_through_tlvs: {}, added_tlvs: [{type: 240, value: c29r}]`, tlsInner)
	heard := func() {
		t.Helper()
		if got := take(t, told); got != want {
			t.Errorf("the header is %s, want %s", got, want)
		}
	}
	t.Run("HTTP/1", func(t *testing.T) {
		addr := backend(t, func(w *wire, _ int) {
			for w = secure(w, "http/1.1"); w.head() != ""; {
				w.send(ok)
			}
		})
		v := (&site{hosts: []string{addr}, listener: keepsTLVs, cluster: socket + ","}).serve(t)
		w := v.dial(t)
		w.send("%s", pre)
		w.get("/")
		w.want("200 ok")
		heard()
		v.counts(t, "cluster.back.ssl.handshake 1", "cluster.back.ssl.fail_verify_san 0", "cluster.back.upstream_cx_total 1")
	})
	t.Run("HTTP/2", func(t *testing.T) {
		addr := backend(t, func(w *wire, _ int) {
			if f := accept2(secure(w, "h2")); f != nil {
				for h := f.request(); h != nil; h = f.request() {
					(&stream2{f, 0, h.StreamID}).answer("ok")
				}
			}
		})
		v := (&site{hosts: []string{addr}, listener: keepsTLVs, cluster: speaking("", "") + socket + ","}).serve(t)
		w := v.dial(t)
		w.send("%s", pre)
		w.get("/")
		w.want("200 ok")
		heard()
	})
	t.Run("TCP", func(t *testing.T) {
		addr := backend(t, func(w *wire, _ int) { echoes(secure(w, "foo")) })
		r := start(t, bootstrapOf(listen("l", tcpTo("c", "cluster: c"), strings.TrimSuffix(keepsTLVs, ",")), upstreamAt("c", []string{addr}, socket)))
		c := r.dial(t, "l")
		say(t, c, pre+"hello")
		hear(t, c, "hello")
		heard()
	})
	t.Run("several addresses", func(t *testing.T) {
		addr := backend(t, func(w *wire, _ int) {
			for w = secure(w, "http/1.1"); w.head() != ""; {
				w.send(ok)
			}
		})
		_, port, _ := net.SplitHostPort(addr)
		_, closed, _ := net.SplitHostPort(dead(t))
		v := (&site{listener: keepsTLVs, routes: toOther, more: "- {name: other, " + socket + fmt.Sprintf(`, load_assignment: {cluster_name: other, endpoints: [{lb_endpoints: [{endpoint: {
		  address: {socket_address: {address: 127.0.0.1, port_value: %s}}, additional_addresses: [{address: {socket_address: {address: 127.0.0.1, port_value: %s}}}]}}]}]}}`, closed, port)}).serve(t)
		w := v.dial(t)
		w.send("%s", pre)
		w.get("/")
		w.want("200 ok")
		heard()
	})
}

// Partly proves TS-24: plain connections of tcp_proxy begin with a header, before the
// client has sent anything, and the filter's own TLVs join those that came.
func TestProxyHeadersOfTCPProxy(t *testing.T) {
	addr := backend(t, func(w *wire, _ int) {
		w.send("%s\n", w.ahead())
		w.untilClosed()
	})
	const (
		own = `proxy_protocol_tlvs: [{type: 3, format_string: {text_format_source: {inline_string: "%PROTOCOL%"}}}, {type: 1, value: YQ==}, {type: 1, value: Yg==}]`
		// addresses are those of from.
		addresses = "0102030405060708" + "0009000a"
		from      = signatureV2 + "\x21\x11\x00\x14\x01\x02\x03\x04\x05\x06\x07\x08\x00\x09\x00\x0a\x01\x00\x01x\x02\x00\x01y"
		local     = signatureV2 + "\x20\x00\x00\x00"
		came      = "01000178" + "02000179"
		added     = "01000161" + "01000162" + "0300012d"
	)
	for _, c := range []struct{ name, fields, pre, want string }{
		{"none added", "", from, "21110014" + addresses + came},
		{"not wanted", own, from, "21110014" + addresses + came},
		{"wanted", own, "", "21110018" + "*" + added},
		{"not wanted after LOCAL", own, local, "2111000c" + "*"},
		{"in place", own + ", proxy_protocol_tlv_merge_policy: OVERWRITE_BY_TYPE_IF_EXISTS_OR_ADD", from, "2111001c" + addresses + added + "02000179"},
		{"in place of nothing", own + ", proxy_protocol_tlv_merge_policy: OVERWRITE_BY_TYPE_IF_EXISTS_OR_ADD", local, "21110018" + "*" + added},
		{"besides", own + ", proxy_protocol_tlv_merge_policy: APPEND_IF_EXISTS_OR_ADD", from, "21110020" + addresses + came + added},
		{"besides nothing", own + ", proxy_protocol_tlv_merge_policy: APPEND_IF_EXISTS_OR_ADD", "", "21110018" + "*" + added},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, bootstrapOf(listen("l", tcpTo("c", "cluster: c", c.fields), strings.TrimSuffix(keepsTLVs, ",")),
				upstreamAt("c", []string{addr}, announced("version: V2, pass_through_tlvs: {}", ""))))
			conn := r.dial(t, "l")
			say(t, conn, c.pre)
			if c.pre == "" {
				say(t, conn, "x") // so that it is known not to begin with a header
			}
			got, _ := newWire(t, conn).r.ReadString('\n')
			own := addressesOf(t, conn)
			if want := strings.ReplaceAll(c.want, "*", own) + "\n"; got != want {
				t.Errorf("the header is %swant %s", got, want)
			}
		})
	}
}

// addressesOf are those of a client's connection as a header of version 2 has them.
func addressesOf(t *testing.T, c net.Conn) string {
	t.Helper()
	var ports []byte
	for _, a := range []net.Addr{c.LocalAddr(), c.RemoteAddr()} {
		tcp, ok := a.(*net.TCPAddr)
		if !ok {
			t.Fatalf("%T", a)
		}
		ports = binary.BigEndian.AppendUint16(ports, uint16(tcp.Port)) //nolint:gosec // a port
	}
	return "7f0000017f000001" + hex.EncodeToString(ports)
}

// Partly proves TS-24: of connections with the same addresses one has its own TLVs if
// the socket says so, and those of the first otherwise.
func TestProxyHeadersAndTLVs(t *testing.T) {
	pre := func(value string) string {
		return signatureV2 + "\x21\x11\x00\x10\x01\x02\x03\x04\x05\x06\x07\x08\x00\x09\x00\x0a\x01\x00\x01" + value
	}
	for fields, wants := range map[string][]string{
		"":                       {"0100016a #0", "0100016a #0", "0100016a #0"},
		"tlv_as_pool_key: true,": {"0100016a #0", "0100016b #1", "0100016a #0"},
	} {
		v := (&site{
			hosts: []string{toldHost(t, 200)}, listener: keepsTLVs,
			cluster: strings.Replace(announced("version: V2, pass_through_tlvs: {}", ""), " config: {", fields+" config: {", 1) + ",",
		}).serve(t)
		for i, value := range []string{"j", "k", "j"} {
			w := v.dial(t)
			w.send("%s", pre(value))
			w.get("/")
			w.want("200 21110010" + "0102030405060708" + "0009000a" + wants[i])
		}
	}
}

// Partly proves TS-24: a retry tells another host the same.
func TestProxyHeadersOfRetries(t *testing.T) {
	v := (&site{
		hosts: []string{toldHost(t, 503), toldHost(t, 503)}, cluster: announced("", "") + ",",
		routes: "{match: {prefix: /}, route: {cluster: back, retry_policy: {retry_on: 5xx, num_retries: 1}}}",
	}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("503 " + v.toldOf(w) + " #0")
	v.counts(t, "cluster.back.upstream_rq_retry 1", "cluster.back.upstream_cx_total 2")
}

// Partly proves TS-24: each endpoint has the socket that its metadata choose, and the TLVs
// in them.
func TestProxyHeadersOfEndpoints(t *testing.T) {
	with := toldHost(t, 200)
	without := answering(t, ok)
	host := func(addr, metadata string) string {
		_, port, _ := net.SplitHostPort(addr)
		return fmt.Sprintf("{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}, metadata: {%s}}", port, metadata)
	}
	v := (&site{routes: toOther, more: `- {name: other, transport_socket_matches: [{name: told, match: {told: true}, ` + announced("version: V2, added_tlvs: [{type: 1, value: YQ==}]", "") + `}], ` +
		`load_assignment: {cluster_name: other, endpoints: [{lb_endpoints: [` + host(without, "") + ", " + host(with, `filter_metadata: {envoy.transport_socket_match: {told: true}},
		typed_filter_metadata: {envoy.transport_sockets.proxy_protocol: {"@type": type.googleapis.com/envoy.config.core.v3.PerHostConfig, added_tlvs: [{type: 1, value: Yg==}, {type: 2, value: Yw==}]}}`) + `]}]}}`}).serve(t)
	w := v.dial(t)
	answers := map[string]int{}
	for range 4 {
		w.get("/")
		answers[w.reply().String()]++
	}
	want := map[string]int{"200 ok": 2, "200 21110014" + addressesOf(t, w.Conn) + "01000162" + "02000163" + " #0": 2}
	if fmt.Sprint(answers) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", answers, want)
	}
	v.counts(t, "cluster.other.upstream_cx_total 2")
}

// Proves TS-24 with the tests above, TestHeaders and the exchanges of e2e/differential: health checks tell of nobody: of their own connection in version
// 1, and LOCAL in version 2, over TLS as well.
func TestProxyHeadersOfHealthChecks(t *testing.T) {
	cert, key := certificates(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	for _, c := range []struct{ name, fields, inner, check, want string }{
		{"HTTP, version 1", "", "", "http_health_check: {path: /}", "PROXY TCP4 127.0.0.1 127.0.0.1 "},
		{"HTTP, version 2", "version: V2, added_tlvs: [{type: 1, value: YQ==}]", "", "http_health_check: {path: /}", "20000000"},
		{"HTTP over TLS", "version: V2", tlsInner, "http_health_check: {path: /}", "20000000"},
		{"TCP", "", "", "tcp_health_check: {send: {text: 474554200d0a0d0a}, receive: [{text: 6f6b}]}", "PROXY TCP4 127.0.0.1 127.0.0.1 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := make(chan string, 1000)
			addr := backend(t, func(w *wire, _ int) {
				_, from, _ := net.SplitHostPort(w.RemoteAddr().String())
				_, to, _ := net.SplitHostPort(w.LocalAddr().String())
				got := strings.TrimSuffix(w.ahead(), from+" "+to)
				select {
				case told <- got:
				default:
				}
				if c.inner != "" {
					w = newWire(t, tls.Server(rest{w}, &tls.Config{Certificates: []tls.Certificate{pair}})) //nolint:gosec // a test
				}
				for w.head() != "" {
					w.send(ok)
				}
			})
			r := start(t, bootstrapOf("", upstreamAt("c", []string{addr}, announced(c.fields, c.inner), "health_checks: [{"+often+", "+c.check+"}]")))
			if got := take(t, told); got != c.want {
				t.Errorf("a check came with %q, want %q", got, c.want)
			}
			r.until(t, "cluster.c.membership_healthy: 1", "cluster.c.health_check.failure: 0")
		})
	}
}

// Partly proves TS-24: hosts are told that nothing is known of clients of UNIX sockets.
func TestProxyHeadersOfUNIXClients(t *testing.T) {
	for fields, want := range map[string]string{"": "PROXY UNKNOWN", "version: V2, added_tlvs: [{type: 1, value: YQ==}]": "20000000"} {
		path := filepath.Join(t.TempDir(), "s")
		addr := backend(t, func(w *wire, _ int) {
			w.send("%s\n", w.ahead())
			w.untilClosed()
		})
		start(t, bootstrapOf(listenAt("l", "{pipe: {path: "+path+"}}", "filter_chains: [{filters: ["+tcpTo("c", "cluster: c")+"]}]"), upstreamAt("c", []string{addr}, announced(fields, ""))))
		c, err := net.Dial("unix", path)
		must(t, err)
		defer c.Close()
		hear(t, c, want+"\n")
	}
}

// Partly proves TS-24: TLVs without room are left out, and counted; a header that is
// larger than what a system takes at once arrives whole.
func TestLongProxyHeaders(t *testing.T) {
	addr := backend(t, func(w *wire, _ int) {
		w.send("%d\n", len(w.ahead()))
		w.untilClosed()
	})
	r := start(t, bootstrapOf(listen("l", tcpTo("c", "cluster: c", `proxy_protocol_tlvs: [{type: 1, format_string: {text_format_source: {inline_string: "`+strings.Repeat("a", 65000)+`"}}},
	  {type: 2, format_string: {text_format_source: {inline_string: "`+strings.Repeat("b", 1000)+`"}}}, {type: 3, value: YQ==}]`)),
		upstreamAt("c", []string{addr}, announced("version: V2, pass_through_tlvs: {}", ""))))
	hear(t, r.dial(t, "l"), fmt.Sprintln(2*(4+12+4+3+65000)))
	r.until(t, "cluster.c.upstream.proxyprotocol.v2_tlvs_exceed_max_length: 1")
}

// Partly proves TS-24: what cannot be is refused by the path of its field.
func TestRefusedProxyHeaders(t *testing.T) {
	for name, c := range map[string]struct{ socket, want string }{
		"not built":    {strings.Replace(announced("", ""), " config: {", " allow_unspecified_address: true, config: {", 1), "typed_config.allow_unspecified_address"},
		"no socket":    {`transport_socket: {name: p, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport}}`, "typed_config.transport_socket"},
		"TLV":          {announced("added_tlvs: [{type: 1}]", ""), "transport_socket.typed_config.config.added_tlvs[0]: Invalid TLV configuration"},
		"TLV within":   {announced("", strings.TrimPrefix(announced("added_tlvs: [{type: 1}]", ""), "transport_socket: ")), "transport_socket.typed_config.transport_socket.typed_config.config.added_tlvs[0]"},
		"other socket": {announced("", `{name: alts, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.alts.v3.Alts}}`), "transport_socket.typed_config.transport_socket.typed_config"},
		"matches":      {"transport_socket_matches: [{name: m, match: {a: b}, " + announced("added_tlvs: [{type: 1}]", "") + "}]", "transport_socket_matches[0].transport_socket.typed_config.config.added_tlvs[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			text := bootstrapOf("", upstreamAt("c", []string{"127.0.0.1:1"}, c.socket))
			loaded, err := proxyrun.Load(proxyrun.Flags{ConfigYAML: text, LogLevel: "info"}, proxyrun.Environment{})
			if err == nil {
				_, o, _ := load(t, text)
				_, err = proxy.New(loaded.Bootstrap, o)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
}

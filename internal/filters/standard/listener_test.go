package standard_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
	"github.com/xebec-proxy/xebec/internal/filters/proxyprotocol"
	"github.com/xebec-proxy/xebec/internal/filters/standard"
)

// half is a connection whose peer never answers.
type half struct{ out bytes.Buffer }

func (*half) Read([]byte) (int, error)         { return 0, io.EOF }
func (h *half) Write(b []byte) (int, error)    { return h.out.Write(b) }
func (*half) Close() error                     { return nil }
func (*half) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*half) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*half) SetDeadline(time.Time) error      { return nil }
func (*half) SetReadDeadline(time.Time) error  { return nil }
func (*half) SetWriteDeadline(time.Time) error { return nil }

// hello is the first flight of a client.
func hello(ctx context.Context, c *tls.Config) string {
	var h half
	_ = tls.Client(&h, c).HandshakeContext(ctx) // it fails for want of an answer
	return h.out.String()
}

// build makes the factory of a listener filter that is built in.
func build(t *testing.T, s *filtertest.Stats, cfg proto.Message) filter.ListenerFactory {
	t.Helper()
	var r filter.Registry
	if err := standard.Register(&r); err != nil {
		t.Fatal(err)
	}
	k, ok := r.Listener(string(cfg.ProtoReflect().Descriptor().FullName()))
	if !ok {
		t.Fatalf("%T is not registered", cfg)
	}
	f, err := k.New(cfg, &filter.Env{Stats: s})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const v2Local = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"

// v2TLV is a version 2 header 10.0.0.1:4096 → 10.0.0.2:443 with a TLV 0xea "abc".
const v2TLV = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x12" + "\x0a\x00\x00\x01\x0a\x00\x00\x02\x10\x00\x01\xbb" + "\xea\x00\x03abc"

// Proves LF-02, LF-04, LF-06, LF-08, LF-09 and LF-10: one segment, or byte by byte.
func TestListenerFilters(t *testing.T) {
	ctx := t.Context()
	named := hello(ctx, &tls.Config{ServerName: "WWW.Example.com", NextProtos: []string{"h2", "http/1.1"}})
	bare := hello(ctx, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it never connects
	inspector, http := &tlsinspectorv3.TlsInspector{}, &httpinspectorv3.HttpInspector{}
	small := &tlsinspectorv3.TlsInspector{MaxClientHelloSize: wrapperspb.UInt32(256)}
	strict := &tlsinspectorv3.TlsInspector{CloseConnectionOnClientHelloParsingErrors: true}
	header := &proxyprotocolv3.ProxyProtocol{}
	lax := &proxyprotocolv3.ProxyProtocol{AllowRequestsWithoutProxyProtocol: true, StatPrefix: "lax"}
	no1 := &proxyprotocolv3.ProxyProtocol{DisallowedVersions: []corev3.ProxyProtocolConfig_Version{corev3.ProxyProtocolConfig_V1}}
	rules := &proxyprotocolv3.ProxyProtocol{Rules: []*proxyprotocolv3.ProxyProtocol_Rule{
		{TlvType: 0xea, OnTlvPresent: &proxyprotocolv3.ProxyProtocol_KeyValuePair{Key: "vpc"}},
	}}
	const get11, get10, preface = "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	const v1 = "PROXY TCP4 10.0.0.1 10.0.0.2 4096 443\r\n"
	const proxied = "10.0.0.1:4096 10.0.0.2:443"
	const direct = "192.0.2.1:1000 192.0.2.2:80"
	tests := []struct {
		name    string
		filters []proto.Message
		in      string
		reject  bool
		used    int
		sni     string
		proto   string
		alpn    string
		addr    string
		stats   string
	}{
		{"names", []proto.Message{inspector}, named, false, 0, "www.example.com", "tls", "h2,http/1.1", direct, "tls_inspector.alpn_found=1 tls_inspector.sni_found=1 tls_inspector.tls_found=1"},
		{"no names", []proto.Message{inspector}, bare, false, 0, "", "tls", "", direct, "tls_inspector.alpn_not_found=1 tls_inspector.sni_not_found=1 tls_inspector.tls_found=1"},
		{"plain text", []proto.Message{inspector}, get11, false, 0, "", "raw_buffer", "", direct, "tls_inspector.tls_not_found=1"},
		{"plain text closed", []proto.Message{strict}, get11, true, 0, "", "", "", direct, "tls_inspector.tls_not_found=1"},
		{"large", []proto.Message{small}, named + strings.Repeat("x", 300), true, 0, "", "", "", direct, "tls_inspector.client_hello_too_large=1"},
		{"HTTP/1.1", []proto.Message{http}, get11, false, 0, "", "", "http/1.1", direct, "http_inspector.http11_found=1"},
		{"HTTP/1.0", []proto.Message{http}, get10, false, 0, "", "", "http/1.0", direct, "http_inspector.http10_found=1"},
		{"HTTP/2", []proto.Message{http}, preface, false, 0, "", "", "h2c", direct, "http_inspector.http2_found=1"},
		{"no HTTP", []proto.Message{http}, "\x01\x02", false, 0, "", "", "", direct, "http_inspector.http_not_found=1"},
		{"TLS, not HTTP", []proto.Message{inspector, http}, bare, false, 0, "", "tls", "", direct, "tls_inspector.alpn_not_found=1 tls_inspector.sni_not_found=1 tls_inspector.tls_found=1"},
		{"plain HTTP behind the TLS inspector", []proto.Message{inspector, http}, get11, false, 0, "", "raw_buffer", "http/1.1", direct, "http_inspector.http11_found=1 tls_inspector.tls_not_found=1"},
		{"PROXY v1, then TLS", []proto.Message{header, inspector}, v1 + named, false, len(v1), "www.example.com", "tls", "h2,http/1.1", proxied, "proxy_proto.versions.v1.found=1 tls_inspector.alpn_found=1 tls_inspector.sni_found=1 tls_inspector.tls_found=1"},
		{"PROXY v1, then HTTP", []proto.Message{header, http}, v1 + get11, false, len(v1), "", "", "http/1.1", proxied, "http_inspector.http11_found=1 proxy_proto.versions.v1.found=1"},
		{"PROXY v1 of unknown addresses", []proto.Message{header}, "PROXY UNKNOWN\r\n", false, 15, "", "", "", direct, "proxy_proto.versions.v1.found=1"},
		{"PROXY v2, local", []proto.Message{header}, v2Local, false, len(v2Local), "", "", "", direct, "proxy_proto.versions.v2.found=1"},
		{"PROXY v2 with a TLV", []proto.Message{rules}, v2TLV, false, len(v2TLV), "", "", "", proxied, "proxy_proto.versions.v2.found=1"},
		{"no PROXY header", []proto.Message{header}, get11, true, 0, "", "", "", direct, "downstream_cx_proxy_proto_error=1 proxy_proto.not_found_disallowed=1"},
		{"no PROXY header, allowed", []proto.Message{lax, http}, get11, false, 0, "", "", "http/1.1", direct, "http_inspector.http11_found=1 proxy_proto.lax.not_found_allowed=1"},
		{"bad PROXY header", []proto.Message{header}, "PROXY TCP4 1 2\r\n", true, 0, "", "", "", direct, "downstream_cx_proxy_proto_error=1 proxy_proto.versions.v1.error=1"},
		{"nobody knows where it was going", []proto.Message{&originaldstv3.OriginalDst{}}, get11, false, 0, "", "", "", direct, ""},
		{"disallowed version", []proto.Message{no1}, v1, true, 0, "", "", "", direct, "proxy_proto.versions.v1.disallowed=1 proxy_proto.versions.v1.found=1"},
	}
	for _, tt := range tests {
		for _, piece := range []int{1, len(tt.in)} {
			t.Run(tt.name, func(t *testing.T) {
				var s filtertest.Stats
				var fs []filter.ListenerFactory
				for _, c := range tt.filters {
					fs = append(fs, build(t, &s, c))
				}
				got := filtertest.Inspect(&s, []byte(tt.in), piece, fs...)
				want := filter.ListenerContinue
				if tt.reject {
					want = filter.ListenerReject
				}
				if got.Status != want {
					t.Errorf("status %d, want %d", got.Status, want)
				}
				if rest := tt.in[tt.used:]; !tt.reject && string(got.Rest) != rest {
					t.Errorf("left %q, want %q", got.Rest, rest)
				}
				a := &got.Accepted
				if got.Conn.RequestedServerName != tt.sni || a.TransportProtocol != tt.proto || strings.Join(a.ApplicationProtocols, ",") != tt.alpn {
					t.Errorf("found %q %q %q", got.Conn.RequestedServerName, a.TransportProtocol, a.ApplicationProtocols)
				}
				if addr := got.Conn.Remote.String() + " " + got.Conn.Local.String(); addr != tt.addr {
					t.Errorf("addresses %s, want %s", addr, tt.addr)
				}
				if got.Conn.DirectRemote().String() != "192.0.2.1:1000" {
					t.Errorf("the socket's own address became %s", got.Conn.DirectRemote().String())
				}
				if s.String() != tt.stats {
					t.Errorf("counted %s, want %s", s.String(), tt.stats)
				}
			})
		}
	}
}

// Proves LF-09: TLVs go into metadata or filter state.
func TestProxyTLVs(t *testing.T) {
	var s filtertest.Stats
	rule := func(where proxyprotocolv3.ProxyProtocol_TlvLocation) filter.ListenerFactory {
		return build(t, &s, &proxyprotocolv3.ProxyProtocol{TlvLocation: where, Rules: []*proxyprotocolv3.ProxyProtocol_Rule{
			{TlvType: 0xea, OnTlvPresent: &proxyprotocolv3.ProxyProtocol_KeyValuePair{Key: "vpc", MetadataNamespace: "mine"}},
		}})
	}
	got := filtertest.Inspect(&s, []byte(v2TLV), 5, rule(proxyprotocolv3.ProxyProtocol_DYNAMIC_METADATA))
	if v := got.Info.Metadata["mine"].GetFields()["vpc"].GetStringValue(); v != "abc" {
		t.Errorf("metadata %q", v)
	}
	got = filtertest.Inspect(&s, []byte(v2TLV), 5, rule(proxyprotocolv3.ProxyProtocol_FILTER_STATE))
	state, ok := got.Info.State[proxyprotocol.TLVState].(proxyprotocol.TLVs)
	if !ok || state.String() != `{"vpc":"abc"}` || len(got.Info.Metadata) != 0 {
		t.Errorf("state %v, metadata %v", state, got.Info.Metadata)
	}
	if v, ok := state.Field("vpc"); !ok || v != "abc" {
		t.Errorf("field %q %t", v, ok)
	}
}

// Proves LF-06: the reason of a failed inspection is kept.
func TestInspectorMetadata(t *testing.T) {
	var s filtertest.Stats
	got := filtertest.Inspect(&s, []byte("GET /"), 1, build(t, &s, &tlsinspectorv3.TlsInspector{}))
	m := got.Info.Metadata["envoy.filters.listener.tls_inspector"].GetFields()
	if r := m["failure_reason"].GetStringValue(); r != "ClientHelloNotDetected" {
		t.Errorf("failure_reason %q", r)
	}
}

// Registering twice is an error, and every type is listed once.
func TestRegister(t *testing.T) {
	var r filter.Registry
	if err := standard.Register(&r); err != nil {
		t.Fatal(err)
	}
	if err := standard.Register(&r); err == nil {
		t.Error("a second registration is accepted")
	}
	if n := r.Names(); !slices.Contains(n, "envoy.extensions.filters.network.echo.v3.Echo") {
		t.Errorf("registered: %v", n)
	}
}

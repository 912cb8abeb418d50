package format_test

import (
	"net/netip"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

func address(s string) filter.Address { return filter.IPAddress(netip.MustParseAddrPort(s)) }

func headers(nv ...string) *header.Map {
	var m header.Map
	for i := 0; i < len(nv); i += 2 {
		m.Add(nv[i], nv[i+1])
	}
	return &m
}

func namespace(value any) *corev3.Metadata {
	s, err := structpb.NewStruct(map[string]any{"k": value})
	if err != nil {
		panic(err)
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"ns": s}}
}

func certificate(name string) *filter.CertInfo {
	return &filter.CertInfo{
		URISANs: []string{"spiffe://x/y", "spiffe://x/z"}, DNSSANs: []string{"a.example", "b.example"},
		IPSANs: []string{"10.0.0.1"}, EmailSANs: []string{"me@x.org"}, OtherNameSANs: []string{"other"},
		Subject: "CN=" + name + `,O=My\, Org`, Issuer: "CN=ca", Serial: "3a68", Fingerprint256: "c399", Fingerprint1: "9319",
		NotBefore: time.Date(2026, 11, 21, 17, 35, 6, 0, time.UTC), NotAfter: time.Date(2027, 1, 10, 17, 35, 6, 0, time.UTC),
		PEM:                  "-----BEGIN%20CERTIFICATE-----%0A",
		ChainFingerprints256: []string{"c399", "2479"}, ChainFingerprints1: []string{"9319", "aaaa"}, ChainSerials: []string{"3a68", "3db6"},
	}
}

const ms = time.Millisecond

// proxied is a request as it was proxied to a TLS upstream for a client with a
// certificate.
func proxied() *format.Context {
	up := filter.UpstreamInfo{
		Host: address("127.0.0.1:18784"), HostName: "hosty", Local: address("127.0.0.1:51992"), ConnectionID: 9,
		Protocol: filter.HTTP11, Metadata: namespace(map[string]any{"deep": []any{1, 2.5, "x", true, nil}}),
		TLS:          &filter.TLSInfo{Version: "TLSv1.2", Cipher: "ECDHE-ECDSA-AES128-GCM-SHA256", Group: "X25519", SNI: "up.example", SessionID: "427b", Peer: certificate("srv"), Local: certificate("cli")},
		ConnectStart: 100*ms + 400*time.Microsecond, ConnectEnd: 101 * ms, HandshakeEnd: 102 * ms, BodyStart: 108 * ms,
		PoolReady: 2 * ms, PoolAnswered: true, WireSent: 249, WireReceived: 129,
		Attempted: []filter.Address{address("127.0.0.1:18783"), address("[::1]:18784")}, AttemptedNames: []string{"", "h:80"}, AttemptedIDs: []uint64{7, 9},
	}
	cx := &filter.ConnectionInfo{
		ID: 8, Local: address("127.0.0.2:18782"), Remote: address("[2001:db8:1:2:3:4:5:6]:40"),
		RequestedServerName: "sni.example", FilterChain: "fc", HandshakeDone: 95 * ms, Start: 90 * ms,
		TLS:              &filter.TLSInfo{Version: "TLSv1.3", Cipher: "TLS_AES_256_GCM_SHA384", Group: "X25519", Peer: certificate("cli"), Local: certificate("srv")},
		ListenerMetadata: namespace("lv"), FilterChainMetadata: namespace("fcv"),
	}
	cx.KeepDirect()
	cx.Local, cx.Remote = address("127.0.0.1:18782"), address("10.1.10.23:49346")
	cx.Ending().TerminationDetails = "why not"
	info := &filter.StreamInfo{
		StartTime: time.Date(2026, 11, 21, 17, 35, 33, 741133000, time.UTC), Protocol: filter.HTTP11, ResponseCode: 200,
		Timing:  filter.Timing{Start: 100 * ms, LastRx: 101 * ms, FirstUpstream: 103 * ms, LastUpstreamTx: 104 * ms, FirstUpstrRx: 107 * ms, LastUpstreamRx: 108 * ms, FirstTx: 109 * ms, LastTx: 112 * ms, End: 113 * ms},
		Details: "via upstream", BytesReceived: 4, BytesSent: 12,
		RouteName: "rn", Cluster: "tls", ClusterStatName: "tls_alt", VirtualCluster: "vc", Attempts: 2, RequestID: "58260856-8f00",
		RouteMetadata: namespace("rv"), VirtualHostMetadata: namespace("vhv"), ClusterMetadata: namespace("clv"),
		Connection: cx, Upstream: up, HasUpstream: true,
		State: map[string]any{"my.key": "fsval"},
	}
	for k, v := range map[string]any{"s": "hello", "n": 42, "f": 1.5, "big": 1e21, "b": true, "l": []any{1, "a", nil}, "o": map[string]any{"i": 7, "a": `x"y`}, "z": nil, "es": ""} {
		value, err := structpb.NewValue(v)
		if err != nil {
			panic(err)
		}
		info.SetMetadata("ns", k, value)
	}
	return &format.Context{
		Req: headers(":method", "POST", ":path", "/rewritten?q=va%20lue&e=&d=%41%2f&q=2&n", ":authority", "h.example:81", "x-envoy-original-path", "/some/path?q=va%20lue&e=&d=%41%2f&q=2&n",
			"x-a", "abcdefgh", "x-empty", "", "x-multi", "1", "x-multi", "2", "x-hi", "a\xff\xfe\x80b", "x-hi2", "\b\t\"\\\x7f\xff", "x-utf", "h\xc3\xa9llo\xe2\x82\xac", "x-ctl", "a\tb\"c\\d/<>&", "user-agent", "curl/7.88.1", "x-request-id", "58260856-8f00"),
		Resp:         headers(":status", "200", "x-envoy-upstream-service-time", "5"),
		RespTrailers: headers("x-t", "tr"),
		Info:         info, LogType: "DownstreamEnd", Now: time.Date(2026, 11, 21, 17, 35, 33, 742000000, time.UTC),
	}
}

// bare is a stream about which nothing is known.
func bare() *format.Context {
	i := &filter.StreamInfo{StartTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Connection: &filter.ConnectionInfo{}}
	i.Timing.Reset(0)
	i.Timing.End = 0
	return &format.Context{Req: headers(), Resp: headers(), RespTrailers: headers(), Info: i, Now: i.StartTime}
}

func options() format.Options {
	return format.Options{Hostname: "vm", Environment: func(name string) (string, bool) { return "fooval", name == "FOOVAR" }}
}

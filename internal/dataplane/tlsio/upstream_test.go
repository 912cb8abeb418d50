package tlsio

import (
	"errors"
	"fmt"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Proves TS-11, TS-13, TS-21: what servers a client accepts.
func TestServerCertificates(t *testing.T) {
	ca, other := newCA(t, "ca", nil), newCA(t, "other", nil)
	server := mustServer(t, downstream(t, ca.leaf(t, "ecdsa", "server", dns("a.test", "*.w.test"))))
	strict := func(rules *tlsv3.CertificateValidationContext, change func(*tlsv3.UpstreamTlsContext)) *tlsv3.UpstreamTlsContext {
		u := upstream(t)
		validate(u.CommonTlsContext, rules)
		if change != nil {
			change(u)
		}
		return u
	}
	auto := func(u *tlsv3.UpstreamTlsContext) { u.AutoSniSanValidation = true }
	named := trusting(ca)
	sanRule(tlsv3.SubjectAltNameMatcher_DNS, "b.test")(named)
	for _, tc := range []struct {
		name string
		u    *tlsv3.UpstreamTlsContext
		o    ClientSessionOptions
		want FailureClass
	}{
		{"empty context verifies nothing", &tlsv3.UpstreamTlsContext{}, ClientSessionOptions{}, ""},
		{"authority", strict(trusting(ca), nil), ClientSessionOptions{}, ""},
		{"wrong authority", strict(trusting(other), nil), ClientSessionOptions{}, ClassVerifyError},
		{"name of the connection", strict(trusting(ca), nil), ClientSessionOptions{VerifySAN: []string{"x.test", "a.test"}}, ""},
		{"wildcard", strict(trusting(ca), nil), ClientSessionOptions{VerifySAN: []string{"1.w.test"}}, ""},
		{"other name of the connection", strict(trusting(ca), nil), ClientSessionOptions{VerifySAN: []string{"x.test"}}, ClassVerifySAN},
		{"configured name", strict(named, nil), ClientSessionOptions{}, ClassVerifySAN},
		{"server name in place of the configured", strict(named, auto), ClientSessionOptions{SNI: "a.test"}, ""},
		{"other server name", strict(named, auto), ClientSessionOptions{SNI: "b.test"}, ClassVerifySAN},
		{"no server name: configured", strict(named, auto), ClientSessionOptions{}, ClassVerifySAN},
		{"name without authority", upstream(t), ClientSessionOptions{VerifySAN: []string{"x.test"}}, ClassVerifySAN},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := connect(newWorker(t), mustClient(t, tc.u).NewSession(tc.o), server.NewSession(ConnInfo{}))
			var f *Failure
			if errors.As(l.a.err, &f); tc.want == "" && l.a.err != nil || tc.want != "" && (f == nil || f.Class != tc.want) {
				t.Errorf("got %v", l.a.err)
			}
		})
	}
}

// Proves TS-11, TS-13: which server name is sent.
func TestServerName(t *testing.T) {
	server := mustServer(t, downstream(t, newCA(t, "ca", nil).leaf(t, "ecdsa", "server")))
	for _, tc := range []struct {
		name string
		u    *tlsv3.UpstreamTlsContext
		o    ClientSessionOptions
		want string
	}{
		{"none", &tlsv3.UpstreamTlsContext{}, ClientSessionOptions{Host: "host.test"}, ""},
		{"configured", &tlsv3.UpstreamTlsContext{Sni: "c.test"}, ClientSessionOptions{Host: "host.test"}, "c.test"},
		{"host", &tlsv3.UpstreamTlsContext{Sni: "c.test", AutoHostSni: true}, ClientSessionOptions{Host: "host.test"}, "host.test"},
		{"host unknown", &tlsv3.UpstreamTlsContext{Sni: "c.test", AutoHostSni: true}, ClientSessionOptions{}, "c.test"},
		{"given", &tlsv3.UpstreamTlsContext{Sni: "c.test", AutoHostSni: true}, ClientSessionOptions{Host: "host.test", SNI: "given.test"}, "given.test"},
		{"address", &tlsv3.UpstreamTlsContext{Sni: "10.0.0.1"}, ClientSessionOptions{}, ""},
		{"address 6", &tlsv3.UpstreamTlsContext{}, ClientSessionOptions{SNI: "[::1]"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := connect(newWorker(t), mustClient(t, tc.u).NewSession(tc.o), server.NewSession(ConnInfo{}))
			if l.b.err != nil || l.b.Negotiated().SNI != tc.want {
				t.Errorf("sent %q, %v", l.b.Negotiated().SNI, l.b.err)
			}
		})
	}
}

// Proves TS-05, TS-06, TS-12.
func TestALPN(t *testing.T) {
	ca := newCA(t, "ca", nil)
	leaf := ca.leaf(t, "ecdsa", "server")
	for _, tc := range []struct {
		server, context, override, fallback []string
		want                                string
	}{
		{nil, []string{"h2", "http/1.1"}, nil, nil, ""},
		{[]string{"h2", "http/1.1"}, nil, nil, nil, ""},
		{[]string{"h2", "http/1.1"}, []string{"http/1.1", "h2"}, nil, nil, "h2"},
		{[]string{"http/1.1", "h2"}, []string{"h2", "http/1.1"}, nil, nil, "http/1.1"},
		{[]string{"h2"}, []string{"foo"}, nil, nil, ""},
		{[]string{"h2"}, []string{"http/1.1"}, nil, nil, ""},
		{[]string{"h2", "http/1.1"}, []string{"h2"}, []string{"http/1.1"}, []string{"h2"}, "http/1.1"},
		{[]string{"h2", "http/1.1"}, nil, nil, []string{"http/1.1"}, "http/1.1"},
		{[]string{"h2", "http/1.1"}, []string{"h2"}, nil, []string{"http/1.1"}, "h2"},
	} {
		for version, v := range versions {
			t.Run(fmt.Sprint(tc, version), func(t *testing.T) {
				d, u := downstream(t, leaf), upstream(t)
				d.CommonTlsContext.AlpnProtocols, u.CommonTlsContext.AlpnProtocols = tc.server, tc.context
				u.CommonTlsContext.TlsParams.TlsMaximumProtocolVersion = v
				l := connect(newWorker(t), mustClient(t, u).NewSession(ClientSessionOptions{ALPN: tc.override, ALPNFallback: tc.fallback}), mustServer(t, d).NewSession(ConnInfo{}))
				if l.a.err != nil || l.b.err != nil {
					t.Fatal(l.a.err, l.b.err)
				}
				if a, b := l.a.Negotiated().ALPN, l.b.Negotiated().ALPN; a != tc.want || b != tc.want {
					t.Errorf("got %q and %q", a, b)
				}
			})
		}
	}
}

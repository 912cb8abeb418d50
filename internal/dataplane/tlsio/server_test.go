package tlsio

import (
	"crypto/tls"
	"fmt"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Proves TS-03: the version matrix, and the defaults of both sides.
func TestVersions(t *testing.T) {
	const (
		auto = tlsv3.TlsParameters_TLS_AUTO
		v10  = tlsv3.TlsParameters_TLSv1_0
		v11  = tlsv3.TlsParameters_TLSv1_1
		v12  = tlsv3.TlsParameters_TLSv1_2
		v13  = tlsv3.TlsParameters_TLSv1_3
	)
	leaf := newCA(t, "ca", nil).leaf(t, "rsa", "server")
	for _, tc := range []struct {
		serverMin, serverMax, clientMin, clientMax tlsv3.TlsParameters_TlsProtocol
		want                                       string
	}{
		{auto, auto, auto, auto, "TLSv1.2"},
		{auto, auto, auto, v13, "TLSv1.3"},
		{auto, v12, auto, v13, "TLSv1.2"},
		{v13, auto, auto, v13, "TLSv1.3"},
		{v13, auto, auto, v12, ""},
		{auto, auto, v10, v11, ""},
		{v10, auto, v10, v11, "TLSv1.1"},
		{v10, auto, v10, v10, "TLSv1"},
		{auto, v12, v13, v13, ""},
	} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			old := []string{"ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256"}
			d, u := downstream(t, leaf), upstream(t)
			d.CommonTlsContext.TlsParams = &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tc.serverMin, TlsMaximumProtocolVersion: tc.serverMax, CipherSuites: old}
			u.CommonTlsContext.TlsParams = &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tc.clientMin, TlsMaximumProtocolVersion: tc.clientMax, CipherSuites: old}
			l := connect(newWorker(t), mustClient(t, u).NewSession(ClientSessionOptions{}), mustServer(t, d).NewSession(ConnInfo{}))
			if got := l.b.Negotiated().Version; got != tc.want {
				t.Errorf("got %q (%v, %v)", got, l.a.err, l.b.err)
			}
			if tc.want == "" && l.b.Failure().Class != ClassConnectionError {
				t.Errorf("counts as %q", l.b.Failure().Class)
			}
		})
	}
}

// Proves TS-04, TS-20: each suite, curve and signature algorithm can be asked
// for by its name and is reported by it.
func TestAlgorithms(t *testing.T) {
	ca := newCA(t, "ca", nil)
	certs := map[bool]pair{true: ca.leaf(t, "ecdsa", "server"), false: ca.leaf(t, "rsa", "server")}
	run := func(t *testing.T, ec bool, version tlsv3.TlsParameters_TlsProtocol, change func(*tlsv3.TlsParameters)) (Negotiated, Negotiated) {
		t.Helper()
		d, u := downstream(t, certs[ec]), upstream(t)
		d.CommonTlsContext.TlsParams = &tlsv3.TlsParameters{}
		u.CommonTlsContext.TlsParams = &tlsv3.TlsParameters{TlsMaximumProtocolVersion: version}
		change(d.CommonTlsContext.TlsParams)
		all := allSuites()
		u.CommonTlsContext.TlsParams.CipherSuites = all
		u.CommonTlsContext.TlsParams.EcdhCurves = []string{"X25519:P-256", "P-384", "secp521r1", "X25519MLKEM768"}
		l := connect(newWorker(t), mustClient(t, u).NewSession(ClientSessionOptions{}), mustServer(t, d).NewSession(ConnInfo{}))
		if l.a.err != nil || l.b.err != nil {
			t.Fatal(l.a.err, l.b.err)
		}
		return l.a.Negotiated(), l.b.Negotiated()
	}
	for _, s := range suites() {
		if s.id == 0 {
			continue
		}
		for _, name := range []string{s.name, s.standard, "[" + s.name + "|" + s.standard + "]"} {
			t.Run(name, func(t *testing.T) {
				_, n := run(t, len(s.name) > 11 && s.name[:11] == "ECDHE-ECDSA", tlsv3.TlsParameters_TLSv1_2, func(p *tlsv3.TlsParameters) { p.CipherSuites = []string{name} })
				if n.Cipher != s.name {
					t.Errorf("got %q", n.Cipher)
				}
			})
		}
	}
	for _, name := range []string{"X25519", "P-256", "P-384", "P-521", "X25519MLKEM768"} {
		t.Run(name, func(t *testing.T) {
			a, b := run(t, true, tlsv3.TlsParameters_TLSv1_3, func(p *tlsv3.TlsParameters) { p.EcdhCurves = []string{name} })
			if a.Curve != name || b.Curve != name {
				t.Errorf("got %q and %q", a.Curve, b.Curve)
			}
		})
	}
	for name, ec := range map[string]bool{"ecdsa_secp256r1_sha256": true, "rsa_pss_rsae_sha384": false, "rsa_pss_rsae_sha512": false} {
		for version, v := range versions {
			t.Run(name+" "+version, func(t *testing.T) {
				a, b := run(t, ec, v, func(p *tlsv3.TlsParameters) { p.SignatureAlgorithms = []string{name} })
				if a.SigAlg != name || b.SigAlg != "" {
					t.Errorf("got %q and %q", a.SigAlg, b.SigAlg)
				}
				if version == "TLSv1.3" && a.Cipher != "TLS_AES_128_GCM_SHA256" {
					t.Errorf("got %q", a.Cipher)
				}
			})
		}
	}
}

func allSuites() []string {
	var out []string
	for _, s := range suites() {
		if s.id != 0 {
			out = append(out, s.name)
		}
	}
	return out
}

// TestPeerSignature pins that the algorithm of a peer's signature can be
// found; see peerSignature. Proves TS-04: it is restricted on our side of the
// peer's signature too.
func TestPeerSignature(t *testing.T) {
	if !knowsPeerSignature() {
		t.Fatal("crypto/tls has changed: see peerSignature")
	}
	ca := newCA(t, "ca", nil)
	server := mustServer(t, downstream(t, ca.leaf(t, "rsa", "server")))
	for name, v := range versions {
		u := upstream(t)
		u.CommonTlsContext.TlsParams.TlsMaximumProtocolVersion = v
		u.CommonTlsContext.TlsParams.SignatureAlgorithms = []string{"rsa_pss_rsae_sha512"}
		l := connect(newWorker(t), mustClient(t, u).NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
		if f := l.a.Failure(); f == nil || f.Class != ClassConnectionError {
			t.Errorf("%s: accepted (%v)", name, l.a.err)
		}
	}
}

// Proves TS-07: the certificate for a name and for what the client can do.
func TestCertificateChoice(t *testing.T) {
	ca := newCA(t, "ca", nil)
	ra, ea := ca.leaf(t, "rsa", "ra", dns("a.test")), ca.leaf(t, "ecdsa", "ea", dns("a.test"))
	rw, ew := ca.leaf(t, "rsa", "rw", dns("*.w.test")), ca.leaf(t, "ecdsa", "ew", dns("*.w.test"))
	cn := ca.leaf(t, "ecdsa", "cn.test")
	both := ca.leaf(t, "ecdsa", "hidden.test", dns("b.test", "x.w.test"))
	certs := []pair{ra, ea, rw, ew, cn, both}
	rsaOnly := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	for _, tc := range []struct {
		sni      string
		rsaOnly  bool
		fullScan bool
		want     string
	}{
		{sni: "a.test", want: "ea"},
		{sni: "A.Test", want: "ea"},
		{sni: "a.test", rsaOnly: true, want: "ra"},
		{sni: "1.w.test", want: "ew"},
		{sni: "1.w.test", rsaOnly: true, want: "rw"},
		{sni: "2.1.w.test", want: "ra"},
		{sni: "w.test", want: "ra"},
		{sni: "x.w.test", want: "hidden.test"},
		{sni: "x.w.test", rsaOnly: true, want: "rw"},
		{sni: "cn.test", want: "cn.test"},
		{sni: "hidden.test", want: "ra"},
		{sni: "", want: "ra"},
		{sni: "nobody.test", want: "ra"},
		{sni: "nobody.test", fullScan: true, want: "ea"},
		{sni: "nobody.test", rsaOnly: true, fullScan: true, want: "ra"},
	} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			d := downstream(t, certs...)
			d.FullScanCertsOnSniMismatch = wrapperspb.Bool(tc.fullScan)
			cfg := &tls.Config{ServerName: tc.sni, InsecureSkipVerify: true}
			if tc.rsaOnly {
				cfg.MaxVersion, cfg.CipherSuites = tls.VersionTLS12, rsaOnly
			}
			cs, e, err := stdClient(t, mustServer(t, d).NewSession(ConnInfo{}), cfg)
			if err != nil || e.err != nil {
				t.Fatal(err, e.err)
			}
			if got := cs.PeerCertificates[0].Subject.CommonName; got != tc.want {
				t.Errorf("got %s", got)
			}
			if got := e.Info().Local.Subject; got != "CN="+tc.want {
				t.Errorf("the session says %s", got)
			}
		})
	}
}

// Proves TS-07 for require_sni: a name that matches a certificate is needed.
func TestRequireSNI(t *testing.T) {
	d := downstream(t, newCA(t, "ca", nil).leaf(t, "ecdsa", "x", dns("a.test")))
	d.RequireSni = wrapperspb.Bool(true)
	server := mustServer(t, d)
	for sni, want := range map[string]FailureClass{"a.test": "", "b.test": ClassConnectionError, "": ClassConnectionError} {
		_, e, _ := stdClient(t, server.NewSession(ConnInfo{}), &tls.Config{ServerName: sni, InsecureSkipVerify: true})
		if got := e.Failure(); (got == nil) != (want == "") || got != nil && got.Class != want {
			t.Errorf("%q: %v", sni, e.err)
		}
	}
}

// Proves TS-10: the authorities a client is told of.
func TestAcceptableAuthorities(t *testing.T) {
	ca := newCA(t, "ca", nil)
	for _, suppress := range []bool{false, true} {
		d := downstream(t, ca.leaf(t, "ecdsa", "x"))
		rules := trusting(ca)
		rules.SuppressClientCaList = suppress
		validate(d.CommonTlsContext, rules)
		got := -1
		cfg := &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(i *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			got = len(i.AcceptableCAs)
			return &tls.Certificate{}, nil
		}}
		if _, e, err := stdClient(t, mustServer(t, d).NewSession(ConnInfo{}), cfg); err != nil || e.err != nil {
			t.Fatal(err, e.err)
		}
		if want := map[bool]int{false: 1, true: 0}[suppress]; got != want {
			t.Errorf("suppressed %v: %d authorities", suppress, got)
		}
	}
}

// A client's hello that is not TLS at all.
func TestPlainText(t *testing.T) {
	server := mustServer(t, downstream(t, newCA(t, "ca", nil).leaf(t, "ecdsa", "x")))
	w := newWorker(t)
	e := w.start(server.NewSession(ConnInfo{}))
	e.Feed([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	for !e.done {
		w.turn()
	}
	if e.Failure() == nil || e.Failure().Class != ClassConnectionError {
		t.Errorf("got %v", e.err)
	}
}

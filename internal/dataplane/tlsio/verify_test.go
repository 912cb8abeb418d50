package tlsio

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// clientCerts are the certificates that clients try.
type clientCerts struct {
	ca, other, middle *issuer
	server            pair
	good, wrongCA     pair
	selfSigned, old   pair
	revoked, viaMid   pair
	serverOnly        pair
}

func makeClientCerts(t *testing.T) clientCerts {
	t.Helper()
	c := clientCerts{ca: newCA(t, "ca", nil), other: newCA(t, "other", nil)}
	c.middle = newCA(t, "middle", c.ca)
	c.server = c.ca.leaf(t, "ecdsa", "server", dns("a.test"))
	c.good = c.ca.leaf(t, "ecdsa", "good", dns("good.test", "*.wild.test"), func(x *x509.Certificate) {
		x.EmailAddresses = []string{"me@good.test"}
		x.URIs = []*url.URL{{Scheme: "spiffe", Host: "good", Path: "/x"}}
		x.IPAddresses = []net.IP{net.IPv4(10, 1, 2, 3), net.ParseIP("2001:db8::1")}
	})
	c.wrongCA = c.other.leaf(t, "ecdsa", "wrong")
	key := newKey(t, "ecdsa")
	c.selfSigned = pair{cert: sign(t, template("self"), nil, key), key: key}
	c.old = c.ca.leaf(t, "ecdsa", "old", expired)
	c.serverOnly = c.ca.leaf(t, "ecdsa", "servers", func(x *x509.Certificate) { x.ExtKeyUsage = x.ExtKeyUsage[:1] })
	c.revoked = c.ca.leaf(t, "ecdsa", "revoked")
	c.viaMid = c.middle.leaf(t, "ecdsa", "via")
	c.viaMid.between = []*x509.Certificate{c.middle.cert}
	return c
}

func (i *issuer) crl(t *testing.T, next time.Time, revoked ...*x509.Certificate) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: next}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, i.cert, i.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

func spkiPin(c *x509.Certificate) string {
	s := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(s[:])
}

func colons(c *x509.Certificate) string {
	s := sha256.Sum256(c.Raw)
	var parts []string
	for _, b := range s {
		parts = append(parts, strings.ToUpper(hex.EncodeToString([]byte{b})))
	}
	return strings.Join(parts, ":")
}

// Proves TS-08, TS-09, TS-10, TS-20: who gets in, and what each failure counts as.
func TestClientCertificates(t *testing.T) {
	c := makeClientCerts(t)
	crl := func(data ...[]byte) func(*tlsv3.CertificateValidationContext) {
		return func(v *tlsv3.CertificateValidationContext) {
			var all []byte
			for _, d := range data {
				all = append(all, d...)
			}
			v.Crl = inlineBytes(all)
		}
	}
	soon := time.Now().Add(time.Hour)
	for _, tc := range []struct {
		name    string
		cas     []*issuer
		require bool
		change  func(v *tlsv3.CertificateValidationContext)
		client  *pair
		want    FailureClass
	}{
		{name: "nothing asked, none", client: nil},
		{name: "nothing asked, self-signed", client: &c.selfSigned},
		{name: "required, none", require: true, want: ClassVerifyNoCert},
		{name: "required without authority, self-signed", require: true, client: &c.selfSigned},
		{name: "authority, none", cas: []*issuer{c.ca}},
		{name: "authority, required, none", cas: []*issuer{c.ca}, require: true, want: ClassVerifyNoCert},
		{name: "authority, good", cas: []*issuer{c.ca}, require: true, client: &c.good},
		{name: "authority, other authority's", cas: []*issuer{c.ca}, client: &c.wrongCA, want: ClassVerifyError},
		{name: "authority, self-signed", cas: []*issuer{c.ca}, client: &c.selfSigned, want: ClassVerifyError},
		{name: "authority, expired", cas: []*issuer{c.ca}, client: &c.old, want: ClassVerifyError},
		{name: "expired allowed", cas: []*issuer{c.ca}, client: &c.old, change: func(v *tlsv3.CertificateValidationContext) { v.AllowExpiredCertificate = true }},
		{name: "expired allowed, other authority's", cas: []*issuer{c.ca}, client: &c.wrongCA, want: ClassVerifyError, change: func(v *tlsv3.CertificateValidationContext) { v.AllowExpiredCertificate = true }},
		{name: "two authorities", cas: []*issuer{c.ca, c.other}, client: &c.wrongCA},
		{name: "intermediate presented", cas: []*issuer{c.ca}, client: &c.viaMid},
		{name: "intermediate as anchor", cas: []*issuer{c.middle}, client: &pair{cert: c.viaMid.cert, key: c.viaMid.key}},
		{name: "intermediate missing", cas: []*issuer{c.ca}, client: &pair{cert: c.viaMid.cert, key: c.viaMid.key}, want: ClassVerifyError},
		{name: "leaf as anchor", cas: []*issuer{{cert: c.selfSigned.cert}}, client: &c.selfSigned},
		{name: "depth 1, chain of 1", cas: []*issuer{c.ca}, client: &c.good, change: func(v *tlsv3.CertificateValidationContext) { v.MaxVerifyDepth = wrapperspb.UInt32(1) }},
		{name: "depth 1, chain of 2", cas: []*issuer{c.ca}, client: &c.viaMid, want: ClassVerifyError, change: func(v *tlsv3.CertificateValidationContext) { v.MaxVerifyDepth = wrapperspb.UInt32(1) }},
		{name: "depth 2, chain of 2", cas: []*issuer{c.ca}, client: &c.viaMid, change: func(v *tlsv3.CertificateValidationContext) { v.MaxVerifyDepth = wrapperspb.UInt32(2) }},
		{name: "untrusted accepted", cas: []*issuer{c.ca}, client: &c.selfSigned, change: func(v *tlsv3.CertificateValidationContext) {
			v.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
		}},
		{name: "crl, revoked", cas: []*issuer{c.ca}, client: &c.revoked, change: crl(c.ca.crl(t, soon, c.revoked.cert)), want: ClassVerifyError},
		{name: "crl, good", cas: []*issuer{c.ca}, client: &c.good, change: crl(c.ca.crl(t, soon, c.revoked.cert))},
		{name: "crl, stale", cas: []*issuer{c.ca}, client: &c.good, change: crl(c.ca.crl(t, time.Now().Add(-time.Minute))), want: ClassVerifyError},
		{name: "crl of another", cas: []*issuer{c.ca}, client: &c.good, change: crl(c.other.crl(t, soon)), want: ClassVerifyError},
		{name: "crl, intermediate's missing", cas: []*issuer{c.ca}, client: &c.viaMid, change: crl(c.ca.crl(t, soon)), want: ClassVerifyError},
		{name: "crl, both", cas: []*issuer{c.ca}, client: &c.viaMid, change: crl(c.ca.crl(t, soon), c.middle.crl(t, soon))},
		{name: "crl, intermediate revoked", cas: []*issuer{c.ca}, client: &c.viaMid, change: crl(c.ca.crl(t, soon, c.middle.cert), c.middle.crl(t, soon)), want: ClassVerifyError},
		{name: "crl, leaf only, intermediate revoked", cas: []*issuer{c.ca}, client: &c.viaMid, change: func(v *tlsv3.CertificateValidationContext) {
			crl(c.ca.crl(t, soon, c.middle.cert), c.middle.crl(t, soon))(v)
			v.OnlyVerifyLeafCertCrl = true
		}},
		{name: "crl, leaf only, leaf revoked", cas: []*issuer{c.ca}, client: &c.revoked, want: ClassVerifyError, change: func(v *tlsv3.CertificateValidationContext) {
			crl(c.ca.crl(t, soon, c.revoked.cert))(v)
			v.OnlyVerifyLeafCertCrl = true
		}},
		{name: "crl, revoked in one of two", cas: []*issuer{c.ca}, client: &c.revoked, change: crl(c.ca.crl(t, soon, c.revoked.cert), c.ca.crl(t, soon)), want: ClassVerifyError},
		{name: "crl, stale and current", cas: []*issuer{c.ca}, client: &c.good, change: crl(c.ca.crl(t, time.Now().Add(-time.Minute)), c.ca.crl(t, soon))},
		{name: "crl, forged", cas: []*issuer{c.ca}, client: &c.good, change: crl(newCA(t, "ca", nil).crl(t, soon)), want: ClassVerifyError},
		{name: "crl in trusted_ca", cas: []*issuer{c.ca}, client: &c.revoked, want: ClassVerifyError, change: func(v *tlsv3.CertificateValidationContext) {
			v.TrustedCa = inlineBytes(append(c.ca.pem(), c.ca.crl(t, soon, c.revoked.cert)...))
		}},
		{name: "certificate for servers only", cas: []*issuer{c.ca}, client: &c.serverOnly, want: ClassVerifyError},
		{name: "spki pin, right", client: &c.selfSigned, change: func(v *tlsv3.CertificateValidationContext) {
			v.VerifyCertificateSpki = []string{spkiPin(c.good.cert), spkiPin(c.selfSigned.cert)}
		}},
		{name: "spki pin, wrong", client: &c.selfSigned, want: ClassVerifyCertificate, change: func(v *tlsv3.CertificateValidationContext) {
			v.VerifyCertificateSpki = []string{spkiPin(c.good.cert)}
		}},
		{name: "spki pin, none", want: ClassVerifyNoCert, change: func(v *tlsv3.CertificateValidationContext) {
			v.VerifyCertificateSpki = []string{spkiPin(c.good.cert)}
		}},
		{name: "hash pin, right", client: &c.selfSigned, change: func(v *tlsv3.CertificateValidationContext) {
			v.VerifyCertificateHash = []string{colons(c.selfSigned.cert)}
		}},
		{name: "hash pin, wrong", client: &c.selfSigned, want: ClassVerifyCertificate, change: func(v *tlsv3.CertificateValidationContext) {
			v.VerifyCertificateHash = []string{strings.ToLower(strings.ReplaceAll(colons(c.good.cert), ":", ""))}
		}},
		{name: "pins are alternatives", client: &c.selfSigned, change: func(v *tlsv3.CertificateValidationContext) {
			v.VerifyCertificateHash = []string{colons(c.selfSigned.cert)}
			v.VerifyCertificateSpki = []string{spkiPin(c.good.cert)}
		}},
		{name: "pin right, chain wrong", cas: []*issuer{c.ca}, client: &c.selfSigned, want: ClassVerifyError, change: func(v *tlsv3.CertificateValidationContext) {
			v.VerifyCertificateHash = []string{colons(c.selfSigned.cert)}
		}},
		{name: "san, right", cas: []*issuer{c.ca}, client: &c.good, change: sanRule(tlsv3.SubjectAltNameMatcher_DNS, "good.test")},
		{name: "san, wrong", cas: []*issuer{c.ca}, client: &c.good, change: sanRule(tlsv3.SubjectAltNameMatcher_DNS, "bad.test"), want: ClassVerifySAN},
		{name: "san, none", cas: []*issuer{c.ca}, change: sanRule(tlsv3.SubjectAltNameMatcher_DNS, "good.test"), want: ClassVerifyNoCert},
		{name: "san right, pin wrong", cas: []*issuer{c.ca}, client: &c.good, want: ClassVerifyCertificate, change: func(v *tlsv3.CertificateValidationContext) {
			sanRule(tlsv3.SubjectAltNameMatcher_DNS, "good.test")(v)
			v.VerifyCertificateHash = []string{colons(c.old.cert)}
		}},
	} {
		for version, v := range versions {
			t.Run(tc.name+" "+version, func(t *testing.T) {
				d, u := downstream(t, c.server), upstream(t)
				d.RequireClientCertificate = wrapperspb.Bool(tc.require)
				rules := &tlsv3.CertificateValidationContext{}
				if len(tc.cas) > 0 {
					rules = trusting(tc.cas...)
				}
				if tc.change != nil {
					tc.change(rules)
				}
				validate(d.CommonTlsContext, rules)
				if tc.client != nil {
					u = upstream(t, *tc.client)
				}
				u.CommonTlsContext.TlsParams.TlsMaximumProtocolVersion = v
				checkClass(t, mustClient(t, u), mustServer(t, d), tc.want)
			})
		}
	}
}

func sanRule(kind tlsv3.SubjectAltNameMatcher_SanType, exact string) func(*tlsv3.CertificateValidationContext) {
	return func(v *tlsv3.CertificateValidationContext) {
		v.MatchTypedSubjectAltNames = []*tlsv3.SubjectAltNameMatcher{{SanType: kind, Matcher: exactly(exact)}}
	}
}

func exactly(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

func checkClass(t *testing.T, client *ClientContext, server *ServerContext, want FailureClass) {
	t.Helper()
	l := connect(newWorker(t), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
	if want == ClassNone {
		if l.a.err != nil || l.b.err != nil || l.a.over != nil {
			t.Fatalf("refused: client %v %v, server %v", l.a.err, l.a.over, l.b.err)
		}
		return
	}
	var f *Failure
	if !errors.As(l.b.err, &f) {
		t.Fatal("the server accepted it")
	}
	if f.Class != want || !strings.HasPrefix(l.b.FailureReason(), "TLS_error:|") {
		t.Errorf("class %q, want %q; reason %q", f.Class, want, l.b.FailureReason())
	}
	// The client hears of it, in TLS 1.3 after its own handshake.
	if l.a.over == nil || l.a.Failure() == nil || l.a.Failure().Class != ClassConnectionError {
		t.Errorf("the client saw %v (%v)", l.a.over, l.a.Failure())
	}
}

// Proves TS-08: what was let pass is not called validated.
func TestValidated(t *testing.T) {
	c := makeClientCerts(t)
	lax := func(v *tlsv3.CertificateValidationContext) *tlsv3.CertificateValidationContext {
		v.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
		return v
	}
	for _, tc := range []struct {
		name                 string
		rules                *tlsv3.CertificateValidationContext
		client               []pair
		presented, validated bool
		tolerated            FailureClass
	}{
		{"none", trusting(c.ca), nil, false, false, ""},
		{"good", trusting(c.ca), []pair{c.good}, true, true, ""},
		{"lax, none", lax(trusting(c.ca)), nil, false, false, ""},
		{"lax, good", lax(trusting(c.ca)), []pair{c.good}, true, true, ""},
		{"lax, bad", lax(trusting(c.ca)), []pair{c.selfSigned}, true, false, ClassVerifyError},
		{"lax, no authority", lax(&tlsv3.CertificateValidationContext{}), []pair{c.selfSigned}, true, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := downstream(t, c.server)
			validate(d.CommonTlsContext, tc.rules)
			l := connect(newWorker(t), mustClient(t, upstream(t, tc.client...)).NewSession(ClientSessionOptions{}), mustServer(t, d).NewSession(ConnInfo{}))
			if l.b.err != nil {
				t.Fatal(l.b.err)
			}
			i := l.b.Info()
			if i.Presented != tc.presented || i.Validated != tc.validated || l.b.Tolerated() != tc.tolerated {
				t.Errorf("presented %v, validated %v, tolerated %q", i.Presented, i.Validated, l.b.Tolerated())
			}
			if l.b.Negotiated().PeerCertificate != tc.presented {
				t.Error("no_certificate would be counted wrongly")
			}
		})
	}
}

// Proves TS-09: all kinds of names and matchers.
func TestSANMatchers(t *testing.T) {
	upn := func() []byte {
		value, _ := asn1.MarshalWithParams("user@corp", "utf8,explicit,tag:0")
		oid, _ := asn1.Marshal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3})
		out, _ := asn1.Marshal(asn1.RawValue{Class: 2, Tag: 0, IsCompound: true, Bytes: append(oid, value...)})
		return out
	}()
	number := func(v any) []byte {
		inner, _ := asn1.Marshal(v)
		value, _ := asn1.Marshal(asn1.RawValue{Class: 2, Tag: 0, IsCompound: true, Bytes: inner})
		oid, _ := asn1.Marshal(asn1.ObjectIdentifier{1, 2, 3})
		out, _ := asn1.Marshal(asn1.RawValue{Class: 2, Tag: 0, IsCompound: true, Bytes: append(oid, value...)})
		return out
	}
	str := func(tag int, s string) []byte {
		b, _ := asn1.Marshal(asn1.RawValue{Class: 2, Tag: tag, Bytes: []byte(s)})
		return b
	}
	var names []byte
	for _, n := range [][]byte{
		str(2, "good.test"), str(2, "*.wild.test"), str(1, "me@good.test"), str(6, "spiffe://good/x"),
		str(7, "\x0a\x01\x02\x03"), str(7, string(net.ParseIP("2001:db8::1"))), upn,
		number(42), number(true), number(asn1.ObjectIdentifier{1, 2, 3, 4}), number(asn1.RawValue{Tag: asn1.TagNull}),
	} {
		names = append(names, n...)
	}
	ext, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: names})
	if err != nil {
		t.Fatal(err)
	}
	cert := newCA(t, "ca", nil).leaf(t, "ecdsa", "x", func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: ext}}
	}).cert

	sm := func(m *matcherv3.StringMatcher, fold bool) *matcherv3.StringMatcher { m.IgnoreCase = fold; return m }
	regex := func(s string) *matcherv3.StringMatcher {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: s}}}
	}
	const (
		DNS, URI, EMAIL = tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_URI, tlsv3.SubjectAltNameMatcher_EMAIL
		IP, OTHER       = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, tlsv3.SubjectAltNameMatcher_OTHER_NAME
	)
	for _, tc := range []struct {
		kind tlsv3.SubjectAltNameMatcher_SanType
		oid  string
		m    *matcherv3.StringMatcher
		want bool
	}{
		{DNS, "", exactly("good.test"), true},
		{DNS, "", exactly("GOOD.test"), true},
		{DNS, "", exactly("a.wild.test"), true},
		{DNS, "", exactly("a.b.wild.test"), false},
		{DNS, "", exactly("wild.test"), false},
		{DNS, "", exactly("me@good.test"), false},
		{DNS, "", sm(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: ".TEST"}}, true), true},
		{DNS, "", sm(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: ".TEST"}}, false), false},
		{DNS, "", &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: "ood."}}, true},
		{EMAIL, "", exactly("me@good.test"), true},
		{EMAIL, "", exactly("good.test"), false},
		{URI, "", &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "spiffe://good/"}}, true},
		{URI, "", regex(`spiffe://[a-z]+/x`), true},
		{URI, "", regex(`spiffe://[a-z]+`), false},
		{IP, "", exactly("10.1.2.3"), true},
		{IP, "", exactly("2001:db8::1"), true},
		{IP, "", exactly("10.1.2.4"), false},
		{OTHER, "1.3.6.1.4.1.311.20.2.3", exactly("user@corp"), true},
		{OTHER, "1.3.6.1.4.1.311.20.2.4", exactly("user@corp"), false},
		{OTHER, "1.2.3", exactly("42"), true},
		{OTHER, "1.2.3", exactly("true"), true},
		{OTHER, "1.2.3", exactly("1.2.3.4"), true},
		{OTHER, "1.2.3", exactly(""), true},
		{OTHER, "1.2.3", exactly("43"), false},
	} {
		m, err := parseTypedSAN("m", tc.kind, tc.oid, tc.m)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for _, s := range sansOf(cert) {
			got = got || m.matches(s)
		}
		if got != tc.want {
			t.Errorf("%s %s %v: %v", tc.kind, tc.oid, tc.m, got)
		}
	}
	old, err := parseSANMatchers("v", &tlsv3.CertificateValidationContext{MatchSubjectAltNames: []*matcherv3.StringMatcher{exactly("spiffe://good/x")}}) //nolint:staticcheck // that is what is tested
	if err != nil {
		t.Fatal(err)
	}
	v := &verifier{sans: old}
	if _, err := v.verify([]*x509.Certificate{cert}, expectation{}); err != nil {
		t.Errorf("match_subject_alt_names: %v", err)
	}
}

func TestDNSMatches(t *testing.T) {
	for _, tc := range []struct {
		host, pattern string
		want          bool
	}{
		{"a.test", "a.test", true},
		{"a.test", "A.TEST", true},
		{"a.b.test", "*.b.test", true},
		{"b.test", "*.b.test", false},
		{"x.a.b.test", "*.b.test", false},
		{"x.a.b.test", "*.a.*.test", false},
		{"foobar.b.test", "foo*.b.test", true},
		{"fo.b.test", "foo*.b.test", false},
		{"foo.b.test", "f*o*.b.test", false},
		{"xn--a.b.test", "xn--*.b.test", false},
		{"xn--a.b.test", "*.b.test", true},
		{"", "", false},
		{"test", "*", false},
		{".b.test", "*.b.test", false},
	} {
		if got := dnsMatches(tc.host, tc.pattern); got != tc.want {
			t.Errorf("%s, %s: %v", tc.host, tc.pattern, got)
		}
	}
}

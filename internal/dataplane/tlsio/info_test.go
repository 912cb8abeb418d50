package tlsio

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Proves AL-11 and HC-36 as far as the TLS layer has their data.
func TestInfo(t *testing.T) {
	c := makeClientCerts(t)
	client := c.viaMid
	d := downstream(t, c.server)
	d.RequireClientCertificate = wrapperspb.Bool(true)
	validate(d.CommonTlsContext, trusting(c.ca))
	l := connect(newWorker(t), mustClient(t, upstream(t, client)).NewSession(ClientSessionOptions{SNI: "a.test"}), mustServer(t, d).NewSession(ConnInfo{}))
	if l.b.err != nil {
		t.Fatal(l.b.err)
	}
	i := l.b.Info()
	if i != l.b.Info() {
		t.Error("made twice")
	}
	sum256, sum1 := sha256.Sum256(client.cert.Raw), sha1.Sum(client.cert.Raw)
	want := &CertificateInfo{
		Subject: "CN=via", Issuer: "CN=middle", Serial: hex.EncodeToString(client.cert.SerialNumber.Bytes()),
		FingerprintSHA256: hex.EncodeToString(sum256[:]), FingerprintSHA1: hex.EncodeToString(sum1[:]),
		NotBefore: client.cert.NotBefore, NotAfter: client.cert.NotAfter,
	}
	if diff := cmp.Diff(want, i.Peer, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".cert" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
	text, err := url.QueryUnescape(i.Peer.URLEncodedPEM())
	if err != nil || text != string(certPEM(client.cert)) {
		t.Errorf("%v: %s", err, text)
	}
	if s := i.Peer.URLEncodedPEM(); strings.ContainsAny(s, "\n +/=") || !strings.HasPrefix(s, "-----BEGIN%20CERTIFICATE-----%0A") {
		t.Errorf("not escaped: %s", s)
	}
	chain, err := url.QueryUnescape(i.URLEncodedPEMChain())
	if err != nil || chain != string(certPEM(client.cert, c.middle.cert)) {
		t.Errorf("chain: %v: %s", err, chain)
	}
	if i.Local == nil || cmp.Diff([]string{"a.test"}, i.Local.DNSSANs) != "" {
		t.Errorf("local %+v", i.Local)
	}
	if !l.a.Info().Presented || l.a.Info().Validated || l.a.Info().Local.Subject != "CN=via" || l.a.Info().Peer.Subject != "CN=server" {
		t.Errorf("the client's %+v", l.a.Info())
	}
	// A log is written when all is over.
	l.b.Abort(nil)
	if l.b.Info() != i {
		t.Error("lost at the end")
	}
}

// Proves TS-21: the reason of a failure is Envoy's, and a log can tell whom it
// was about.
func TestFailedHandshake(t *testing.T) {
	c := makeClientCerts(t)
	rules := trusting(c.ca)
	sanRule(tlsv3.SubjectAltNameMatcher_DNS, "b.test")(rules)
	d := downstream(t, c.server)
	validate(d.CommonTlsContext, rules)
	server := mustServer(t, d)
	for _, tc := range []struct {
		certs           []pair
		reason, subject string
	}{
		{[]pair{c.good}, "TLS_error:|268435581:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify cert failed: SAN matcher, certificate SANs are [good.test, *.wild.test, me@good.test, 10.1.2.3, 2001:db8::1, spiffe://good/x]:TLS_error_end", "CN=good"},
		{[]pair{c.selfSigned}, "TLS_error:|268435581:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify cert failed: X509_verify_cert: x509: certificate signed by unknown authority:TLS_error_end", "CN=self"},
		{nil, "TLS_error:|268435648:SSL routines:OPENSSL_internal:PEER_DID_NOT_RETURN_A_CERTIFICATE:peer did not provide required client certificate:TLS_error_end", ""},
	} {
		l := connect(newWorker(t), mustClient(t, upstream(t, tc.certs...)).NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
		i := l.b.Info()
		if l.b.FailureReason() != tc.reason || i.Version != "TLSv1.3" || i.Validated || i.Presented != (tc.subject != "") {
			t.Errorf("reason %s, info %+v", l.b.FailureReason(), i)
		}
		if tc.subject != "" && i.Peer.Subject != tc.subject {
			t.Errorf("about %s", i.Peer.Subject)
		}
	}
}

func TestDistinguishedNames(t *testing.T) {
	ca := newCA(t, "ca", nil)
	name := pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: asn1.ObjectIdentifier{2, 5, 4, 6}, Value: "DE"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: `A, "B" & Söhne`},
		{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}, Value: "test"},
		{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: "a@b.test"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "#x "},
		{Type: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: "odd"},
	}}
	cert := ca.leaf(t, "ecdsa", "x", func(c *x509.Certificate) { c.Subject = name }).cert
	const want = `1.2.3.4=#13036F6464,CN=\#x\ ,emailAddress=a@b.test,DC=test,O=A\, \"B\" & S\C3\B6hne,C=DE`
	if got := rfc2253(cert.RawSubject); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSerialText(t *testing.T) {
	for in, want := range map[int64]string{0: "00", 1: "01", 255: "ff", 256: "0100", -1: "-01"} {
		if got := serialText(big.NewInt(in)); got != want {
			t.Errorf("%d: %s", in, got)
		}
	}
}

// Proves TS-26 as far as the TLS layer has its data.
func TestCertificatesInUse(t *testing.T) {
	ca := newCA(t, "ca", nil)
	leaf := ca.leaf(t, "ecdsa", "x", dns("a.test", "b.test"))
	d := downstream(t, leaf)
	validate(d.CommonTlsContext, trusting(ca))
	c := mustServer(t, d)
	now := leaf.cert.NotAfter.Add(-25 * time.Hour)
	got := c.Certificates(now)
	want := ContextCertificates{
		CA: []CertificateStatus{{
			Path: "<inline>", Serial: serialText(ca.cert.SerialNumber), DaysLeft: 1, NotBefore: ca.cert.NotBefore, NotAfter: ca.cert.NotAfter,
		}},
		Chain: []CertificateStatus{{
			Path: "<inline>", Serial: serialText(leaf.cert.SerialNumber), DaysLeft: 1, NotBefore: leaf.cert.NotBefore, NotAfter: leaf.cert.NotAfter,
			SANs: []SubjectAltName{{"DNS", "a.test"}, {"DNS", "b.test"}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for add, want := range map[time.Duration]uint64{0: 1, 2 * time.Hour: 0, 48 * time.Hour: 0, -48 * time.Hour: 3} {
		if days, ok := c.DaysUntilFirstExpiry(now.Add(add)); !ok || days != want {
			t.Errorf("%v: %d, %v", add, days, ok)
		}
	}
	if _, ok := mustClient(t, upstream(t)).DaysUntilFirstExpiry(now); ok {
		t.Error("a context without certificates has one that expires")
	}
}

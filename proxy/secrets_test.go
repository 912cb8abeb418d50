package proxy_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/proxy"
)

// certificate is a secret with a new certificate of an authority.
func certificate(t *testing.T, a *testcert.Authority, name string) *tlsv3.Secret {
	t.Helper()
	cert, key, err := a.Issue("acme.com")
	must(t, err)
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(string(cert)), PrivateKey: inline(string(key)),
	}}}
}

func trust(a *testcert.Authority, name string) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: inline(string(a.PEM())),
	}}}
}

func secretFrom(name string, wait time.Duration) *tlsv3.SdsSecretConfig {
	s := ads()
	if wait > 0 {
		s.InitialFetchTimeout = durationpb.New(wait)
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: s}
}

// downstream is TLS with a discovered certificate.
func downstream(secret string) *tlsv3.DownstreamTlsContext {
	return &tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secretFrom(secret, 0)},
	}}
}

func socketOf(m proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(m)}}
}

// Proves TS-14 for listeners: one waits for its certificate, and a new one is
// used by new connections while the others go on; a bad one changes nothing.
func TestCertificatesComeAndRotate(t *testing.T) {
	a, err := testcert.NewAuthority("test")
	must(t, err)
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	at := freeAddress(t)
	c := chainOf(manager(with(saying("r", "secret"))))
	c.TransportSocket = socketOf(downstream("cert"))
	must(t, res.SetListener(listenerAt("l", at, c), "1"))
	s.wants(t, "map[Secret cert:true]")
	if got := getOnce(t, at); got != "error" {
		t.Fatalf("without a certificate: %q", got)
	}
	must(t, res.SetSecret(ads(), certificate(t, a, "cert"), "1"))
	first := dialTLS(t, at, a)
	first.expect(t, "secret", true)
	bad := certificate(t, a, "cert")
	bad.GetTlsCertificate().PrivateKey = inline("no key")
	if err := res.SetSecret(ads(), bad, "2"); err == nil || !strings.Contains(err.Error(), `secret "cert"`) || strings.Contains(err.Error(), "no key") {
		t.Errorf("a bad key: %v", err)
	}
	if serialAt(t, at, a) != first.serial {
		t.Error("a bad secret changed the certificate")
	}
	must(t, res.SetSecret(ads(), certificate(t, a, "cert"), "3"))
	if serialAt(t, at, a) == first.serial {
		t.Error("the certificate did not change")
	}
	first.expect(t, "secret", true)
	res.RemoveListener("l")
	_ = first.Close()
	s.wants(t, "map[]")
}

// serialAt is the serial number of the certificate that new connections see.
func serialAt(t *testing.T, address string, a *testcert.Authority) string {
	t.Helper()
	l := dialTLS(t, address, a)
	defer l.Close()
	return l.serial
}

// tlsLine is a line over TLS.
type tlsLine struct {
	line
	serial string
}

func dialTLS(t *testing.T, address string, a *testcert.Authority) *tlsLine {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	waitOpen(t, address)
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &tlsLine{line{c, bufio.NewReader(c)}, c.ConnectionState().PeerCertificates[0].SerialNumber.String()}
}

// Proves TS-14 for clusters: one waits for the authorities to trust, and
// follows them.
func TestTrustComesAndChanges(t *testing.T) {
	a, err := testcert.NewAuthority("test")
	must(t, err)
	other, err := testcert.NewAuthority("other")
	must(t, err)
	cert, key, err := a.Issue("localhost")
	must(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	b := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "safe") }))
	b.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	b.StartTLS()
	t.Cleanup(b.Close)
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	x := staticCluster("x", b.Listener.Addr().String())
	x.TransportSocket = socketOf(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: secretFrom("ca", 0)},
	}})
	must(t, res.SetCluster(x, "1"))
	s.wants(t, "map[Secret ca:true]")
	r.expect(t, "x", "503 ")
	must(t, res.SetSecret(nil, trust(a, "ca"), "1"))
	r.expect(t, "x", "200 safe")
	if err := res.SetSecret(nil, certificate(t, a, "ca"), "2"); err == nil || !strings.Contains(err.Error(), "is not a validation context") {
		t.Errorf("a certificate for a validation context: %v", err)
	}
	y := staticCluster("y", b.Listener.Addr().String())
	y.TransportSocket = x.GetTransportSocket()
	must(t, res.SetSecret(nil, trust(other, "ca"), "3"))
	must(t, res.SetCluster(y, "1")) // without connections yet
	for range 500 {
		if strings.HasPrefix(r.to(t, "y"), "503 upstream connect error") {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if got := r.to(t, "y"); !strings.HasPrefix(got, "503 upstream connect error") {
		t.Errorf("with an authority that did not sign it: %q", got)
	}
	r.expect(t, "x", "200 safe") // on the connection that was there
	res.RemoveCluster("x")
	res.RemoveCluster("y")
	s.wants(t, "map[]")
}

// Proves BS-25 for secrets: what waits for one goes on without it, and its
// connections fail.
func TestSecretsThatDoNotCome(t *testing.T) {
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	x := staticCluster("x", namedBackend(t, "plain"))
	x.TransportSocket = socketOf(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secretFrom("cert", 10*time.Millisecond)},
	}})
	must(t, res.SetCluster(x, "1"))
	at := freeAddress(t)
	c := chainOf(manager(with(saying("r", "never"))))
	c.TransportSocket = socketOf(downstream("other"))
	must(t, res.SetListener(listenerAt("l", at, c), "1"))
	res.Missing(nil, proxy.SecretType, "other")
	for range 500 {
		if strings.HasPrefix(r.to(t, "x"), "503 upstream connect error") {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if got := r.to(t, "x"); !strings.HasPrefix(got, "503 upstream connect error") {
		t.Errorf("without a certificate: %q", got)
	}
	waitOpen(t, at)
	if got := getOnce(t, at); got != "error" {
		t.Errorf("without a certificate it answers %q", got)
	}
}

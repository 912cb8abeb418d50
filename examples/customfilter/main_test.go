package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/proxy"
)

// certificate writes the files that envoy.yaml names, and returns who trusts them.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "acme.com"}, DNSNames: []string{"acme.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, data := range map[string][]byte{"servercert.pem": chain, "serverkey.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.MkdirAll(filepath.Join(dir, "certs"), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "certs", name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(chain)
	return pool
}

// service is what the cluster leads to: a server of HTTP/2 over TLS.
func service(t *testing.T) int {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			http.Error(w, r.Proto, http.StatusHTTPVersionNotSupported)
			return
		}
		_, _ = io.WriteString(w, "hello "+r.Header.Get("x-customer"))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	addr, _ := s.Listener.Addr().(*net.TCPAddr)
	return addr.Port
}

// sink takes what the statsd sink sends.
func sink(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
		}
	}()
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

func setPort(b *bootstrapv3.Bootstrap, cluster int, port int) {
	lb := b.GetStaticResources().GetClusters()[cluster].GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0]
	lb.GetEndpoint().GetAddress().GetSocketAddress().PortSpecifier = portOf(port)
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// Proves HF-49: the configuration runs with a filter that the proxy does not
// know, over TLS and HTTP/2.
func TestExample(t *testing.T) {
	b, err := load("envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	setPort(b, 0, service(t))
	setPort(b, 1, sink(t))
	dir := t.TempDir()
	roots := certificate(t, dir)
	t.Chdir(dir)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	listening, ended, log := make(chan string, 1), make(chan error, 1), &output{}
	go func() {
		ended <- serve(ctx, b, log, func(p *proxy.Proxy) { listening <- p.Listeners()["listener_https"][0] })
	}()
	var address string
	select {
	case address = <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	for who, want := range map[string]string{"ann": "200 hello ann (ann)", "eve": "403 unknown customer\n ()", "": "403 unknown customer\n ()"} {
		if got := ask(t, transport, who); got != want {
			t.Errorf("%q got %q, want %q", who, got, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v\n%s", err, log.b.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil || strings.Count(string(text), `"GET /foo HTTP/2"`) != 3 {
		t.Errorf("access log %q, %v", text, err)
	}
}

func ask(t *testing.T, transport http.RoundTripper, who string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://acme.com/foo", nil)
	if err != nil {
		t.Fatal(err)
	}
	if who != "" {
		req.Header.Set("x-customer", who)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.ProtoMajor != 2 {
		t.Fatalf("%s: %v", res.Proto, err)
	}
	return res.Status[:3] + " " + string(body) + " (" + res.Header.Get("x-served-for") + ")"
}

// What the filter refuses to be configured with.
func TestConfiguration(t *testing.T) {
	for want, fields := range map[string]map[string]any{
		"nobody could come in":     {},
		"unknown field":            {"customer": "ann"},
		"the header has no name":   {"header": "", "customers": []any{"ann"}},
		"value.customers: nobody ": {"customers": []any{}},
	} {
		cfg, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := customers().New(cfg, &filter.Env{Stats: noStats{}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", fields, err, want)
		}
	}
}

type noStats struct{}

func (noStats) Counter(string) uint32   { return 0 }
func (noStats) Gauge(string) uint32     { return 0 }
func (noStats) Histogram(string) uint32 { return 0 }

func portOf(port int) *corev3.SocketAddress_PortValue {
	return &corev3.SocketAddress_PortValue{PortValue: uint32(port)} //nolint:gosec // a port
}

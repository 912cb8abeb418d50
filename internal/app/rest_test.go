package app

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// post polls a server, over HTTP/1.1 or HTTP/2.
func post(t *testing.T, m *Management, cfg *tls.Config, http2 bool, path, body string) (code int, text string) {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: cfg, Protocols: &http.Protocols{}, DisableKeepAlives: true}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetHTTP2(http2 && cfg != nil)
	tr.Protocols.SetUnencryptedHTTP2(http2 && cfg == nil)
	scheme := "http"
	if cfg != nil {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scheme+"://"+m.XDSAddress()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// Proves XR-12, and that REST and gRPC share the port.
func TestREST(t *testing.T) {
	m := run(t, settings(t))
	await(t, "the load", func() bool { code, _ := get(t, m, "/readyz"); return code == http.StatusOK })
	for _, http2 := range []bool{false, true} {
		if code, text := post(t, m, nil, http2, "/v3/discovery:clusters", `{"node":{"id":"n"}}`); code != http.StatusOK || !strings.Contains(text, `"web"`) {
			t.Errorf("clusters: %d %s", code, text)
		}
		code, text := post(t, m, nil, http2, "/v3/discovery:client_status", `{}`)
		if code != http.StatusOK || !strings.Contains(text, `"n"`) || !strings.Contains(text, "variant=rest") {
			t.Errorf("client status: %d %s", code, text)
		}
		code, text = post(t, m, nil, http2, "/v3/discovery:health_check", `{"health_check_request":{"node":{"id":"n"}}}`)
		if code != http.StatusOK || !strings.Contains(text, "interval") {
			t.Errorf("health check: %d %s", code, text)
		}
		if code, text = post(t, m, nil, http2, "/v3/discovery:health_check", `{"endpoint_health_response":{}}`); code != http.StatusBadRequest {
			t.Errorf("a report without a node: %d %s", code, text)
		}
	}
	if _, err := healthv1.NewHealthClient(dial(t, m.XDSAddress(), insecure.NewCredentials())).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	if _, page := get(t, m, "/metrics"); !strings.Contains(page, `xebec_requests_total{type="Cluster",variant="rest"} 2`) {
		t.Error("the metrics do not count polls")
	}
}

// The gate of gRPC covers REST: first by the handshake, then by the hook.
func TestRESTGate(t *testing.T) {
	dir := pki(t)
	s := settings(t)
	s.TLSCert, s.TLSKey, s.TLSClientCA = filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"), filepath.Join(dir, "ca.pem")
	m := run(t, s)
	await(t, "the load", func() bool { code, _ := get(t, m, "/readyz"); return code == http.StatusOK })
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(s.TLSClientCA)
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.pem"), filepath.Join(dir, "client-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/v3/discovery:clusters", "/v3/discovery:client_status", "/v3/discovery:health_check"}
	all := func(cert []tls.Certificate, want func(code int, text string) bool) {
		t.Helper()
		for _, path := range paths {
			for _, http2 := range []bool{false, true} {
				body := `{"node":{"id":"n"},"health_check_request":{"node":{"id":"n"}}}`
				code, text := post(t, m, &tls.Config{RootCAs: roots, Certificates: cert}, http2, path, body)
				if !want(code, text) {
					t.Errorf("%s: %d %s", path, code, text)
				}
			}
		}
	}
	nobody := func(code int, _ string) bool { return code == 0 }
	all(nil, nobody)
	all([]tls.Certificate{pair}, func(code int, _ string) bool { return code == http.StatusOK })
	open := m.certs.current.Load().Clone()
	open.ClientAuth = tls.NoClientCert
	m.certs.current.Store(open)
	all(nil, func(code int, text string) bool {
		return code == http.StatusForbidden && strings.Contains(text, "--tls-client-ca")
	})
}

// A hold does not outlive the server.
func TestRESTHoldEndsWithTheServer(t *testing.T) {
	s := settings(t)
	s.RESTHold, s.DrainTime = time.Minute, 20*time.Second
	done, outer := make(chan int, 1), t
	t.Run("server", func(t *testing.T) {
		m := run(t, s)
		await(t, "the load", func() bool { code, _ := get(t, m, "/readyz"); return code == http.StatusOK })
		_, text := post(t, m, nil, false, "/v3/discovery:clusters", `{"node":{"id":"n"}}`)
		_, version, _ := strings.Cut(strings.ReplaceAll(text, `": "`, `":"`), `"versionInfo":"`)
		version, _, _ = strings.Cut(version, `"`)
		go func() {
			code, _ := post(outer, m, nil, false, "/v3/discovery:clusters", `{"node":{"id":"held"},"version_info":"`+version+`"}`)
			done <- code
		}()
		await(t, "the poll", func() bool { return len(m.server.Clients()) == 2 })
	})
	select {
	case code := <-done:
		if code != http.StatusNotModified {
			t.Errorf("the hold ended with %d", code)
		}
	case <-time.After(5 * time.Second):
		t.Error("the hold goes on")
	}
}

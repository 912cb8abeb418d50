//go:build interop

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// TestEnvoyIsServed has Envoy fetch one resource of each of five types, and
// sees by the traffic that they are there, and that each edit of a file arrives.
func TestEnvoyIsServed(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		s := newScene(t, v)

		t.Log("edit of endpoints: served after", s.edit(t, "endpoints-red.yaml", "b", endpoints("red", s.b)))
		s.write(t, "more.yaml", cluster("blue", s.source, connectTimeout), endpoints("blue", s.a))
		t.Log("edit of routes: served after", s.edit(t, "routes.yaml", "a", routes("blue")))

		first, second := newCertificate(t, "first"), newCertificate(t, "second")
		port := harness.FreePort(t)
		s.write(t, "secrets.yaml", secret(first.pem, first.key))
		s.write(t, "listeners.yaml", listener(s.port, s.source), tlsListener(port, s.source))
		url := fmt.Sprintf("https://127.0.0.1:%d/", port)
		answersWith(t, url, first, "a")
		s.write(t, "secrets.yaml", secret(second.pem, second.key))
		answersWith(t, url, second, "a")

		s.write(t, "listeners.yaml", tlsListener(port, s.source))
		client := newClient(t, nil)
		harness.Eventually(t, 10*time.Second, "the listener that left its file is closed", func() error {
			if answer, err := get(t.Context(), client, s.url); err == nil {
				return fmt.Errorf("answered by %s", answer)
			}
			return nil
		})
		answersWith(t, url, second, "a")

		if n := s.rejected(t); n != 0 {
			t.Errorf("Envoy rejected %d updates: %v", n, s.envoy.Stats(t, "update_rejected$"))
		}
	})
}

// edit replaces a file and waits for its effect: answers from a backend.
func (s *scene) edit(t *testing.T, file, backend string, documents ...string) time.Duration {
	t.Helper()
	s.write(t, file, documents...)
	return answers(t, s.url, backend)
}

// answersWith waits until a URL is answered by a backend over a new connection
// that the certificate protects.
func answersWith(t *testing.T, url string, c certificate, backend string) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(c.authority))
	harness.Eventually(t, 10*time.Second, url+" with "+c.name, func() error {
		client := newClient(t, &tls.Config{RootCAs: roots})
		defer client.CloseIdleConnections()
		return answeredBy(t, client, url, backend)
	})
}

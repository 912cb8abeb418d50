//go:build interop

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// TestEnvoyGetsWhatComesLate starts Envoy with a listener that refers to what
// does not exist yet, and adds that piece by piece. Later it does so again with
// a listener that needs a certificate.
// Partly proves XS-44, XS-56.
func TestEnvoyGetsWhatComesLate(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		s := setScene(t, v)
		s.envoy = startEnvoy(t, s.envoyBootstrap(t, v, nodeID))
		s.wait(t, "Listener/"+httpName, "acked")
		s.write(t, "clusters-red.yaml", cluster("red", s.source, connectTimeout))
		harness.Eventually(t, 5*time.Second, "Envoy has the cluster", func() error {
			active, warming, err := s.envoy.clusters()
			if err == nil && len(active)+len(warming) == 0 {
				err = fmt.Errorf("there is none")
			}
			return err
		})
		s.write(t, "endpoints-red.yaml", endpoints("red", s.a))
		s.wait(t, "ClusterLoadAssignment/red", "acked")
		start := time.Now()
		s.write(t, "routes.yaml", routes("red"))
		answers(t, s.url, "a")
		t.Logf("routes: served after %v", time.Since(start).Round(time.Millisecond))
		s.envoy.ready(t)

		tlsPort, cert := harness.FreePort(t), newCertificate(t, "late")
		s.write(t, "listener-tls.yaml", tlsListener(tlsPort, s.source))
		s.wait(t, "Listener/"+httpsName, "acked")
		s.write(t, "secrets.yaml", secret(cert.pem, cert.key))
		answersWith(t, fmt.Sprintf("https://127.0.0.1:%d/", tlsPort), cert, "a")
		s.allSynced(t)
	})
}

// TestEnvoysOfAllVariantsAgree has four Envoys, one for each variant, on one
// server. An edit reaches each of them.
// Partly proves XS-01.
func TestEnvoysOfAllVariantsAgree(t *testing.T) {
	s := startServer(t)
	source := variant{wire: "delta"}.source()
	s.write(t, "all.yaml", cluster("red", source, connectTimeout), endpoints("red", startBackend(t, "a")))
	envoys := map[string]*envoy{}
	for _, v := range variants() {
		envoys[v.name] = startEnvoy(t, s.envoyBootstrap(t, v, v.name))
	}
	for _, e := range envoys {
		e.ready(t)
	}
	for _, timeout := range []time.Duration{2 * connectTimeout, 3 * connectTimeout} {
		s.write(t, "all.yaml", cluster("red", source, timeout), endpoints("red", startBackend(t, "a")))
		for name, e := range envoys {
			harness.Eventually(t, 5*time.Second, "the edit at "+name, func() error { return e.active("red", timeout) })
		}
	}
	s.ask(t, "wait", "--resource", "Cluster/red", "--for", "acked", "--clients", "4", "--timeout", "10s")
	seen := map[string]string{}
	for _, c := range s.status(t) {
		for _, typ := range c.Types {
			if typ.Kind == "Cluster" {
				seen[c.Node] = fmt.Sprintf("%s-%t", c.Variant, c.ADS)
			}
		}
	}
	for _, v := range variants() {
		if want := fmt.Sprintf("%s-%t", v.wire, v.aggregated); seen[v.name] != want {
			t.Errorf("the status has %q for %s, want %q", seen[v.name], v.name, want)
		}
	}
}

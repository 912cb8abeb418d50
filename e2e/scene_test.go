//go:build interop

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// scene is a server, an Envoy that subscribes to it, and two backends.
type scene struct {
	*server
	variant variant
	source  string
	envoy   *envoy
	// a and b are the backends' ports.
	a, b int
	// port is where Envoy's listener belongs, url leads to it.
	port int
	url  string
}

const connectTimeout = 5 * time.Second

// setScene starts everything but Envoy.
func setScene(t *testing.T, v variant, flags ...string) *scene {
	t.Helper()
	s := &scene{variant: v, source: v.source(), a: startBackend(t, "a"), b: startBackend(t, "b"), port: harness.FreePort(t)}
	s.url = fmt.Sprintf("http://127.0.0.1:%d/", s.port)
	s.server = startServer(t, flags...)
	s.write(t, "listeners.yaml", listener(s.port, s.source))
	return s
}

// begin starts Envoy, with the bootstrap file that xebec writes for it, and
// waits until backend a answers through it.
func (s *scene) begin(t *testing.T) {
	t.Helper()
	s.envoy = startEnvoy(t, s.envoyBootstrap(t, s.variant, nodeID))
	s.envoy.ready(t)
	answers(t, s.url, "a")
}

// newScene has a route, a cluster named red and its endpoints, each in a file of
// its own, lead to backend a.
func newScene(t *testing.T, v variant, flags ...string) *scene {
	t.Helper()
	s := setScene(t, v, flags...)
	s.write(t, "endpoints-red.yaml", endpoints("red", s.a))
	s.write(t, "clusters-red.yaml", cluster("red", s.source, connectTimeout))
	s.write(t, "routes.yaml", routes("red"))
	s.begin(t)
	return s
}

// nodeID is what Envoy calls itself.
const nodeID = "e2e-envoy"

// rejected counts, over all types, the updates that Envoy refused.
func (s *scene) rejected(t *testing.T) int {
	t.Helper()
	return sum(s.envoy.Stats(t, `update_rejected$`))
}

func sum(stats map[string]int) int {
	n := 0
	for _, v := range stats {
		n += v
	}
	return n
}

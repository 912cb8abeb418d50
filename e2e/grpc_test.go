//go:build interop

package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

const service = "greeter"

// forEachGRPC runs a test with a gRPC client of each language. Its server leads
// it to the backends a and b.
func forEachGRPC(t *testing.T, test func(t *testing.T, s *server, c *caller, a, b int), flags ...string) {
	clients := map[string]func(*testing.T, string) *exec.Cmd{"Go": goCaller, "Node.js": nodeCaller}
	for name, command := range clients {
		t.Run(name, func(t *testing.T) {
			a, b := startGRPCBackend(t, "a"), startGRPCBackend(t, "b")
			s := startServer(t, flags...)
			s.write(t, "listeners.yaml", apiListener(service, ads))
			s.write(t, "routes.yaml", routes("red"))
			s.write(t, "clusters.yaml", cluster("red", ads, connectTimeout))
			s.write(t, "endpoints.yaml", endpoints("red", a, b))
			client := startCaller(t, "gRPC for "+name, command(t, "xds:///"+service), s.bootstrap(t, "grpc", "--node-id", "e2e-grpc"))
			client.balances(t, "a", "b")
			test(t, s, client, a, b)
		})
	}
}

// TestGRPCIsServed has gRPC clients of two languages find their backends
// through the server, and follow edits.
func TestGRPCIsServed(t *testing.T) {
	forEachGRPC(t, func(t *testing.T, s *server, client *caller, a, b int) {
		c := startGRPCBackend(t, "c")
		s.allSynced(t)
		s.write(t, "endpoints.yaml", endpoints("red", b, c))
		client.balances(t, "b", "c")
		s.write(t, "world.yaml", cluster("blue", ads, connectTimeout), endpoints("blue", a, c))
		s.write(t, "routes.yaml", routes("blue"))
		client.balances(t, "a", "c")
	})
}

// TestGRPCRejectsResources serves a cluster that gRPC refuses. The status has
// its reason, calls go on as before, and the corrected cluster is accepted.
// Partly proves XS-28.
func TestGRPCRejectsResources(t *testing.T) {
	forEachGRPC(t, func(t *testing.T, s *server, client *caller, a, b int) {
		s.write(t, "clusters.yaml", cluster("red", ads, connectTimeout)+"lb_policy: MAGLEV\n")
		s.wait(t, "Cluster/red", "nacked")
		r, err := s.resource(t, "Cluster", "red")
		if err != nil || !strings.Contains(r.Reason, "clusters.yaml:1") || len(r.Reason) < 50 {
			t.Errorf("the cluster's status is %+v, %v; want a reason and the file", r, err)
		}
		t.Logf("reason: %s", r.Reason)
		s.write(t, "endpoints.yaml", endpoints("red", a))
		harness.Eventually(t, 10*time.Second, "the edit of another type", func() error {
			return client.only(t, 20, "a")
		})
		s.write(t, "endpoints.yaml", endpoints("red", a, b))
		s.write(t, "clusters.yaml", cluster("red", ads, 2*connectTimeout))
		s.wait(t, "Cluster/red", "acked")
		client.balances(t, "a", "b")
		s.allSynced(t)
	})
}

// TestGRPCOutlivesItsServer kills the server, edits a file, and starts it again.
// No call fails, and the edit arrives.
func TestGRPCOutlivesItsServer(t *testing.T) {
	forEachGRPC(t, func(t *testing.T, s *server, client *caller, a, b int) {
		s.Kill()
		s.write(t, "endpoints.yaml", endpoints("red", b))
		if err := client.only(t, 200, "a", "b"); err != nil {
			t.Errorf("without a server: %v", err)
		}
		s.restart(t)
		harness.Eventually(t, 20*time.Second, "the edit that was made without a server", func() error {
			return client.only(t, 20, "b")
		})
	})
}

// only counts calls, and tells if one was not answered by the backends given.
func (c *caller) only(t *testing.T, calls int, backends ...string) error {
	t.Helper()
	got := c.next(t, calls)
	for line := range got {
		if backend, ok := strings.CutPrefix(line, "ok "); !ok || !slices.Contains(backends, backend) {
			return fmt.Errorf("%v", got)
		}
	}
	return nil
}

// balances waits until calls go to two backends only, and then counts: round
// robin gives each the same share.
func (c *caller) balances(t *testing.T, first, second string) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, fmt.Sprintf("calls to %s and %s only", first, second), func() error {
		return c.only(t, 20, first, second)
	})
	const calls = 200
	got := c.next(t, calls)
	for _, backend := range []string{first, second} {
		if n := got["ok "+backend]; n < calls*2/5 || n > calls*3/5 {
			t.Errorf("of %d calls %v, want half of them each to %s and %s", calls, got, first, second)
			return
		}
	}
	t.Logf("%d calls: %v", calls, got)
}

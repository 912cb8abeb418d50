//go:build interop

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// TestEnvoysGetTheirGroups has two Envoys of two groups on one server, in each
// variant. A change of the groups moves a connected Envoy to the other one.
// Partly proves XS-36.
func TestEnvoysGetTheirGroups(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		s := startServer(t)
		groups := func(idOfFirst string) string {
			return fmt.Sprintf("groups:\n- {name: first, match: {id: %s}, folders: [first]}\n"+
				"- {name: others, default: true, folders: [second]}\n", idOfFirst)
		}
		s.write(t, "groups.yaml", groups("edge-1"))
		s.write(t, "first/all.yaml", cluster("red", v.source(), connectTimeout), endpoints("red", startBackend(t, "a")))
		s.write(t, "second/all.yaml", cluster("blue", v.source(), connectTimeout), endpoints("blue", startBackend(t, "b")))
		edge, shop := startEnvoy(t, s.envoyBootstrap(t, v, "edge-1")), startEnvoy(t, s.envoyBootstrap(t, v, "shop-1"))
		edge.ready(t)
		shop.ready(t)
		edge.hasOnly(t, "red")
		shop.hasOnly(t, "blue")
		s.write(t, "groups.yaml", groups("shop-1"))
		edge.hasOnly(t, "blue")
		shop.hasOnly(t, "red")
	})
}

// hasOnly waits until a cluster is the only one that Envoy has over xDS.
func (e *envoy) hasOnly(t *testing.T, name string) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, "no cluster but "+name, func() error {
		active, warming, err := e.clusters()
		if err != nil {
			return err
		}
		if _, ok := active[name]; !ok || len(active) != 1 || len(warming) != 0 {
			return fmt.Errorf("there are %v, warming %v", active, warming)
		}
		return nil
	})
}

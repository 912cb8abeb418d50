//go:build interop

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// TestEnvoyOutlivesItsServer kills the server under load, changes files while
// it is away, and starts it again. No request is lost, the changes arrive, and
// so do later ones.
func TestEnvoyOutlivesItsServer(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		s := newScene(t, v)
		l := startLoad(t, s.url)
		s.Kill()
		s.connected(t, 0)
		s.write(t, "endpoints-red.yaml", endpoints("red", s.b))
		s.write(t, "clusters-red.yaml", cluster("red", s.source, 2*connectTimeout))
		s.write(t, "clusters-blue.yaml", cluster("blue", s.source, connectTimeout), endpoints("blue", s.a))
		l.goOn(t, 100)
		if n := l.count("b"); n != 0 {
			t.Errorf("%d answers from b while nobody could know it", n)
		}
		start := time.Now()
		s.restart(t)
		s.connected(t, 1)
		answers(t, s.url, "b")
		harness.Eventually(t, 10*time.Second, "the changed cluster is active", func() error {
			return s.envoy.active("red", 2*connectTimeout)
		})
		t.Logf("up to date %v after the start", time.Since(start).Round(time.Millisecond))
		s.allSynced(t)
		s.edit(t, "routes.yaml", "a", routes("blue"))
		l.stop(t)
		if n := s.rejected(t); n != 0 {
			t.Errorf("Envoy rejected %d updates", n)
		}
	})
}

// TestEnvoyKeepsWhatIsUnchanged restarts the server with the files as they
// were. Envoy then warms no cluster and updates no listener.
// Partly proves XS-16.
func TestEnvoyKeepsWhatIsUnchanged(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		s := newScene(t, v)
		s.allSynced(t)
		const changes = `cluster_manager.cluster_(added|modified|removed)$|listener_manager.listener_(added|modified|removed|in_place_updated)$|rds.*config_reload$`
		before := s.envoy.Stats(t, changes)
		versions := s.versions(t)
		s.Kill()
		s.connected(t, 0)
		s.restart(t)
		s.connected(t, 1)
		harness.Eventually(t, 10*time.Second, "the same versions as before", func() error {
			if after := s.versions(t); fmt.Sprint(after) != fmt.Sprint(versions) {
				return fmt.Errorf("%v, want %v", after, versions)
			}
			return nil
		})
		s.allSynced(t)
		if after := s.envoy.Stats(t, changes); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("Envoy's counters of changes went from %v to %v", before, after)
		}
	})
}

// connected waits until Envoy knows that it has a server, or has none.
func (s *scene) connected(t *testing.T, want int) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, fmt.Sprintf("connected_state %d", want), func() error {
		states := s.envoy.Stats(t, `control_plane.connected_state$`)
		for name, got := range states {
			if got != want {
				return fmt.Errorf("%s is %d", name, got)
			}
		}
		if len(states) == 0 {
			return fmt.Errorf("there is no such statistic")
		}
		return nil
	})
}

// versions are those that the status shows, by resource.
func (s *server) versions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range s.status(t) {
		for _, typ := range c.Types {
			for _, r := range typ.Resources {
				out[typ.Kind+"/"+r.Name] = r.Version
			}
		}
	}
	return out
}

//go:build interop

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// TestEnvoyWarmsAtOnce changes nothing of a cluster but its timeout. Envoy then
// takes the cluster for a new one and keeps the old one in place until it has
// endpoints, for which it does not ask again.
// Partly proves XS-76.
func TestEnvoyWarmsAtOnce(t *testing.T) {
	// Envoy itself would go on after its fetch timeout, 15 s.
	const bound = 2 * time.Second
	forEachVariant(t, func(t *testing.T, v variant) {
		s := newScene(t, v)
		l := startLoad(t, s.url)
		for i := 1; i <= 5; i++ {
			timeout := connectTimeout + time.Duration(i)*time.Second
			start := time.Now()
			s.write(t, "clusters-red.yaml", cluster("red", s.source, timeout))
			harness.Eventually(t, bound, "the changed cluster is active", func() error {
				return s.envoy.active("red", timeout)
			})
			t.Logf("change %d: active after %v", i, time.Since(start).Round(time.Millisecond))
		}
		l.stop(t)
	})
}

// active reports whether a cluster serves with a connect timeout.
func (e *envoy) active(name string, timeout time.Duration) error {
	active, warming, err := e.clusters()
	if err != nil {
		return err
	}
	want := fmt.Sprintf("%gs", timeout.Seconds())
	if got := active[name].Cluster.ConnectTimeout; got != want {
		return fmt.Errorf("cluster %s is active with timeout %q, want %q; warming: %v", name, got, want, warming)
	}
	return nil
}

// TestEnvoyLosesNoRequestInMoves moves a route between two clusters of which
// only one exists at a time, in one edit each, under load. First one by one,
// then without waiting.
// Partly proves XS-67, XS-68, XS-69, XS-72.
func TestEnvoyLosesNoRequestInMoves(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		if !v.aggregated {
			t.Skip("each type has a stream of its own, and nothing orders streams: see TestEnvoyLosesNoRequestInSteps")
		}
		s := setScene(t, v)
		s.write(t, "world.yaml", s.world(0)...)
		s.begin(t)
		l := startLoad(t, s.url)
		for i := 1; i <= 20; i++ {
			s.write(t, "world.yaml", s.world(i)...)
			s.settled(t, i, l)
		}
		for i := 21; i <= 60; i++ {
			s.write(t, "world.yaml", s.world(i)...)
			time.Sleep(30 * time.Millisecond) // the pace of the edits, no wait for their effect
		}
		s.settled(t, 60, l)
		l.stop(t)
		if n := s.rejected(t); n != 0 {
			t.Errorf("Envoy rejected %d updates", n)
		}
	})
}

// place is the cluster that a move leads to: red with backend a, or blue with b.
func (s *scene) place(move int) (name, backend string, port int) {
	if move%2 == 0 {
		return "red", "a", s.a
	}
	return "blue", "b", s.b
}

// world is the configuration after a move.
func (s *scene) world(move int) []string {
	name, _, port := s.place(move)
	return []string{routes(name), cluster(name, s.source, connectTimeout), endpoints(name, port)}
}

// settled waits until a move has come to its end: its backend answers, and
// Envoy has no other cluster.
func (s *scene) settled(t *testing.T, move int, l *load) {
	t.Helper()
	name, backend, _ := s.place(move)
	before := l.count(backend)
	harness.Eventually(t, 10*time.Second, fmt.Sprintf("the end of move %d, to %s", move, name), func() error {
		active, warming, err := s.envoy.clusters()
		if err != nil {
			return err
		}
		if _, ok := active[name]; !ok || len(active) != 1 || len(warming) != 0 {
			return fmt.Errorf("Envoy's clusters are %v, warming %v", slices.Collect(maps.Keys(active)), warming)
		}
		if got := l.count(backend); got < before+5 {
			return fmt.Errorf("%d answers from %s, it had %d", got, backend, before)
		}
		return nil
	})
}

// TestEnvoyLosesNoRequestInSteps makes the same moves where nothing orders the
// types: as three edits, each after the clients have accepted the one before.
func TestEnvoyLosesNoRequestInSteps(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		s := newScene(t, v)
		l := startLoad(t, s.url)
		version := s.arrived(t, "RouteConfiguration", routeName, "")
		old := "red"
		for i := 1; i <= 6; i++ {
			name, _, port := s.place(i)
			s.write(t, "endpoints-"+name+".yaml", endpoints(name, port))
			s.write(t, "clusters-"+name+".yaml", cluster(name, s.source, connectTimeout))
			s.wait(t, "Cluster/"+name, "acked")
			s.wait(t, "ClusterLoadAssignment/"+name, "acked")
			s.write(t, "routes.yaml", routes(name))
			version = s.arrived(t, "RouteConfiguration", routeName, version)
			s.remove(t, "clusters-"+old+".yaml")
			s.remove(t, "endpoints-"+old+".yaml")
			s.settled(t, i, l)
			old = name
		}
		l.stop(t)
	})
}

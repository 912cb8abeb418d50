//go:build interop

package e2e

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// flaw is a resource in which no rule of its message is broken, but which Envoy
// refuses.
type flaw struct {
	kind, name, file string
	// bad is the resource, good the same without the flaw.
	bad, good string
	// reason is a part of what Envoy says about it.
	reason string
}

// flaws has one for each type that a scene serves. Clusters come last: what
// they hold back on an aggregated stream is not the subject.
func (s *scene) flaws() []flaw {
	return []flaw{
		{
			kind: "ClusterLoadAssignment", name: "red", file: "endpoints-red.yaml",
			bad:    strings.ReplaceAll(endpoints("red", s.b), "127.0.0.1", "not-an-address"),
			good:   endpoints("red", s.b),
			reason: "malformed IP address: not-an-address",
		},
		{
			kind: "RouteConfiguration", name: routeName, file: "routes.yaml",
			bad:    routes("red") + "- name: again\n  domains: [\"*\"]\n",
			good:   routes("red") + "- name: other\n  domains: [other.example]\n",
			reason: "Only a single wildcard domain is permitted",
		},
		{
			kind: "Listener", name: httpName, file: "listeners.yaml",
			bad:    listener(s.port, s.source) + "- " + filterChain(connectionManager("second", rds(s.source))) + "\n",
			good:   listener(s.port, s.source) + "stat_prefix: fixed\n",
			reason: "has the same matching rules",
		},
		{
			kind: "Cluster", name: "red", file: "clusters-red.yaml",
			bad:    cluster("red", s.source, connectTimeout) + "lb_policy: CLUSTER_PROVIDED\n",
			good:   cluster("red", s.source, 2*connectTimeout),
			reason: "cluster provided LB specified",
		},
	}
}

// quiet is how long nothing must happen after a NACK.
const quiet = 2 * time.Second

// TestEnvoyRejectsResources serves what Envoy refuses. The reason shows in the
// status, the same content is not sent again, the last good state goes on
// serving, and the corrected resource is accepted.
// Partly proves XS-19, XS-28, XD-02.
func TestEnvoyRejectsResources(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		s := newScene(t, v, "--lenient") // else the server itself refuses some of them
		flaws := s.flaws()
		rejected := 0
		for _, f := range flaws {
			s.write(t, f.file, f.bad)
			s.wait(t, f.kind+"/"+f.name, "nacked")
			s.explained(t, f)
			rejected++
		}
		before := s.envoy.Stats(t, `update_(attempt|rejected)$`)
		if got := s.rejected(t); got != rejected {
			t.Errorf("Envoy rejected %d updates, want %d: %v", got, rejected, before)
		}
		l := startLoad(t, s.url)
		time.Sleep(quiet) // nothing is to happen
		l.stop(t)
		if l.count("a") == 0 || l.count("b") != 0 {
			t.Errorf("with only rejected changes, backend b answered")
		}
		if after := s.envoy.Stats(t, `update_(attempt|rejected)$`); !maps.Equal(before, after) {
			t.Errorf("Envoy's counters went on within %v of silence: from %v to %v", quiet, before, after)
		}
		for _, f := range flaws {
			s.write(t, f.file, f.good)
			s.wait(t, f.kind+"/"+f.name, "acked")
		}
		answers(t, s.url, "b")
		if got := s.rejected(t); got != rejected {
			t.Errorf("Envoy rejected %d updates after the correction, want %d as before", got, rejected)
		}
		s.allSynced(t)
	})
}

// explained checks that the status says why and where from.
func (s *scene) explained(t *testing.T, f flaw) {
	t.Helper()
	r, err := s.resource(t, f.kind, f.name)
	if err != nil {
		t.Fatal(err)
	}
	if r.State != "ERROR" || !strings.Contains(r.Reason, f.reason) || !strings.Contains(r.Reason, f.file+":1") {
		t.Errorf("%s %s is %s because of %q, want ERROR, %q and %s:1", f.kind, f.name, r.State, r.Reason, f.reason, f.file)
	}
	t.Logf("%s %s: %s", f.kind, f.name, r.Reason)
}

package proxy_test

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/proxy"
	"github.com/xebec-proxy/xebec/xds"
)

// changed is a cluster of which nothing is other than its timeout.
func changed(c *clusterv3.Cluster, timeout time.Duration) *clusterv3.Cluster {
	c = proto.CloneOf(c)
	c.ConnectTimeout = durationpb.New(timeout)
	return c
}

// begun brings a proxy with a cluster of such a server to where it serves.
func begun(t *testing.T, c *clusterv3.Cluster) (*running, *slowServer) {
	t.Helper()
	r, s := slowly(t, byHeader)
	s.next(t, "ClusterLoadAssignment [e]")
	s.answer(t, xds.EndpointType, assignment("e", "127.0.0.1:1"))
	s.next(t, "Cluster []")
	s.answer(t, xds.ClusterType, c)
	s.next(t, "ClusterLoadAssignment [dyn e]")
	s.answer(t, xds.EndpointType, assignment("dyn", namedBackend(t, "old")))
	s.next(t, "Listener []")
	s.answer(t, xds.ListenerType)
	<-r.Ready()
	r.expect(t, "dyn", "200 old")
	return r, s
}

// Proves XC-43 with TestEndpointsComeAndGo, TestEndpointsThatDoNotCome and
// TestRoutesComeAndChange: a cluster that has changed waits for its endpoints to be
// sent again, whether they have changed or not, while the former one serves.
func TestChangedClusterWaitsForItsEndpoints(t *testing.T) {
	c := edsCluster("dyn", "")
	r, s := begun(t, c)
	change := func(timeout time.Duration) {
		s.answer(t, xds.ClusterType, changed(c, timeout))
		r.becomesStat(t, "cluster_manager.warming_clusters", "1")
	}
	inForce := func(timeout string) {
		t.Helper()
		r.becomesStat(t, "cluster_manager.warming_clusters", "0")
		if got := r.get(t, "/config_dump?resource=dynamic_active_clusters"); !strings.Contains(got, `"`+timeout+`"`) {
			t.Errorf("what is in force, want a timeout of %s:\n%s", timeout, got)
		}
	}
	change(time.Second)
	r.expect(t, "dyn", "200 old")
	la := assignment("dyn", namedBackend(t, "new"))
	s.answer(t, xds.EndpointType, la)
	inForce("1s")
	r.expect(t, "dyn", "200 new")
	change(2 * time.Second)
	s.next(t, "ClusterLoadAssignment [dyn e] again") // the server is not one that sends them by itself
	r.expect(t, "dyn", "200 new")
	s.answer(t, xds.EndpointType, la)
	inForce("2s")
	change(3 * time.Second)
	r.Resources().Missing(nil, proxy.EndpointType, "dyn")
	inForce("3s")
	same(t, "given up", r.stat(t, "cluster.dyn.assignment_use_cached"), "0")
	r.expect(t, "dyn", "200 new")
}

// A changed cluster whose endpoints are not sent again begins with those in force.
// Partly proves XC-43: after initial_fetch_timeout.
func TestChangedClusterDoesNotWaitForEver(t *testing.T) {
	c := edsCluster("dyn", "")
	r, s := begun(t, c)
	c.EdsClusterConfig.EdsConfig.InitialFetchTimeout = durationpb.New(50 * time.Millisecond)
	s.answer(t, xds.ClusterType, changed(c, time.Second))
	r.becomesStat(t, "cluster.dyn.assignment_use_cached", "1")
	r.becomesStat(t, "cluster.dyn.init_fetch_timeout", "1")
	r.becomesStat(t, "cluster_manager.warming_clusters", "0")
	r.expect(t, "dyn", "200 old")
}

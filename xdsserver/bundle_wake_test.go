package xdsserver_test

import (
	"fmt"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// resume opens a stream of a client that holds something from a former one.
func (h *harness) resume(path, id string, held map[string]string, names ...string) deltaClient {
	h.t.Helper()
	c := h.deltaOn(path)
	c.send(&discoveryv3.DeltaDiscoveryRequest{Node: node(id), ResourceNamesSubscribe: names, InitialResourceVersions: held})
	return c
}

// A stream that has nothing to say after all, because its client holds everything,
// tells those that wait for it. The streams of many nodes come in different turns.
// Partly proves XS-75: none waits for the gate in vain.
func TestOrderAcrossStreamsThatResume(t *testing.T) {
	bubble(t, together(), func(h *harness) {
		h.set(res(xds.ClusterType, "X", "1"), res(xds.RouteType, "r", "1"))
		for i := range 20 {
			id := fmt.Sprint("n", i)
			cds := h.resume(cdsDelta, id, map[string]string{"Y": "1"})
			added := cds.must()
			if namesOf(added) != "[X]" || len(added.GetRemovedResources()) > 0 {
				t.Fatalf("clusters: %v", added)
			}
			rds := h.resume(rdsDelta, id, map[string]string{"r": "1"}, "r")
			rds.silent("before X is accepted")
			cds.ack(added)
			if gone := cds.must(); !slices.Equal(gone.GetRemovedResources(), []string{"Y"}) {
				t.Fatalf("clusters: %v", gone)
			}
			rds.silent("though the client holds the route")
		}
	})
}

// What is published for one stream alone, and leaves it nothing to say, may be what
// another waits for.
func TestOrderAcrossStreamsAfterWhatIsNotSent(t *testing.T) {
	one := xdsserver.WithLimits(xdsserver.Limits{Outstanding: 1})
	bubble(t, append(together(), one), func(h *harness) {
		cds, rds := h.pair("n")
		h.set(res(xds.ClusterType, "k", "1"))
		cds.must() // and leaves it unanswered, so that X has to wait
		h.set(res(xds.ClusterType, "X", "1"))
		cds.silent("as the window is full")
		h.set(res(xds.RouteType, "r", "to X", clusterKey("X")))
		rds.silent("while X is not sent")
		h.apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: {Remove: []xds.Key{clusterKey("X")}}}})
		if got := namesOf(rds.must()); got != "[r]" {
			t.Errorf("routes: %s", got)
		}
	})
}

package xdsserver_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

const (
	edsDelta = "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints"
	rdsDelta = "/envoy.service.route.v3.RouteDiscoveryService/DeltaRoutes"
	rdsSotw  = "/envoy.service.route.v3.RouteDiscoveryService/StreamRoutes"
)

func together() []xdsserver.Option {
	return []xdsserver.Option{xdsserver.WithOrderAcrossStreams(true)}
}

func clusterKey(name string) xds.Key { return xds.Key{Type: xds.ClusterType, Name: name} }

// move leads the route r from one cluster to another, which takes the place of
// the first one.
func (h *harness) move(from, to string) {
	h.t.Helper()
	h.apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: {
		Set:    []*xds.Resource{res(xds.ClusterType, to, "1"), res(xds.RouteType, "r", "to "+to, clusterKey(to))},
		Remove: []xds.Key{clusterKey(from)},
	}}})
}

// Proves XS-75: what moves a route from one cluster to another is one order
// across the streams of a node, in both variants; without the option, and for
// another node, each stream is by itself.
func TestOrderAcrossStreams(t *testing.T) {
	t.Run("delta", func(t *testing.T) {
		bubble(t, together(), func(h *harness) {
			cds, rds := h.pair("n")
			h.move("Y", "X")
			added := cds.must()
			if got := namesOf(added); got != "[X]" || len(added.GetRemovedResources()) > 0 {
				t.Fatalf("clusters: %v", added)
			}
			rds.silent("before X is accepted")
			cds.ack(added)
			route := rds.must()
			cds.silent("before the route is accepted")
			rds.ack(route)
			if gone := cds.must(); !slices.Equal(gone.GetRemovedResources(), []string{"Y"}) {
				t.Errorf("clusters: %v", gone)
			}
		})
	})
	t.Run("SotW", func(t *testing.T) {
		bubble(t, together(), func(h *harness) {
			h.set(res(xds.ClusterType, "Y", "1"), res(xds.RouteType, "r", "1", clusterKey("Y")))
			cds, rds := h.sotwOn(cdsSotw), h.sotwOn(rdsSotw)
			cds.subscribe(node("n"), "")
			cds.ack(cds.must())
			rds.subscribe(node("n"), "", "r")
			rds.ack(rds.must(), "r")
			h.move("Y", "X")
			both := cds.must()
			rds.silent("before X is accepted")
			cds.ack(both)
			route := rds.must()
			cds.silent("before the route is accepted")
			rds.ack(route, "r")
			if last := cds.must(); len(both.GetResources()) != 2 || len(last.GetResources()) != 1 {
				t.Errorf("%d clusters, then %d", len(both.GetResources()), len(last.GetResources()))
			}
		})
	})
	for name, opts := range map[string][]xdsserver.Option{"another node": together(), "off": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, opts, func(h *harness) {
				cds, _ := h.pair("n")
				other := "n"
				if opts != nil {
					other = "m"
				}
				rds := h.routes(other)
				h.move("Y", "X")
				rds.must() // although nothing is accepted
				cds.must()
			})
		})
	}
}

// pair opens the streams of clusters and routes of a node and accepts the first
// state.
func (h *harness) pair(id string) (cds, rds deltaClient) {
	h.t.Helper()
	h.set(res(xds.ClusterType, "Y", "1"), res(xds.RouteType, "r", "1", clusterKey("Y")))
	cds = h.deltaOn(cdsDelta)
	cds.subscribe(node(id), "")
	cds.ack(cds.must())
	return cds, h.routes(id)
}

func (h *harness) routes(id string) deltaClient {
	h.t.Helper()
	rds := h.deltaOn(rdsDelta)
	rds.subscribe(node(id), "", "r")
	rds.ack(rds.must())
	rds.silent("after the first state")
	return rds
}

// A step that is not answered waits for the gate and no longer; a rejected
// cluster holds the route back; endpoints follow their cluster at once.
func TestOrderAcrossStreamsIsBounded(t *testing.T) {
	bubble(t, together(), func(h *harness) {
		cds, rds := h.pair("n")
		eds := h.deltaOn(edsDelta)
		h.set(res(xds.EndpointType, "e", "1"))
		eds.subscribe(node("n"), "", "e")
		eds.ack(eds.must())
		h.move("Y", "X")
		first := cds.must()
		time.Sleep(4900 * time.Millisecond)
		rds.silent("before the gate's time is over")
		time.Sleep(200 * time.Millisecond)
		route := rds.must()
		time.Sleep(10 * time.Second)
		if gone := cds.must(); len(gone.GetRemovedResources()) != 1 {
			t.Errorf("clusters: %v", gone)
		}
		rds.ack(route)
		cds.ack(first)
		h.set(res(xds.ClusterType, "X", "2", xds.Key{Type: xds.EndpointType, Name: "e"}))
		cds.must()
		if got := namesOf(eds.must()); got != "[e]" {
			t.Errorf("with the cluster come %s", got)
		}
		var timeouts uint64
		for _, st := range h.srv.Stats().Types {
			timeouts += st.GateTimeouts
		}
		if timeouts != 2 {
			t.Errorf("%d steps have gone on without an answer, want 2", timeouts)
		}
	})
}

// Each stream tells of its own type only, keeps its type, and of two streams of a
// type the newer counts for the order; with the end of one the others go on.
func TestOrderAcrossStreamsThatComeAndGo(t *testing.T) {
	bubble(t, together(), func(h *harness) {
		cds, rds := h.pair("n")
		h.move("Y", "X")
		cds.must()
		rds.silent("before X is accepted")
		cds.cancel()
		rds.ack(rds.must())
		_ = cds.ended()

		older := h.deltaOn(cdsDelta)
		older.subscribe(node("n"), "")
		older.ack(older.must())
		newer := h.deltaOn(cdsDelta)
		newer.subscribe(node("n"), "")
		newer.ack(newer.must())
		newer.silent("after the first state")
		h.move("X", "Z")
		if r := older.must(); namesOf(r) != "[Z]" || len(r.GetRemovedResources()) != 1 {
			t.Errorf("the older stream: %v", r)
		}
		added := newer.must()
		rds.silent("before Z is accepted")
		newer.ack(added)
		rds.ack(rds.must())
		newer.must()
		for _, c := range h.srv.Clients() {
			if len(c.Types) != 1 || c.Aggregated {
				t.Errorf("a stream tells of %d types, aggregated %v", len(c.Types), c.Aggregated)
			}
		}
		rds.subscribe(nil, xds.ClusterType)
		rds.endsWith(codes.InvalidArgument)
	})
}

// A stream that is moved to another group goes on by itself.
func TestOrderAcrossStreamsOfTwoGroups(t *testing.T) {
	bubble(t, together(), func(h *harness) {
		cds, rds := h.pair("n")
		h.apply(snapshot.Batch{
			GroupOf: func(n *xds.Node) string { return "other" },
			Groups: map[string]snapshot.Changes{"other": {Set: []*xds.Resource{
				res(xds.ClusterType, "o", "1"), res(xds.RouteType, "r", "o", clusterKey("o")),
			}}},
		})
		if got := namesOf(rds.must()); got != "[r]" {
			t.Errorf("routes %s", got)
		}
		if r := cds.must(); namesOf(r) != "[o]" || len(r.GetRemovedResources()) != 1 {
			t.Errorf("clusters %v", r)
		}
	})
}

// Streams of many nodes under many changes: no route is there without its
// cluster, and nothing stalls.
func TestOrderAcrossStreamsUnderLoad(t *testing.T) {
	serving(t, append(together(), xdsserver.WithGate(time.Hour)), func(h *harness) {
		const nodes, moves = 8, 60
		h.set(res(xds.ClusterType, "c0", "1"), res(xds.RouteType, "r", "to c0", clusterKey("c0")))
		var all sync.WaitGroup
		for i := range nodes {
			held := &heldClusters{names: map[string]bool{"c0": true}, route: "c0"}
			id := fmt.Sprint("n", i)
			cds, rds := h.deltaOn(cdsDelta), h.deltaOn(rdsDelta)
			cds.subscribe(node(id), "")
			cds.ack(<-cds.in)
			rds.subscribe(node(id), "", "r")
			rds.ack(<-rds.in)
			all.Go(func() { held.follow(t, cds, fmt.Sprint("c", moves)) })
			all.Go(func() { held.routes(t, rds, fmt.Sprint("to c", moves)) })
		}
		for i := range moves {
			h.move(fmt.Sprint("c", i), fmt.Sprint("c", i+1))
		}
		all.Wait()
	})
}

// heldClusters are those that a client has accepted.
type heldClusters struct {
	mu    sync.Mutex
	names map[string]bool
	route string // where the route leads
}

// follow accepts clusters until only the last is held.
func (c *heldClusters) follow(t *testing.T, cds deltaClient, last string) {
	for {
		r := <-cds.in
		c.mu.Lock()
		for _, added := range r.GetResources() {
			c.names[added.GetName()] = true
		}
		for _, gone := range r.GetRemovedResources() {
			delete(c.names, gone)
			if gone == c.route {
				t.Errorf("%s is removed while the route leads there", gone)
			}
		}
		done := len(c.names) == 1 && c.names[last]
		c.mu.Unlock()
		if err := cds.st.Send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: r.GetNonce()}); err != nil {
			t.Error(err)
		}
		if done {
			return
		}
	}
}

// routes accepts routes, whose clusters must be held, until the last version.
func (c *heldClusters) routes(t *testing.T, rds deltaClient, last string) {
	for {
		r := <-rds.in
		version := r.GetResources()[0].GetVersion()
		c.mu.Lock()
		c.route = strings.TrimPrefix(version, "to ")
		if !c.names[c.route] {
			t.Errorf("a route to %s came while %v are held", c.route, c.names)
		}
		c.mu.Unlock()
		if err := rds.st.Send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: r.GetNonce()}); err != nil {
			t.Error(err)
		}
		if version == last {
			return
		}
	}
}

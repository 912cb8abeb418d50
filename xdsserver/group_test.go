package xdsserver_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

func in(cluster, id string) *corev3.Node { return &corev3.Node{Id: id, Cluster: cluster} }

// Proves XS-36: what the wildcard holds follows from the node.
func TestGroupsByNodeCluster(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithGroups(byCluster)}, func(h *harness) {
		h.setIn("east", res(xds.ClusterType, "e", "1"))
		h.setIn("west", res(xds.ClusterType, "w1", "1"), res(xds.ClusterType, "w2", "1"))
		for cluster, want := range map[string]string{"east": "[e]", "west": "[w1 w2]"} {
			d := h.delta()
			d.subscribe(in(cluster, "n"), xds.ClusterType)
			if got := namesOf(d.must()); got != want {
				t.Errorf("cluster %s got %s, want %s", cluster, got, want)
			}
		}
	})
}

func namesOf(r *discoveryv3.DeltaDiscoveryResponse) string {
	var list []string
	for _, x := range r.GetResources() {
		list = append(list, x.GetName())
	}
	return fmt.Sprint(list)
}

// A new group function moves the open streams: each is sent the difference
// between its groups and from then on what changes in the new one.
func TestGroupFunctionChanges(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{
			"default": {Set: []*xds.Resource{res(xds.ClusterType, "both", "1"), res(xds.ClusterType, "old", "1")}},
			"test":    {Set: []*xds.Resource{res(xds.ClusterType, "both", "1"), res(xds.ClusterType, "new", "1")}},
		}})
		d, s := h.delta(), h.sotw()
		d.subscribe(node("d"), xds.ClusterType)
		s.subscribe(node("s"), xds.ClusterType)
		d.ack(d.must())
		s.ack(s.must())
		h.apply(snapshot.Batch{GroupOf: byCluster})
		r := d.must()
		if namesOf(r) != "[new]" {
			t.Errorf("delta got %v", r)
		}
		d.ack(r)
		if r := d.must(); fmt.Sprint(r.GetRemovedResources()) != "[old]" {
			t.Errorf("then delta got %v", r)
		}
		if r := s.must(); len(r.GetResources()) != 3 && len(r.GetResources()) != 2 {
			t.Errorf("sotw got %d clusters", len(r.GetResources()))
		}
		h.setIn("default", res(xds.ClusterType, "old", "2"))
		d.silent("after a change in the group it left")
		h.setIn("test", res(xds.ClusterType, "new", "2"))
		if r := d.must(); namesOf(r) != "[new]" {
			t.Errorf("after a change in the new group: %v", r)
		}
	})
}

// A batch that gives a group another name and moves the clients there is one
// step for them: nothing is removed and sent again.
func TestGroupRenamedInOneBatch(t *testing.T) {
	slowly := func(n *xds.Node) string { // so that streams could act between two steps
		for range 100 {
			runtime.Gosched()
		}
		return n.Cluster
	}
	for range 5 {
		bubble(t, nil, func(h *harness) {
			content := snapshot.Changes{Set: []*xds.Resource{res(xds.ListenerType, "l", "1"), res(xds.ClusterType, "c", "1")}}
			h.apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{"default": content}})
			d, s := h.delta(), h.sotw()
			for _, typeURL := range []string{xds.ListenerType, xds.ClusterType} {
				d.subscribe(node("d"), typeURL)
				d.ack(d.must())
				s.subscribe(node("s"), typeURL)
				s.ack(s.must())
			}
			h.apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{"test": content}, GroupOf: slowly})
			d.silent("delta, after the renaming")
			s.silent("sotw, after the renaming")
			if got := h.srv.Groups(); fmt.Sprint(got) != "[test]" {
				t.Errorf("groups %v, want only the new one", got)
			}
			h.setIn("test", res(xds.ClusterType, "c", "2"))
			if d.got() == nil || s.got() == nil {
				t.Error("a change in the renamed group did not arrive")
			}
		})
	}
}

// A group that a batch is about to fill stays the clients' group although its
// last stream leaves at that moment.
func TestStreamLeavesWhileGroupIsFilled(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithGroups(byCluster)}, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		a := h.delta()
		a.subscribe(in("g", "a"), xds.ClusterType)
		a.ack(a.must())
		b := snapshot.Batch{Groups: map[string]snapshot.Changes{"g": {Set: []*xds.Resource{res(xds.ClusterType, "c", "1")}}}}
		err := h.srv.ApplyWith(b, func() {
			a.cancel()
			_ = a.ended()
			if n := h.srv.Held().Streams; n != 0 {
				t.Fatalf("%d streams are left", n)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		c := h.delta()
		c.subscribe(in("g", "c"), xds.ClusterType)
		if r := c.must(); namesOf(r) != "[c]" {
			t.Errorf("the next client got %v", r)
		}
	})
}

// A client whose group comes up while the first full batch is applied is not
// left waiting.
func TestGroupComesUpDuringFirstLoad(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithGroups(byCluster)}, func(h *harness) {
		d := h.delta()
		err := h.srv.ApplyWith(snapshot.Batch{Full: true}, func() {
			d.subscribe(in("late", "d"), xds.ClusterType)
			d.silent("before the load")
		})
		if err != nil {
			t.Fatal(err)
		}
		d.must()
	})
}

// Groups that hold nothing and nobody are forgotten, however they came to be.
func TestEmptyGroupsAreForgotten(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithGroups(byCluster)}, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		c := res(xds.ClusterType, "c", "1")
		h.setIn("emptied", c)
		h.apply(snapshot.Batch{Groups: map[string]snapshot.Changes{"emptied": {Remove: []xds.Key{c.Key()}}}})
		h.setIn("dropped", c)
		h.apply(snapshot.Batch{Full: true})
		bad := snapshot.Batch{Groups: map[string]snapshot.Changes{"bad": {Set: []*xds.Resource{c, c}}}}
		if err := h.srv.Apply(bad); !errors.Is(err, snapshot.ErrDuplicate) {
			t.Fatalf("two resources of one name: %v", err)
		}
		h.apply(snapshot.Batch{Groups: map[string]snapshot.Changes{"labelled": {Labels: map[string]string{xds.ClusterType: "v1"}}}})
		d := h.delta()
		d.subscribe(in("left", "d"), xds.ClusterType)
		d.ack(d.must())
		h.apply(snapshot.Batch{GroupOf: func(*xds.Node) string { return "joined" }})
		if got := fmt.Sprint(h.srv.Groups()); got != "[joined labelled]" {
			t.Errorf("groups %v", got)
		}
		d.cancel()
		_ = d.ended()
		if got := fmt.Sprint(h.srv.Groups()); got != "[labelled]" {
			t.Errorf("after the client left: groups %v", got)
		}
	})
}

// Proves XS-06: another id or cluster in a later request is ignored and
// counted; other dynamic parameters move the stream to their group.
func TestLaterNodes(t *testing.T) {
	groupOf := func(n *xds.Node) string { return n.Cluster + "/" + n.DynamicParameters[xds.ClusterType]["stage"] }
	bubble(t, []xdsserver.Option{xdsserver.WithGroups(groupOf)}, func(h *harness) {
		h.setIn("test/", res(xds.ClusterType, "plain", "1"))
		h.setIn("test/blue", res(xds.ClusterType, "blue", "1"))
		h.setIn("other/", res(xds.ClusterType, "other", "1"))
		d := h.delta()
		d.subscribe(node("d"), xds.ClusterType)
		d.ack(d.must())
		for _, n := range []*corev3.Node{node("e"), in("other", "d")} {
			d.send(&discoveryv3.DeltaDiscoveryRequest{Node: n, TypeUrl: xds.ClusterType})
			d.silent("after another node")
		}
		if n := h.srv.Stats().NodesIgnored; n != 2 {
			t.Errorf("%d nodes were ignored, want 2", n)
		}
		if c := h.srv.Clients()[0]; c.Group != "test/" || c.Node.ID != "d" {
			t.Errorf("client %+v", c)
		}
		n := node("d")
		n.DynamicParameters = map[string]*xdscorev3.ContextParams{xds.ClusterType: {Params: map[string]string{"stage": "blue"}}}
		d.send(&discoveryv3.DeltaDiscoveryRequest{Node: n, TypeUrl: xds.ClusterType})
		if r := d.must(); namesOf(r) != "[blue]" {
			t.Errorf("after other parameters: %v", r)
		}
		// Parameters of another type leave those of this one alone.
		n.DynamicParameters = map[string]*xdscorev3.ContextParams{xds.ListenerType: {Params: map[string]string{"x": "y"}}}
		d.send(&discoveryv3.DeltaDiscoveryRequest{Node: n, TypeUrl: xds.ListenerType})
		_ = d.got()
		if c := h.srv.Clients()[0]; c.Group != "test/blue" || h.srv.Stats().NodesIgnored != 2 {
			t.Errorf("after parameters of another type: group %s", c.Group)
		}
	})
}

// Proves XS-07: a client without a node belongs to the empty node's group, or
// is refused if a node is required.
func TestClientWithoutNode(t *testing.T) {
	groups := xdsserver.WithGroups(func(n *xds.Node) string { return "of:" + n.ID })
	bubble(t, []xdsserver.Option{groups}, func(h *harness) {
		h.setIn("of:", res(xds.ClusterType, "c", "1"))
		s, d := h.sotw(), h.delta()
		s.subscribe(nil, xds.ClusterType)
		d.subscribe(nil, xds.ClusterType)
		if sr, dr := s.must(), d.must(); len(sr.GetResources()) != 1 || namesOf(dr) != "[c]" {
			t.Errorf("got %v and %v", sr, dr)
		}
	})
	bubble(t, []xdsserver.Option{groups, xdsserver.WithRequireNode(true)}, func(h *harness) {
		h.setIn("of:", res(xds.ClusterType, "c", "1"))
		s, d := h.sotw(), h.delta()
		s.subscribe(nil, xds.ClusterType)
		d.subscribe(&corev3.Node{}, xds.ClusterType)
		s.endsWith(codes.InvalidArgument)
		d.endsWith(codes.InvalidArgument)
		if n := h.srv.Stats().StreamsRefused; n != 2 {
			t.Errorf("%d streams refused, want 2", n)
		}
	})
}

// Proves XS-08: streams of one node id live beside one another.
func TestStreamsOfOneNode(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"))
		a := h.delta()
		a.subscribe(node("n"), xds.ClusterType)
		a.ack(a.must())
		b := h.delta()
		b.subscribe(node("n"), xds.ClusterType)
		b.ack(b.must())
		a.cancel()
		_ = a.ended()
		time.Sleep(time.Minute)
		h.set(res(xds.ClusterType, "c", "2"))
		if r := b.must(); r.GetResources()[0].GetVersion() != "2" {
			t.Errorf("the newer stream got %v", r)
		}
		if n := len(h.srv.Clients()); n != 1 {
			t.Errorf("%d streams are open, want 1", n)
		}
	})
}

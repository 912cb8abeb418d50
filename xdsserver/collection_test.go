package xdsserver_test

import (
	"net/http"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// listCollection is a list collection of a type with two entries.
func listCollection(t *testing.T, typeURL, name string) *xds.Resource {
	t.Helper()
	m := &listenerv3.ListenerCollection{}
	for _, n := range []string{"a", "b"} {
		in := &xdscorev3.CollectionEntry_InlineEntry{Name: n, Resource: &anypb.Any{TypeUrl: typeURL}}
		m.Entries = append(m.Entries, &xdscorev3.CollectionEntry{
			ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: in},
		})
	}
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return xds.NewResource(typeURL, name, body, xds.WithBodyType(xds.CollectionType(typeURL)))
}

// Over REST a list collection is wrapped as in SotW. What JSON has no room for is an error
// instead of a part of the collection. Partly proves XN-08, XN-09.
func TestRESTCollections(t *testing.T) {
	serving(t, []xdsserver.Option{xdsserver.WithGroups(byCluster)}, func(h *harness) {
		const listeners = "xdstp://a/envoy.config.listener.v3.ListenerCollection/l"
		const clusters = "xdstp://a/envoy.config.cluster.v3.ClusterCollection/c"
		h.setIn("g", listCollection(t, xds.ListenerType, listeners), listCollection(t, xds.ClusterType, clusters), restCluster(t, "x", ""))
		got := polled(t, h.post("/v3/discovery:listeners", `{"node":{"cluster":"g"},"resource_names":["`+listeners+`"]}`))
		var outer discoveryv3.Resource
		var inner listenerv3.ListenerCollection
		if err := got.GetResources()[0].UnmarshalTo(&outer); err != nil {
			t.Fatal(err)
		}
		if err := outer.GetResource().UnmarshalTo(&inner); err != nil || outer.GetName() != listeners || len(inner.GetEntries()) != 2 {
			t.Errorf("got %v, %v", &outer, err)
		}
		w := h.post("/v3/discovery:clusters", `{"node":{"cluster":"g"},"resource_names":["`+clusters+`"]}`)
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "has room for one entry there") || !strings.Contains(w.Body.String(), clusters) {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if all := names(t, polled(t, h.post("/v3/discovery:clusters", `{"node":{"cluster":"g"}}`))); len(all) != 1 {
			t.Errorf("everything is %v", all)
		}
	})
}

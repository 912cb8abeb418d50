package discovery

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// occurs waits until the log has a line so many times.
func (g *target) occurs(t *testing.T, line string, want int) {
	t.Helper()
	for i := 0; i < 500 && count(g, line) < want; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if n := count(g, line); n != want {
		t.Errorf("%q occurs %d times, want %d; the log is %q", line, n, want, g.lines())
	}
}

// clean waits until the server knows that nothing of a type is refused.
func clean(t *testing.T, m *management, typeURL string) {
	t.Helper()
	await(t, m, "all is well", func(ty *xdsserver.TypeStatus) bool {
		return ty.TypeURL == typeURL && ty.Nack == nil && ty.State == xdsserver.Synced
	})
}

// variants runs a test over ADS in either variant.
func variants(t *testing.T, test func(t *testing.T, m *management, b string)) {
	t.Helper()
	for _, api := range []string{"GRPC", "DELTA_GRPC"} {
		t.Run(api, func(t *testing.T) { test(t, manage(t), dynamic(api, `{"ads": {}}`)) })
	}
}

// What was refused is looked at again when it comes again: what is good may depend on
// what else there is. Partly proves XC-11.
func TestRefusedForNow(t *testing.T) {
	m := manage(t)
	set := func(names ...string) {
		t.Helper()
		var c snapshot.Changes
		for _, n := range names {
			c.Set = append(c.Set, resource(t, n, &clusterv3.Cluster{Name: n}), resource(t, n, &listenerv3.Listener{Name: n}))
		}
		m.apply(t, c)
	}
	set("a", "b")
	g := &target{refused: "a"}
	d := start(t, bootstrap(t, dynamic("GRPC", `{"ads": {}}`)), m.addr, g)
	d.Clusters(t.Context())
	d.Listeners(t.Context())
	rejectedFor(t, m, xds.ClusterType)
	rejectedFor(t, m, xds.ListenerType)
	g.refuse("")
	set("c") // the response has all
	g.until(t, "set cluster a")
	g.until(t, "set listener a")
	clean(t, m, xds.ClusterType)
	clean(t, m, xds.ListenerType)
}

func rejectedFor(t *testing.T, m *management, typeURL string) {
	t.Helper()
	await(t, m, "something is refused", func(ty *xdsserver.TypeStatus) bool { return ty.TypeURL == typeURL && ty.Nack != nil })
}

// What is in force and comes again after something else was refused is set again, of
// each type: so the target knows that nothing is wrong any more. Partly proves XC-10.
func TestGoodAgain(t *testing.T) {
	variants(t, func(t *testing.T, m *management, b string) {
		set := func(odd bool) {
			t.Helper()
			c, l := &clusterv3.Cluster{Name: "a"}, &listenerv3.Listener{Name: "a"}
			la, rc := &endpointv3.ClusterLoadAssignment{ClusterName: "a"}, &routev3.RouteConfiguration{Name: "a"}
			if odd {
				c.AltStatName, l.StatPrefix = "odd", "odd"
				la.Policy = &endpointv3.ClusterLoadAssignment_Policy{WeightedPriorityHealth: true}
				rc.MaxDirectResponseBodySizeBytes = wrapperspb.UInt32(1)
			}
			var changes snapshot.Changes
			for _, r := range []proto.Message{c, l, la, rc} {
				changes.Set = append(changes.Set, resource(t, "a", r))
			}
			m.apply(t, changes)
		}
		set(false)
		g := &target{}
		d := start(t, bootstrap(t, b), m.addr, g)
		d.Clusters(t.Context())
		d.Listeners(t.Context())
		ads := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
		d.Want(xds.EndpointType, "a", ads)
		d.Want(xds.RouteType, "a", ads)
		kinds := map[string]string{"cluster": xds.ClusterType, "listener": xds.ListenerType, "endpoints": xds.EndpointType, "routes": xds.RouteType}
		for kind := range kinds {
			g.until(t, "set "+kind+" a")
		}
		g.refuse("a")
		set(true)
		for _, typeURL := range kinds {
			rejectedFor(t, m, typeURL)
		}
		g.refuse("")
		set(false)
		for kind, typeURL := range kinds {
			g.occurs(t, "set "+kind+" a", 2)
			clean(t, m, typeURL)
		}
	})
}

// What was refused and is removed is removed from the target, which shows why it was
// refused: by its own name, unless something else has that.
func TestRefusedIsRemoved(t *testing.T) {
	variants(t, func(t *testing.T, m *management, b string) {
		apply := func(c snapshot.Changes) { m.apply(t, c) }
		set := func(name, own string) []*xds.Resource {
			return []*xds.Resource{resource(t, name, &clusterv3.Cluster{Name: own}), resource(t, name, &listenerv3.Listener{Name: own})}
		}
		remove := func(name string) []xds.Key {
			return []xds.Key{{Type: xds.ClusterType, Name: name}, {Type: xds.ListenerType, Name: name}}
		}
		apply(snapshot.Changes{Set: append(set("bad", "bad"), set("a", "a")...)})
		g := &target{}
		d := start(t, bootstrap(t, b), m.addr, g)
		d.Clusters(t.Context())
		d.Listeners(t.Context())
		g.until(t, "refuse cluster bad")
		g.until(t, "refuse listener bad")
		apply(snapshot.Changes{Remove: remove("bad")})
		g.occurs(t, "remove cluster bad", 1)
		g.occurs(t, "remove listener bad", 1)
		clean(t, m, xds.ClusterType)
		// What is held is refused, and then removed: once.
		g.refuse("a")
		apply(snapshot.Changes{Set: []*xds.Resource{resource(t, "a", &clusterv3.Cluster{Name: "a", AltStatName: "x"})}})
		rejectedFor(t, m, xds.ClusterType)
		apply(snapshot.Changes{Remove: remove("a"), Set: set("m", "m")})
		g.until(t, "set listener m")
		g.occurs(t, "remove cluster a", 1)
		g.occurs(t, "remove listener a", 1)
	})
}

// Before what a response adds is set, the target knows which listeners go, whose
// addresses may be had.
func TestLeavingComesFirst(t *testing.T) {
	variants(t, func(t *testing.T, m *management, b string) {
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "a", &listenerv3.Listener{Name: "a"})}})
		g := &target{}
		d := start(t, bootstrap(t, b), m.addr, g)
		d.Listeners(t.Context())
		g.until(t, "set listener a")
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "b", &listenerv3.Listener{Name: "b"})}, Remove: []xds.Key{{Type: xds.ListenerType, Name: "a"}}})
		g.until(t, "remove listener a")
		var order []string
		for _, l := range g.lines() {
			switch l {
			case "leaving a", "set listener b", "remove listener a", "leaving nobody":
				order = append(order, l)
			}
		}
		if want := []string{"leaving a", "set listener b", "remove listener a"}; len(order) < 3 || order[0] != want[0] || order[1] != want[1] || order[2] != want[2] {
			t.Errorf("%q, want %q", order, want)
		}
	})
}

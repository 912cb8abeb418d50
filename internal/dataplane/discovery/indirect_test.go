package discovery

import (
	"slices"
	"strings"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

const (
	listURN = "xdstp://one/envoy.config.cluster.v3.ClusterCollection/edge"
	edsURN  = "xdstp://one/envoy.config.endpoint.v3.ClusterLoadAssignment/"
)

// redirect is a resource that is found elsewhere.
func redirect(t *testing.T, typeURL, name, to string) *xds.Resource {
	t.Helper()
	return indirect(t, typeURL, name, xds.LocatorType, locator(t, to))
}

func locator(t *testing.T, to string) *xdscorev3.ResourceLocator {
	t.Helper()
	l, err := xds.ParseLocator(to)
	if err != nil {
		t.Fatal(err)
	}
	return l.Proto()
}

func indirect(t *testing.T, typeURL, name, bodyType string, m proto.Message) *xds.Resource {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return xds.NewResource(typeURL, name, body, xds.WithBodyType(bodyType))
}

// clusterList is a list collection of clusters: names of resources, and of clusters that stand in it.
func clusterList(t *testing.T, entries ...string) *xds.Resource {
	t.Helper()
	m := &listenerv3.ListenerCollection{} // the same message but for the number of entries
	for _, e := range entries {
		entry := &xdscorev3.CollectionEntry{}
		if strings.HasPrefix(e, "xdstp:") {
			entry.ResourceSpecifier = &xdscorev3.CollectionEntry_Locator{Locator: locator(t, e)}
		} else {
			a, err := anypb.New(&clusterv3.Cluster{Name: e})
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(e, "bad ")
			entry.ResourceSpecifier = &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{Name: name, Resource: a}}
		}
		m.Entries = append(m.Entries, entry)
	}
	return indirect(t, xds.ClusterType, listURN, xds.CollectionType(xds.ClusterType), m)
}

// both runs a test with a source for the authority "one" in either variant.
func both(t *testing.T, test func(t *testing.T, m *management, source string)) {
	t.Helper()
	for name, api := range map[string]string{"delta": "AGGREGATED_DELTA_GRPC", "sotw": "AGGREGATED_GRPC"} {
		t.Run(name, func(t *testing.T) {
			m := manage(t)
			test(t, m, strings.Replace(ofServer(m.addr, "one"), "AGGREGATED_DELTA_GRPC", api, 1))
		})
	}
}

// Clusters are a list collection of a server, in either variant: resources that it
// names, also by a redirect, and clusters that stand in it. All are there when the
// first answer is; what the list has not any more is removed by the cluster's own name;
// what is bad is refused, and told to the server. Partly proves XN-08, XN-09, XN-10, XN-13.
func TestListOfAServer(t *testing.T) {
	both(t, func(t *testing.T, m *management, source string) {
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{
			clusterList(t, clusterURN+"a", clusterURN+"b", "local", "bad one"),
			resource(t, clusterURN+"a", &clusterv3.Cluster{Name: clusterURN + "a"}),
			redirect(t, xds.ClusterType, clusterURN+"b", clusterURN+"c"),
			resource(t, clusterURN+"c", &clusterv3.Cluster{Name: clusterURN + "c"}),
			resource(t, clusterURN+"d", &clusterv3.Cluster{Name: clusterURN + "d"}),
		}})
		g := &target{}
		d := start(t, bootstrap(t, `{"node": {"id": "n"}, "dynamicResources": {"cdsResourcesLocator": "`+listURN+`"}, "configSources": [`+source+`]}`), "", g)
		begin := time.Now()
		d.Clusters(t.Context())
		if waited := time.Since(begin); waited > 10*time.Second {
			t.Errorf("the first answer is not noticed before %v", waited)
		}
		lines := g.lines()
		for _, want := range []string{"set cluster " + clusterURN + "a", "set cluster " + clusterURN + "c", "set cluster local", "refuse cluster bad one"} {
			if !slices.Contains(lines, want) {
				t.Errorf("after the first answer %q is not in %q", want, lines)
			}
		}
		rejected(t, m, xds.ClusterType, "one")
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{clusterList(t, clusterURN+"b", "other")}})
		g.until(t, "set cluster other")
		g.until(t, "remove cluster local")
		g.until(t, "remove cluster "+clusterURN+"a")
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{redirect(t, xds.ClusterType, clusterURN+"b", clusterURN+"d")}})
		g.until(t, "set cluster "+clusterURN+"d")
		g.until(t, "remove cluster "+clusterURN+"c")
		m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: listURN}}})
		g.until(t, "remove cluster other")
		g.until(t, "remove cluster "+clusterURN+"d")
	})
}

// A cluster that two members have stays until neither has it, and a member of a glob
// whose resource is called otherwise is removed by its own name. Partly proves XN-05, XN-10.
func TestMembersWithOneName(t *testing.T) {
	m := manage(t)
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{
		resource(t, clusterURN+"g/a", &clusterv3.Cluster{Name: "own"}), redirect(t, xds.ClusterType, clusterURN+"g/b", clusterURN+"g/a"),
	}})
	g := &target{}
	d := start(t, bootstrap(t, `{"node": {"id": "n"}, "dynamicResources": {"cdsResourcesLocator": "`+clusterURN+`g/*"}, "configSources": [`+ofServer(m.addr, "one")+`]}`), "", g)
	d.Clusters(t.Context())
	for i := 0; i < 500 && count(g, "set cluster own") < 2; i++ { // by each member: they might differ
		time.Sleep(10 * time.Millisecond)
	}
	if n := count(g, "set cluster own"); n != 2 {
		t.Errorf("the cluster is set %d times", n)
	}
	m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: clusterURN + "g/b"}}, Set: []*xds.Resource{resource(t, clusterURN+"g/c", &clusterv3.Cluster{Name: "more"})}})
	g.until(t, "set cluster more")
	if lines := g.lines(); slices.Contains(lines, "remove cluster own") {
		t.Errorf("a cluster that is there is removed: %q", lines)
	}
	m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: clusterURN + "g/a"}}})
	g.until(t, "remove cluster own")
}

// What is wanted by name is found where redirects lead, follows what it is there, and
// is looked at as if it had been there, and called what it was asked for by: what is
// refused is told to the server.
// Partly proves XN-10.
func TestRedirects(t *testing.T) {
	both(t, func(t *testing.T, m *management, source string) {
		assigned := func(name, mark string) *xds.Resource {
			return resource(t, edsURN+name, &endpointv3.ClusterLoadAssignment{
				ClusterName: edsURN + name, NamedEndpoints: map[string]*endpointv3.Endpoint{mark: {}},
			})
		}
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{redirect(t, xds.EndpointType, edsURN+"e?a=2&b=1", edsURN+"f"), assigned("f", "first"), assigned("g", "third")}})
		g := &target{}
		b := bootstrap(t, `{"node": {"id": "n"}, "configSources": [`+source+`]}`)
		d := start(t, b, "", g)
		cs := b.GetConfigSources()[0]
		d.Want(xds.EndpointType, edsURN+"e?b=1&a=2", cs)
		d.Want(xds.EndpointType, edsURN+"g", cs)
		g.until(t, "set endpoints first of e?b=1&a=2")
		g.until(t, "set endpoints third of g")
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{assigned("f", "second")}})
		g.until(t, "set endpoints second of e?b=1&a=2")
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{assigned("f", "bad")}})
		g.until(t, "refuse endpoints bad of e?b=1&a=2")
		rejected(t, m, xds.EndpointType, edsURN+"f")
		before := count(g, "set endpoints third of e?b=1&a=2")
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{redirect(t, xds.EndpointType, edsURN+"e?a=2&b=1", edsURN+"g")}}) // which is held
		for i := 0; i < 500 && count(g, "set endpoints third of e?b=1&a=2") == before; i++ {
			time.Sleep(10 * time.Millisecond)
		}
		if n := count(g, "set endpoints third of e?b=1&a=2"); n != before+1 {
			t.Errorf("what was held is set %d times more", n-before)
		}
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{redirect(t, xds.EndpointType, edsURN+"e?a=2&b=1", edsURN+"e?a=2&b=1")}})
		g.until(t, "missing ClusterLoadAssignment "+edsURN+"e?b=1&a=2") // round in a circle
		d.Want(xds.EndpointType, edsURN+"g#alt="+edsURN+"f", cs)
		g.until(t, "missing ClusterLoadAssignment "+edsURN+"g#alt="+edsURN+"f") // not built
		for _, name := range []string{"e?b=1&a=2", "g"} {
			d.Unwant(xds.EndpointType, edsURN+name, cs)
		}
		given(t, m, xds.EndpointType)
	})
}

func count(g *target, line string) (n int) {
	for _, l := range g.lines() {
		if l == line {
			n++
		}
	}
	return n
}

package discovery

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// removals are those lines of a log that say that something was removed.
func removals(g *target) []string {
	return slices.DeleteFunc(slices.Clone(g.lines()), func(l string) bool { return !strings.HasPrefix(l, "remove") })
}

// Clusters and listeners go by their own names, whatever a server of the delta variant
// calls them: those whose resources change places stay, as does what one resource gives
// up and another gets by the same response.
func TestNamesChangePlaces(t *testing.T) {
	m := manage(t)
	apply := func(remove []string, set ...string) {
		t.Helper()
		var c snapshot.Changes
		for _, pair := range set {
			name, own, _ := strings.Cut(pair, "=")
			c.Set = append(c.Set, resource(t, name, &clusterv3.Cluster{Name: own}), resource(t, name, &listenerv3.Listener{Name: own}))
		}
		for _, name := range remove {
			c.Remove = append(c.Remove, xds.Key{Type: xds.ClusterType, Name: name}, xds.Key{Type: xds.ListenerType, Name: name})
		}
		m.apply(t, c)
	}
	apply(nil, "a=a", "b=b")
	g := &target{}
	d := start(t, bootstrap(t, dynamic("DELTA_GRPC", `{"ads": {}}`)), m.addr, g)
	d.Clusters(t.Context())
	d.Listeners(t.Context())
	settled := func(removed []string, mark string) {
		t.Helper()
		g.until(t, "set cluster "+mark)
		g.until(t, "set listener "+mark)
		var want []string
		for _, name := range removed {
			want = append(want, "remove cluster "+name, "remove listener "+name)
			g.until(t, "remove cluster "+name)
			g.until(t, "remove listener "+name)
		}
		got := removals(g)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("after %s: %q, want %q", mark, got, want)
		}
	}
	apply(nil, "a=b", "b=a", "m1=m1")
	settled(nil, "m1")
	apply(nil, "a=a", "b=b", "m2=m2")
	settled(nil, "m2")
	apply([]string{"a"}, "z=a", "m3=m3")
	settled(nil, "m3")
	apply([]string{"z"}, "m4=m4")
	settled([]string{"a"}, "m4")
}

// What is asked for by its name and calls itself otherwise is refused, in Envoy's words,
// and nothing else is made of it: by a server of the delta variant, which names
// resources beside what is in them.
func TestUnexpectedNames(t *testing.T) {
	m := manage(t)
	wrong := map[string]proto.Message{
		xds.EndpointType:        &endpointv3.ClusterLoadAssignment{ClusterName: "other"},
		xds.RouteType:           &routev3.RouteConfiguration{Name: "other"},
		xds.SecretType:          &tlsv3.Secret{Name: "other"},
		xds.RuntimeType:         &runtimev3.Runtime{Name: "other"},
		xds.ExtensionConfigType: &corev3.TypedExtensionConfig{Name: "other"},
	}
	says := map[string]string{
		xds.EndpointType:        "Unexpected EDS cluster (expecting it): other",
		xds.RouteType:           "Unexpected RDS configuration (expecting it): other",
		xds.SecretType:          "Unexpected SDS secret (expecting it): other",
		xds.RuntimeType:         "Unexpected RTDS runtime (expecting it): other",
		xds.ExtensionConfigType: "Unexpected resource name in ExtensionConfigDS response (expecting it): other",
	}
	for _, r := range wrong {
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "it", r)}})
	}
	g := &target{}
	b := bootstrap(t, dynamic("DELTA_GRPC", `{"ads": {}}`))
	d := start(t, b, m.addr, g)
	d.Clusters(t.Context())
	for typeURL := range wrong {
		d.Want(typeURL, "it", b.GetDynamicResources().GetCdsConfig())
	}
	for typeURL, text := range says {
		refused(t, m, typeURL, "it", text)
		g.until(t, "refused "+xds.Kind(typeURL)+" it") // so that nobody waits
	}
	for _, line := range g.lines() {
		if strings.HasPrefix(line, "set") {
			t.Errorf("%q", line)
		}
	}
}

// What cannot be read is refused before anybody can look at it, who is told.
func TestUnreadable(t *testing.T) {
	m := manage(t)
	types := []string{xds.EndpointType, xds.RouteType, xds.SecretType, xds.RuntimeType, xds.ExtensionConfigType}
	for _, typeURL := range types {
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{xds.NewResource(typeURL, "it", []byte{0xff})}})
	}
	g := &target{}
	b := bootstrap(t, dynamic("DELTA_GRPC", `{"ads": {}}`))
	d := start(t, b, m.addr, g)
	d.Clusters(t.Context())
	for _, typeURL := range types {
		d.Want(typeURL, "it", b.GetDynamicResources().GetCdsConfig())
		g.until(t, "refused "+xds.Kind(typeURL)+" it")
		d.Want(typeURL, "it", proto.CloneOf(b.GetDynamicResources().GetCdsConfig())) // of a config source of its own
		g.occurs(t, "refused "+xds.Kind(typeURL)+" it", 2)
	}
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{xds.NewResource(xds.ScopedRouteType, "it", []byte{0xff})}})
	d.Want(xds.ScopedRouteType, "*", b.GetDynamicResources().GetCdsConfig())
	g.until(t, "refused "+xds.Kind(xds.ScopedRouteType)+" *")
}

// Who wants by a config source of its own what was refused before is told, too: once, as
// those were told who wanted it then.
func TestRefusedBefore(t *testing.T) {
	variants(t, func(t *testing.T, m *management, text string) {
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "bad", &routev3.RouteConfiguration{Name: "bad"})}})
		g := &target{}
		b := bootstrap(t, text)
		d := start(t, b, m.addr, g)
		cs := b.GetDynamicResources().GetCdsConfig()
		d.Clusters(t.Context())
		d.Want(xds.RouteType, "bad", cs)
		g.until(t, "refuse routes bad")
		d.Want(xds.RouteType, "bad", proto.CloneOf(cs))
		g.occurs(t, "refused RouteConfiguration bad", 1)
	})
}

// What an xdstp: name leads to is used under that name, whatever the type, and the
// original stays as it is.
func TestNamedAnew(t *testing.T) {
	const name = "xdstp://one/type/name"
	check := func(t *testing.T, got string, err error, original string) {
		t.Helper()
		if err != nil || got != name || original != "other" {
			t.Errorf("%q, %v; the original is %q", got, err, original)
		}
	}
	la := &assignment{la: &endpointv3.ClusterLoadAssignment{ClusterName: "other"}, encoded: []byte("x")}
	en := assignmentNaming()
	a, err := en.asked(name, la)
	check(t, a.la.GetClusterName(), err, la.la.GetClusterName())
	if a.encoded != nil {
		t.Error("it has the encoding of the original")
	}
	rn := routesNaming()
	rc, err := rn.asked(name, &routev3.RouteConfiguration{Name: "other"})
	check(t, rc.GetName(), err, "other")
	sn := secretNaming()
	s, err := sn.asked(name, &tlsv3.Secret{Name: "other"})
	check(t, s.GetName(), err, "other")
	tn := runtimeNaming()
	rt, err := tn.asked(name, &runtimev3.Runtime{Name: "other"})
	check(t, rt.GetName(), err, "other")
	xn := extensionNaming()
	c, err := xn.asked(name, &corev3.TypedExtensionConfig{Name: "other"})
	check(t, c.GetName(), err, "other")
}

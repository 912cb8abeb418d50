package proxy_test

import (
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/proxy"
)

// dumped is a part of /config_dump.
func dumped[M proto.Message](t *testing.T, r *running, into M) M {
	t.Helper()
	var d adminv3.ConfigDump
	if err := protojson.Unmarshal([]byte(r.get(t, "/config_dump?include_eds")), &d); err != nil {
		t.Fatal(err)
	}
	for _, c := range d.GetConfigs() {
		if c.MessageIs(into) {
			must(t, c.UnmarshalTo(into))
		}
	}
	return into
}

// Proves AD-08 for what is discovered: what is in force, what warms, and what
// was refused last, with versions; secrets without what is secret.
func TestDumpShowsWhatIsDiscovered(t *testing.T) {
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	a, err := testcert.NewAuthority("test")
	must(t, err)
	must(t, res.SetCluster(staticCluster("x", "127.0.0.1:1"), "v1"))
	must(t, res.SetCluster(edsCluster("y", "svc"), "v2"))
	_ = res.SetCluster(&clusterv3.Cluster{Name: "x", LrsServer: ads()}, "v3")
	_ = res.SetCluster(&clusterv3.Cluster{Name: "z", LrsServer: ads()}, "v4")
	res.Accepted(proxy.ClusterType, "cds 7")
	c := dumped(t, r, &adminv3.ClustersConfigDump{})
	switch active, warming := c.GetDynamicActiveClusters(), c.GetDynamicWarmingClusters(); {
	case c.GetVersionInfo() != "cds 7" || len(c.GetStaticClusters()) != 2 || len(active) != 1 || len(warming) != 2:
		t.Errorf("%v", c)
	case active[0].GetVersionInfo() != "v1" || active[0].GetErrorState().GetVersionInfo() != "v3" || !strings.Contains(active[0].GetErrorState().GetDetails(), "lrs_server"):
		t.Errorf("%v", active)
	case warming[0].GetVersionInfo() != "v2" || warming[0].GetErrorState() != nil || warming[1].GetErrorState().GetVersionInfo() != "v4":
		t.Errorf("%v", warming)
	}
	if got := r.get(t, "/clusters"); !strings.Contains(got, "x::added_via_api::true\n") || !strings.Contains(got, "one::added_via_api::false\n") || strings.Contains(got, "\ny::") {
		t.Errorf("/clusters:\n%s", got)
	}
	must(t, res.SetEndpoints(nil, assignment("svc", "127.0.0.1:2"), "e1"))
	if e := dumped(t, r, &adminv3.EndpointsConfigDump{}); len(e.GetStaticEndpointConfigs()) != 2 || len(e.GetDynamicEndpointConfigs()) != 2 {
		t.Errorf("%v", e)
	}

	at := freeAddress(t)
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(with(saying("own", "x"))))), "l1"))
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(byRDS("rc")))), "l2"))
	_ = res.SetListener(listenerAt("l", at), "l3")
	l := dumped(t, r, &adminv3.ListenersConfigDump{}).GetDynamicListeners()
	if len(l) != 1 || l[0].GetActiveState().GetVersionInfo() != "l1" || l[0].GetWarmingState().GetVersionInfo() != "l2" ||
		l[0].GetErrorState().GetVersionInfo() != "l3" || !strings.Contains(l[0].GetErrorState().GetDetails(), "no filter chains specified") {
		t.Errorf("%v", l)
	}
	must(t, res.SetRoutes(nil, saying("rc", "y"), "r1"))
	rc := dumped(t, r, &adminv3.RoutesConfigDump{}).GetDynamicRouteConfigs()
	if len(rc) != 1 || rc[0].GetVersionInfo() != "r1" {
		t.Errorf("%v", rc)
	}

	secure := listenerAt("s", freeAddress(t), chainOf(manager(with(saying("own", "x")))))
	secure.FilterChains[0].TransportSocket = socketOf(downstream("cert"))
	must(t, res.SetListener(secure, "1"))
	if d := dumped(t, r, &adminv3.SecretsConfigDump{}); len(d.GetDynamicWarmingSecrets()) != 1 {
		t.Errorf("%v", d)
	}
	must(t, res.SetSecret(nil, certificate(t, a, "cert"), "s1"))
	d := dumped(t, r, &adminv3.SecretsConfigDump{})
	if len(d.GetDynamicActiveSecrets()) != 1 || d.GetDynamicActiveSecrets()[0].GetVersionInfo() != "s1" {
		t.Errorf("%v", d)
	}
	if got := r.get(t, "/config_dump"); strings.Contains(got, "PRIVATE KEY") || strings.Contains(got, "UFJJVkFURSBLRVk") {
		t.Error("a private key is shown")
	}
	if got := r.get(t, "/listeners"); !strings.Contains(got, "l::"+at+"\n") {
		t.Errorf("/listeners:\n%s", got)
	}
}

// Partly proves AD-08: what was refused for a message that this program does not
// know is shown without it.
func TestDumpShowsUnknownTypes(t *testing.T) {
	r := start(t, byHeader, newSource().by)
	x := staticCluster("x", "127.0.0.1:1")
	x.TransportSocket = &corev3.TransportSocket{Name: "acme", ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/acme.Socket", Value: []byte("\x0a\x06s3cret")},
	}}
	if err := r.Resources().SetCluster(x, "v1"); err == nil {
		t.Fatal("a transport socket that nobody knows is taken")
	}
	for _, path := range []string{"/config_dump", "/config_dump?resource=dynamic_warming_clusters", "/config_dump?mask=dynamic_warming_clusters"} {
		got := strings.Join(strings.Fields(r.get(t, path)), " ")
		if !strings.Contains(got, `"failed_configuration": { "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster"`) ||
			!strings.Contains(got, `"typed_config": { "@type": "type.googleapis.com/acme.Socket", "value": "" }`) || strings.Contains(got, "s3cret") {
			t.Errorf("%s:\n%s", path, got)
		}
	}
}

package discovery

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// deltaBootstrap has ADS of the incremental variant, and a source of it alone.
func deltaBootstrap(t *testing.T) (d func(g *target, addr string) *Discovery, ads, own *corev3.ConfigSource) {
	t.Helper()
	b := bootstrap(t, dynamic("DELTA_GRPC", `{"apiConfigSource": {"apiType": "DELTA_GRPC", "transportApiVersion": "V3", "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}}`))
	own = b.GetDynamicResources().GetCdsConfig()
	ads = &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	return func(g *target, addr string) *Discovery { return start(t, b, addr, g) }, ads, own
}

func virtualHost(t *testing.T, name, domain string) *xds.Resource {
	t.Helper()
	return resource(t, name, &routev3.VirtualHost{Name: strings.ReplaceAll(name, "/", "."), Domains: []string{domain}})
}

// Partly proves XN-27, XN-22, XN-21: a first answer without any virtual host is
// one, hosts come by names that are not theirs, change and go, one that is refused
// is an answer too, and a route configuration may have slashes in its name.
func TestHostsOnDemand(t *testing.T) {
	for _, name := range []string{"ads", "own"} {
		t.Run(name, func(t *testing.T) {
			m := manage(t)
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{
				virtualHost(t, "a/rc/one", "one.example"), virtualHost(t, "other/one", "one.example"), resource(t, "a/rc/bad", &routev3.VirtualHost{Name: "bad", Domains: []string{"bad.example"}}),
			}})
			g := &target{}
			begin, source, own := deltaBootstrap(t)
			if name == "own" {
				source = own
			}
			d := begin(g, m.addr)
			d.Want(xds.VirtualHostType, "a/rc/", source)
			g.until(t, "answered a/rc: true")
			d.Want(xds.VirtualHostType, "a/rc/one.example", source)
			g.until(t, "hosts of a/rc: +a/rc/one")
			g.until(t, "resolved VirtualHost a/rc/one.example")
			d.Want(xds.VirtualHostType, "a/rc/none.example", source)
			g.until(t, "missing VirtualHost a/rc/none.example")
			d.Want(xds.VirtualHostType, "a/rc/bad.example", source)
			g.until(t, "refuse a/rc/bad of a/rc")
			g.until(t, "missing VirtualHost a/rc/bad.example")
			g.until(t, "answered a/rc: false")
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{virtualHost(t, "a/rc/late", "none.example")}})
			g.until(t, "hosts of a/rc: +a/rc/late")
			g.until(t, "resolved VirtualHost a/rc/none.example")
			// Another route configuration of the same source gets what is its own.
			d.Want(xds.VirtualHostType, "other/", source)
			g.until(t, "answered other: true")
			d.Want(xds.VirtualHostType, "other/one.example", source)
			g.until(t, "hosts of other: +other/one")
			m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.VirtualHostType, Name: "a/rc/one"}}})
			g.until(t, "hosts of a/rc: -a/rc/one")
			d.Unwant(xds.VirtualHostType, "other/one.example", source)
			d.Unwant(xds.VirtualHostType, "other/", source)
			d.Unwant(xds.VirtualHostType, "a/rc/", source)
			d.Want(xds.VirtualHostType, "again/", source)
			g.until(t, "answered again: true")
		})
	}
}

// Partly proves XN-27, XN-26: clusters are asked for by their names, without the
// others of the server, found or missing, and followed.
func TestClusterByName(t *testing.T) {
	m := manage(t)
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{
		resource(t, "a", &clusterv3.Cluster{Name: "a"}), resource(t, "other", &clusterv3.Cluster{Name: "other"}),
	}})
	for _, name := range []string{"ads", "own"} {
		t.Run(name, func(t *testing.T) {
			g := &target{}
			begin, source, own := deltaBootstrap(t)
			if name == "own" {
				source = own
			}
			d := begin(g, m.addr)
			d.Want(xds.ClusterType, "none", source)
			d.Want(xds.ClusterType, "a", source)
			g.until(t, "missing Cluster none")
			g.until(t, "set cluster a")
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "none", &clusterv3.Cluster{Name: "none"})}})
			g.until(t, "set cluster none")
			m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: "none"}}})
			g.until(t, "remove cluster none")
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, line := range g.log {
				if strings.Contains(line, "other") {
					t.Error(line)
				}
			}
		})
	}
}

// What can only be had by the incremental variant is refused of others, by name.
func TestDemandIsIncremental(t *testing.T) {
	b := bootstrap(t, dynamic("GRPC", `{"ads": {}}`))
	d := start(t, b, "127.0.0.1:1", &target{})
	_, ads, own := deltaBootstrap(t)
	for _, c := range []struct {
		source *corev3.ConfigSource
		typ    string
		want   string
	}{
		{ads, xds.VirtualHostType, "vhds: only 'DELTA_GRPC' or 'ADS' (which uses Delta xDS) is supported as a config source."},
		{ads, xds.ClusterType, "x: clusters are discovered on demand with delta xDS only"},
		{own, xds.VirtualHostType, ""},
		{own, xds.ClusterType, ""},
		{&corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{Path: "f"}}}, xds.VirtualHostType, "vhds: only"},
	} {
		err := d.Check("x", c.source, c.typ)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %v: %v, want %q", xds.Kind(c.typ), c.source, err, c.want)
		}
	}
}

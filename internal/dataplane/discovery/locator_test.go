package discovery

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// ofServer is a config source of a server, for an authority if it is given.
func ofServer(addr, authority string) string {
	names := ""
	if authority != "" {
		names = `"authorities": [{"name": "` + authority + `"}], `
	}
	return fmt.Sprintf(`{%s"apiConfigSource": {"apiType": "AGGREGATED_DELTA_GRPC", "transportApiVersion": "V3", "grpcServices": [{"googleGrpc": {"targetUri": %q, "statPrefix": "x"}}]}}`, names, addr)
}

const (
	clusterURN  = "xdstp://one/envoy.config.cluster.v3.Cluster/"
	listenerURN = "xdstp://two/envoy.config.listener.v3.Listener/"
	endpointURN = "xdstp://two/envoy.config.endpoint.v3.ClusterLoadAssignment/"
)

// Two authorities, two servers: clusters are a collection of one, listeners of the
// other by default, and endpoints follow their names to it, whatever the config
// source beside them says. Members come and go. Proves BS-32 with TestCollectionFile
// and TestLocatorsRefused. Proves XN-13 with TestNodeContext.
func TestAuthorities(t *testing.T) {
	one, two := manage(t), manage(t)
	one.apply(t, snapshot.Changes{Set: []*xds.Resource{
		resource(t, clusterURN+"shop/a", &clusterv3.Cluster{Name: clusterURN + "shop/a"}),
		resource(t, clusterURN+"other/b", &clusterv3.Cluster{Name: clusterURN + "other/b"}),
		resource(t, "plain", &clusterv3.Cluster{Name: "plain"}),
	}})
	two.apply(t, snapshot.Changes{Set: []*xds.Resource{
		resource(t, listenerURN+"l", &listenerv3.Listener{Name: listenerURN + "l"}),
		resource(t, endpointURN+"e", &endpointv3.ClusterLoadAssignment{ClusterName: endpointURN + "e"}),
	}})
	g := &target{}
	b := bootstrap(t, `{"node": {"id": "n"}, "dynamicResources": {"cdsResourcesLocator": "`+clusterURN+`shop/*", "ldsResourcesLocator": "`+listenerURN+`*"},
		"configSources": [`+ofServer(one.addr, "one")+`], "defaultConfigSource": `+ofServer(two.addr, "")+`}`)
	d := start(t, b, "", g)
	d.Clusters(t.Context())
	g.until(t, "set cluster "+clusterURN+"shop/a")
	d.Listeners(t.Context())
	g.until(t, "set listener "+listenerURN+"l")
	beside := &corev3.ConfigSource{ConfigSourceSpecifier: b.GetConfigSources()[0].GetConfigSourceSpecifier()}
	d.Want(xds.EndpointType, endpointURN+"e", beside)
	g.until(t, "set endpoints "+endpointURN+"e")
	one.apply(t, snapshot.Changes{
		Set:    []*xds.Resource{resource(t, clusterURN+"shop/c", &clusterv3.Cluster{Name: clusterURN + "shop/c"})},
		Remove: []xds.Key{{Type: xds.ClusterType, Name: clusterURN + "shop/a"}},
	})
	g.until(t, "set cluster "+clusterURN+"shop/c")
	g.until(t, "remove cluster "+clusterURN+"shop/a")
	d.Unwant(xds.EndpointType, endpointURN+"e", beside)
	given(t, two, xds.EndpointType)
	for _, line := range g.lines() {
		if strings.Contains(line, "other/b") || strings.Contains(line, "plain") {
			t.Errorf("%s is none of the collection", line)
		}
	}
}

// A list collection in a file is all there is of its type; the next one takes its
// place.
func TestCollectionFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clusters.yaml")
	write := func(name string) {
		t.Helper()
		text := `resource:
  "@type": type.googleapis.com/envoy.config.cluster.v3.ClusterCollection
  entries: {inline_entry: {name: ` + name + `, version: "1", resource: {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: ` + name + `}}}
`
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	g := &target{}
	d := start(t, bootstrap(t, `{"dynamicResources": {"cdsResourcesLocator": "file://`+path+`"}}`), "", g)
	d.Clusters(t.Context())
	g.until(t, "set cluster a")
	write("b")
	g.until(t, "set cluster b")
	g.until(t, "remove cluster a")
}

// Locators that lead nowhere are refused by their field.
func TestLocatorsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"dynamicResources": {"cdsResourcesLocator": "xdstp:///x"}}`:                                                                                    "dynamic_resources.cds_resources_locator: ",
		`{"dynamicResources": {"cdsResourcesLocator": "` + listenerURN + `*"}}`:                                                                          "cds_resources_locator: resource name",
		`{"dynamicResources": {"cdsResourcesLocator": "` + clusterURN + `a"}}`:                                                                           "is no collection: write a name that ends in /*, or that of a list",
		`{"dynamicResources": {"cdsResourcesLocator": "` + listURN + `#alt=` + clusterURN + `a"}}`:                                                       "alternatives (#alt=) are known but not built",
		`{"dynamicResources": {"cdsResourcesLocator": "` + clusterURN + `*"}}`:                                                                           `for the authority "one"`,
		`{"nodeContextParams": ["id", "locality"]}`:                                                                                                      `node_context_params[1]: "locality" is no field that can be a parameter`,
		`{"nodeContextParams": ["user_agent_build_version.version"]}`:                                                                                    "node_context_params[0]: ",
		`{"dynamicResources": {"ldsResourcesLocator": "file:///no/such/file.yaml"}}`:                                                                     "lds_resources_locator: path_config_source: path: there is no file",
		`{"dynamicResources": {"ldsResourcesLocator": "file://host/x"}}`:                                                                                 "lds_resources_locator: the locator",
		`{"configSources": [{"ads": {}}]}`:                                                                                                               "config_sources[0].ads",
		`{"defaultConfigSource": {"self": {}}}`:                                                                                                          "default_config_source.self",
		`{"dynamicResources": {"cdsResourcesLocator": "` + clusterURN + `*"}, "defaultConfigSource": {"pathConfigSource": {"path": "locator_test.go"}}}`: "delta xDS only",
	} {
		reg, err := stats.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Bootstrap: bootstrap(t, text), Stats: reg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v, want %s", text, err, want)
		}
	}
}

package xdsclient_test

import (
	"os"
	"path/filepath"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// inFiles is what a directory with a file serves.
func inFiles(t *testing.T, text string) snapshot.Changes {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, findings, err := file.Load(dir)
	for _, f := range findings {
		if f.Severity == validate.Error {
			t.Error(f)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Groups[file.DefaultGroup]
}

const filesWithLists = `
"@type": type.googleapis.com/envoy.service.discovery.v3.Resource
name: xdstp://a/envoy.config.cluster.v3.ClusterCollection/all
resource:
  "@type": type.googleapis.com/envoy.config.cluster.v3.ClusterCollection
  entries:
  - locator: {authority: a, resource_type: envoy.config.cluster.v3.Cluster, id: one}
  - locator: {authority: a, resource_type: envoy.config.cluster.v3.Cluster, id: two}
  - inline_entry:
      name: in
      resource: {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: in, alt_stat_name: inline, connect_timeout: 1s}
---
"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: xdstp://a/envoy.config.cluster.v3.Cluster/one
alt_stat_name: first
connect_timeout: 1s
---
"@type": type.googleapis.com/envoy.service.discovery.v3.Resource
name: xdstp://a/envoy.config.cluster.v3.Cluster/two
resource:
  "@type": type.googleapis.com/xds.core.v3.ResourceLocator
  authority: a
  resource_type: envoy.config.cluster.v3.Cluster
  id: elsewhere
---
"@type": type.googleapis.com/envoy.service.discovery.v3.Resource
name: xdstp://a/envoy.config.cluster.v3.Cluster/elsewhere
resource: {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: own, alt_stat_name: second, connect_timeout: 1s}
---
"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e
`

// Proves XN-09 with TestSotwList: in all variants, from files, structured names, list
// collections and redirects reach a client; who asks for everything gets neither of the
// latter. Partly proves XN-08, XN-10.
func TestListsAndRedirectsOfAServer(t *testing.T) {
	const prefix = "xdstp://a/envoy.config.cluster.v3.Cluster/"
	const all = "xdstp://a/envoy.config.cluster.v3.ClusterCollection/all"
	const eds = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e"
	m := serve(t)
	m.apply(inFiles(t, filesWithLists))
	test := func(t *testing.T, c xdsclient.Config) {
		c.Authorities = map[string]xdsclient.Authority{"a": {}}
		s := source(t, c)
		r, everything, single := newRecord(), newRecord(), newRecord()
		xdsclient.Watch(s, xdsclient.Clusters(), all, clusters(r))
		r.until(t, all+"#entry=in=inline")
		xdsclient.Watch(s, xdsclient.Clusters(), prefix+"two", clusters(single))
		single.until(t, prefix+"two=second")
		got, err := xdsclient.Fetch(t.Context(), s, xdsclient.Clusters(), all)
		if err != nil || len(got) != 3 || got[prefix+"two"].GetAltStatName() != "second" || got[prefix+"one"].GetAltStatName() != "first" {
			t.Errorf("fetched %v, %v", got, err)
		}
		xdsclient.Watch(s, xdsclient.Clusters(), xdsclient.Wildcard, xdsclient.Funcs[*clusterv3.Cluster]{
			Change:   func(u xdsclient.Update[*clusterv3.Cluster]) { everything.add("%s", u.Name) },
			Error:    func(name string, err error) { everything.add("%s: %v", name, err) },
			Response: func(r xdsclient.Response) { everything.add("response %v", r.Err) },
		})
		everything.until(t, "response <nil>")
		endpoints, err := xdsclient.Fetch(t.Context(), s, xdsclient.Endpoints(), eds)
		if err != nil || endpoints[eds] == nil {
			t.Errorf("fetched %v, %v", endpoints, err)
		}
	}
	variants(t, func(t *testing.T, c xdsclient.Config, dial dialer) {
		c.Servers = []xdsclient.Server{to("main", dial.to(m.addr))}
		test(t, c)
	})
}

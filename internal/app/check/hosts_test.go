package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/xebec-proxy/xebec/internal/app/check"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/xds"
)

// TestVirtualHostsExample loads the directory that docs/virtual-hosts.md is about
// and looks hosts up in it: alone in a file, in a list and in a Resource.
// Partly proves XN-21, XN-23.
func TestVirtualHostsExample(t *testing.T) {
	const dir = "../../../examples/virtualhosts"
	r, err := check.Paths([]string{dir}, check.Options{Strict: true})
	if err != nil || len(r.Findings) > 0 || r.Resources != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	batch, _, err := file.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := snapshot.New().With(batch.Groups["default"])
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"shop.example": "shop", "de.SHOP.example:8080": "shop", "blog.example": "blog", "old.example": "old", "nobody.example": "",
	} {
		got := ""
		if r := s.Host("edge-routes/" + host); r != nil {
			got = r.Name()
		}
		if want != "" {
			want = "edge-routes/" + want
		}
		if got != want {
			t.Errorf("%s leads to %q, want %q", host, got, want)
		}
	}
	if v := s.Set(xds.VirtualHostType).Get("edge-routes/old").Version(); v != "2" {
		t.Errorf("version %q of the one in a Resource", v)
	}
}

// TestVirtualHostsWithErrors checks what is said of mistakes, and where.
func TestVirtualHostsWithErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.yaml")
	err := os.WriteFile(name, []byte(`resources:
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: r
  vhds: {config_source: {ads: {}}}
- "@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
  name: bare
  domains: [x]
- "@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
  name: r/a
  domains: [x]
  routes: [{match: {prefix: /}, route: {cluster: gone}}]
- "@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
  name: r/b
  domains: [X]
- name: r/c
  resource:
    "@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
    name: c
    domains: [z]
- "@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
  name: other/d
  domains: [x]
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r, err := check.Paths([]string{name}, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, f := range r.Findings {
		got += fmt.Sprintf("%d:%d %s %s %s\n", f.Pos.Line, f.Pos.Column, f.Name, f.Path, f.Code)
	}
	const want = `6:3 bare name virtual-host-name
8:3 r/a routes[0].route.cluster missing-cluster
12:3 r/b domains domain-taken
18:5 r/c name virtual-host-name
20:3 other/d name virtual-host-without-vhds
`
	if got != want {
		t.Errorf("findings\n%swant\n%s", got, want)
	}
}

package xds_test

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/xds"
)

func TestHostsOfResources(t *testing.T) {
	own := []*routev3.VirtualHost{{Name: "v", Domains: []string{"b", "A", "b"}}, {Name: "w", Domains: []string{"*.c"}}}
	for name, c := range map[string]struct {
		m    proto.Message
		want *xds.Hosts
	}{
		"virtual host":   {own[0], &xds.Hosts{Domains: []string{"a", "b"}}},
		"no domains":     {&routev3.VirtualHost{Name: "v"}, &xds.Hosts{}},
		"without vhds":   {&routev3.RouteConfiguration{Name: "r", VirtualHosts: own}, nil},
		"with vhds":      {&routev3.RouteConfiguration{VirtualHosts: own, Vhds: &routev3.Vhds{}}, &xds.Hosts{Domains: []string{"*.c", "a", "b"}, OnDemand: true}},
		"ignoring ports": {&routev3.RouteConfiguration{Vhds: &routev3.Vhds{}, IgnorePortInHostMatching: true, MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(7)}, &xds.Hosts{OnDemand: true, IgnorePort: true}},
		"other":          {&routev3.ScopedRouteConfiguration{Name: "s"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := xds.Marshal("t/x", c.m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, r.Hosts()); diff != "" {
				t.Error(diff)
			}
		})
	}
	if h := xds.NewResource(xds.VirtualHostType, "t/x", []byte{0x12, 0x7f, 'x'}).Hosts(); len(h.Domains) > 0 {
		t.Errorf("domains %q of broken bytes", h.Domains)
	}
}

func TestNamesOfVirtualHosts(t *testing.T) {
	for name, want := range map[string][2]string{
		"t/h": {"t", "h"}, "a/b/h": {"a/b", "h"}, "t/[::1]:80": {"t", "[::1]:80"}, "t": {}, "t/": {}, "/h": {}, "": {},
	} {
		table, host, ok := xds.SplitHost(name)
		if [2]string{table, host} != want || ok != (want[0] != "") {
			t.Errorf("%q: %q, %q, %v", name, table, host, ok)
		}
	}
	for host, want := range map[string]string{
		"h": "h", "h:80": "h", "h:": "h:", "h:x": "h:x", "[::1]:80": "[::1]", "[::1]": "[::1]", "::1": "::1", ":80": "",
	} {
		if got := xds.WithoutPort(host); got != want {
			t.Errorf("%q without its port is %q", host, got)
		}
	}
}

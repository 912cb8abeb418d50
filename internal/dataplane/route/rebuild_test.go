package route

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter/header"
)

// growing are n virtual hosts, to which more are discovered.
func growing(n int) *routev3.RouteConfiguration {
	rc := &routev3.RouteConfiguration{Name: "r", Vhds: &routev3.Vhds{ConfigSource: &corev3.ConfigSource{}}}
	for i := range n {
		rc.VirtualHosts = append(rc.VirtualHosts, numbered(i, "c"))
	}
	return rc
}

func numbered(i int, cluster string) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: fmt.Sprint("h", i), Domains: []string{fmt.Sprint("h", i, ".example")}, Routes: []*routev3.Route{{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}}},
	}}}
}

// leads is where a table sends a request for a host.
func leads(t *testing.T, tab *Table, host string) string {
	t.Helper()
	var m header.Map
	c := context(&m)
	for _, f := range [][2]string{{":method", "GET"}, {":path", "/"}, {":authority", host}, {":scheme", "http"}} {
		m.Add(f[0], f[1])
	}
	if e := tab.Match(c); e != nil {
		return e.Cluster()
	}
	return "nowhere"
}

// A table that is built of the one before is what it would be anew: virtual hosts
// that have changed, come and gone are, those that are the same stay, and when
// anything else has changed all are built. The former table does not change.
func TestRebuild(t *testing.T) {
	first := growing(3)
	before, err := New(first, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := &routev3.RouteConfiguration{Name: "r", Vhds: proto.Clone(first.GetVhds()).(*routev3.Vhds)}
	next.VirtualHosts = []*routev3.VirtualHost{first.GetVirtualHosts()[0], numbered(1, "other"), numbered(3, "new")}
	after, err := Rebuild(before, next, nil)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string][2]string{
		"h0.example": {"c", "c"}, "h1.example": {"c", "other"}, "h2.example": {"c", "nowhere"}, "h3.example": {"nowhere", "new"},
	} {
		if got := [2]string{leads(t, before, host), leads(t, after, host)}; got != want {
			t.Errorf("%s leads to %v, want %v", host, got, want)
		}
	}
	if after.built[0] != before.built[0] {
		t.Error("a virtual host that is the same was built again")
	}
	if after.built[1] == before.built[1] {
		t.Error("a virtual host that has changed was not built again")
	}
	other := proto.Clone(next).(*routev3.RouteConfiguration)
	other.VirtualHosts, other.RequestHeadersToRemove = next.GetVirtualHosts(), []string{"x-gone"}
	changed, err := Rebuild(after, other, nil)
	if err != nil {
		t.Fatal(err)
	}
	if changed.built[0] == before.built[0] || changed.level == after.level {
		t.Error("virtual hosts of another route configuration are used")
	}
	twice := &routev3.RouteConfiguration{Name: "r", Vhds: first.GetVhds(), VirtualHosts: append(first.GetVirtualHosts()[:3:3], numbered(0, "c"))}
	if _, err := Rebuild(before, twice, nil); err == nil {
		t.Error("two virtual hosts of one domain are taken")
	}
}

// A change of one virtual host of many.
func BenchmarkRebuild(b *testing.B) {
	for _, n := range []int{100, 10000} {
		rc := growing(n)
		before, err := New(rc, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rc.VirtualHosts[0] = numbered(0, "c")
				if before, err = Rebuild(before, rc, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint(n, " anew"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New(rc, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

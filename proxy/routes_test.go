package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/proxy"
)

// discovered is small whose listener has its routes from elsewhere.
var discovered = func() string {
	i, j := strings.Index(small, "          route_config:"), strings.Index(small, "          http_filters:")
	return small[:i] + "          rds: {route_config_name: rc, config_source: {ads: {}, initial_fetch_timeout: 20s}}\n" + small[j:] + adminHere
}()

// saying are routes that answer by themselves.
func saying(name, text string) *routev3.RouteConfiguration {
	return routesTo(name, &routev3.Route{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
		Status: 200, Body: inline(text),
	}}})
}

// forwarding are routes to a cluster.
func forwarding(name, cluster string) *routev3.RouteConfiguration {
	return routesTo(name, &routev3.Route{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
	}}})
}

func routesTo(name string, to *routev3.Route) *routev3.RouteConfiguration {
	to.Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
		Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{to},
	}}}
}

// Partly proves XC-43: a listener waits for its routes. Proves RT-13: the listener waits for its routes, requests find those in
// force, and a bad configuration leaves the last good one.
func TestRoutesComeAndChange(t *testing.T) {
	s := newSource()
	r := begin(t, discovered, s.by)
	select {
	case <-r.Ready():
		t.Fatal("ready without routes")
	case <-time.After(30 * time.Millisecond):
	}
	if !s.all()["RouteConfiguration rc"] {
		t.Fatalf("wanted: %v", s.all())
	}
	res := r.Resources()
	must(t, res.SetRoutes(nil, saying("other", "other"), "0"))
	must(t, res.SetRoutes(ads(), saying("rc", "first"), "1"))
	<-r.Ready()
	r.expect(t, "", "200 first")
	must(t, res.SetRoutes(ads(), saying("rc", "first"), "2"))
	must(t, res.SetRoutes(ads(), saying("rc", "second"), "3"))
	r.expect(t, "", "200 second")
	bad := saying("rc", "third")
	bad.VirtualHosts = append(bad.VirtualHosts, bad.VirtualHosts[0])
	if err := res.SetRoutes(ads(), bad, "4"); err == nil || !strings.Contains(err.Error(), "virtual_hosts[1]") {
		t.Errorf("two virtual hosts of one name: %v", err)
	}
	r.expect(t, "", "200 second")
	must(t, res.SetRoutes(ads(), forwarding("rc", "later"), "5"))
	r.expect(t, "", "503 ")
	must(t, res.SetCluster(staticCluster("later", namedBackend(t, "late")), "1"))
	r.expect(t, "", "200 late")
	want := "http.in.rds.rc.config_reload: 3\nhttp.in.rds.rc.update_rejected: 1\nhttp.in.rds.rc.update_success: 4\n"
	if got := r.get(t, "/stats?filter=^http.in.rds.rc.(config_reload|update_success|update_rejected)$"); got != want {
		t.Errorf("statistics:\n%s", got)
	}
}

// Proves RT-13 and BS-25: after initial_fetch_timeout, or when there are no such
// routes, requests get 404.
func TestRoutesThatDoNotCome(t *testing.T) {
	r := start(t, strings.Replace(discovered, "20s", "0.01s", 1), newSource().by)
	r.expect(t, "", "404 ")
	if got := r.get(t, "/stats?filter=http.in.rds.rc.init_fetch_timeout"); got != "http.in.rds.rc.init_fetch_timeout: 1\n" {
		t.Error(got)
	}
	s := newSource()
	s.answer = func(r *proxy.Resources, typeURL, name string) { r.Missing(nil, typeURL, name) }
	r = start(t, strings.Replace(discovered, "20s", "0s", 1), s.by)
	r.expect(t, "", "404 ")
	must(t, r.Resources().SetRoutes(nil, saying("rc", "late"), "1"))
	r.expect(t, "", "200 late")
}

// Proves RT-14: routes that are discovered may name clusters that do not exist,
// unless they say that this is to be checked.
func TestDiscoveredRoutesAreCheckedIfTheySaySo(t *testing.T) {
	s := newSource()
	s.answer = func(r *proxy.Resources, _, name string) { _ = r.SetRoutes(nil, saying(name, "x"), "1") }
	r := start(t, discovered, s.by)
	rc := forwarding("rc", "nowhere")
	rc.ValidateClusters = yes()
	err := r.Resources().SetRoutes(nil, rc, "2")
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
	if got := fmt.Sprint(s.events); got != "[+RouteConfiguration rc]" {
		t.Error(got)
	}
}

package proxy_test

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// pushed is a version of routes: one leads to the hosts of the tunnels, another one
// changes each time.
func pushed(version int, timeout time.Duration) *routev3.RouteConfiguration {
	rc := saying("routes", fmt.Sprint(version))
	host := rc.GetVirtualHosts()[0]
	host.Routes[0].Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/version"}}
	host.Routes = append(host.Routes, &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "ws"}, Timeout: durationpb.New(timeout),
		}},
	})
	return rc
}

func tunnels(m *hcmv3.HttpConnectionManager) {
	m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{AllowConnect: true}
	m.UpgradeConfigs = []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}}
}

// Partly proves HC-46: websockets of HTTP/1 and HTTP/2 go on through 50 changes of routes and clusters, their own too, for longer
// than the timeout of their route. They are counted.
func TestUpgradesSurvivePushes(t *testing.T) {
	const pushes, timeout = 50, time.Second
	s := newSource()
	r := start(t, byHeader, s.by)
	res, at, up := r.Resources(), freeAddress(t), repeating(t)
	must(t, res.SetCluster(staticCluster("ws", up), "0"))
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(byRDS("routes"), tunnels))), "1"))
	must(t, res.SetRoutes(ads(), pushed(0, timeout), "0"))
	v := &serving{running: r, front: at}
	waitOpen(t, at)
	began := time.Now()
	one, two := v.upgraded(t, "/"), v.upgraded(t, "/")
	three, head := v.wsOver(t, true, "/")
	holds(t, head(), ":status: 200")
	for i := 1; i <= pushes; i++ {
		version := fmt.Sprint(i)
		must(t, res.SetRoutes(ads(), pushed(i, timeout+time.Duration(i)), version))
		other := staticCluster("other", up)
		other.ConnectTimeout = durationpb.New(time.Duration(i) * time.Second)
		must(t, res.SetCluster(other, version))
		if i%10 == 0 {
			own := staticCluster("ws", up)
			own.ConnectTimeout = durationpb.New(time.Duration(i) * time.Second)
			must(t, res.SetCluster(own, version))
			res.RemoveCluster("other")
		}
		becomes(t, at+"/version", version)
		one.echo("one " + version)
		says(t, three, three, "three "+version)
	}
	time.Sleep(time.Until(began.Add(timeout + timeout/2)))
	one.echo("one at last")
	two.echo("two at last")
	says(t, three, three, "three at last")
	v.counts(t, "http.dyn.downstream_cx_upgrades_total 3", "http.dyn.downstream_cx_upgrades_active 3", "cluster.ws.upstream_rq_timeout 0")
	_ = one.Close()
	v.counts(t, "http.dyn.downstream_cx_upgrades_total 3", "http.dyn.downstream_cx_upgrades_active 2")
	two.echo("two alone")
	_ = two.Close()
	_ = three.CloseWrite()
	v.counts(t, "http.dyn.downstream_cx_upgrades_total 3", "http.dyn.downstream_cx_upgrades_active 0")
}

package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/proxy"
)

func lazyScope(name, key, routes string) *routev3.ScopedRouteConfiguration {
	s := scopeOf(name, key, routes, nil)
	s.OnDemand = true
	return s
}

// askAs asks as a tenant, with a body unless that is empty.
func (r *running) askAs(t *testing.T, tenant, body string) chan string {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.Listeners()["front"][0], strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-To", tenant)
	out := make(chan string, 1)
	go func() {
		resp, err := r.client.Do(req)
		if err != nil {
			out <- err.Error()
			return
		}
		defer resp.Body.Close()
		var b [100]byte
		n, _ := resp.Body.Read(b[:])
		out <- fmt.Sprint(resp.StatusCode, " ", string(b[:n]))
	}()
	return out
}

const scopeGauges = "/stats?filter=scoped_rds.tenants.(active|all|on_demand)_scopes"

func gauges(active, all, lazy int) string {
	const p = "http.in.scoped_rds.tenants."
	return fmt.Sprintf(p+"active_scopes: %d\n"+p+"all_scopes: %d\n"+p+"on_demand_scopes: %d\n", active, all, lazy)
}

// Partly proves RT-11: the routes of a scope with on_demand are asked for when a
// request needs them, which the on_demand filter holds meanwhile.
func TestScopesOnDemand(t *testing.T) {
	s := newSource()
	r := begin(t, strings.Replace(scopedDiscovered, "http_filters:\n", `http_filters:
          - {name: demand, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand}}
`, 1), s.by)
	res := r.Resources()
	must(t, res.SetScopedRoutes(nil, scopeList{
		scopeOf("eager", "e", "re", nil), lazyScope("one", "a", "ra"), lazyScope("two", "b", "rb"), lazyScope("three", "c", "rc"), lazyScope("shared", "s", "re"),
	}, nil, "1"))
	must(t, res.SetRoutes(nil, saying("re", "E"), "1"))
	<-r.Ready()
	r.expect(t, "e", "200 E")
	r.expect(t, "s", "200 E") // somebody has them already
	s.wants(t, "map[RouteConfiguration re:true ScopedRouteConfiguration *:true]")
	if got, want := r.get(t, scopeGauges), gauges(2, 5, 4); got != want {
		t.Errorf("statistics:\n%s, want\n%s", got, want)
	}
	waiting := []chan string{r.askAs(t, "a", ""), r.askAs(t, "a", ""), r.askAs(t, "a", "body")}
	s.wants(t, "map[RouteConfiguration ra:true RouteConfiguration re:true ScopedRouteConfiguration *:true]")
	must(t, res.SetRoutes(nil, saying("ra", "A"), "1"))
	for _, w := range waiting {
		if got := <-w; got != "200 A" {
			t.Errorf("a request that has waited: %q", got)
		}
	}
	if got, want := r.get(t, scopeGauges), gauges(3, 5, 4); got != want {
		t.Errorf("statistics:\n%s, want\n%s", got, want)
	}
	must(t, res.SetRoutes(nil, saying("ra", "A2"), "2"))
	r.expect(t, "a", "200 A2")
	// What is followed needs no asking under another key.
	must(t, res.SetScopedRoutes(nil, scopeList{lazyScope("one", "d", "ra")}, nil, "2"))
	r.expect(t, "d", "200 A2")
	r.expect(t, "a", "404 ")
	// Routes that do not exist, and a scope that goes.
	missing := r.askAs(t, "b", "")
	s.wants(t, "map[RouteConfiguration ra:true RouteConfiguration rb:true RouteConfiguration re:true ScopedRouteConfiguration *:true]")
	res.Missing(nil, proxy.RouteType, "rb")
	if got := <-missing; got != "404 " {
		t.Errorf("routes that do not exist: %q", got)
	}
	gone := r.askAs(t, "c", "")
	s.wants(t, "map[RouteConfiguration ra:true RouteConfiguration rb:true RouteConfiguration rc:true RouteConfiguration re:true ScopedRouteConfiguration *:true]")
	must(t, res.SetScopedRoutes(nil, nil, []string{"two", "three"}, "3"))
	if got := <-gone; got != "404 " {
		t.Errorf("a scope that has gone: %q", got)
	}
	s.wants(t, "map[RouteConfiguration ra:true RouteConfiguration re:true ScopedRouteConfiguration *:true]")
	if got, want := r.get(t, scopeGauges), gauges(3, 3, 2); got != want {
		t.Errorf("statistics:\n%s, want\n%s", got, want)
	}
}

// Partly proves RT-11: without the filter nobody asks.
func TestScopesOnDemandWithoutTheFilter(t *testing.T) {
	s := newSource()
	r := begin(t, scopedDiscovered, s.by)
	must(t, r.Resources().SetScopedRoutes(nil, scopeList{lazyScope("one", "a", "ra")}, nil, "1"))
	<-r.Ready()
	r.expect(t, "a", "404 ")
	s.wants(t, "map[ScopedRouteConfiguration *:true]")
}

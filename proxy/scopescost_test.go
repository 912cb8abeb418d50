//go:build unix

package proxy_test

import (
	"fmt"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/proxy"
)

// numberedHost is one virtual host of many.
func numberedHost(i int, body string) *routev3.VirtualHost {
	v := saying("", body).GetVirtualHosts()[0]
	v.Name, v.Domains = fmt.Sprint("h", i), []string{fmt.Sprint("h", i, ".example")}
	return v
}

// manyHosts is a route configuration with n virtual hosts.
func manyHosts(n int, body string) *routev3.RouteConfiguration {
	rc := &routev3.RouteConfiguration{Name: "r"}
	for i := range n {
		rc.VirtualHosts = append(rc.VirtualHosts, numberedHost(i, body))
	}
	return rc
}

// scopesInForce is a proxy with n scopes; routes says which route configuration
// each has.
func scopesInForce(b testing.TB, n int, routes func(int) string) *proxy.Resources {
	b.Helper()
	res := begin(b, scopedDiscovered, newSource().by).Resources()
	list := make(scopeList, n)
	for i := range list {
		list[i] = scopeOf(fmt.Sprint("s", i), fmt.Sprint("k", i), routes(i), nil)
	}
	must(b, res.SetScopedRoutes(nil, list, nil, "1"))
	return res
}

// each reports the processor time of an operation, that of workers as well.
func each(b *testing.B, do func(i int)) {
	b.Helper()
	b.ReportAllocs()
	cpu, i := used(), 0
	for b.Loop() {
		i++
		do(i)
	}
	b.ReportMetric(float64((used()-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
}

func shared(int) string  { return "r" }
func own(i int) string   { return fmt.Sprint("r", i) }
func later(i int) string { return fmt.Sprint("later", i) }

// BenchmarkOneScopeOfMany changes one scope among many.
func BenchmarkOneScopeOfMany(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint("routes/", n), func(b *testing.B) {
			res := scopesInForce(b, n, own)
			for i := range n {
				must(b, res.SetRoutes(nil, saying(own(i), "x"), "1"))
			}
			each(b, func(i int) {
				must(b, res.SetScopedRoutes(nil, scopeList{scopeOf("s7", "k7", own(7+i%2), nil)}, nil, fmt.Sprint(i)))
			})
		})
		b.Run(fmt.Sprint("key/", n), func(b *testing.B) {
			res := scopesInForce(b, n, shared)
			must(b, res.SetRoutes(nil, saying("r", "x"), "1"))
			each(b, func(i int) {
				must(b, res.SetScopedRoutes(nil, scopeList{scopeOf("s7", fmt.Sprint("l", i%2), "r", nil)}, nil, fmt.Sprint(i)))
			})
		})
		b.Run(fmt.Sprint("content of its routes/", n), func(b *testing.B) {
			res := scopesInForce(b, n, own)
			for i := range n {
				must(b, res.SetRoutes(nil, saying(own(i), "x"), "1"))
			}
			each(b, func(i int) { must(b, res.SetRoutes(nil, saying(own(7), fmt.Sprint(i)), fmt.Sprint(i))) })
		})
		// All the others wait for other routes that have not come.
		b.Run(fmt.Sprint("beside waiting/", n), func(b *testing.B) {
			res := scopesInForce(b, n, own)
			for i := range n {
				must(b, res.SetRoutes(nil, saying(own(i), "x"), "1"))
			}
			list := make(scopeList, n-1)
			for i := range list {
				list[i] = scopeOf(fmt.Sprint("s", i+1), fmt.Sprint("k", i+1), later(i+1), nil)
			}
			must(b, res.SetScopedRoutes(nil, list, nil, "2"))
			each(b, func(i int) { must(b, res.SetRoutes(nil, saying(own(0), fmt.Sprint(i)), fmt.Sprint(i))) })
		})
	}
}

// BenchmarkManyScopes brings all scopes and their routes.
func BenchmarkManyScopes(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			each(b, func(int) {
				res := scopesInForce(b, n, own)
				for i := range n {
					must(b, res.SetRoutes(nil, saying(own(i), "x"), "1"))
				}
			})
		})
	}
}

// hostsOfScopes is a proxy with n scopes, all with the same routes, which have n
// discovered virtual hosts.
func hostsOfScopes(b testing.TB, n int) *proxy.Resources {
	b.Helper()
	res := scopesInForce(b, n, shared)
	must(b, res.SetRoutes(nil, &routev3.RouteConfiguration{Name: "r", Vhds: &routev3.Vhds{ConfigSource: ads()}}, "1"))
	list := make([]proxy.VirtualHost, n)
	for i := range list {
		list[i] = proxy.VirtualHost{Name: fmt.Sprint("r/h", i), Config: numberedHost(i, "x")}
	}
	must(b, res.SetVirtualHosts(nil, "r", list))
	return res
}

// Partly proves RT-11, RT-12: of the routes of scopes only the virtual host that has
// changed is built again.
func TestOneHostOfScopesIsBuiltAlone(t *testing.T) {
	const n = 2000
	res, i := hostsOfScopes(t, n), 0
	allocs := testing.AllocsPerRun(5, func() {
		i++
		must(t, res.SetVirtualHosts(nil, "r", []proxy.VirtualHost{{Name: "r/h7", Config: numberedHost(7, fmt.Sprint(i))}}))
	})
	if allocs > n {
		t.Errorf("a change of one of %d virtual hosts allocates %v times", n, allocs)
	}
}

// BenchmarkOneHostOfScopes changes one virtual host of a route configuration that
// many scopes use.
func BenchmarkOneHostOfScopes(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint("vhds/", n), func(b *testing.B) {
			res := hostsOfScopes(b, n)
			each(b, func(i int) {
				must(b, res.SetVirtualHosts(nil, "r", []proxy.VirtualHost{{Name: "r/h7", Config: numberedHost(7, fmt.Sprint(i))}}))
			})
		})
		b.Run(fmt.Sprint("rds/", n), func(b *testing.B) {
			res := scopesInForce(b, n, shared)
			rc := manyHosts(n, "x")
			must(b, res.SetRoutes(nil, rc, "1"))
			each(b, func(i int) {
				b.StopTimer()
				next := manyHosts(n, "x")
				next.VirtualHosts[7] = numberedHost(7, fmt.Sprint(i))
				b.StartTimer()
				must(b, res.SetRoutes(nil, next, fmt.Sprint(i)))
			})
		})
	}
}

package proxy_test

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// scoping is a proxy under load whose scopes change at random: always there is
// one for each method, under any name, with routes that have come or come later.
type scoping struct {
	*scene
	at     string
	scopes map[string]string // method to the name of its scope
	other  []string          // scopes that nobody uses
	routes []string          // route configurations, some of which have not come
}

func newScoping(t *testing.T, seed uint64) *scoping {
	t.Helper()
	s := &scoping{
		scene: &scene{t: t, random: rand.New(rand.NewPCG(seed, 2)), stop: make(chan struct{}), release: make(chan struct{})},
		at:    freeAddress(t), scopes: map[string]string{},
	}
	for range 2 {
		s.backends = append(s.backends, s.backend())
	}
	s.r = start(t, byHeader, newSource().by, func(f *proxyrun.Flags, _ *proxy.Options) { f.Concurrency = 2 })
	s.res = s.r.Resources()
	for _, name := range []string{"a", "b"} {
		must(t, s.res.SetCluster(staticCluster(name, s.backends...), s.next()))
	}
	s.listen()
	must(t, s.res.SetScopedRoutes(nil, scopeList{s.scopeFor("POST"), s.scopeFor("GET")}, nil, s.next()))
	s.fetch()
	waitOpen(t, s.at)
	return s
}

// listen replaces the listener.
func (s *scoping) listen() {
	l := listenerAt("scoped", s.at, chainOf(manager(byScopes)))
	l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(1<<20 + uint32(s.random.IntN(1000)))
	must(s.t, s.res.SetListener(l, s.next()))
}

// table are routes to one of the clusters.
func (s *scoping) table(name string) *routev3.RouteConfiguration {
	rc := forwarding(name, []string{"a", "b"}[s.random.IntN(2)])
	rc.VirtualHosts[0].Name = "v" + s.next()
	return rc
}

// scopeFor makes a scope of a new name for a method, or of the one it has.
func (s *scoping) scopeFor(method string) *routev3.ScopedRouteConfiguration {
	if s.scopes[method] == "" || s.random.IntN(2) == 0 {
		s.scopes[method] = "scope" + s.next()
	}
	return s.leading(s.scopes[method], method)
}

// leading is a scope with routes of its own, with some that have come, or with
// some that have not.
func (s *scoping) leading(name, key string) *routev3.ScopedRouteConfiguration {
	if s.random.IntN(3) == 0 {
		return scopeOf(name, key, "", s.table("own"))
	}
	if len(s.routes) == 0 || s.random.IntN(2) == 0 {
		s.routes = append(s.routes, "routes"+s.next())
	}
	return scopeOf(name, key, s.routes[s.random.IntN(len(s.routes))], nil)
}

// fetch brings all routes.
func (s *scoping) fetch() {
	for _, name := range s.routes {
		must(s.t, s.res.SetRoutes(nil, s.table(name), s.next()))
	}
	s.routes = s.routes[max(0, len(s.routes)-3):]
}

// exchange makes new scopes of both methods; what was theirs goes.
func (s *scoping) exchange() {
	before := []string{s.scopes["GET"], s.scopes["POST"]}
	if s.random.IntN(2) == 0 {
		s.scopes["GET"], s.scopes["POST"] = s.scopes["POST"], s.scopes["GET"]
	}
	set := scopeList{s.scopeFor("POST"), s.scopeFor("GET")}
	if s.scopes["GET"] == s.scopes["POST"] {
		s.t.Fatal("one scope for two methods")
	}
	must(s.t, s.res.SetScopedRoutes(nil, set, s.gone(before), s.next()))
}

func (s *scoping) gone(names []string) []string {
	var out []string
	for _, n := range names {
		if n != s.scopes["GET"] && n != s.scopes["POST"] {
			out = append(out, n)
		}
	}
	return out
}

// one changes one of the scopes.
func (s *scoping) one() {
	method := []string{"GET", "POST"}[s.random.IntN(2)]
	before := s.scopes[method]
	set := scopeList{s.scopeFor(method)}
	must(s.t, s.res.SetScopedRoutes(nil, set, s.gone([]string{before}), s.next()))
}

// others come and go.
func (s *scoping) others() {
	if len(s.other) > 3 {
		must(s.t, s.res.SetScopedRoutes(nil, nil, s.other, s.next()))
		s.other = nil
		return
	}
	name := "other" + s.next()
	s.other = append(s.other, name)
	must(s.t, s.res.SetScopedRoutes(nil, scopeList{s.leading(name, name)}, nil, s.next()))
}

// wrong is refused, with all that came with it.
func (s *scoping) wrong() {
	if err := s.res.SetScopedRoutes(nil, scopeList{scopeOf("new", "GET", "", s.table("own")), scopeOf(s.scopes["POST"], "other", "", s.table("own"))}, nil, s.next()); err == nil {
		s.t.Error("two scopes of one key were taken")
	}
}

// Partly proves RT-11 under load: while scopes exchange their keys, change
// their routes, are renamed, come and go, and their listener is replaced, no
// request fails.
func TestScopesLoseNothing(t *testing.T) {
	s := newScoping(t, uint64(time.Now().UnixNano()))
	url := "http://" + s.at
	s.load("HTTP/1", url, &http.Transport{})
	s.load("HTTP/2", url, h2c())
	s.load("new connections", url, &http.Transport{DisableKeepAlives: true})
	s.download(s.at)
	changes := 1000
	if testing.Short() {
		changes = 200
	}
	all := []func(){s.exchange, s.exchange, s.one, s.one, s.others, s.wrong, s.fetch, s.listen}
	for range changes {
		all[s.random.IntN(len(all))]()
		time.Sleep(time.Duration(s.random.IntN(4)) * time.Millisecond)
	}
	close(s.release)
	close(s.stop)
	s.work.Wait()
	t.Logf("%d requests, %d failed, %d changes", s.done.Load(), s.failed.Load(), changes)
	if s.done.Load() < int64(changes) {
		t.Error("too few requests to tell")
	}
}

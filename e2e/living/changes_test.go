//go:build interop

package living

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/internal/testpeer"
	"github.com/xebec-proxy/xebec/xds"
)

// change is a kind of edit: one or several steps, of which each must be in force
// before the next if nothing else keeps their order.
type change struct {
	name  string
	steps func() []func()
}

func step(f func()) []func() { return []func(){f} }

func (s *scene) changes() []change {
	return []change{
		{"routes", func() []func() { return step(func() { s.routes([]string{"main", "kept"}[s.w.random.IntN(2)]) }) }},
		{"cluster", func() []func() { return step(s.changeCluster) }},
		{"breakers", func() []func() { return step(s.changeBreakers) }},
		{"endpoints", func() []func() { return step(s.changeEndpoints) }},
		{"endpoints", func() []func() { return step(s.changeEndpoints) }},
		{"chain", func() []func() { return step(s.changeChain) }},
		{"listener", func() []func() { return step(s.changeListener) }},
		{"certificate", func() []func() {
			return step(func() { s.certificate([]string{"cert", "kept-cert"}[s.w.random.IntN(2)]) })
		}},
		{"move", s.moveCluster},
		{"bring back", s.bringBack},
		{"unused", func() []func() { return step(s.changeUnused) }},
		{"second listener", s.changeSecond},
		{"wrong", s.changeWrong},
		{"broken file", s.breakFile},
		{"everything", func() []func() { return step(s.changeEverything) }},
	}
}

// change makes one change.
func (s *scene) change() {
	s.t.Helper()
	all := s.changes()
	c := all[s.w.random.IntN(len(all))]
	if s.restarts && c.name == "broken file" {
		return
	}
	s.kinds[c.name]++
	ordered := s.w.variant.ordered
	together := ordered && s.w.chance(2)
	for i, f := range c.steps() {
		if i > 0 && !ordered {
			s.converge()
		}
		f()
		s.load.happened(fmt.Sprintf("%s, step %d", c.name, i))
		if !together {
			s.write()
		}
	}
	if together {
		s.write()
	}
}

func (s *scene) role() role {
	all := s.roles()
	return all[s.w.random.IntN(len(all))]
}

func (s *scene) next(prefix string) string {
	s.names++
	return fmt.Sprint(prefix, s.names)
}

func (s *scene) changeCluster() {
	r := s.role()
	s.w.set(s.w.makeCluster(*r.name, r.protocol))
}

func (s *scene) changeBreakers() {
	c := s.w.cluster(*s.role().name)
	c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
		{MaxRequests: wrapperspb.UInt32(uint32(s.w.between(1000, 1000)))}, //nolint:gosec // small
	}}
	s.w.set(c)
}

func (s *scene) changeEndpoints() { s.w.set(s.w.assignment("svc-" + *s.role().name)) }

// changeChain changes nothing but a filter chain.
func (s *scene) changeChain() {
	if s.w.chance(2) {
		l := s.w.listener("main")
		l.FilterChains[0] = s.w.chain(s.next("main"), "main")
		s.w.set(l)
		return
	}
	l := s.w.listener("secure")
	l.FilterChains[0] = s.w.overTLS(s.next("secure"), "main", "cert")
	s.w.set(l)
}

// changeListener replaces a listener.
func (s *scene) changeListener() {
	l := s.w.listener([]string{"main", "secure"}[s.w.random.IntN(2)])
	s.w.replace(l)
	s.w.set(l)
}

// moveCluster adds a cluster, leads traffic to it, and removes the one before.
func (s *scene) moveCluster() []func() {
	r := s.role()
	before, after := *r.name, s.next("moved")
	return []func(){
		func() {
			s.w.set(s.w.assignment("svc-" + after))
			s.w.set(s.w.makeCluster(after, r.protocol))
		},
		func() {
			*r.name = after
			s.routes("main")
			s.routes("kept")
		},
		func() {
			s.w.remove(xds.ClusterType, before)
			s.w.remove(xds.EndpointType, "svc-"+before)
		},
	}
}

// bringBack removes a cluster that nobody uses any more, and brings another one
// of its name.
func (s *scene) bringBack() []func() {
	to := []*[2]string{&s.to.plain, &s.to.rpc}
	kind := s.w.random.IntN(2)
	pair, p := to[kind], []protocol{anyProtocol, http2}[kind]
	name, other := pair[0], pair[1]
	lead := func(first string) func() {
		return func() {
			pair[0] = first
			s.routes("main")
			s.routes("kept")
		}
	}
	return []func(){
		lead(other),
		func() { s.w.remove(xds.ClusterType, name) },
		func() { s.w.set(s.w.makeCluster(name, p)) },
		lead(name),
	}
}

// changeUnused adds or removes what no request uses.
func (s *scene) changeUnused() {
	if len(s.extra) > 0 && s.w.chance(2) {
		name := s.extra[0]
		s.extra = s.extra[1:]
		s.w.remove(xds.ClusterType, name)
		s.w.remove(xds.EndpointType, "svc-"+name)
		s.w.remove(xds.ListenerType, name)
		return
	}
	name := s.next("unused")
	s.extra = append(s.extra, name)
	s.w.set(s.w.assignment("svc-" + name))
	s.w.set(s.w.makeCluster(name, anyProtocol))
	s.w.set(listenerAt(name, harness.FreePort(s.t), s.w.chain(name, "main")))
}

// changeSecond adds a listener, or removes it while it answers a request.
func (s *scene) changeSecond() []func() {
	if !s.second {
		return step(func() {
			s.second = true
			// Not as before: else converge could take one whose removal has not come yet for it.
			s.w.set(listenerAt("second", s.ports.second, s.w.chain(s.next("second"), "kept")))
		})
	}
	s.converge()
	url := fmt.Sprintf("http://localhost:%d/slow", s.ports.second)
	sent := make(chan struct{})
	var once sync.Once
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { once.Do(func() { close(sent) }) },
	})
	s.load.work.Go(func() {
		defer once.Do(func() { close(sent) })
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		if err := testpeer.Post(ctx, &http.Client{Transport: tr, Timeout: 20 * time.Second}, url, 1000); err != nil {
			s.load.failure("request on a listener that is removed", err)
		}
		s.load.counted("removed listener")
	})
	<-sent // whether the proxy has seen it or not
	return step(func() {
		s.second = false
		s.w.remove(xds.ListenerType, "second")
	})
}

func (s *scene) changeEverything() {
	for range 3 {
		s.changeCluster()
	}
	for range 4 {
		s.changeEndpoints()
	}
	s.changeChain()
	s.changeListener()
	s.certificate("cert")
	s.certificate("kept-cert")
	s.routes("main")
	s.routes("kept")
}

// changeWrong puts something wrong in the place of something good for a while.
func (s *scene) changeWrong() []func() {
	s.converge() // so that what is good was seen
	name := *s.role().name
	kinds := []func(){
		func() { // not built
			c := s.w.cluster(name)
			c.LrsServer = &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
			s.w.setWrong(c)
		},
		func() { // an address of another machine
			l := listenerAt("elsewhere", 1234, s.w.chain("elsewhere", "main"))
			l.GetAddress().GetSocketAddress().Address = "192.0.2.1"
			s.w.setWrong(l)
		},
		func() { // no cluster of this name
			rc := s.w.makeRoutes("main", &targets{plain: [2]string{"none", "none"}, rpc: s.to.rpc, ws: s.to.ws, long: s.to.long})
			rc.ValidateClusters = wrapperspb.Bool(true)
			s.w.setWrong(rc)
		},
		func() { // no chains
			l := s.w.listener("main")
			l.FilterChains = nil
			s.w.setWrong(l)
		},
		func() { // a second one of the same address
			s.w.setWrong(listenerAt("double", s.ports.main, s.w.chain("double", "main")))
		},
	}
	if s.restarts {
		kinds = kinds[:2]
	}
	return []func(){kinds[s.w.random.IntN(len(kinds))], func() { clear(s.w.wrong) }}
}

// breakFile leaves the end of a file out for a while.
func (s *scene) breakFile() []func() {
	s.converge()
	return []func(){
		func() {
			files := s.w.variant.layout(s.w.held)
			names := sortedNames(files)
			name := names[s.w.random.IntN(len(names))]
			s.mangled = map[string][]byte{name: files[name][:len(files[name])/2]}
		},
		func() { s.mangled = nil },
	}
}

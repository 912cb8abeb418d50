package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/proxy"
)

// onDemand is discovered with the on_demand filter, and two workers' worth of
// backends.
func onDemand(config string) string {
	return strings.Replace(discovered, "          http_filters:\n", `          http_filters:
          - name: on_demand
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand`+config+`}
`, 1)
}

// host is a virtual host that answers by itself.
func host(name, text string, domains ...string) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: name, Domains: domains, Routes: saying("", text).GetVirtualHosts()[0].GetRoutes()}
}

// growing are routes to which virtual hosts are discovered.
func growing(own ...*routev3.VirtualHost) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: "rc", VirtualHosts: own, Vhds: &routev3.Vhds{ConfigSource: ads()}}
}

// bring is the discovery of a virtual host.
func bring(t testing.TB, res *proxy.Resources, hosts ...*routev3.VirtualHost) {
	t.Helper()
	var list []proxy.VirtualHost
	for _, h := range hosts {
		list = append(list, proxy.VirtualHost{Name: "rc/" + h.GetName(), Version: "1", Config: h})
	}
	must(t, res.SetVirtualHosts(ads(), "rc", list))
}

// serveHosts starts a proxy with discovered virtual hosts.
func serveHosts(t *testing.T, s *source, config string, own ...*routev3.VirtualHost) *running {
	t.Helper()
	r := begin(t, onDemand(config), s.by)
	s.waits(t, "RouteConfiguration rc")
	must(t, r.Resources().SetRoutes(ads(), growing(own...), "1"))
	s.waits(t, "VirtualHost rc/")
	select {
	case <-r.Ready():
		t.Error("ready before the first answer about virtual hosts")
	case <-time.After(20 * time.Millisecond):
	}
	r.Resources().Answered(ads(), "rc", "1", nil)
	<-r.Ready()
	return r
}

// waits waits until something is wanted.
func (s *source) waits(t testing.TB, key string) {
	t.Helper()
	for range 2000 {
		if s.all()[key] {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("%s is not wanted; wanted is %v", key, s.all())
}

// gone waits until something is not wanted any more.
func (s *source) gone(t testing.TB, key string) {
	t.Helper()
	for range 2000 {
		if !s.all()[key] {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("%s is still wanted", key)
}

// of asks for a path of a host.
func (r *running) of(t testing.TB, host, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Listeners()["front"][0]+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	req.Host = host
	if body == "" {
		req.Method, req.Body = http.MethodGet, nil
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, b)
}

// later asks at once, and gives the answer when it is there.
func (r *running) later(t testing.TB, host, path, body string) <-chan string {
	out := make(chan string, 1)
	go func() { out <- r.of(t, host, path, body) }()
	return out
}

func (r *running) stat(t testing.TB, name string) string {
	t.Helper()
	resp, err := r.client.Get("http://" + r.AdminAddress() + "/stats?filter=^" + strings.ReplaceAll(name, ".", "\\.") + "$")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	_, v, _ := strings.Cut(strings.TrimSpace(string(b)), ": ")
	return v
}

// becomesStat waits for a statistic.
func (r *running) becomesStat(t testing.TB, name, want string) {
	t.Helper()
	got := ""
	for range 2000 {
		if got = r.stat(t, name); got == want {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("%s is %q, want %q", name, got, want)
}

func same(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// Proves RT-12 and HF-38: virtual hosts are asked for by the request's host, with its port
// and in lower case; those of the route configuration win; they change and go at
// one stroke; a new route configuration keeps them; the first request to a host
// succeeds.
func TestVirtualHostsOnDemand(t *testing.T) {
	s := newSource()
	r := serveHosts(t, s, "", host("own", "own", "own.example"))
	res := r.Resources()
	same(t, "its own", r.of(t, "own.example", "/", ""), "200 own")

	first, second := r.later(t, "A.Example:80", "/", ""), r.later(t, "a.example:80", "/", "")
	s.waits(t, "VirtualHost rc/a.example:80")
	r.becomesStat(t, "http.in.downstream_rq_active", "2")
	bring(t, res, host("a", "a", "a.example:80", "more.example"))
	res.Resolved(ads(), proxy.VirtualHostType, "rc/a.example:80")
	same(t, "asked for", <-first, "200 a")
	same(t, "asked for at the same time", <-second, "200 a")
	same(t, "another domain", r.of(t, "more.example", "/", ""), "200 a")

	none := r.later(t, "none.example", "/", "")
	s.waits(t, "VirtualHost rc/none.example")
	res.Missing(ads(), proxy.VirtualHostType, "rc/none.example")
	same(t, "there is none", <-none, "404 ")
	s.gone(t, "VirtualHost rc/none.example")

	err := res.SetVirtualHosts(ads(), "rc", []proxy.VirtualHost{
		{Name: "rc/thief", Config: host("thief", "thief", "thief.example", "own.example")},
		{Name: "rc/a", Config: host("a", "changed", "a.example:80")},
	})
	if err == nil || !strings.Contains(err.Error(), "Only unique values for domains are permitted. Duplicate entry of domain own.example in route rc") {
		t.Errorf("a domain of its own: %v", err)
	}
	same(t, "nothing has changed", r.of(t, "more.example", "/", ""), "200 a")
	same(t, "nor here", r.of(t, "own.example", "/", ""), "200 own")

	// A domain moves from one to another.
	bring(t, res, host("a", "a2", "a.example:80"), host("b", "b", "more.example"))
	r.becomesOf(t, "more.example", "200 b")
	same(t, "at one stroke", r.of(t, "a.example:80", "/", ""), "200 a2")
	must(t, res.SetRoutes(ads(), growing(host("own", "own2", "own.example")), "2"))
	r.becomesOf(t, "own.example", "200 own2")
	same(t, "kept", r.of(t, "more.example", "/", ""), "200 b")
	must(t, res.SetVirtualHosts(ads(), "rc", []proxy.VirtualHost{{Name: "rc/a"}}))
	r.becomesOf(t, "a.example:80", "404 ")

	if err := res.SetRoutes(ads(), growing(host("own", "own3", "more.example")), "3"); err == nil {
		t.Error("routes with a domain that was discovered are taken")
	}
	same(t, "the routes that were", r.of(t, "own.example", "/", ""), "200 own2")
	plain := growing(host("own", "own4", "own.example"))
	plain.Vhds = nil
	must(t, res.SetRoutes(ads(), plain, "4"))
	r.becomesOf(t, "own.example", "200 own4")
	same(t, "without vhds", r.of(t, "more.example", "/", ""), "404 ")
	if got := s.all(); len(got) != 1 || !got["RouteConfiguration rc"] {
		t.Errorf("still wanted: %v", got)
	}
	n := 0
	for _, e := range s.log() {
		if e == "+VirtualHost rc/a.example:80" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("a host was asked for %d times", n)
	}
}

func (s *source) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (r *running) becomesOf(t testing.TB, host, want string) {
	t.Helper()
	got := ""
	for range 2000 {
		if got = r.of(t, host, "/", ""); got == want {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("%s: %q, want %q", host, got, want)
}

// finding gives every host and cluster that is asked for at once.
func finding(t testing.TB, backend string) *source {
	s := newSource()
	s.answer = func(r *proxy.Resources, typeURL, name string) {
		table, what, _ := strings.Cut(name, "/")
		switch {
		case typeURL == proxy.VirtualHostType && what != "" && !strings.HasPrefix(what, "silent"):
			h := host(what, what, what)
			h.Routes = forwarding("", "one").GetVirtualHosts()[0].GetRoutes()
			if to, ok := strings.CutPrefix(what, "to-"); ok {
				h.Routes[0].GetRoute().ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: to}
			}
			must(t, r.SetVirtualHosts(ads(), table, []proxy.VirtualHost{{Name: name, Config: h}}))
			r.Resolved(ads(), typeURL, name)
		case typeURL == proxy.ClusterType && strings.HasPrefix(name, "missing"):
			r.Missing(ads(), typeURL, name)
		case typeURL == proxy.ClusterType && !strings.HasPrefix(name, "silent"):
			must(t, r.SetCluster(staticCluster(name, backend), "1"))
		}
	}
	return s
}

// echoing is a backend that tells how long the body was.
func echoing(t *testing.T) string {
	t.Helper()
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, err := io.Copy(io.Discard, req.Body)
		fmt.Fprint(w, n, " ", err)
	}))
	t.Cleanup(b.Close)
	return b.Listener.Addr().String()
}

// Partly proves HF-38 and XN-27: the body of a request that waits is held back,
// the rest of it when the buffer is full, and then all of it goes on.
func TestBodiesWait(t *testing.T) {
	backend := echoing(t)
	s := newSource()
	r := serveHosts(t, s, "")
	must(t, r.Resources().SetCluster(staticCluster("two", backend), "1"))
	for i, size := range []int{0, 1, 100, 5 << 20} {
		name := fmt.Sprintf("h%d.example", i)
		got := r.later(t, name, "/", strings.Repeat("x", size))
		s.waits(t, "VirtualHost rc/"+name)
		if size > 1<<20 {
			r.becomesStat(t, "http.in.downstream_flow_control_paused_reading_total", "1")
		}
		h := host(name, "", name)
		h.Routes = forwarding("", "two").GetVirtualHosts()[0].GetRoutes()
		bring(t, r.Resources(), h)
		r.Resources().Resolved(nil, proxy.VirtualHostType, "rc/"+name)
		same(t, name, <-got, fmt.Sprintf("200 %d <nil>", size))
	}
}

// Partly proves HF-38: a request that ends while it waits leaves nothing behind,
// by a reset, by a timeout, or with the proxy, and its stream is used again.
func TestWaitingEnds(t *testing.T) {
	s := newSource()
	r := serveHosts(t, s, "", host("own", "own", "own.example"))
	for i := range 3 {
		c, err := net.Dial("tcp", r.Listeners()["front"][0])
		must(t, err)
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: gone%d.example\r\n\r\n", i%2)
		s.waits(t, fmt.Sprintf("VirtualHost rc/gone%d.example", i%2))
		r.becomesStat(t, "http.in.downstream_rq_active", "1")
		must(t, c.Close())
		r.becomesStat(t, "http.in.downstream_rq_active", "0")
	}
	r.Resources().Resolved(ads(), proxy.VirtualHostType, "rc/gone0.example") // nobody waits any more
	same(t, "others", r.of(t, "own.example", "/", ""), "200 own")
	same(t, "one that was answered", r.of(t, "gone0.example", "/", ""), "404 ")
	waiting := r.later(t, "silent.example", "/", "")
	s.waits(t, "VirtualHost rc/silent.example")
	r.becomesStat(t, "http.in.downstream_rq_active", "1")
	r.stop()
	if got := <-waiting; strings.HasPrefix(got, "200") {
		t.Error(got)
	}
}

// The stream's own timeouts hold while it waits.
func TestWaitingIsIdle(t *testing.T) {
	s := newSource()
	text := strings.Replace(onDemand(""), "          http_filters:", "          stream_idle_timeout: 0.05s\n          http_filters:", 1)
	r := begin(t, text, s.by)
	s.waits(t, "RouteConfiguration rc")
	must(t, r.Resources().SetRoutes(ads(), growing(), "1"))
	r.Resources().Answered(ads(), "rc", "1", nil)
	<-r.Ready()
	same(t, "a host that nobody answers for", r.of(t, "x.example", "/", ""), "504 stream timeout")
}

// Proves CM-33 and XN-27: a cluster that is unknown is asked for, by whatever way the route
// names it, and the request waits until it can serve, or is known not to exist,
// or the time is over; it stays an ordinary cluster.
func TestClustersOnDemand(t *testing.T) {
	backend := namedBackend(t, "found")
	s := finding(t, backend)
	r := serveHosts(t, s, ", odcds: {source: {ads: {}}, timeout: 60s}",
		byHeaderHost("h.example"), weightedHost("w.example"), withODCDS("short.example", 20*time.Millisecond), withODCDS("off.example", 0))
	same(t, "by a discovered route", r.of(t, "to-direct", "/", ""), "200 found")
	same(t, "with a body", r.of(t, "to-body", "/", "body"), "200 found")
	same(t, "by weight", r.of(t, "w.example", "/", ""), "200 found")
	for _, c := range []struct{ name, want string }{{"named", "200 found"}, {"missing", "503 "}, {"missing", "503 "}} {
		same(t, "by a header: "+c.name, r.to(t, c.name), c.want)
	}
	same(t, "in time", r.of(t, "short.example", "/", ""), "503 ")
	same(t, "not asked for", r.of(t, "off.example", "/", ""), "503 ")
	r.becomesStat(t, "http.in.no_cluster", "4")
	s.gone(t, "Cluster missing")
	if !s.all()["Cluster named"] || !s.all()["Cluster silent.short.example"] || s.all()["Cluster silent.off.example"] {
		t.Errorf("wanted: %v", s.all())
	}
	dump := dumped(t, r, &adminv3.ClustersConfigDump{})
	if len(dump.GetDynamicActiveClusters()) != 4 {
		t.Errorf("config_dump: %v", dump.GetDynamicActiveClusters())
	}
	r.Resources().RemoveCluster("named")
	r.Resources().Missing(ads(), proxy.ClusterType, "named")
	r.expect(t, "named", "503 ")
	must(t, r.Resources().SetCluster(staticCluster("named", backend), "2"))
	r.expect(t, "named", "200 found")
	// One that was said not to exist comes after all.
	must(t, r.Resources().SetCluster(staticCluster("missing", backend), "2"))
	r.expect(t, "missing", "200 found")
}

// Partly proves CM-33: a request waits until the cluster is warm.
func TestClusterOnDemandIsWarm(t *testing.T) {
	backend := namedBackend(t, "warm")
	s := newSource()
	s.answer = func(r *proxy.Resources, typeURL, name string) {
		if typeURL == proxy.ClusterType {
			must(t, r.SetCluster(edsCluster(name, "service"), "1"))
		}
	}
	r := serveHosts(t, s, ", odcds: {source: {ads: {}}, timeout: 60s}", byHeaderHost("h.example"))
	got := make(chan string, 1)
	go func() { got <- r.to(t, "cold") }()
	s.waits(t, "ClusterLoadAssignment service")
	r.becomesStat(t, "http.in.downstream_rq_active", "1")
	must(t, r.Resources().SetEndpoints(ads(), assignment("service", backend), "1"))
	same(t, "a cluster that becomes warm", <-got, "200 warm")
}

// withODCDS is a host whose cluster nobody answers for, with a time to wait for
// it, or without waiting.
func withODCDS(domain string, timeout time.Duration) *routev3.VirtualHost {
	h := host(domain, "", domain)
	h.Routes = forwarding("", "silent."+domain).GetVirtualHosts()[0].GetRoutes()
	c := &ondemandv3.PerRouteConfig{}
	if timeout > 0 {
		c.Odcds = &ondemandv3.OnDemandCds{Source: ads(), Timeout: durationpb.New(timeout)}
	}
	h.TypedPerFilterConfig = map[string]*anypb.Any{"on_demand": packed(c)}
	return h
}

func weightedHost(domain string) *routev3.VirtualHost {
	h := host("weighted", "", domain)
	h.Routes = routesTo("", &routev3.Route{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_WeightedClusters{WeightedClusters: &routev3.WeightedCluster{Clusters: []*routev3.WeightedCluster_ClusterWeight{
			{Name: "light", Weight: wrapperspb.UInt32(1)},
		}}},
	}}}).GetVirtualHosts()[0].GetRoutes()
	return h
}

func byHeaderHost(domain string) *routev3.VirtualHost {
	h := host("by header", "", domain, "127.0.0.1*")
	h.Routes = routesTo("", &routev3.Route{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: "x-to"},
	}}}).GetVirtualHosts()[0].GetRoutes()
	return h
}

// Partly proves CM-33: a connection of tcp_proxy waits for its cluster, until it
// comes, does not exist, the time is over, or the client has gone.
func TestTCPOnDemand(t *testing.T) {
	for _, c := range []struct{ name, cluster, timeout, want, flags string }{
		{"it comes", "found", "60s", "success", "- - rx=4 tx=4 cluster=found attempts=1"},
		{"there is none", "missing", "60s", "missing", "NC tcp_initializion_failure:3 rx=0 tx=0 cluster=- attempts=0"},
		{"nobody answers", "silent", "0.02s", "timeout", "NC tcp_initializion_failure:3 rx=0 tx=0 cluster=- attempts=0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, log := finding(t, serveTCP(t, "tcp", "127.0.0.1:0", echoes)), &syncBuffer{}
			r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: "+c.cluster, "on_demand: {odcds_config: {ads: {}}, timeout: "+c.timeout+"}", logTo("log", tcpOperators))), ""), logged(log), s.by)
			conn := r.dial(t, "l")
			say(t, conn, "ping")
			if c.want == "success" {
				hear(t, conn, "ping")
			} else {
				_, _ = io.ReadAll(conn) // until it ends
			}
			_ = conn.Close()
			r.until(t, "tcp.p.on_demand_cluster_attempt: 1", "tcp.p.on_demand_cluster_"+c.want+": 1", "listener.l.downstream_cx_active: 0")
			r.finish(t)
			if got := log.String(); !strings.Contains(got, c.flags) {
				t.Errorf("logged is %q, want %q", got, c.flags)
			}
		})
	}
	t.Run("the client goes", func(t *testing.T) {
		s := newSource()
		r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: x", "on_demand: {odcds_config: {ads: {}}}")), ""), s.by)
		conn := r.dial(t, "l")
		s.waits(t, "Cluster x")
		reset(conn)
		r.until(t, "listener.l.downstream_cx_active: 0", "tcp.p.on_demand_cluster_attempt: 1")
		r.Resources().Missing(ads(), proxy.ClusterType, "x")
		r.until(t, "tcp.p.on_demand_cluster_missing: 0")
	})
}

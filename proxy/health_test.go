package proxy_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// doctor answers the health checks of a host, beside it.
type doctor struct {
	*httptest.Server
	status atomic.Int64
	from   atomic.Value // who asked last
}

func newDoctor(t *testing.T) *doctor {
	t.Helper()
	d := &doctor{}
	d.status.Store(http.StatusOK)
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		d.from.Store(host)
		w.WriteHeader(int(d.status.Load()))
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *doctor) port() string {
	_, port, _ := net.SplitHostPort(d.Listener.Addr().String())
	return port
}

// often is how often hosts are checked in these tests.
const often = "timeout: 30s, interval: 0.01s, no_traffic_interval: 0.01s, unhealthy_threshold: 1, healthy_threshold: 1"

// checkedAt are fields of a cluster whose only host is checked at a port beside its own.
func checkedAt(addr, port, more string) string {
	ip, at, _ := net.SplitHostPort(addr)
	return fmt.Sprintf(`load_assignment: {cluster_name: x, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}},
	  health_check_config: {port_value: %s}}}]}]}, health_checks: [{%s, http_health_check: {path: /hc}}],
	  common_lb_config: {healthy_panic_threshold: {value: 0}}, %s`, ip, at, port, often, more)
}

// Proves CM-25 for HTTP: when a host fails its health check its idle connections end,
// busy ones end with the request they carry, and it gets no more. Partly proves HK-09: it is
// asked at a port of its own.
func TestFailingHostIsDrained(t *testing.T) {
	for _, protocol := range []string{"HTTP/1", "HTTP/2"} {
		t.Run(protocol, func(t *testing.T) {
			d := newDoctor(t)
			addr, fields, wait, answer := gateOf(t, protocol)
			v := (&site{
				routes: "{match: {prefix: /}, route: {cluster: checked}}",
				more:   "- {name: checked, " + fields + checkedAt(addr, d.port(), "") + "}",
			}).serve(t)
			first := v.dial(t)
			first.get("/")
			wait()
			answer()
			first.want("200 ok")
			busy := v.dial(t)
			busy.get("/")
			wait()
			v.counts(t, "cluster.checked.upstream_cx_active 1", "cluster.checked.health_check.healthy 1", "cluster.checked.membership_healthy 1")
			d.status.Store(http.StatusServiceUnavailable)
			v.counts(t, "cluster.checked.membership_healthy 0", "cluster.checked.health_check.healthy 0")
			first.get("/")
			first.want("503 no healthy upstream")
			v.counts(t, "cluster.checked.upstream_cx_active 1", "cluster.checked.upstream_rq_active 1")
			answer()
			busy.want("200 ok")
			v.counts(t, "cluster.checked.upstream_cx_active 0", "cluster.checked.upstream_cx_destroy_local 1", "cluster.checked.upstream_cx_total 1")
			if flags := v.get(t, "/clusters"); !strings.Contains(flags, "::health_flags::/failed_active_hc\n") {
				t.Error(flags)
			}
			d.status.Store(http.StatusOK)
			v.counts(t, "cluster.checked.membership_healthy 1", "cluster.checked.membership_change 1")
		})
	}
}

// gateOf is a host whose answers wait: wait waits for a request, answer answers it.
func gateOf(t *testing.T, protocol string) (addr, fields string, wait, answer func()) {
	t.Helper()
	if protocol == "HTTP/1" {
		g := newGate(t)
		return g.addr, "", func() { take(t, g.asked) }, func() { g.open <- ok }
	}
	g := newGate2(t)
	var last *stream2
	return g.addr, speaking("", ""), func() { last = take(t, g.asked) }, func() { last.answer("ok") }
}

// Proves CM-25 for idle connections: they end when the host fails.
func TestIdleConnectionsOfFailingHost(t *testing.T) {
	d := newDoctor(t)
	v := (&site{routes: "{match: {prefix: /}, route: {cluster: checked}}", more: "- {name: checked, " + checkedAt(answering(t, ok), d.port(), "") + "}"}).serve(t)
	w := v.dial(t)
	w.get("/")
	w.want("200 ok")
	v.counts(t, "cluster.checked.upstream_cx_active 1")
	d.status.Store(http.StatusServiceUnavailable)
	v.counts(t, "cluster.checked.upstream_cx_active 0")
	w.get("/")
	w.want("503 no healthy upstream")
}

// Proves CM-25 for connections of tcp_proxy: those of a failing host are cut with
// close_connections_on_host_health_failure, those of others are not; without it they
// go on.
func TestFailingHostCutsTCP(t *testing.T) {
	for _, cuts := range []bool{true, false} {
		t.Run(fmt.Sprint(cuts), func(t *testing.T) {
			d, well := newDoctor(t), newDoctor(t)
			hosts := ""
			for i, x := range []*doctor{d, well} { // each says its number first
				_, port, _ := net.SplitHostPort(serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = fmt.Fprint(c, i); echoes(c) }))
				hosts += fmt.Sprintf("{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}, health_check_config: {port_value: %s}}}, ", port, x.port())
			}
			r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: c")), fmt.Sprintf(`  - {name: c, close_connections_on_host_health_failure: %v,
    load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [%s]}]}, health_checks: [{%s, http_health_check: {path: /}}]}`+"\n", cuts, hosts, often)))
			of := map[string][]net.Conn{}
			for range 4 {
				c := r.dial(t, "l")
				n := make([]byte, 1)
				if _, err := io.ReadFull(c, n); err != nil {
					t.Fatal(err)
				}
				of[string(n)] = append(of[string(n)], c)
			}
			if len(of["0"]) != 2 || len(of["1"]) != 2 {
				t.Fatal(of)
			}
			d.status.Store(http.StatusServiceUnavailable)
			r.until(t, "cluster.c.membership_healthy: 1")
			going := of["1"]
			if cuts {
				for _, c := range of["0"] {
					ends(t, c, "")
				}
				r.until(t, "cluster.c.upstream_cx_active: 2", "cluster.c.upstream_cx_destroy_local_with_active_rq: 2")
			} else {
				going = append(going, of["0"]...)
			}
			for _, c := range going {
				say(t, c, "still here")
				hear(t, c, "still here")
			}
		})
	}
}

// Proves HK-10 for responses: x-envoy-immediate-health-check-fail takes the host out
// at once. A cluster without health checks does not mind.
func TestResponseFailsHost(t *testing.T) {
	d := newDoctor(t)
	failing := answering(t, "HTTP/1.1 200 OK\r\nx-envoy-immediate-health-check-fail: true\r\ncontent-length: 2\r\n\r\nok")
	slowly := strings.Replace(checkedAt(failing, d.port(), ""), "0.01s", "3600s", 2)
	v := (&site{
		hosts:  []string{failing},
		routes: "{match: {prefix: /checked}, route: {cluster: checked}}, {match: {prefix: /}, route: {cluster: back}}",
		more:   "- {name: checked, " + slowly + "}",
	}).serve(t)
	for range 2 {
		w := v.dial(t)
		w.get("/")
		w.want("200 ok")
	}
	w := v.dial(t)
	w.get("/checked")
	w.want("200 ok")
	v.counts(t, "cluster.checked.health_check.passive_failure 1", "cluster.checked.membership_healthy 0", "cluster.checked.membership_excluded 1")
	w.get("/checked")
	w.want("503 no healthy upstream")
}

// Proves HK-13: checks go through the transport socket and from the address of the
// cluster's connections, and past its circuit breakers. Partly proves HK-09: with
// tls_options they offer other protocols.
func TestChecksGoThroughTransportSocket(t *testing.T) {
	cert, key := certificates(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1000)
	secure := backend(t, func(w *wire, _ int) {
		c := tls.Server(w, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"odd", "http/1.1"}})
		w = newWire(t, c)
		for w.head() != "" {
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			select {
			case seen <- fmt.Sprint(host, " ", c.ConnectionState().ServerName, " ", c.ConnectionState().NegotiatedProtocol):
			default:
			}
			w.send(ok)
		}
	})
	const upstreamTLS = `{name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: %s}}`
	for name, tt := range map[string]struct{ fields, check, want string }{
		"the cluster's": {"transport_socket: " + fmt.Sprintf(upstreamTLS, "acme.com"), "", "127.0.0.7 acme.com http/1.1"},
		"other ALPN":    {"transport_socket: " + fmt.Sprintf(upstreamTLS, "acme.com"), "tls_options: {alpn_protocols: [odd]},", "127.0.0.7 acme.com odd"},
	} {
		t.Run(name, func(t *testing.T) {
			for len(seen) > 0 {
				<-seen
			}
			r := start(t, bootstrapOf("", upstreamAt("c", []string{secure}, tt.fields,
				"upstream_bind_config: {source_address: {address: 127.0.0.7, port_value: 0}}, circuit_breakers: {thresholds: [{max_connections: 0, max_requests: 0, max_pending_requests: 0}]}",
				"health_checks: [{"+often+", "+tt.check+" http_health_check: {path: /}}]")))
			r.until(t, "cluster.c.health_check.healthy: 1", "cluster.c.upstream_cx_total: 0", "cluster.c.upstream_cx_overflow: 0", "cluster.c.upstream_rq_total: 0")
			if got := take(t, seen); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// Proves CM-04 for health checks: a new cluster serves after its first round of
// checks; a replaced one serves until that of the new one. Partly proves HK-13: no
// checks go on for a cluster that is gone.
func TestClusterWaitsForChecks(t *testing.T) {
	open := make(chan struct{})
	asked := make(chan struct{}, 1000)
	held := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hc" {
			_, _ = io.WriteString(w, "new")
			return
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		<-open
	}))
	t.Cleanup(held.Close)
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	checked := func() *clusterv3.Cluster {
		c := staticCluster("x", held.Listener.Addr().String())
		c.HealthChecks = []*corev3.HealthCheck{{
			Timeout: durationpb.New(patience), Interval: durationpb.New(1e6), NoTrafficInterval: durationpb.New(1e6),
			UnhealthyThreshold: wrapperspb.UInt32(1), HealthyThreshold: wrapperspb.UInt32(1),
			HealthChecker: &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{Path: "/hc"}},
		}}
		return c
	}
	must(t, res.SetCluster(checked(), "1"))
	take(t, asked)
	if got := r.to(t, "x"); !strings.HasPrefix(got, "503") {
		t.Errorf("%s before the first round", got)
	}
	must(t, res.SetCluster(staticCluster("x", namedBackend(t, "old")), "2"))
	r.expect(t, "x", "200 old")
	must(t, res.SetCluster(checked(), "3"))
	take(t, asked)
	if got := r.to(t, "x"); got != "200 old" {
		t.Errorf("%s while the new one waits", got)
	}
	close(open)
	until(t, func() string { return r.to(t, "x") }, func() bool { return r.to(t, "x") == "200 new" })
	res.RemoveCluster("x")
	for len(asked) > 0 {
		<-asked
	}
	until(t, func() string { return "the cluster's statistics" }, func() bool { return !strings.Contains(r.get(t, "/stats"), "cluster.x.health_check") })
	held.CloseClientConnections()
}

// Proves HK-08 for files: event_log_path and event_logger get the lines. Proves HK-11 for
// the names of the statistics, of one check and of several.
func TestHealthEventsAndStatistics(t *testing.T) {
	d := newDoctor(t)
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	host := dead(t)
	check := func(fields string) string { return "{" + often + ", " + fields + " http_health_check: {path: /}}" }
	r := start(t, bootstrapOf("", upstreamAt("one", []string{host}, "health_checks: ["+check("event_log_path: "+one+", ")+"]")+
		upstreamAt("two", []string{d.Listener.Addr().String()}, `health_checks: [`+check("name: a, ")+`, `+
			check(`name: b, event_logger: [{name: file, typed_config: {"@type": type.googleapis.com/envoy.extensions.health_check.event_sinks.file.v3.HealthCheckEventFileSink, event_log_path: `+two+`}}],`)+`]`)))
	until(t, func() string { return r.get(t, "/stats") }, func() bool {
		return r.number(t, "cluster.one.health_check.network_failure") > 2 && r.number(t, "cluster.two.health_check.name.b.success") > 2
	})
	for _, p := range []string{"cluster.one.health_check.", "cluster.two.health_check.name.a.", "cluster.two.health_check.name.b."} {
		for _, name := range []string{"attempt", "degraded", "failure", "healthy", "network_failure", "passive_failure", "success", "verify_cluster"} {
			if !strings.Contains(r.get(t, "/stats?filter=^"+p+name+"$"), p+name+": ") {
				t.Errorf("%s%s is not there", p, name)
			}
		}
	}
	if got := r.get(t, "/stats?filter=two.health_check.(healthy|degraded)"); got != "cluster.two.health_check.degraded: 0\ncluster.two.health_check.healthy: 1\n" {
		t.Error(got)
	}
	r.finish(t)
	for path, want := range map[string]string{
		one: `"health_check_failure_event":{"failure_type":"NETWORK","first_check":true,"http_status_code":0}`,
		two: `"add_healthy_event":{"first_check":true}`,
	} {
		b, err := os.ReadFile(path)
		if err != nil || strings.Count(string(b), "\n") != 1 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s %v", path, b, err)
		}
	}
}

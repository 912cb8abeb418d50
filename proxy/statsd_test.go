package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// receiver takes what is sent to a TCP port, one connection after the other.
type receiver struct {
	l     net.Listener
	lines chan []string // of each connection, when it was closed
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{l, make(chan []string, 4)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var lines []string
			for s := bufio.NewScanner(c); s.Scan(); {
				lines = append(lines, s.Text())
			}
			_ = c.Close()
			r.lines <- lines
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return r
}

// withSink is small with a statsd sink over TCP to an address.
func withSink(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return small + fmt.Sprintf(`
  - name: statsd
    load_assignment: {cluster_name: statsd, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]}
stats_flush_on_admin: true
stats_sinks:
- name: envoy.stat_sinks.statsd
  typed_config: {"@type": type.googleapis.com/envoy.config.metrics.v3.StatsdSink, tcp_cluster_name: statsd}
`, host, port) + adminHere
}

// Proves ST-14 and RQ-06: the flush after a request brings its statistics, in
// the lines that Envoy sent for the same, over TCP to the cluster's host.
func TestStatsdTCP(t *testing.T) {
	got := newReceiver(t)
	r := start(t, withSink(got.l.Addr().String()))
	r.request(t, r.Listeners()["front"][0], "GET", "/x", "")
	r.get(t, "/stats?filter=^$") // flushes
	r.stop()
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
	lines := <-got.lines
	counter := regexp.MustCompile(`^envoy\.(http\.in|listener\.front\.http\.in)\.(.*)rq_(.*)\|c$`)
	var requests []string
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		known := slices.ContainsFunc(requests, func(l string) bool { return strings.HasPrefix(l, name+":") })
		if counter.MatchString(line) && !known {
			requests = append(requests, line)
		}
	}
	slices.Sort(requests)
	want := []string{
		"envoy.http.in.downstream_rq_2xx:1|c",
		"envoy.http.in.downstream_rq_completed:1|c",
		"envoy.http.in.downstream_rq_http1_total:1|c",
		"envoy.http.in.downstream_rq_total:1|c",
		"envoy.http.in.rq_direct_response:1|c",
		"envoy.http.in.rq_total:1|c",
		"envoy.listener.front.http.in.downstream_rq_2xx:1|c",
		"envoy.listener.front.http.in.downstream_rq_completed:1|c",
	}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Error(diff)
	}
	form := regexp.MustCompile(`^envoy\.[^:|]+:[0-9.]+\|(c|g|ms)$`)
	for _, line := range lines {
		if !form.MatchString(line) {
			t.Errorf("a line is %q", line)
		}
	}
	for _, prefix := range []string{"envoy.http.in.downstream_rq_time:", "envoy.http.in.downstream_rq_active:0|g", "envoy.cluster_manager.active_clusters:3|g"} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) }) {
			t.Errorf("%s is missing in %q", prefix, lines)
		}
	}
}

// Proves BS-05 for a sink: a cluster without hosts only drops, which is no
// failure.
func TestStatsdNoHosts(t *testing.T) {
	r := start(t, small+`
stats_flush_on_admin: true
stats_sinks:
- name: envoy.stat_sinks.statsd
  typed_config: {"@type": type.googleapis.com/envoy.config.metrics.v3.StatsdSink, tcp_cluster_name: none}
`+adminHere)
	r.get(t, "/stats?filter=^$")
	if got := r.get(t, "/stats?filter=^(server.dropped_stat_flushes|statsd.cx_overflow|cluster.none.upstream_cx_(total|connect_fail))$"); got !=
		"cluster.none.upstream_cx_connect_fail: 0\ncluster.none.upstream_cx_total: 0\nserver.dropped_stat_flushes: 0\nstatsd.cx_overflow: 0\n" {
		t.Errorf("%s", got)
	}
}

// A receiver that closes gets a new connection at the next flush, and one that
// is away costs what is flushed meanwhile.
func TestStatsdReconnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := start(t, withSink(l.Addr().String()))
	for range 2 {
		r.get(t, "/stats?filter=^$")
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	if got := r.get(t, "/stats?filter=^cluster.statsd.upstream_cx_(total|connect_fail)$"); !strings.HasPrefix(got, "cluster.statsd.upstream_cx_connect_fail: 0\ncluster.statsd.upstream_cx_total: ") {
		t.Errorf("%s", got)
	}
}

// A sink over a cluster that is unknown or has TLS is refused.
func TestStatsdRefused(t *testing.T) {
	tls := strings.Replace(withSink("127.0.0.1:1"), "  - name: statsd\n", `  - name: statsd
    transport_socket: {name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}}
`, 1)
	loaded, o, _ := load(t, tls, func(*proxyrun.Flags, *proxy.Options) {})
	const want = "tcp_cluster_name: cluster 'statsd' has a transport_socket"
	if _, err := proxy.New(loaded.Bootstrap, o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}

package proxy_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// tcpTo is a tcp_proxy; its statistics have its name as prefix.
func tcpTo(name string, more ...string) string {
	return fmt.Sprintf(`{name: tcp, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: %s, %s}}`, name, strings.Join(more, ", "))
}

const tcpOperators = "%RESPONSE_FLAGS% %DOWNSTREAM_LOCAL_CLOSE_REASON% rx=%BYTES_RECEIVED% tx=%BYTES_SENT% cluster=%UPSTREAM_CLUSTER% attempts=%UPSTREAM_REQUEST_ATTEMPT_COUNT% %ACCESS_LOG_TYPE%"

// reset closes a connection with a reset.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// Partly proves NF-08, proves NF-22: each way a connection of tcp_proxy can end
// leaves its flags, its reason and its numbers in the log, as Envoy's. Partly
// proves NF-07: the timeouts and max_connect_attempts.
func TestTCPProxyEnds(t *testing.T) {
	echo := serveTCP(t, "tcp", "127.0.0.1:0", echoes)
	hold := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	cut := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		reset(c)
	})
	tests := []struct{ name, cluster, fields, say, want, counter string }{
		{name: "NC", cluster: "missing", want: "NC tcp_initializion_failure:3 rx=0 tx=0 cluster=- attempts=0", counter: "tcp.p.downstream_cx_no_route: 1"},
		{name: "UH", cluster: "none", want: "UH tcp_initializion_failure:1 rx=0 tx=0 cluster=none attempts=0", counter: "cluster.none.upstream_cx_none_healthy: 1"},
		{name: "UO", cluster: "full", want: "UO tcp_initializion_failure:2 rx=0 tx=0 cluster=full attempts=0", counter: "cluster.full.upstream_cx_overflow: 1"},
		{name: "pending", cluster: "busy", want: "URX tcp_initializion_failure:0 rx=0 tx=0 cluster=busy attempts=1", counter: "cluster.busy.upstream_cx_connect_attempts_exceeded: 1"},
		{name: "pending, again", cluster: "busy", fields: "max_connect_attempts: 3", want: "URX tcp_initializion_failure:0 rx=0 tx=0 cluster=busy attempts=3", counter: "cluster.busy.upstream_rq_pending_overflow: 3"},
		{name: "UO and pending", cluster: "shut", want: "UO tcp_initializion_failure:2 rx=0 tx=0 cluster=shut attempts=0", counter: "cluster.shut.upstream_rq_pending_overflow: 0"},
		{name: "UF", cluster: "dead", want: "UF,URX tcp_initializion_failure:0 rx=0 tx=0 cluster=dead attempts=1", counter: "cluster.dead.upstream_cx_connect_attempts_exceeded: 1"},
		{name: "URX", cluster: "dead", fields: "max_connect_attempts: 3", want: "UF,URX tcp_initializion_failure:0 rx=0 tx=0 cluster=dead attempts=3", counter: "cluster.dead.upstream_cx_connect_fail: 3"},
		{name: "backoff", cluster: "dead", fields: "max_connect_attempts: 2, backoff_options: {base_interval: 0.001s, max_interval: 0.002s}", want: "UF,URX tcp_initializion_failure:0 rx=0 tx=0 cluster=dead attempts=2", counter: "cluster.dead.upstream_cx_connect_fail: 2"},
		{name: "UR", cluster: "cut", say: "x", want: "UR - rx=1 tx=0 cluster=cut attempts=1", counter: "cluster.cut.upstream_cx_destroy_remote_with_active_rq: 1"},
		{name: "DT", cluster: "hold", fields: "max_downstream_connection_duration: 0.05s", want: "DT max_connection_duration_reached rx=0 tx=0 cluster=hold attempts=1", counter: "tcp.p.max_downstream_connection_duration: 1"},
		{name: "idle", cluster: "hold", fields: "idle_timeout: 0.05s", say: "abc", want: "- tcp_session_idle_timeout rx=3 tx=0 cluster=hold attempts=1", counter: "tcp.p.idle_timeout: 1"},
	}
	clusters := upstreamAt("echo", []string{echo}) + upstreamAt("hold", []string{hold}) + upstreamAt("cut", []string{cut}) + upstreamAt("dead", []string{dead(t)}) +
		upstreamAt("none", nil) + upstreamAt("full", []string{echo}, "circuit_breakers: {thresholds: [{max_connections: 0}]}") +
		upstreamAt("busy", []string{echo}, "circuit_breakers: {thresholds: [{max_pending_requests: 0}]}") +
		upstreamAt("shut", []string{echo}, "circuit_breakers: {thresholds: [{max_connections: 0, max_pending_requests: 0}]}")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := &syncBuffer{}
			fields := []string{"cluster: " + tt.cluster, logTo("log", tcpOperators)}
			if tt.fields != "" {
				fields = append(fields, tt.fields)
			}
			r := start(t, bootstrapOf(listen("l", tcpTo("p", fields...), logTo("log", tcpOperators)), clusters), logged(log))
			c := r.dial(t, "l")
			if tt.say != "" {
				say(t, c, tt.say)
			}
			_, err := io.ReadAll(c)
			if wasReset := err != nil; wasReset != (tt.name == "UR") {
				t.Errorf("it ended with %v", err)
			}
			_ = c.Close()
			r.until(t, tt.counter, "tcp.p.downstream_cx_total: 1", "listener.l.downstream_cx_active: 0", "listener.l.downstream_cx_destroy: 1")
			r.finish(t)
			got := strings.Split(strings.TrimSpace(log.String()), "\n")
			slices.Sort(got)
			if diff := cmp.Diff([]string{"log " + tt.want + " NotSet", "log " + tt.want + " TcpConnectionEnd"}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Partly proves NF-07: of two hosts the one that is alive is found by the second
// attempt; connections go to the clusters by their weights.
func TestTCPProxyAttemptsAndWeights(t *testing.T) {
	alive, other := serveTCP(t, "tcp", "127.0.0.1:0", greets("alive")), serveTCP(t, "tcp", "127.0.0.1:0", greets("other"))
	weighted := "weighted_clusters: {clusters: [{name: one, weight: %d}, {name: two, weight: %d}]}"
	r := start(t, bootstrapOf(
		listen("retry", tcpTo("retry", "cluster: half", "max_connect_attempts: 2"))+
			listen("first", tcpTo("first", fmt.Sprintf(weighted, 1<<32-2, 1)))+listen("second", tcpTo("second", fmt.Sprintf(weighted, 1, 1<<32-2)))+
			listen("both", tcpTo("both", fmt.Sprintf(weighted, 50, 50))),
		upstreamAt("half", []string{dead(t), alive})+upstreamAt("one", []string{alive})+upstreamAt("two", []string{other})))
	for range 4 {
		c := r.dial(t, "retry")
		hear(t, c, "alive")
		_ = c.Close()
	}
	r.until(t, "tcp.retry.downstream_cx_total: 4", "cluster.half.upstream_rq_total: 4")
	for range 20 {
		hear(t, r.dial(t, "first"), "alive")
		hear(t, r.dial(t, "second"), "other")
	}
	words := map[string]int{}
	for range 64 {
		b := make([]byte, 5)
		if _, err := io.ReadFull(r.dial(t, "both"), b); err != nil {
			t.Fatal(err)
		}
		words[string(b)]++
	}
	if words["alive"] == 0 || words["other"] == 0 {
		t.Errorf("%v", words)
	}
}

// Partly proves NF-09: the server may speak first; each downstream connection has
// an upstream one of its own, and nothing is left of either.
func TestTCPProxyServerSpeaksFirst(t *testing.T) {
	var accepted atomic.Int64
	up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		accepted.Add(1)
		greets("hello")(c)
	})
	r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up")), upstreamAt("up", []string{up})))
	for range 3 {
		c := r.dial(t, "l")
		hear(t, c, "hello")
		_ = c.CloseWrite()
		ends(t, c, "")
		_ = c.Close()
	}
	r.until(t, "cluster.up.upstream_cx_active: 0", "cluster.up.upstream_rq_active: 0", "cluster.up.upstream_rq_pending_active: 0",
		"cluster.up.upstream_cx_total: 3", "cluster.up.upstream_cx_destroy: 3", "listener.l.downstream_cx_active: 0", "tcp.p.upstream_flush_active: 0",
		"tcp.p.downstream_cx_total: 3", "tcp.p.downstream_cx_tx_bytes_total: 15", "tcp.p.downstream_cx_rx_bytes_total: 0",
		"tcp.p.downstream_flow_control_resumed_reading_total: 0")
	if n := accepted.Load(); n != 3 {
		t.Errorf("%d upstream connections", n)
	}
}

// Partly proves NF-05: the end of either direction is passed on, and the other
// direction goes on.
func TestTCPProxyHalfClose(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
			b, _ := io.ReadAll(c)
			_, _ = io.WriteString(c, "got "+string(b))
		})
		r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up")), upstreamAt("up", []string{up})))
		c := r.dial(t, "l")
		say(t, c, "question")
		_ = c.CloseWrite()
		ends(t, c, "got question")
	})
	t.Run("server", func(t *testing.T) {
		got := make(chan string, 1)
		up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
			_, _ = io.WriteString(c, "bye")
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.CloseWrite()
			}
			b, _ := io.ReadAll(c)
			got <- string(b)
		})
		r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up")), upstreamAt("up", []string{up})))
		c := r.dial(t, "l")
		ends(t, c, "bye")
		say(t, c, "after the end")
		_ = c.CloseWrite()
		if g := <-got; g != "after the end" {
			t.Errorf("the server got %q", g)
		}
	})
}

// Proves NF-09, partly proves NF-08: both ways at once every byte arrives, for a
// client that ends before the server has read all; the totals are exact.
func TestTCPProxyBytes(t *testing.T) {
	const size = 50 << 20
	up, down := make([]byte, size), make([]byte, size)
	_, _ = rand.Read(up)
	_, _ = rand.Read(down)
	got := make(chan []byte, 1)
	server := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Write(down) })
		b, _ := io.ReadAll(c)
		wg.Wait()
		got <- b
	})
	r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up")), upstreamAt("up", []string{server})))
	c := r.dial(t, "l")
	go func() {
		_, _ = c.Write(up)
		_ = c.CloseWrite()
	}()
	b, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(b, down) {
		t.Errorf("%d bytes came down, %v", len(b), err)
	}
	if b := <-got; !bytes.Equal(b, up) {
		t.Errorf("%d bytes went up", len(b))
	}
	r.until(t, fmt.Sprintf("tcp.p.downstream_cx_rx_bytes_total: %d", size), fmt.Sprintf("tcp.p.downstream_cx_tx_bytes_total: %d", size),
		fmt.Sprintf("cluster.up.upstream_cx_tx_bytes_total: %d", size), fmt.Sprintf("cluster.up.upstream_cx_rx_bytes_total: %d", size),
		"listener.l.downstream_cx_active: 0", "cluster.up.upstream_cx_active: 0")
}

// Partly proves LM-13 and NF-06: while the server does not read, reading from the client
// stops at the limit; the same in the other direction; the counters tell.
func TestTCPProxyStalled(t *testing.T) {
	const size = 64 << 20
	t.Run("server", func(t *testing.T) {
		goOn := make(chan struct{})
		total := make(chan int64, 1)
		up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
			<-goOn
			n, _ := io.Copy(io.Discard, c)
			total <- n
		})
		r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up"), "per_connection_buffer_limit_bytes: 32768"), upstreamAt("up", []string{up}, "per_connection_buffer_limit_bytes: 32768")))
		c := r.dial(t, "l")
		go func() {
			_, _ = c.Write(make([]byte, size))
			_ = c.CloseWrite()
		}()
		r.until(t, "tcp.p.downstream_flow_control_paused_reading_total: 1", "tcp.p.downstream_flow_control_resumed_reading_total: 0", "cluster.up.upstream_flow_control_backed_up_total: 1")
		if held := r.number(t, "tcp.p.downstream_cx_rx_bytes_total") - r.number(t, "cluster.up.upstream_cx_tx_bytes_total"); held > 32<<10+256<<10 {
			t.Errorf("%d bytes are held", held)
		}
		close(goOn)
		if n := <-total; n != size {
			t.Errorf("%d bytes arrived", n)
		}
		ends(t, c, "")
		r.until(t, "listener.l.downstream_cx_active: 0")
		if p, q := r.number(t, "tcp.p.downstream_flow_control_paused_reading_total"), r.number(t, "tcp.p.downstream_flow_control_resumed_reading_total"); p != q {
			t.Errorf("paused %d times, resumed %d times", p, q)
		}
	})
	t.Run("client", func(t *testing.T) {
		up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = c.Write(make([]byte, size)) })
		r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up"), "per_connection_buffer_limit_bytes: 32768"), upstreamAt("up", []string{up})))
		c := r.dial(t, "l")
		r.until(t, "cluster.up.upstream_flow_control_paused_reading_total: 1", "cluster.up.upstream_flow_control_resumed_reading_total: 0")
		if n := r.number(t, "tcp.p.downstream_cx_tx_bytes_total"); n >= size/2 {
			t.Errorf("%d bytes were read for a client that reads nothing", n)
		}
		if n, err := io.Copy(io.Discard, io.LimitReader(c, size)); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// Partly proves NF-09: what a client sent before it was gone still reaches a slow
// server, whose connection is then one of the flushing ones.
func TestTCPProxyFlushes(t *testing.T) {
	const size = 16 << 20
	goOn := make(chan struct{})
	total := make(chan int64, 1)
	up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.CloseWrite() // so that the client's end is the end of both
		}
		<-goOn
		n, _ := io.Copy(io.Discard, c)
		total <- n
	})
	r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up"), "per_connection_buffer_limit_bytes: 67108864"), upstreamAt("up", []string{up}, "per_connection_buffer_limit_bytes: 67108864")))
	c := r.dial(t, "l")
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	r.until(t, "tcp.p.upstream_flush_active: 1", "tcp.p.upstream_flush_total: 1", "listener.l.downstream_cx_active: 0")
	close(goOn)
	if n := <-total; n != size {
		t.Errorf("%d bytes arrived", n)
	}
	r.until(t, "tcp.p.upstream_flush_active: 0", "cluster.up.upstream_cx_active: 0")
}

// Partly proves NF-09: a flush that gets nowhere ends with the idle timeout.
func TestTCPProxyFlushIsBounded(t *testing.T) {
	goOn := make(chan struct{})
	defer close(goOn)
	up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
		<-goOn
	})
	r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up", "idle_timeout: 0.2s"), "per_connection_buffer_limit_bytes: 67108864"), upstreamAt("up", []string{up}, "per_connection_buffer_limit_bytes: 67108864")))
	c := r.dial(t, "l")
	if _, err := c.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	r.until(t, "tcp.p.upstream_flush_total: 1", "tcp.p.upstream_flush_active: 0", "tcp.p.idle_timeout: 1", "cluster.up.upstream_cx_active: 0")
}

// Partly proves NF-01: tcp_proxy behind a filter that reads and writes.
func TestTCPProxyBehindFilter(t *testing.T) {
	events := make(chan string, 100)
	up := serveTCP(t, "tcp", "127.0.0.1:0", echoes)
	r := start(t, bootstrapOf(listen("l", probe("a")+","+tcpTo("p", "cluster: up")), upstreamAt("up", []string{up})), networkProbes(recorders(events, map[string]func(*recorder){
		"a": func(a *recorder) {
			a.onNew = func(*recorder) filter.NetworkStatus { return filter.NetworkContinue }
		},
	}, "a")))
	c := r.dial(t, "l")
	say(t, c, "x")
	hear(t, c, "x")
	_ = c.CloseWrite()
	ends(t, c, "")
	expect(t, events, "a new", "a data x", "a write x", "a data  end", "a write  end", "a close")
}

// Partly proves NF-07: lines of the access log at the beginning, when the
// upstream connection is open and at each interval, as configured, also by the
// deprecated fields; each tells what has happened so far.
func TestTCPProxyLogs(t *testing.T) {
	echo := serveTCP(t, "tcp", "127.0.0.1:0", echoes)
	const operators = "%ACCESS_LOG_TYPE% rx=%BYTES_RECEIVED% tx=%BYTES_SENT% cluster=%UPSTREAM_CLUSTER% wire=%UPSTREAM_WIRE_BYTES_SENT%/%UPSTREAM_WIRE_BYTES_RECEIVED% pool=%UPSTREAM_CONNECTION_POOL_READY_DURATION% %UPSTREAM_DETECTED_CLOSE_TYPE% %RESPONSE_FLAGS%"
	none := func(kind, pool, flags string) string {
		return "log " + kind + " rx=0 tx=0 cluster=- wire=0/0 pool=" + pool + " Normal " + flags
	}
	const all = "access_log_options: {flush_access_log_on_start: true, flush_access_log_on_connected: true, access_log_flush_interval: 0.05s}"
	const (
		connected = "log TcpUpstreamConnected rx=0 tx=0 cluster=echo wire=0/0 pool=0 Normal -"
		periodic  = "log TcpPeriodic rx=1 tx=1 cluster=echo wire=1/1 pool=0 Normal -"
		end       = "log TcpConnectionEnd rx=1 tx=1 cluster=echo wire=1/1 pool=0 Normal -"
	)
	tests := []struct {
		name, cluster, fields string
		want                  []string
	}{
		{"all", "echo", all, []string{none("TcpConnectionStart", "-", "-"), connected, periodic, periodic, end}},
		{"start", "echo", "access_log_options: {flush_access_log_on_start: true}", []string{none("TcpConnectionStart", "-", "-"), end}},
		{"connected", "echo", "access_log_options: {flush_access_log_on_connected: true}", []string{connected, end}},
		{"interval", "echo", "access_log_options: {access_log_flush_interval: 0.05s}", []string{periodic, periodic, end}},
		{"deprecated", "echo", "flush_access_log_on_connected: true, access_log_flush_interval: 0.05s", []string{connected, periodic, periodic, end}},
		{"missing", "missing", all, []string{none("TcpConnectionStart", "-", "-"), none("TcpConnectionEnd", "-", "NC")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := &syncBuffer{}
			r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: "+tt.cluster, logTo("log", operators), tt.fields)), upstreamAt("echo", []string{echo})), logged(log),
				func(_ *proxyrun.Flags, o *proxy.Options) { o.LogFlushInterval = time.Millisecond })
			c := r.dial(t, "l")
			if tt.cluster == "echo" {
				say(t, c, "x")
				hear(t, c, "x")
				for strings.Contains(tt.fields, "interval") && strings.Count(log.String(), "TcpPeriodic rx=1") < 2 {
					time.Sleep(time.Millisecond)
				}
				_ = c.CloseWrite()
			}
			ends(t, c, "")
			r.until(t, "listener.l.downstream_cx_active: 0")
			r.finish(t)
			text := regexp.MustCompile(`pool=\d+`).ReplaceAllString(log.String(), "pool=0") // milliseconds
			got := strings.Split(strings.TrimSpace(text), "\n")
			seen := 0 // however many intervals pass, two lines are compared
			got = slices.DeleteFunc(got, func(line string) bool {
				if !strings.Contains(line, "TcpPeriodic") {
					return false
				}
				if strings.Contains(line, "rx=1") {
					seen++
				}
				return seen > 2 || strings.Contains(line, "rx=0")
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

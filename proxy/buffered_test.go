package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// bufferedSoon waits until a gauge is above zero, or is zero.
func (r *running) bufferedSoon(t *testing.T, gauge string, some bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for (r.number(t, gauge) > 0) != some {
		if time.Now().After(end) {
			t.Fatalf("%s is %d", gauge, r.number(t, gauge))
		}
		time.Sleep(time.Millisecond)
	}
}

// Partly proves ST-04 and ST-05: what a peer does not take is told while it
// waits, and is gone with the connection.
func TestBytesBuffered(t *testing.T) {
	const much = 64 << 20
	release := make(chan struct{})
	floods := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n", much)
		_, _ = io.CopyN(c, strings.NewReader(strings.Repeat("x", much)), much)
	})
	deaf := serveTCP(t, "tcp", "127.0.0.1:0", func(net.Conn) { <-release })
	t.Cleanup(func() { close(release) })
	web := func(cluster string) string {
		return `{name: hcm, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
      stat_prefix: ` + cluster + `, route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: ` + cluster + `}}]}]},
      http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}}`
	}
	clusters := ""
	for name, address := range map[string]string{"floods": floods, "deaf": deaf, "tcp-floods": floods, "tcp-deaf": deaf} {
		clusters += upstreamAt(name, []string{address})
	}
	r := start(t, bootstrapOf(listen("http-down", web("floods"))+listen("http-up", web("deaf"))+
		listen("tcp-down", tcpTo("tcp-floods", "cluster: tcp-floods"))+listen("tcp-up", tcpTo("tcp-deaf", "cluster: tcp-deaf")), clusters))
	for _, test := range []struct{ listener, head, gauge string }{
		{"http-down", "GET / HTTP/1.1\r\nhost: a\r\n\r\n", "http.floods.downstream_cx_tx_bytes_buffered"},
		{"http-up", fmt.Sprintf("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n", much), "cluster.deaf.upstream_cx_tx_bytes_buffered"},
		{"tcp-down", "", "tcp.tcp-floods.downstream_cx_tx_bytes_buffered"},
		{"tcp-up", "", "cluster.tcp-deaf.upstream_cx_tx_bytes_buffered"},
	} {
		t.Run(test.listener, func(t *testing.T) {
			if n := r.number(t, test.gauge); n != 0 {
				t.Fatalf("%s is %d at rest", test.gauge, n)
			}
			c := r.dial(t, test.listener)
			say(t, c, test.head)
			done := make(chan struct{})
			go func() { // as much as the proxy takes, and nothing is read
				defer close(done)
				if strings.HasSuffix(test.listener, "up") {
					_, _ = io.WriteString(c, strings.Repeat("x", much))
				}
			}()
			r.bufferedSoon(t, test.gauge, true)
			_ = c.SetLinger(0)
			_ = c.Close()
			<-done
			r.bufferedSoon(t, test.gauge, false)
		})
	}
}

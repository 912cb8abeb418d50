package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// Proves ST-04, with the names that TestStatsAtRest has from Envoy: as there, the
// gauges of received bytes are what each open connection has received last, on both
// sides, and 0 again once all are closed. Partly proves ST-05.
func TestBytesReceivedLast(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
	v := (&site{hosts: []string{answering(t, answer)}}).serve(t)
	one, two := v.dial(t), v.dial(t)
	one.send("GET /a-longer-path HTTP/1.1\r\nhost: a\r\n\r\n")
	one.want("200 ok")
	two.send("GET /1 HTTP/1.1\r\nhost: a\r\n\r\n")
	two.want("200 ok")
	v.counts(t, fmt.Sprintf("http.in.downstream_cx_rx_bytes_buffered %d", len("GET /a-longer-path HTTP/1.1\r\nhost: a\r\n\r\n")+len("GET /1 HTTP/1.1\r\nhost: a\r\n\r\n")),
		fmt.Sprintf("cluster.back.upstream_cx_rx_bytes_buffered %d", len(answer)))
	one.send("GET /2 HTTP/1.1\r\nhost: a\r\n\r\n")
	one.want("200 ok")
	v.counts(t, fmt.Sprintf("http.in.downstream_cx_rx_bytes_buffered %d", 2*len("GET /2 HTTP/1.1\r\nhost: a\r\n\r\n")))
	_ = one.Close()
	v.counts(t, fmt.Sprintf("http.in.downstream_cx_rx_bytes_buffered %d", len("GET /1 HTTP/1.1\r\nhost: a\r\n\r\n")))
	reset(two.Conn)
	v.counts(t, "http.in.downstream_cx_rx_bytes_buffered 0", "http.in.downstream_cx_active 0")

	g := newGate2(t)
	v = (&site{hosts: []string{g.addr}, cluster: speaking("", "")}).serve(t)
	f := v.dial2(t)
	f.ask(1, "GET", "/", true)
	x := take(t, g.asked)
	x.answer(strings.Repeat("x", 1000))
	f.want(1, "200 "+strings.Repeat("x", 1000))
	f.answersPing(t) // which may come with the acknowledgement of the settings
	f.answersPing(t)
	v.counts(t, "http.in.downstream_cx_rx_bytes_buffered 17")
	if n := v.number(t, "cluster.back.upstream_cx_rx_bytes_buffered"); n < 1000 {
		t.Errorf("the gauge is %d after an answer of 1000 bytes", n)
	}
	_ = f.w.Close()
	_ = x.f.w.Close()
	v.counts(t, "http.in.downstream_cx_rx_bytes_buffered 0", "cluster.back.upstream_cx_rx_bytes_buffered 0", "cluster.back.upstream_cx_active 0")
}

// Proves NF-08, with TestTCPProxyEnds and the names that TestStatisticsAreEnvoys
// has from Envoy: the same gauges of connections that are passed on.
func TestTCPProxyReceivedLast(t *testing.T) {
	echo := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(c, c) })
	r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up")), upstreamAt("up", []string{echo})))
	one, two := r.dial(t, "l"), r.dial(t, "l")
	for _, say := range []struct {
		c    net.Conn
		text string
		want int
	}{{one, "hello", 5}, {two, "everybody", 14}, {one, "x", 10}, {two, "yy", 3}} {
		_, _ = io.WriteString(say.c, say.text)
		b := make([]byte, len(say.text))
		if _, err := io.ReadFull(say.c, b); err != nil {
			t.Fatal(err)
		}
		r.until(t, fmt.Sprintf("tcp.p.downstream_cx_rx_bytes_buffered: %d", say.want), fmt.Sprintf("cluster.up.upstream_cx_rx_bytes_buffered: %d", say.want))
	}
	_ = one.Close()
	r.until(t, "tcp.p.downstream_cx_rx_bytes_buffered: 2", "cluster.up.upstream_cx_rx_bytes_buffered: 2")
	reset(two)
	r.until(t, "tcp.p.downstream_cx_rx_bytes_buffered: 0", "cluster.up.upstream_cx_rx_bytes_buffered: 0", "listener.l.downstream_cx_active: 0")
}

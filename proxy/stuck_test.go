package proxy_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

const (
	stuckAfter   = "per_connection_buffer_limit_bytes: 16384, per_connection_buffer_high_watermark_timeout: 0.2s"
	stuckReasons = "%CONNECTION_TERMINATION_DETAILS% %DOWNSTREAM_LOCAL_CLOSE_REASON%"
	stuckLine    = "end buffer_high_watermark_timeout_reached buffer_high_watermark_timeout_reached\n"
)

// TestStuckConnections proves LM-13 with TestHeldDataIsBounded, TestTCPProxyStalled and
// TestLargeUploadIsBounded: a connection of which a buffer stays above its limit is closed
// after the time that the listener gives it, whether the client does not read or a filter
// does not take what came; one that falls below in time is not.
func TestStuckConnections(t *testing.T) {
	t.Run("client does not read", func(t *testing.T) {
		var logs syncBuffer
		up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = c.Write(make([]byte, 64<<20)) })
		r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up"), stuckAfter, logTo("end", stuckReasons)), upstreamAt("up", []string{up})), logged(&logs))
		c := r.dial(t, "l")
		r.until(t, "listener.l.downstream_cx_destroy: 1", "cluster.up.upstream_cx_active: 0", "tcp.p.downstream_flow_control_resumed_reading_total: 0")
		if n, err := io.Copy(io.Discard, c); n == 64<<20 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%d bytes, %v", n, err)
		}
		r.finish(t)
		if got := logs.String(); got != stuckLine {
			t.Errorf("logged %q", got)
		}
	})
	t.Run("client reads in time", func(t *testing.T) {
		const size = 8 << 20
		up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
			_, _ = c.Write(make([]byte, size))
			_, _ = io.CopyN(c, c, 1)
		})
		r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up"), "per_connection_buffer_limit_bytes: 16384, per_connection_buffer_high_watermark_timeout: 1.5s"), upstreamAt("up", []string{up})))
		c := r.dial(t, "l")
		r.until(t, "cluster.up.upstream_flow_control_paused_reading_total: 1")
		if n, err := io.Copy(io.Discard, io.LimitReader(c, size)); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		time.Sleep(1700 * time.Millisecond) // the time is over, but it does not count any more
		say(t, c, "!")
		ends(t, c, "!")
	})
	t.Run("filter does not take it", func(t *testing.T) {
		var logs syncBuffer
		events := make(chan string, 10000)
		r := start(t, threeAndEcho(stuckAfter, logTo("end", stuckReasons)), logged(&logs), networkProbes(recorders(events, map[string]func(*recorder){
			"b": func(b *recorder) {
				b.onData = func(*recorder, *filter.Buffer, bool) filter.NetworkStatus { return filter.NetworkStop }
			},
		}, "a", "b", "c")))
		c := r.dial(t, "l")
		small := r.dial(t, "l")
		say(t, small, "less than the limit")
		go func() { _, _ = c.Write(make([]byte, 1<<20)) }()
		r.until(t, "listener.l.downstream_cx_destroy: 1", "listener.l.downstream_cx_active: 1")
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		_ = small.Close()
		r.finish(t)
		if got := logs.String(); len(got) < len(stuckLine) || got[:len(stuckLine)] != stuckLine {
			t.Errorf("logged %q", got)
		}
	})
}

// TestLargeUploadIsBounded stalls the upstream of an upload of 1 GiB again and again. Partly
// proves LM-13: what the proxy holds of it stays within the limits of both connections' buffers
// and what one read brings, and all of it arrives.
func TestLargeUploadIsBounded(t *testing.T) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 1 << 26
	}
	const (
		limit = 32 << 10
		read  = 256 << 10
		stops = 8
	)
	total, stopped, goOn := make(chan int64, 1), make(chan struct{}), make(chan struct{})
	up := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		var n int64
		for range stops {
			stopped <- struct{}{}
			<-goOn
			k, _ := io.CopyN(io.Discard, c, size/stops)
			n += k
		}
		k, _ := io.Copy(io.Discard, c)
		total <- n + k
	})
	r := start(t, bootstrapOf(listen("l", tcpTo("p", "cluster: up"), "per_connection_buffer_limit_bytes: 32768"),
		upstreamAt("up", []string{up}, "per_connection_buffer_limit_bytes: 32768")))
	c := r.dial(t, "l")
	go func() {
		chunk := make([]byte, 1<<20)
		for range size / int64(len(chunk)) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
		_ = c.CloseWrite()
	}()
	for range stops {
		<-stopped
		until(t, func() string { return "reading has not stopped" }, func() bool {
			return r.number(t, "tcp.p.downstream_flow_control_paused_reading_total") > r.number(t, "tcp.p.downstream_flow_control_resumed_reading_total")
		})
		held := r.number(t, "tcp.p.downstream_cx_rx_bytes_total") - r.number(t, "cluster.up.upstream_cx_tx_bytes_total")
		if held > 2*limit+read {
			t.Errorf("%d bytes are held", held)
		}
		goOn <- struct{}{}
	}
	if n := <-total; n != size {
		t.Errorf("%d bytes arrived", n)
	}
	ends(t, c, "")
	r.until(t, "listener.l.downstream_cx_active: 0")
}

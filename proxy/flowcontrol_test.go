package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

const (
	pausedUp, resumedUp     = "cluster.back.upstream_flow_control_paused_reading_total", "cluster.back.upstream_flow_control_resumed_reading_total"
	pausedDown, resumedDown = "http.in.downstream_flow_control_paused_reading_total", "http.in.downstream_flow_control_resumed_reading_total"
)

// stalls waits until one side is read no more and nothing moves, and checks that
// the other side is not concerned.
func (v *serving) stalls(t *testing.T, paused, resumed, other string, most int) {
	t.Helper()
	last := -1
	for range 2000 {
		n := v.values(t)
		moved := n["cluster.back.upstream_cx_rx_bytes_total"] + n["http.in.downstream_cx_rx_bytes_total"]
		if n[paused] == n[resumed]+1 && moved == last {
			if n[other] != 0 {
				t.Errorf("%s is %d", other, n[other])
			}
			if moved > most {
				t.Errorf("%d bytes were taken", moved)
			}
			return
		}
		last = moved
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("it never stalls: %v", v.values(t)[paused])
}

// Proves NF-06, with TestTCPProxyStalled: while one side takes nothing, the other
// is read no more; it is that side's counters that tell. Everything arrives when
// the one takes it again.
func TestFlowControl(t *testing.T) {
	const size, little, most = 64 << 20, 4 << 20, 32 << 20
	body := strings.Repeat("x", size)
	serveWith := func(t *testing.T, play func(w *wire, head string)) *serving {
		t.Helper()
		return (&site{
			hosts: []string{backend(t, func(w *wire, _ int) {
				if h := w.head(); h != "" {
					play(w, h)
				}
			})},
			manager: websockets, listener: "per_connection_buffer_limit_bytes: 32768,", cluster: "per_connection_buffer_limit_bytes: 32768,",
			routes: "{match: {prefix: /}, route: {cluster: back, timeout: 0s}}",
		}).serve(t)
	}
	sending := func(w *wire, h string) {
		head, body := switching, body
		if fieldOf(h, "upgrade") == "" {
			head = fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n", size)
		}
		if strings.HasPrefix(h, "GET /little") {
			head, body = fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n", little), body[:little]
		}
		_, _ = io.WriteString(w, head+body)
		w.untilClosed()
	}
	goOn := make(chan struct{}, 1)
	taking := func(w *wire, h string) {
		if fieldOf(h, "upgrade") != "" {
			w.send(switching)
		}
		<-goOn
		n, _ := io.CopyN(io.Discard, w.r, size)
		w.send("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n%08d", n)
		w.untilClosed()
	}
	want := func(t *testing.T, r io.Reader) {
		t.Helper()
		if n, err := io.CopyN(io.Discard, r, size); n != size || err != nil {
			t.Errorf("%d bytes came, %v", n, err)
		}
	}
	t.Run("response", func(t *testing.T) {
		v := serveWith(t, sending)
		w := v.dial(t)
		w.get("/")
		v.stalls(t, pausedUp, resumedUp, pausedDown, most)
		w.head()
		want(t, w.r)
	})
	t.Run("response of HTTP/2", func(t *testing.T) {
		v := serveWith(t, sending)
		f := v.dial2(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		f.ask(1, "GET", "/little", true)
		v.stalls(t, pausedUp, resumedUp, pausedDown, most)
		_ = f.WriteWindowUpdate(0, little)
		_ = f.WriteWindowUpdate(1, little)
		if got := f.outcome(1); len(got) != len("200 ")+little {
			t.Errorf("%d bytes came", len(got))
		}
	})
	t.Run("upgraded, to the client", func(t *testing.T) {
		v := serveWith(t, sending)
		w := v.upgraded(t, "/")
		v.stalls(t, pausedUp, resumedUp, pausedDown, most)
		want(t, w.r)
	})
	t.Run("request", func(t *testing.T) {
		v := serveWith(t, taking)
		w := v.dial(t)
		go func() {
			_, _ = io.WriteString(w, fmt.Sprintf("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n", size)+body)
		}()
		v.stalls(t, pausedDown, resumedDown, pausedUp, most)
		goOn <- struct{}{}
		w.want(fmt.Sprintf("200 %08d", size))
	})
	t.Run("request of HTTP/2", func(t *testing.T) {
		v := serveWith(t, func(w *wire, _ string) {
			<-goOn
			w.untilClosed()
		})
		f := v.dial2(t)
		f.ask(1, "POST", "/", false)
		go func() {
			for range 512 { // 8 MiB, which the windows allow
				if f.WriteData(1, false, make([]byte, 16<<10)) != nil {
					return
				}
			}
		}()
		v.stalls(t, pausedDown, resumedDown, pausedUp, most)
		goOn <- struct{}{}
		for n := map[string]int(nil); n[pausedDown] == 0 || n[pausedDown] != n[resumedDown]; n = v.values(t) {
			time.Sleep(time.Millisecond)
		}
	})
	t.Run("upgraded, to the host", func(t *testing.T) {
		v := serveWith(t, taking)
		w := v.upgraded(t, "/")
		go func() { _, _ = io.WriteString(w, body) }()
		v.stalls(t, pausedDown, resumedDown, pausedUp, most)
		goOn <- struct{}{}
		w.want(fmt.Sprintf("200 %08d", size))
	})
}

package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	echov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// kept is an HTTP/1 connection that asks again and again.
type kept struct {
	c net.Conn
	b *bufio.Reader
}

func keep(t *testing.T, address string) *kept {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return &kept{c, bufio.NewReader(c)}
}

// ask is "open" if the connection goes on after a response, "last" if that says
// close, and "closed" if there is none.
func (k *kept) ask(t *testing.T) string {
	t.Helper()
	_, _ = io.WriteString(k.c, "GET / HTTP/1.1\r\nhost: a\r\n\r\n")
	resp, err := http.ReadResponse(k.b, nil)
	if err != nil {
		return "closed"
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.Close {
		return "last"
	}
	return "open"
}

func refuses(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err != nil
}

// happens waits for something.
func happens(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("it does not become so: %s", what)
}

// drainsWithin is how long connections get, which are all asked at once.
func drainsWithin(d time.Duration) func(*proxyrun.Flags, *proxy.Options) {
	return func(_ *proxyrun.Flags, o *proxy.Options) { o.ListenerDrainTime, o.DrainImmediately = d, true }
}

// Partly proves AD-13, HR-01: while the health check is failed the state is
// DRAINING and connections of HTTP end with their next response, except with
// drain_type MODIFY_ONLY; raw ones and new ones are served. The filter health_check
// is not built.
func TestHealthCheckFail(t *testing.T) {
	s := newSource()
	listeners := listen("l", okFilter) + listen("keeps", okFilter, "drain_type: MODIFY_ONLY") + listen("raw", echoFilter)
	r := start(t, bootstrapOf(listeners, ""), s.by)
	line, other := keep(t, r.at("l")), keep(t, r.at("keeps"))
	raw := r.dial(t, "raw")
	same(t, "before", line.ask(t)+other.ask(t), "openopen")
	post := func(path string) {
		t.Helper()
		if a := r.ask(t, "POST", path, ""); a.status != 200 || a.body != "OK\n" {
			t.Errorf("POST %s: %d %q", path, a.status, a.body)
		}
	}
	post("/healthcheck/fail")
	if a := r.ask(t, "GET", "/ready", ""); a.status != 503 || a.body != "DRAINING\n" {
		t.Errorf("/ready: %d %q", a.status, a.body)
	}
	if got := r.get(t, "/server_info"); !strings.Contains(got, `"state": "DRAINING"`) {
		t.Errorf("/server_info: %s", got)
	}
	r.until(t, "server.live: 0", "server.state: 1")
	same(t, "while it fails", line.ask(t)+line.ask(t)+other.ask(t), "lastclosedopen")
	same(t, "a new one", keep(t, r.at("l")).ask(t), "last")
	r.until(t, "http.in.downstream_cx_drain_close: 2")
	at := freeAddress(t)
	must(t, r.Resources().SetListener(listenerAt("late", at, chainOf(manager(with(saying("r", "late"))))), "1"))
	happens(t, "a listener that comes later does as the others", func() bool { return !refuses(at) && keep(t, at).ask(t) == "last" })
	_, err := io.WriteString(raw, "x")
	must(t, err)
	var b [1]byte
	_, err = io.ReadFull(raw, b[:])
	must(t, err)
	post("/healthcheck/ok")
	same(t, "/ready", r.get(t, "/ready"), "LIVE\n")
	r.until(t, "server.live: 1", "server.state: 0")
	line = keep(t, r.at("l"))
	same(t, "after it", line.ask(t)+line.ask(t)+keep(t, at).ask(t), "openopenopen")
}

// Proves AD-14. Partly proves HR-01, HR-02: sockets are closed at once, or after the
// drain time, in which connections are asked to end; those of one direction only,
// or none if the proxy is to go on; what is raw stays.
func TestDrainListeners(t *testing.T) {
	inbound := "traffic_direction: INBOUND"
	listeners := listen("in", okFilter, inbound) + listen("out", okFilter) + listen("raw", echoFilter, inbound)
	for _, c := range []struct {
		query    string
		time     time.Duration
		requests string // of a connection of each, after it
		refused  string // in the end
	}{
		{"", time.Hour, "last last", "in out raw"},
		{"?inboundonly", time.Hour, "last open", "in raw"},
		{"?graceful", 50 * time.Millisecond, "last last", "in out raw"},
		{"?graceful&inboundonly", 50 * time.Millisecond, "last open", "in raw"},
		{"?graceful&skip_exit", 50 * time.Millisecond, "last last", ""},
		{"?skip_exit", 50 * time.Millisecond, "last last", ""},
		{"?graceful", time.Hour, "last last", ""},
	} {
		t.Run(c.query+fmt.Sprint(c.time), func(t *testing.T) {
			s := newSource()
			r := start(t, bootstrapOf(listeners, ""), s.by, drainsWithin(c.time))
			addresses := map[string]string{}
			for _, name := range []string{"in", "out", "raw"} {
				addresses[name] = r.at(name)
			}
			in, out, raw := keep(t, r.at("in")), keep(t, r.at("out")), r.dial(t, "raw")
			same(t, "before", in.ask(t)+" "+out.ask(t), "open open")
			for range 2 { // the second changes nothing
				if a := r.ask(t, "POST", "/drain_listeners"+c.query, ""); a.status != 200 || a.body != "OK\n" {
					t.Fatalf("%d %q", a.status, a.body)
				}
			}
			same(t, "/ready", r.get(t, "/ready"), "LIVE\n")
			same(t, "requests", in.ask(t)+" "+out.ask(t), c.requests)
			time.Sleep(100 * time.Millisecond)
			happens(t, "refused are: "+c.refused, func() bool {
				var refused []string
				for _, name := range []string{"in", "out", "raw"} {
					if refuses(addresses[name]) {
						refused = append(refused, name)
					}
				}
				return strings.Join(refused, " ") == c.refused
			})
			r.until(t, fmt.Sprintf("listener_manager.listener_stopped: %d", len(strings.Fields(c.refused))))
			_, err := io.WriteString(raw, "x")
			must(t, err)
			var b [1]byte
			_, err = io.ReadFull(raw, b[:])
			must(t, err)
			at := freeAddress(t)
			l := listenerAt("late", at, chainOf(manager(with(saying("r", "late")))))
			l.TrafficDirection = corev3.TrafficDirection_INBOUND
			must(t, r.Resources().SetListener(l, "1"))
			if c.refused != "" && !refuses(at) {
				t.Error("a listener is added although those of its direction were stopped")
			}
			if c.refused == "" {
				happens(t, "a listener that comes later does as the others", func() bool { return !refuses(at) && keep(t, at).ask(t) == "last" })
			}
		})
	}
}

// Partly proves HR-02: a raw connection of a listener that is removed is served until the
// drain time is over, and closed then; one of HTTP ends with its next response.
// There are no filters for Redis and Mongo.
func TestRawConnectionsLiveUntilTheDrainTimeEnds(t *testing.T) {
	const life = 600 * time.Millisecond
	s := newSource()
	r := start(t, byHeader, s.by, drainsWithin(life))
	res := r.Resources()
	rawAt, httpAt := freeAddress(t), freeAddress(t)
	echo := &listenerv3.FilterChain{Filters: []*listenerv3.Filter{{Name: "echo", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(&echov3.Echo{})}}}}
	must(t, res.SetListener(listenerAt("raw", rawAt, echo), "1"))
	must(t, res.SetListener(listenerAt("web", httpAt, chainOf(manager(with(saying("r", "x"))))), "1"))
	happens(t, "open", func() bool { return !refuses(rawAt) && !refuses(httpAt) })
	raw, web := keep(t, rawAt), keep(t, httpAt)
	same(t, "before", web.ask(t), "open")
	_, err := io.WriteString(raw.c, "a")
	must(t, err)
	if b, err := raw.b.ReadByte(); err != nil || b != 'a' {
		t.Fatalf("%q, %v", b, err)
	}
	began := time.Now()
	res.RemoveListener("raw")
	res.RemoveListener("web")
	happens(t, "refused", func() bool { return refuses(rawAt) && refuses(httpAt) })
	same(t, "after", web.ask(t)+web.ask(t), "lastclosed")
	_, err = io.WriteString(raw.c, "b")
	must(t, err)
	if b, err := raw.b.ReadByte(); err != nil || b != 'b' {
		t.Fatalf("a raw connection does not live on: %q, %v", b, err)
	}
	if _, err := raw.b.ReadByte(); err == nil {
		t.Error("it says something by itself")
	}
	if took := time.Since(began); took < life || took > life+5*time.Second {
		t.Errorf("it ended after %v, want %v", took, life)
	}
}

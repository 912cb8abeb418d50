package proxy_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// held is a backend whose answers wait.
type held struct {
	*httptest.Server
	asked, answer chan struct{}
}

func newHeld(t *testing.T) *held {
	t.Helper()
	h := &held{asked: make(chan struct{}, 1), answer: make(chan struct{})}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked <- struct{}{}
		select {
		case <-h.answer:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "late")
	}))
	t.Cleanup(h.Close)
	return h
}

// through is a bootstrap that proxies to a backend.
func (h *held) through(t *testing.T) string {
	t.Helper()
	host, port, err := net.SplitHostPort(h.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := strings.Replace(small, "direct_response: {status: 200, body: {inline_string: old}}", "route: {cluster: back}", 1)
	return b + fmt.Sprintf(`
  - name: back
    load_assignment: {cluster_name: back, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]}
`, host, port) + adminHere
}

func drainTime(d time.Duration) func(*proxyrun.Flags, *proxy.Options) {
	return func(_ *proxyrun.Flags, o *proxy.Options) { o.DrainTime = d }
}

// Proves HR-03 and AD-02: told to end, the proxy is not ready any more, takes no
// connections, and finishes the request under way.
func TestDrain(t *testing.T) {
	h := newHeld(t)
	r := start(t, h.through(t), drainTime(time.Minute))
	front := r.Listeners()["front"][0]
	answered := make(chan string, 1)
	go func() {
		resp, err := r.client.Get("http://" + front)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		var b [8]byte
		n, _ := resp.Body.Read(b[:])
		answered <- fmt.Sprint(resp.StatusCode, " ", string(b[:n]))
	}()
	<-h.asked
	r.stop()
	a := r.ask(t, "GET", "/ready", "")
	for a.body == "LIVE\n" { // until Run has noticed
		a = r.ask(t, "GET", "/ready", "")
	}
	if a.status != 503 || a.body != "DRAINING\n" {
		t.Errorf("%d %q", a.status, a.body)
	}
	for { // until the workers have closed their sockets
		c, err := net.Dial("tcp", front)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	close(h.answer)
	if got := <-answered; got != "200 late" {
		t.Errorf("the request under way got %s", got)
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// Proves HR-03: what does not end within DrainTime is closed.
func TestDrainIsBounded(t *testing.T) {
	h := newHeld(t)
	r := start(t, h.through(t), drainTime(time.Millisecond))
	front := r.Listeners()["front"][0]
	failed := make(chan error, 1)
	go func() {
		resp, err := r.client.Get("http://" + front)
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-h.asked
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}

// Partly proves HR-03: a connection that has not come to its filter chain when the proxy
// is told to end is served like others, and ends with its response.
func TestDrainOfWhoHasSaidNothing(t *testing.T) {
	waiting := strings.Replace(small, "    stat_prefix: front\n", `    stat_prefix: front
    listener_filters:
    - name: envoy.filters.listener.tls_inspector
      typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}
`, 1)
	r := start(t, waiting+adminHere, drainTime(time.Minute))
	front := r.Listeners()["front"][0]
	l := dialLine(t, front, "")
	r.until(t, "listener.front.downstream_pre_cx_active: 1")
	r.stop()
	for { // until the workers have closed their sockets
		c, err := net.Dial("tcp", front)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	l.expect(t, "old", false)
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

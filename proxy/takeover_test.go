package proxy_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// A listener whose address another one takes over in the same response is no obstacle to
// that, as in Envoy; nor is any connection refused meanwhile. Partly proves LM-04.
func TestAddressChangesHands(t *testing.T) {
	r := start(t, byHeader, newSource().by, drainingAtOnce)
	res := r.Resources()
	at := freeAddress(t)
	must(t, res.SetListener(listenerAt("a", at, chainOf(manager(with(saying("r", "a"))))), "1"))
	becomes(t, at, "a")
	if err := res.SetListener(listenerAt("b", at, chainOf(manager(with(saying("r", "b"))))), "2"); err == nil {
		t.Fatal("two listeners have an address")
	}
	var failed atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
			resp, err := c.Get("http://" + at)
			if err != nil {
				failed.Add(1)
				continue
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	names := [2]string{"a", "b"}
	for i := range 10 {
		from, to := names[i%2], names[(i+1)%2]
		res.Leaving([]string{from})
		must(t, res.SetListener(listenerAt(to, at, chainOf(manager(with(saying("r", to))))), "2"))
		res.RemoveListener(from)
		res.Leaving(nil)
		becomes(t, at, to)
	}
	close(stop)
	<-stopped
	if n := failed.Load(); n > 0 {
		t.Errorf("%d requests failed", n)
	}
	if err := res.SetListener(listenerAt("b", at, chainOf(manager(with(saying("r", "b"))))), "3"); err == nil {
		t.Error("the address can be had although nobody leaves")
	}
	res.RemoveListener("a")
	becomes(t, at, "error")
}

// Connections to an address whose new listener waits for its routes wait, too.
func TestAddressChangesHandsWhileWarming(t *testing.T) {
	r := start(t, byHeader, newSource().by, drainingAtOnce)
	res := r.Resources()
	at := freeAddress(t)
	must(t, res.SetListener(listenerAt("a", at, chainOf(manager(with(saying("r", "a"))))), "1"))
	becomes(t, at, "a")
	res.Leaving([]string{"a"})
	must(t, res.SetListener(listenerAt("b", at, chainOf(manager(byRDS("b")))), "1"))
	res.RemoveListener("a")
	res.Leaving(nil)
	time.Sleep(50 * time.Millisecond) // the workers know
	c, err := net.Dial("tcp", at)
	must(t, err)
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); err == nil || n > 0 || err == io.EOF { //nolint:errorlint // it is not wrapped
		t.Errorf("an answer of %d bytes, %v, before there are routes", n, err)
	}
	must(t, res.SetRoutes(ads(), saying("b", "b"), "1"))
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "\r\n\r\nb") {
		t.Errorf("%q, %v", b, err)
	}
	// One that never comes to serve leaves nothing behind.
	res.Leaving([]string{"b"})
	must(t, res.SetListener(listenerAt("c", at, chainOf(manager(byRDS("c")))), "1"))
	res.RemoveListener("b")
	res.Leaving(nil)
	res.RemoveListener("c")
	becomes(t, at, "error")
	must(t, res.SetListener(listenerAt("d", at, chainOf(manager(with(saying("r", "d"))))), "1"))
	becomes(t, at, "d")
}

// What is wrong from the start does not keep others waiting, as in Envoy: clusters have
// no hosts, listeners no routes and no certificates. Partly proves CM-04, LM-01.
func TestWrongFromTheStart(t *testing.T) {
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	must(t, res.SetCluster(edsCluster("x", "svc"), "1"))
	r.expect(t, "x", "503 ")
	bad := assignment("svc", "127.0.0.1:1")
	bad.Endpoints[0].LbEndpoints[0].GetEndpoint().GetAddress().GetSocketAddress().Address = "no.address"
	if res.SetEndpoints(ads(), bad, "1") == nil {
		t.Error("a bad assignment is taken")
	}
	r.expect(t, "x", "503 no healthy upstream")
	at := freeAddress(t)
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(byRDS("one")))), "1"))
	rc := saying("one", "one")
	rc.VirtualHosts = append(rc.GetVirtualHosts(), rc.GetVirtualHosts()[0])
	if res.SetRoutes(ads(), rc, "1") == nil {
		t.Error("bad routes are taken")
	}
	becomes(t, at, "")
	must(t, res.SetRoutes(ads(), saying("one", "one"), "2"))
	becomes(t, at, "one")
	secured := freeAddress(t)
	c := chainOf(manager(with(saying("r", "never"))))
	c.TransportSocket = socketOf(downstream("cert"))
	must(t, res.SetListener(listenerAt("s", secured, c), "1"))
	if res.SetSecret(ads(), &tlsv3.Secret{Name: "cert", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{}}}, "1") == nil {
		t.Error("a bad secret is taken")
	}
	waitOpen(t, secured)
}

// The error of what was refused is over when what is in force comes again.
func TestErrorEnds(t *testing.T) {
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	at := freeAddress(t)
	good := func() {
		must(t, res.SetListener(listenerAt("l", at, chainOf(manager(with(saying("r", "x"))))), "1"))
		must(t, res.SetCluster(staticCluster("x", "127.0.0.1:1"), "1"))
	}
	good()
	shown := func() bool { return strings.Contains(r.get(t, "/config_dump"), "error_state") }
	_ = res.SetListener(&listenerv3.Listener{Name: "l", Address: &corev3.Address{}}, "2")
	if !shown() {
		t.Error("no error is shown")
	}
	good()
	if shown() {
		t.Error("the error is still shown")
	}
	_ = res.SetListener(&listenerv3.Listener{Name: "new", Address: &corev3.Address{}}, "2")
	if !shown() {
		t.Error("no error is shown of a new one")
	}
	res.RemoveListener("new")
	if shown() {
		t.Error("the error of what is gone is shown")
	}
}

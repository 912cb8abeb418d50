package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// nothing is a source that has nothing of what requests ask for, and keeps no log.
type nothing struct {
	*source
	mu           sync.Mutex
	held         map[string]bool
	asked, dirty int
}

func (n *nothing) Want(typeURL, name string, s *corev3.ConfigSource) {
	if !made(typeURL, name) {
		n.source.Want(typeURL, name, s)
		return
	}
	n.mu.Lock()
	n.asked++
	if n.held[name] {
		n.dirty++
	}
	n.held[name] = true
	n.mu.Unlock()
	n.res.Missing(s, typeURL, name)
}

func (n *nothing) Unwant(typeURL, name string, s *corev3.ConfigSource) {
	if !made(typeURL, name) {
		n.source.Unwant(typeURL, name, s)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.held[name] {
		n.dirty++
	}
	delete(n.held, name)
}

// made tells names that a client has made up.
func made(typeURL, name string) bool {
	return typeURL == proxy.ClusterType || typeURL == proxy.VirtualHostType && !strings.HasSuffix(name, "/")
}

// flood sends requests of a host or a cluster each, on a few connections.
func flood(t *testing.T, r *running, from, to int, request func(i int) string) {
	t.Helper()
	var wg sync.WaitGroup
	const conns = 4
	for c := range conns {
		wg.Go(func() {
			conn, err := net.Dial("tcp", r.Listeners()["front"][0])
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for i := from + c; i < to; i += conns {
				fmt.Fprint(conn, request(i))
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("%v %v", resp, err)
					return
				}
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // less than the address space
}

// Hosts and clusters that clients make up leave nothing behind: neither a name
// that is asked for, nor memory.
func TestMadeUpNamesLeaveNothing(t *testing.T) {
	many := 20_000
	if testing.Short() {
		many = 2000
	}
	for _, c := range []struct {
		name    string
		request func(int) string
	}{
		{"hosts", func(i int) string { return fmt.Sprintf("GET / HTTP/1.1\r\nHost: h%d.made.up\r\n\r\n", i) }},
		{"clusters", func(i int) string { return fmt.Sprintf("GET / HTTP/1.1\r\nHost: h.example\r\nx-to: c%d\r\n\r\n", i) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &nothing{source: newSource(), held: map[string]bool{}}
			r := begin(t, onDemand(", odcds: {source: {ads: {}}, timeout: 60s}"), n.by, func(_ *proxyrun.Flags, o *proxy.Options) { o.Discovery = n })
			n.waits(t, "RouteConfiguration rc")
			must(t, r.Resources().SetRoutes(ads(), growing(byHeaderHost("h.example")), "1"))
			r.Resources().Answered(ads(), "rc", "1", nil)
			<-r.Ready()
			flood(t, r, 0, 2000, c.request) // fills what is remembered
			before := heap()
			flood(t, r, 2000, 2000+many, c.request)
			if grown := heap() - before; grown > 1<<20 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			if len(n.held) > 4 || n.asked != 2000+many || n.dirty > 0 {
				t.Errorf("%d names are still asked for, of %d; %d were asked for or given up twice", len(n.held), n.asked, n.dirty)
			}
		})
	}
}

// Names that wait for an answer are bounded: who asks for one more goes on at
// once, until somebody gives up waiting, whose name is given up for it then.
func TestUnansweredNamesAreBounded(t *testing.T) {
	s := newSource()
	r := serveHosts(t, s, "")
	const most = 1000
	conns := make([]net.Conn, most)
	for i := range conns {
		c, err := net.Dial("tcp", r.Listeners()["front"][0])
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: h%d.example\r\n\r\n", i)
		conns[i] = c
	}
	r.becomesStat(t, "http.in.downstream_rq_active", "1000")
	s.waits(t, fmt.Sprintf("VirtualHost rc/h%d.example", most-1))
	for range 2 {
		same(t, "one too many", r.of(t, "more.example", "/", ""), "404 ")
	}
	r.becomesStat(t, "on_demand.overflow", "2")
	must(t, conns[7].Close())
	r.becomesStat(t, "http.in.downstream_rq_active", "999")
	if !s.all()["VirtualHost rc/h7.example"] {
		t.Error("a name without an answer is given up though there is room")
	}
	more := r.later(t, "more.example", "/", "")
	s.waits(t, "VirtualHost rc/more.example")
	s.gone(t, "VirtualHost rc/h7.example")
	bring(t, r.Resources(), host("more", "more", "more.example"))
	r.Resources().Resolved(ads(), proxy.VirtualHostType, "rc/more.example")
	same(t, "in its place", <-more, "200 more")
}

// What cannot be a host, or the name of one cluster, is not asked for.
func TestNamesThatCannotBe(t *testing.T) {
	s := finding(t, namedBackend(t, "found"))
	r := serveHosts(t, s, ", odcds: {source: {ads: {}}, timeout: 60s}", byHeaderHost("h.example"))
	for _, name := range []string{strings.Repeat("x", 256), "*.example", "a%20b", "a,b", "ex~ample", "a'b"} {
		c, err := net.Dial("tcp", r.Listeners()["front"][0])
		must(t, err)
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		if resp.StatusCode/100 != 4 {
			t.Errorf("%q: %s", name, resp.Status)
		}
		must(t, resp.Body.Close())
		must(t, c.Close())
	}
	for _, name := range []string{"*", "xdstp://a/envoy.config.cluster.v3.Cluster/*", strings.Repeat("x", 1025)} {
		same(t, name, r.to(t, name), "503 ")
	}
	for _, e := range s.log() {
		if strings.HasPrefix(e, "+Cluster ") || strings.HasPrefix(e, "+VirtualHost rc/") && e != "+VirtualHost rc/" {
			t.Error(e)
		}
	}
	same(t, "an address", r.of(t, "[::1]:80", "/", "")[:4], "503 ")
}

package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/xebec-proxy/xebec/filter"
)

// hashedState is an object of the filter state that can be hashed.
type hashedState string

func (h hashedState) Hash() (uint64, bool) { return xxhash.Sum64String(string(h)), h != "" }

// TestHashOfFilterState has a filter name each connection before it: connections
// with the same name get the same host, of those with different ones not all do,
// and the requests of a connection go by its name, too.
// Partly proves NF-07, RT-24.
func TestHashOfFilterState(t *testing.T) {
	var ports []string
	for i := range 4 {
		ports = append(ports, serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 10)) // a request, and not what comes with its end
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\n%d", i)
			_, _ = io.Copy(io.Discard, c)
		}))
	}
	name := make(chan hashedState, 1)
	events := make(chan string, 1000)
	manager := strings.Replace(okFilter, "direct_response: {status: 200, body: {inline_string: fine}}", "route: {cluster: c, hash_policy: [{filter_state: {key: state}}]}", 1)
	if manager == okFilter {
		t.Fatal("the filter has changed")
	}
	r := start(t, bootstrapOf(listen("tcp", probe("a")+","+tcpTo("p", "cluster: c", "hash_policy: [{filter_state: {key: state}}]"))+listen("http", probe("a")+","+manager),
		upstreamAt("c", ports, "lb_policy: MAGLEV")), networkProbes(recorders(events, map[string]func(*recorder){
		"a": func(a *recorder) {
			a.onNew = func(*recorder) filter.NetworkStatus {
				a.conn.Info().SetState("state", <-name)
				return filter.NetworkContinue
			}
		},
	}, "a")))
	ask := func(listener, state string) string {
		t.Helper()
		name <- hashedState(state)
		c := r.dial(t, listener)
		defer c.Close()
		say(t, c, "GET / HTTP/1.1\r\nhost: a\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for len(events) > 0 {
			<-events
		}
		return string(body)
	}
	hosts := map[string]bool{}
	for i := range 16 {
		state := fmt.Sprint("name ", i)
		host := ask("tcp", state)
		hosts[host] = true
		for _, l := range []string{"tcp", "http"} {
			if again := ask(l, state); again != host {
				t.Errorf("%s: %s goes to %s, and before to %s", l, state, again, host)
			}
		}
	}
	if len(hosts) < 3 {
		t.Errorf("only %v were chosen", hosts)
	}
}

// Partly proves RT-24: who has no cookie is given one, each time, and who has it is not; the
// source is the client's, wherever the connection comes from.
func TestHashOfClients(t *testing.T) {
	var hosts []string
	for i := range 8 {
		hosts = append(hosts, answering(t, fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d", i)))
	}
	v := (&site{
		hosts: hosts, cluster: "lb_policy: MAGLEV,",
		routes: `{match: {prefix: /cookie}, route: {cluster: back, hash_policy: [{cookie: {name: c, ttl: 60s, path: /p}}]}},
			{match: {prefix: /ip}, route: {cluster: back, hash_policy: [{connection_properties: {source_ip: true}}]}},
			{match: {prefix: /}, route: {cluster: back}}`,
	}).serve(t)
	w := v.dial(t)
	cookie, host := "", ""
	for range 3 { // on one connection it is the same one
		w.get("/cookie")
		r := w.reply()
		if set := r.header.Values("set-cookie"); len(set) != 1 || cookie != "" && set[0] != cookie || !strings.HasSuffix(set[0], "; Max-Age=60; Path=/p; HttpOnly") {
			t.Fatalf("set-cookie: %q, before %q", set, cookie)
		}
		if host != "" && host != r.body {
			t.Errorf("with a new cookie to %s, before to %s", r.body, host)
		}
		cookie, host = r.header.Get("set-cookie"), r.body
	}
	value, _, _ := strings.Cut(cookie, ";")
	for range 3 { // with it, from any connection
		w = v.dial(t)
		w.get("/cookie", "cookie: "+value)
		if r := w.want("200 " + host); len(r.header.Values("set-cookie")) > 0 {
			t.Errorf("given again: %q", r.header)
		}
	}
	w.get("/")
	if r := w.reply(); len(r.header.Values("set-cookie")) > 0 {
		t.Errorf("without a policy: %q", r.header)
	}
	seen := map[string]bool{}
	for i := range 40 {
		from := fmt.Sprint("x-forwarded-for: 192.0.2.", i)
		w.get("/ip", from)
		first := w.reply().String()
		w.get("/ip", from)
		w.want(first)
		seen[first] = true
	}
	if len(seen) < 4 {
		t.Errorf("all clients went to %v", seen)
	}
}

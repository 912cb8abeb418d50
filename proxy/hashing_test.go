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

//go:build interop

package proxy

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// statsd is a server that adds up what it is sent.
type statsd struct {
	mu       sync.Mutex
	counters map[string]int
	bad      []string
	kinds    map[string]int
}

func (s *statsd) play(c *net.TCPConn) {
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		s.line(lines.Text())
	}
}

func (s *statsd) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest, kind, ok := strings.Cut(text, "|")
	kind, _, _ = strings.Cut(kind, "|@") // a sample rate
	name, value, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || !strings.HasPrefix(name, "envoy.") {
		s.bad = append(s.bad, text)
		return
	}
	s.kinds[kind]++
	if kind == "c" {
		n, err := strconv.Atoi(value)
		if err != nil {
			s.bad = append(s.bad, text)
		}
		s.counters[strings.TrimPrefix(name, "envoy.")] += n
	}
}

// testStatsd gives the sink's cluster a host, which the configuration leaves
// out, and compares what it is sent with what /stats says.
func testStatsd(t *testing.T, config string) {
	for _, b := range []brand{envoy(), xebec()} {
		sink := &statsd{counters: map[string]int{}, kinds: map[string]int{}}
		host := fmt.Sprintf("- {name: some_statsd_sink, load_assignment: {cluster_name: some_statsd_sink, endpoints: [{lb_endpoints: "+
			"[{endpoint: {address: %s}}]}]}}", address(peer(t, sink.play)))
		if err := os.MkdirAll("/var/log/envoy", 0o755); err != nil {
			t.Fatal(err)
		}
		s := b.start(t, strings.Replace(config, "- name: some_statsd_sink", host, 1), "--service-node", "front", "--service-cluster", "edge")
		talk(t)
		const counters = `^(http\.ingress_http\.downstream_(rq_([245]xx|total|completed|http2_total)|cx_total)|cluster\.some_service\.upstream_(rq_total|rq_200|cx_total))$`
		harness.Eventually(t, 8*time.Second, s.Name+" sends what it counts", func() error {
			want := s.Stats(t, counters)
			sink.mu.Lock()
			defer sink.mu.Unlock()
			got := map[string]int{}
			for name := range want {
				got[name] = sink.counters[name]
			}
			if diff := cmp.Diff(want, got); diff != "" || want["http.ingress_http.downstream_rq_total"] != 9 {
				return fmt.Errorf("-/stats +statsd:\n%s", diff)
			}
			return nil
		})
		sink.mu.Lock()
		if len(sink.bad) > 0 || sink.kinds["g"] == 0 || sink.kinds["ms"] == 0 || len(sink.kinds) != 3 {
			t.Errorf("%s sends %v, and what is nothing: %q", s.Name, sink.kinds, sink.bad)
		}
		sink.mu.Unlock()
		s.Stop(t)
	}
}

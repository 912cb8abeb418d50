//go:build interop

package proxy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// soakRequests is how many requests the soak test makes, unless
// XEBEC_SOAK_REQUESTS says so.
const soakRequests = 5000

// soakWorkers is how many requests are under way at once.
const soakWorkers = 24

// ledger is what the clients and the upstream servers of a soak know must be
// counted.
type ledger struct {
	mu       sync.Mutex
	logged   map[string]string         // status by request
	counters map[string]int            // by the name of the statistic
	hosts    map[string]map[string]int // of /clusters, by cluster
	errors   []string
}

func newLedger() *ledger {
	return &ledger{logged: map[string]string{}, counters: map[string]int{}, hosts: map[string]map[string]int{}}
}

func (l *ledger) add(n int, names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.counters[name] += n
	}
}

func (l *ledger) host(cluster string, names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[cluster] == nil {
		l.hosts[cluster] = map[string]int{}
	}
	for _, name := range names {
		l.hosts[cluster][name]++
	}
}

func (l *ledger) wrong(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errors) < 20 {
		l.errors = append(l.errors, fmt.Sprintf(format, args...))
	}
}

// answered notes the response to a request: status 0 is none.
func (l *ledger) answered(id, listener, cluster string, status int) {
	prefix := "http." + listener + ".downstream_rq_"
	names := []string{prefix + "total"}
	if status != 0 {
		class := fmt.Sprintf("%dxx", status/100)
		names = append(names, prefix+"completed", prefix+class)
		if cluster != "" {
			names = append(names, "cluster."+cluster+".upstream_rq_"+class, "cluster."+cluster+".upstream_rq_completed", fmt.Sprintf("cluster.%s.upstream_rq_%d", cluster, status))
		}
	}
	l.add(1, names...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logged[id] = strconv.Itoa(status)
}

// soak is a proxy in use, with its clients and servers.
type soak struct {
	*ledger
	boot    *bootstrap
	clients map[string]*soakClient
	upstr   *soakUpstream
}

func newSoak(t *testing.T) *soak {
	s := &soak{ledger: newLedger(), clients: map[string]*soakClient{}}
	s.upstr = &soakUpstream{ledger: s.ledger, seen: map[string]chan struct{}{}, tries: map[string]int{}}
	s.boot = (&bootstrap{log: filepath.Join(t.TempDir(), "access.log"), format: "%REQ(x-id)% %RESPONSE_CODE%\n"}).ports(t)
	// The breakers have tests of their own; here they would make the counts
	// depend on chance.
	const wide = "circuit_breakers: {thresholds: [{max_connections: 10000, max_pending_requests: 10000, max_requests: 10000, max_retries: 10000}]}"
	for _, c := range []cluster{
		{name: "one"},
		{name: "two", http2: true},
		{name: "retry", route: "retry_policy: {retry_on: 5xx, num_retries: 2, retry_back_off: {base_interval: 0.001s, max_interval: 0.01s}}"},
		{name: "slow", http2: true, route: "timeout: 0.3s"},
	} {
		c.ports, c.more = []int{serve(t, false, s.upstr), serve(t, false, s.upstr)}, wide
		s.boot.clusters = append(s.boot.clusters, c)
	}
	s.clients["h1"] = newSoakClient(t, "h1", fmt.Sprintf("http://127.0.0.1:%d", s.boot.h1), false)
	s.clients["h2"] = newSoakClient(t, "h2", fmt.Sprintf("http://127.0.0.1:%d", s.boot.h2), true)
	s.clients["tls1"] = newSoakClient(t, "tls", fmt.Sprintf("https://127.0.0.1:%d", s.boot.tls), false)
	s.clients["tls2"] = newSoakClient(t, "tls", fmt.Sprintf("https://127.0.0.1:%d", s.boot.tls), true)
	return s
}

// run makes the requests.
func (s *soak) run(t *testing.T, total int) {
	kinds := soakKinds()
	names := []string{"h1", "h2", "tls1", "tls2"}
	var all sync.WaitGroup
	for w := range soakWorkers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 42)) //nolint:gosec // the same each time
			for i := w; i < total && t.Context().Err() == nil; i += soakWorkers {
				kind := kinds[random.IntN(len(kinds))]
				kind(s, &soakRequest{id: fmt.Sprintf("r%d", i), client: s.clients[names[random.IntN(len(names))]], random: random})
			}
		})
	}
	all.Wait()
}

// Proves RQ-02, RQ-07 and CB-08: after thousands of requests of all kinds, with
// slow and aborting clients, failing and vanishing servers, retries and
// timeouts, the clients' totals, /stats, /clusters and the access log agree
// exactly, and nothing is under way any more. Compared are:
//
//   - by request: one line of the access log, with the status the client got
//   - by listener: requests, responses, and responses by class
//   - by cluster: attempts as the servers saw them, responses by status and
//     class, retries by their results, timeouts
//   - by host, added up: attempts, successes and timeouts
func TestSoak(t *testing.T) {
	total := soakRequests
	if n, err := strconv.Atoi(os.Getenv("XEBEC_SOAK_REQUESTS")); err == nil {
		total = n
	}
	s := newSoak(t)
	p := xebec()
	if os.Getenv("XEBEC_SOAK_ENVOY") != "" {
		p = envoy() // to try what this test expects
	}
	proxy := p.start(t, s.boot.yaml())
	s.run(t, total)
	for _, c := range s.clients {
		c.close()
	}
	proxy.idle(t)
	for _, e := range s.errors {
		t.Error(e)
	}
	s.reconcile(t, proxy)
	s.readLog(t, total)
}

// reconcile compares /stats and /clusters with the ledger.
func (s *soak) reconcile(t *testing.T, proxy *server) {
	t.Helper()
	stats := proxy.Stats(t, `^(http|cluster)\.`)
	got := map[string]int{}
	for name := range s.counters {
		got[name] = stats[name]
	}
	if diff := cmp.Diff(s.counters, got); diff != "" {
		t.Errorf("-clients and servers +/stats:\n%s", diff)
	}
	page, err := proxy.Page("/clusters")
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)::127\.0\.0\.1:\d+::(rq_total|rq_success|rq_timeout|rq_active|cx_active)::(\d+)$`).FindAllStringSubmatch(page, -1) {
		if hosts[m[1]] == nil {
			hosts[m[1]] = map[string]int{}
		}
		n, _ := strconv.Atoi(m[3])
		if n > 0 {
			hosts[m[1]][m[2]] += n
		}
	}
	if diff := cmp.Diff(s.hosts, hosts); diff != "" {
		t.Errorf("-servers +/clusters:\n%s", diff)
	}
}

// readLog compares the access log with the ledger.
func (s *soak) readLog(t *testing.T, total int) {
	t.Helper()
	got := map[string]string{}
	for _, line := range logLines(t, s.boot.log, 10*time.Second, total) {
		id, status, _ := strings.Cut(line, " ")
		if old, twice := got[id]; twice {
			t.Errorf("%s is logged twice: %s, %s", id, old, status)
		}
		got[id] = status
	}
	if diff := cmp.Diff(s.logged, got); diff != "" {
		t.Errorf("-clients +access log:\n%s", diff)
	}
}

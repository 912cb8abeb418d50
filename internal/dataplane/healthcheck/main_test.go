package healthcheck

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func clusterOf(t testing.TB, js string) *clusterv3.Cluster {
	t.Helper()
	c := &clusterv3.Cluster{}
	if err := protojson.Unmarshal([]byte(js), c); err != nil {
		t.Fatalf("%v in %s", err, js)
	}
	return c
}

// network is hosts without sockets, by their address.
type network struct {
	mu     sync.Mutex
	hosts  map[string]*bufconn.Listener
	dialed []string
}

func (n *network) listen(addr string) *bufconn.Listener {
	l := bufconn.Listen(16 << 10)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = map[string]*bufconn.Listener{}
	}
	n.hosts[addr] = l
	return l
}

var errRefused = errors.New("connection refused")

func (n *network) dial(ctx context.Context, h *cluster.Host, _ *Config, _ string) (net.Conn, bool, error) {
	a := h.HealthCheckAddress()
	n.mu.Lock()
	n.dialed = append(n.dialed, a.String())
	l := n.hosts[a.String()]
	n.mu.Unlock()
	if l == nil {
		return nil, false, errRefused
	}
	conn, err := l.DialContext(ctx)
	return conn, false, err
}

// connections is how often an address was dialled.
func (n *network) connections(addr string) (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.dialed {
		if a == addr {
			times++
		}
	}
	return times
}

// bench is a cluster under check.
type bench struct {
	t       testing.TB
	c       *cluster.Cluster
	reg     *stats.Registry
	checker *Checker
	net     network
	updates []cluster.Update
	mu      sync.Mutex
	events  []string
	rt      map[string]uint64
}

func (b *bench) Integer(key string, def uint64) uint64 {
	if v, ok := b.rt[key]; ok {
		return v
	}
	return def
}

func (*bench) Double(_ string, def float64) float64 { return def }

// at is an endpoint's JSON.
func at(addr string) string {
	return `{"endpoint": {"address": {"socket_address": {"address": "` + addr + `", "port_value": 80}}}}`
}

// newBench makes a STATIC cluster c of one host, or that of js if it has a type, with
// these health checks.
func newBench(t testing.TB, checks, more string, endpoints ...string) *bench {
	t.Helper()
	if len(endpoints) == 0 {
		endpoints = []string{at("1.0.0.1")}
	}
	js := `{"name": "c", "health_checks": [` + checks + `]` + more
	if !strings.Contains(more, `"type"`) {
		js += `, "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [` + strings.Join(endpoints, ",") + `]}]}`
	}
	conf := clusterOf(t, js+"}")
	reg, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, reg: reg, rt: map[string]uint64{}}
	scope := reg.Scope("cluster.c")
	b.c, err = cluster.New(conf, cluster.Options{
		Registry: scope, Hosts: reg.Hidden(), Sink: reg.Main(),
		OnUpdate: func(u cluster.Update) {
			if b.checker != nil {
				b.checker.Update(&u)
			}
			b.mu.Lock()
			b.updates = append(b.updates, u)
			b.mu.Unlock()
		},
		OnFailure: func(h *cluster.Host) { b.checker.Fail(h) },
	})
	if err != nil {
		t.Fatal(err)
	}
	checksRead, err := Read(conf, true)
	if err != nil {
		t.Fatal(err)
	}
	b.checker = New(Options{
		Cluster: b.c, Checks: checksRead, Registry: scope, Sink: reg.Main(), Dial: b.net.dial,
		Runtime: func() cluster.Runtime { return b }, Random: func() uint64 { return 3 },
		Events: func(path string, line []byte) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, path+": "+string(line))
		},
	})
	return b
}

// run starts the checks; the function that it returns ends them.
func (b *bench) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.checker.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// flags are those of the only host.
func (b *bench) flags() string { return b.c.Hosts().Hosts()[0].HealthFlags() }

func (b *bench) ready() bool {
	select {
	case <-b.c.Ready():
		return true
	default:
		return false
	}
}

// counters are the statistics below health_check. that are not 0.
func (b *bench) counters() map[string]int64 {
	b.t.Helper()
	s, err := b.reg.Snapshot(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]int64{}
	for i, k := range b.checker.counts {
		at := ""
		if name := b.checker.o.Checks[i].Name; name != "" {
			at = name + "."
		}
		for name, c := range map[string]stats.Counter{
			"attempt": k.Attempt, "success": k.Success, "failure": k.Failure, "passive_failure": k.PassiveFailure,
			"network_failure": k.NetworkFailure, "verify_cluster": k.VerifyCluster,
		} {
			if v := s.Counter(c); v != 0 {
				out[at+name] = int64(v) //nolint:gosec // small
			}
		}
		for name, g := range map[string]stats.Gauge{"healthy": k.Healthy, "degraded": k.Degraded} {
			if v := s.Gauge(g); v != 0 {
				out[at+name] = int64(v) //nolint:gosec // small
			}
		}
	}
	return out
}

package xdsclient_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// management is a real server on loopback.
type management struct {
	t    *testing.T
	srv  *xdsserver.Server
	gs   *grpc.Server
	addr string
	done chan error

	mu      sync.Mutex
	methods []string // that streams were opened of
}

func serve(t *testing.T, opts ...xdsserver.Option) *management {
	t.Helper()
	srv, err := xdsserver.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	m := &management{t: t, srv: srv}
	m.start("127.0.0.1:0")
	t.Cleanup(m.stop)
	return m
}

func (m *management) start(addr string) {
	m.t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(m.t.Context(), "tcp", addr)
	if err != nil {
		m.t.Fatal(err)
	}
	m.addr = lis.Addr().String()
	m.gs = grpc.NewServer(append(m.srv.GRPCOptions(), grpc.ChainStreamInterceptor(m.note))...)
	m.srv.Register(m.gs)
	m.done = make(chan error, 1)
	go func() { m.done <- m.gs.Serve(lis) }()
}

// note notes which method a stream is of.
func (m *management) note(srv any, st grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	m.mu.Lock()
	m.methods = append(m.methods, info.FullMethod)
	m.mu.Unlock()
	return handle(srv, st)
}

// stop may be called more than once.
func (m *management) stop() {
	if m.done == nil {
		return
	}
	m.gs.Stop()
	if err := <-m.done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		m.t.Error(err)
	}
	m.done = nil
}

func (m *management) apply(c snapshot.Changes) {
	m.t.Helper()
	if err := m.srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: c}}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *management) set(rs ...*xds.Resource) { m.t.Helper(); m.apply(snapshot.Changes{Set: rs}) }

func cluster(t testing.TB, name, alt string) *xds.Resource {
	t.Helper()
	r, err := xds.Marshal(name, &clusterv3.Cluster{Name: name, AltStatName: alt})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func assignment(t testing.TB, name string, weight uint32) *xds.Resource {
	t.Helper()
	r, err := xds.Marshal(name, &endpointv3.ClusterLoadAssignment{
		ClusterName: name, Policy: &endpointv3.ClusterLoadAssignment_Policy{DropOverloads: []*endpointv3.ClusterLoadAssignment_Policy_DropOverload{
			{Category: fmt.Sprint(weight)},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// source makes a source that is closed with the test.
func source(t testing.TB, c xdsclient.Config) *xdsclient.Source {
	t.Helper()
	if c.Node == nil {
		c.Node = &corev3.Node{Id: "test-node", Cluster: "test"}
	}
	s, err := xdsclient.NewSource(context.WithoutCancel(t.Context()), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dialer makes a transport to a server; 0 is the default bound of a message.
type dialer func(addr string, maxMessage int) xdsclient.Transport

func (d dialer) to(addr string) xdsclient.Transport { return d(addr, 0) }

// transports runs a test over each of the transports of gRPC.
func transports(t *testing.T, test func(t *testing.T, dial dialer)) {
	t.Helper()
	t.Run("dial", func(t *testing.T) {
		test(t, func(addr string, maxMessage int) xdsclient.Transport {
			tr := xdsclient.Dial(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			tr.MaxMessageBytes = maxMessage
			return tr
		})
	})
	t.Run("direct", func(t *testing.T) {
		test(t, func(addr string, maxMessage int) xdsclient.Transport {
			return direct(t, xdsclient.DirectConfig{Address: addr, MaxMessageBytes: maxMessage})
		})
	})
}

func direct(t testing.TB, c xdsclient.DirectConfig) *xdsclient.Direct {
	t.Helper()
	tr, err := xdsclient.NewDirect(c)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func to(name string, tr xdsclient.Transport) xdsclient.Server {
	return xdsclient.Server{Name: name, Transport: tr}
}

// record is what watchers are told, one line each.
type record struct {
	mu    sync.Mutex
	lines []string
	news  chan struct{}
}

func newRecord() *record { return &record{news: make(chan struct{}, 1)} }

func (r *record) add(format string, args ...any) {
	r.mu.Lock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// take returns what was recorded since it was called last.
func (r *record) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// until waits in real time for a line.
func (r *record) until(t *testing.T, want string) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	var all []string
	for {
		for _, l := range r.take() {
			all = append(all, l)
			if l == want {
				return
			}
		}
		select {
		case <-r.news:
		case <-deadline.C:
			t.Fatalf("waiting for %q: got %q", want, all)
		}
	}
}

// reason is the name of an error's reason.
func reason(err error) string {
	for name, r := range map[string]error{
		"missing": xdsclient.ErrMissing, "timeout": xdsclient.ErrTimeout, "rejected": xdsclient.ErrRejected,
		"refused": xdsclient.ErrRefused, "redirected": xdsclient.ErrRedirect, "expired": xdsclient.ErrExpired, "unreachable": xdsclient.ErrUnreachable, "stored": xdsclient.ErrStored,
	} {
		if errors.Is(err, r) {
			return name
		}
	}
	return fmt.Sprint(err)
}

// watching records a watch's callbacks.
func watching[T any](r *record, show func(T) string) xdsclient.Funcs[T] {
	return xdsclient.Funcs[T]{
		Change:       func(u xdsclient.Update[T]) { r.add("%s=%s", u.Name, show(u.Value)) },
		Error:        func(name string, err error) { r.add("%s: %s", name, reason(err)) },
		AmbientError: func(name string, err error) { r.add("%s ~ %s", name, reason(err)) },
	}
}

func clusters(r *record) xdsclient.Funcs[*clusterv3.Cluster] {
	return watching(r, func(c *clusterv3.Cluster) string { return c.GetAltStatName() })
}

func assignments(r *record) xdsclient.Funcs[*endpointv3.ClusterLoadAssignment] {
	return watching(r, func(c *endpointv3.ClusterLoadAssignment) string {
		return c.GetPolicy().GetDropOverloads()[0].GetCategory()
	})
}

// variants runs a test for all four variants (XC-01, GC-70), over each transport.
func variants(t *testing.T, test func(t *testing.T, c xdsclient.Config, dial dialer)) {
	t.Helper()
	transports(t, func(t *testing.T, dial dialer) {
		for _, delta := range []bool{false, true} {
			for _, perType := range []bool{false, true} {
				t.Run(fmt.Sprintf("delta=%v,per type=%v", delta, perType), func(t *testing.T) {
					test(t, xdsclient.Config{Delta: delta, PerType: perType}, dial)
				})
			}
		}
	})
}

// Proves GC-30 and GC-58: as it is by default, a source speaks the aggregated
// variant in the state of the world only, with the four types of gRPC.
func TestGRPCVariant(t *testing.T) { transports(t, grpcVariant) }

func grpcVariant(t *testing.T, dial dialer) {
	m := serve(t)
	m.set(cluster(t, "a", "1"), assignment(t, "a", 1))
	s := source(t, xdsclient.Config{Servers: []xdsclient.Server{to("main", dial.to(m.addr))}})
	cds, eds := newRecord(), newRecord()
	xdsclient.Watch(s, xdsclient.Clusters(), "a", clusters(cds))
	xdsclient.Watch(s, xdsclient.Endpoints(), "a", assignments(eds))
	cds.until(t, "a=1")
	eds.until(t, "a=1")
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := fmt.Sprint(m.methods); got != "[/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources]" {
		t.Errorf("the streams are of %s", got)
	}
	const prefix = "type.googleapis.com/envoy.config."
	got := []string{xdsclient.Listeners().URL, xdsclient.Routes().URL, xdsclient.Clusters().URL, xdsclient.Endpoints().URL}
	want := []string{prefix + "listener.v3.Listener", prefix + "route.v3.RouteConfiguration", prefix + "cluster.v3.Cluster", prefix + "endpoint.v3.ClusterLoadAssignment"}
	if !slices.Equal(got, want) {
		t.Errorf("types %q", got)
	}
}

// Proves GC-70, GC-69: the same watches over each of the four variants of the
// protocol, against a real server.
func TestVariants(t *testing.T) {
	variants(t, func(t *testing.T, c xdsclient.Config, dial dialer) {
		m := serve(t)
		m.set(cluster(t, "a", "1"), cluster(t, "b", "1"), assignment(t, "a", 1))
		c.Servers = []xdsclient.Server{to("main", dial.to(m.addr))}
		s := source(t, c)
		all, one, eds := newRecord(), newRecord(), newRecord()
		xdsclient.Watch(s, xdsclient.Clusters(), xdsclient.Wildcard, clusters(all))
		xdsclient.Watch(s, xdsclient.Endpoints(), "a", assignments(eds))
		all.until(t, "b=1")
		eds.until(t, "a=1")
		cancel := xdsclient.Watch(s, xdsclient.Clusters(), "a", clusters(one))
		one.until(t, "a=1")
		m.set(cluster(t, "a", "2"), assignment(t, "a", 2))
		all.until(t, "a=2")
		one.until(t, "a=2")
		eds.until(t, "a=2")
		cancel()
		m.apply(snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: "b"}}})
		all.until(t, "b: missing")
		if got := one.take(); len(got) > 0 {
			t.Errorf("the cancelled watch was told %q", got)
		}
	})
}

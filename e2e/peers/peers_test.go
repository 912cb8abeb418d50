package peers

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
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/xdsclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nodeID = "peer-test"

// store is one of the library's caches and how to set what it holds: clusters
// and assignments by name, each with a mark.
type store struct {
	cache cache.Cache
	set   func(t *testing.T, version int, marks map[string]string)
}

func resources(marks map[string]string) (clusters, assignments []types.Resource) {
	for name, mark := range marks {
		clusters = append(clusters, &clusterv3.Cluster{Name: name, AltStatName: mark})
		assignments = append(assignments, &endpointv3.ClusterLoadAssignment{
			ClusterName: name, NamedEndpoints: map[string]*endpointv3.Endpoint{mark: {}},
		})
	}
	return clusters, assignments
}

func snapshots(ads bool) store {
	c := cache.NewSnapshotCache(ads, cache.IDHash{}, nil)
	return store{c, func(t *testing.T, version int, marks map[string]string) {
		t.Helper()
		clusters, assignments := resources(marks)
		s, err := cache.NewSnapshot(fmt.Sprint(version), map[resource.Type][]types.Resource{
			resource.ClusterType: clusters, resource.EndpointType: assignments,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetSnapshot(t.Context(), nodeID, s); err != nil {
			t.Fatal(err)
		}
	}}
}

// linears is a linear cache for each type behind a mux.
func linears() store {
	cds, eds := cache.NewLinearCache(resource.ClusterType), cache.NewLinearCache(resource.EndpointType)
	mux := &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        map[string]cache.Cache{resource.ClusterType: cds, resource.EndpointType: eds},
	}
	return store{mux, func(_ *testing.T, _ int, marks map[string]string) {
		clusters, assignments := resources(marks)
		cds.SetResources(byName(clusters))
		eds.SetResources(byName(assignments))
	}}
}

func byName(list []types.Resource) map[string]types.Resource {
	m := map[string]types.Resource{}
	for _, r := range list {
		m[cache.GetResourceName(r)] = r
	}
	return m
}

// peer is a running server.
type peer struct {
	addr string
	stop func()
}

func start(t *testing.T, addr string, c cache.Cache) peer {
	t.Helper()
	return startWith(t, addr, c, nil)
}

// startWith tells callbacks what clients ask for; they may be nil.
func startWith(t *testing.T, addr string, c cache.Cache, told server.Callbacks) peer {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv, gs := server.NewServer(ctx, c, told), grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(gs, srv)
	clusterservice.RegisterClusterDiscoveryServiceServer(gs, srv)
	endpointservice.RegisterEndpointDiscoveryServiceServer(gs, srv)
	done := make(chan error, 1)
	go func() { done <- gs.Serve(lis) }()
	return peer{lis.Addr().String(), sync.OnceFunc(func() {
		cancel()
		gs.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})}
}

// view is what a client has at last been told: "kind name=mark".
type view struct {
	mu   sync.Mutex
	held map[string]string
	news chan struct{}
}

func newView() *view { return &view{held: map[string]string{}, news: make(chan struct{}, 1)} }

func (v *view) note(key, mark string) {
	v.mu.Lock()
	v.held[key] = mark
	if mark == "" {
		delete(v.held, key)
	}
	v.mu.Unlock()
	select {
	case v.news <- struct{}{}:
	default:
	}
}

func (v *view) lines() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var lines []string
	for k, m := range v.held {
		lines = append(lines, k+"="+m)
	}
	slices.Sort(lines)
	return lines
}

// until waits until the client holds exactly this.
func (v *view) until(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for !slices.Equal(v.lines(), want) {
		select {
		case <-v.news:
		case <-deadline.C:
			t.Fatalf("the client holds %q, want %q", v.lines(), want)
		}
	}
}

func (v *view) clusters() xdsclient.Funcs[*clusterv3.Cluster] {
	return xdsclient.Funcs[*clusterv3.Cluster]{
		Change: func(u xdsclient.Update[*clusterv3.Cluster]) {
			v.note("error "+u.Name, "")
			v.note("cluster "+u.Name, u.Value.GetAltStatName())
		},
		Error: func(name string, err error) {
			if errors.Is(err, xdsclient.ErrMissing) {
				v.note("cluster "+name, "")
			}
		},
		AmbientError: func(name string, err error) {
			mark := ""
			if errors.Is(err, xdsclient.ErrRejected) {
				mark = "rejected"
			}
			v.note("error "+name, mark)
		},
	}
}

func (v *view) assignments() xdsclient.Funcs[*endpointv3.ClusterLoadAssignment] {
	return xdsclient.Funcs[*endpointv3.ClusterLoadAssignment]{
		Change: func(u xdsclient.Update[*endpointv3.ClusterLoadAssignment]) {
			for mark := range u.Value.GetNamedEndpoints() {
				v.note("assignment "+u.Name, mark)
			}
		},
	}
}

// clusters refuses those that are marked bad.
func clusters() xdsclient.Type[*clusterv3.Cluster] {
	t := xdsclient.Clusters()
	t.Validate = func(_, _ string, c *clusterv3.Cluster) error {
		if c.GetAltStatName() == "bad" {
			return errors.New("alt_stat_name: must not be bad")
		}
		return nil
	}
	return t
}

// Proves GC-69, GC-70, GC-40: all four variants against each of the library's
// caches: first state, change, removal, addition, rejection, restart.
func TestGoControlPlane(t *testing.T) {
	for name, open := range map[string]func(ads bool) store{
		"snapshot": snapshots, "linear": func(bool) store { return linears() },
	} {
		for _, delta := range []bool{false, true} {
			for _, perType := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s,delta=%v,per type=%v", name, delta, perType), func(t *testing.T) {
					run(t, open(!perType), delta, perType)
				})
			}
		}
	}
}

func run(t *testing.T, st store, delta, perType bool) {
	t.Helper()
	st.set(t, 1, map[string]string{"a": "1", "b": "1"})
	p := start(t, "127.0.0.1:0", st.cache)
	defer func() { p.stop() }()
	s, err := xdsclient.NewSource(t.Context(), xdsclient.Config{
		Node: &corev3.Node{Id: nodeID}, Delta: delta, PerType: perType,
		Servers: []xdsclient.Server{{Name: "peer", Transport: xdsclient.Dial(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))}},
		Backoff: xdsclient.Backoff{Base: 10 * time.Millisecond, Max: 100 * time.Millisecond, Factor: 2, Jitter: 0.2},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	v := newView()
	xdsclient.Watch(s, clusters(), xdsclient.Wildcard, v.clusters())
	for _, name := range []string{"a", "b"} {
		xdsclient.Watch(s, xdsclient.Endpoints(), name, v.assignments())
	}
	v.until(t, "assignment a=1", "assignment b=1", "cluster a=1", "cluster b=1")

	st.set(t, 2, map[string]string{"a": "2", "b": "1"})
	v.until(t, "assignment a=2", "assignment b=1", "cluster a=2", "cluster b=1")

	st.set(t, 3, map[string]string{"a": "2", "b": "1", "c": "1"})
	cancel := xdsclient.Watch(s, xdsclient.Endpoints(), "c", v.assignments())
	v.until(t, "assignment a=2", "assignment b=1", "assignment c=1", "cluster a=2", "cluster b=1", "cluster c=1")

	st.set(t, 4, map[string]string{"a": "bad", "b": "2", "c": "1"})
	v.until(t, "assignment a=bad", "assignment b=2", "assignment c=1", "cluster a=2", "cluster b=2", "cluster c=1", "error a=rejected")
	cancel()
	v.note("assignment c", "")

	st.set(t, 5, map[string]string{"a": "5", "b": "2"})
	v.until(t, "assignment a=5", "assignment b=2", "cluster a=5", "cluster b=2")

	addr := p.addr
	p.stop()
	st.set(t, 6, map[string]string{"a": "6", "b": "2"})
	p = start(t, addr, st.cache)
	v.until(t, "assignment a=6", "assignment b=2", "cluster a=6", "cluster b=2")
}

// Proves GC-37 against the library's caches, which do not send again what did
// not change: a name that is given up and taken up again is never lost.
func TestResubscribe(t *testing.T) {
	for name, st := range map[string]store{"snapshot": snapshots(false), "linear": linears()} {
		for _, delta := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,delta=%v", name, delta), func(t *testing.T) {
				st.set(t, 1, map[string]string{"a": "1", "b": "1"})
				p := start(t, "127.0.0.1:0", st.cache)
				defer p.stop()
				s, err := xdsclient.NewSource(t.Context(), xdsclient.Config{
					Node: &corev3.Node{Id: nodeID}, Delta: delta,
					Servers: []xdsclient.Server{{Name: "peer", Transport: xdsclient.Dial(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))}},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				v := newView()
				xdsclient.Watch(s, xdsclient.Endpoints(), "b", v.assignments())
				v.until(t, "assignment b=1")
				for i := range 1000 {
					cancel := xdsclient.Watch(s, xdsclient.Endpoints(), "a", v.assignments())
					switch i % 100 {
					case 33: // long enough for the server to be asked
						v.until(t, "assignment a=1", "assignment b=1")
					case 66: // and to be told that it is not wanted
						v.until(t, "assignment a=1", "assignment b=1")
						cancel()
						time.Sleep(30 * time.Millisecond)
					}
					cancel()
					v.note("assignment a", "")
				}
				xdsclient.Watch(s, xdsclient.Endpoints(), "a", v.assignments())
				v.until(t, "assignment a=1", "assignment b=1")
			})
		}
	}
}

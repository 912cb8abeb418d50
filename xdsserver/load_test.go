package xdsserver_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

type deltaStream = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

func deltaOn(h *harness, cc *grpc.ClientConn) (deltaStream, context.CancelFunc) {
	ctx, cancel := context.WithCancel(h.ctx)
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(cc).DeltaAggregatedResources(ctx)
	if err != nil {
		h.t.Error(err)
	}
	return st, cancel
}

// Proves XS-13: streams of 10 000 nodes, each in a group of its own, leave
// nothing behind.
func TestEndedStreamsLeaveNothing(t *testing.T) {
	total := 10_000
	if testing.Short() {
		total = 2000
	}
	limits := xdsserver.WithLimits(xdsserver.Limits{RequestsPerSecond: 1e9, RequestBurst: 1 << 30})
	perNode := xdsserver.WithGroups(func(n *xds.Node) string { return n.ID })
	bubble(t, []xdsserver.Option{limits, perNode}, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		h.conn()
		done := 0
		visit := func(n int) {
			var all sync.WaitGroup
			for range n {
				done++
				i := done
				all.Go(func() { visitOnce(h, i) })
			}
			all.Wait()
			synctest.Wait()
		}
		visit(100)
		before := heap()
		for done < total {
			visit(100)
			if held := h.srv.Held(); held != (xdsserver.Held{}) {
				t.Fatalf("after %d streams the server holds %+v", done, held)
			}
		}
		const slack = 1 << 20 // 100 bytes a stream
		if after := heap(); after > before+slack {
			t.Errorf("the heap has grown from %d to %d bytes over %d streams", before, after, total)
		}
		if s := h.srv.Stats(); s.StreamsOpened != uint64(total) || len(s.Types) != 3 {
			t.Errorf("stats %+v", s)
		}
	})
}

// visitOnce opens a stream, subscribes in several ways and breaks off.
func visitOnce(h *harness, i int) {
	st, cancel := deltaOn(h, h.cc)
	defer cancel()
	name := fmt.Sprint("name-", i)
	for _, r := range []*discoveryv3.DeltaDiscoveryRequest{
		{Node: node(fmt.Sprint("node-", i)), TypeUrl: xds.ClusterType},
		{TypeUrl: xds.EndpointType, ResourceNamesSubscribe: []string{name, "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/*"}},
		{TypeUrl: xds.EndpointType, ResourceNamesSubscribe: []string{"both"}, ResourceNamesUnsubscribe: []string{"both"}},
		{TypeUrl: xds.ListenerType, ResourceNamesSubscribe: []string{"*"}, ResourceNamesUnsubscribe: []string{"*"}},
		{TypeUrl: xds.ListenerType, ResourceNamesSubscribe: []string{name}},
	} {
		if err := st.Send(r); err != nil {
			h.t.Error(err)
		}
	}
	for seen := map[string]bool{}; len(seen) < 3; {
		r, err := st.Recv()
		if err != nil {
			h.t.Error(err)
			return
		}
		seen[r.GetTypeUrl()] = true
	}
}

// What is kept of a stream is what it asked for, not its messages.
func TestRequestsAreNotKept(t *testing.T) {
	const streams, names, length = 40, 300, 2000
	var list []string
	for i := range names {
		list = append(list, strings.Repeat("n", length)+fmt.Sprint(i))
	}
	for _, variant := range []string{"sotw", "delta"} {
		t.Run(variant, func(t *testing.T) {
			bubble(t, nil, func(h *harness) {
				for _, n := range list {
					h.set(cluster(n, "1"))
				}
				before := heap()
				for range streams {
					if variant == "delta" {
						c := h.delta()
						c.subscribe(node("n"), xds.ClusterType, list...)
						c.ack(c.must())
						continue
					}
					c := h.sotw()
					c.subscribe(node("n"), xds.ClusterType, list...)
					c.ack(c.must(), list...)
				}
				synctest.Wait()
				const message = names * length
				if after := heap(); after > before+streams*message/2 {
					t.Errorf("the heap has grown from %d to %d bytes by %d streams, each with a message of %d", before, after, streams, message)
				}
			})
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Proves XS-89: a client that does not read costs the others nothing and the
// server little, and is closed after the send timeout.
func TestStuckClient(t *testing.T) {
	const changes, size = 20, 12 << 10
	others := 999
	if testing.Short() {
		others = 99
	}
	opt := xdsserver.WithLimits(xdsserver.Limits{SendTimeout: time.Minute})
	bubble(t, []xdsserver.Option{opt}, func(h *harness) {
		set := func(i int) {
			h.set(xds.NewResource(xds.ClusterType, "big", make([]byte, size), xds.WithVersion(fmt.Sprint(i))))
		}
		set(0)
		stuck := h.dial(grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
		defer stuck.Close()
		st, cancel := deltaOn(h, stuck)
		defer cancel()
		if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node("stuck"), TypeUrl: xds.ClusterType}); err != nil {
			t.Fatal(err)
		}
		var seen sync.Map
		h.conn()
		for i := range others {
			go follow(h, i, &seen)
		}
		synctest.Wait()
		for i := range changes {
			set(i + 1)
			synctest.Wait()
		}
		current := 0
		for range seen.Range {
			current++
		}
		seen.Range(func(k, v any) bool {
			if v != fmt.Sprint(changes) {
				t.Errorf("client %v has version %v", k, v)
			}
			return true
		})
		if current != others {
			t.Errorf("%d clients have the resource, want %d", current, others)
		}
		checkStuck(t, h)
		for range 200 { // more than the server reads ahead
			if err := st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.ClusterType, ResourceNamesSubscribe: []string{"big"}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if c := h.srv.Clients(); len(c) != others || slices.ContainsFunc(c, func(c xdsserver.Client) bool { return c.Node.ID == "stuck" }) {
			t.Errorf("%d clients are left, the stuck one among them", len(c))
		}
	})
}

// checkStuck sees that the stuck client owes answers and that what waits for
// it is bounded, however much changes.
func checkStuck(t *testing.T, h *harness) {
	t.Helper()
	for _, c := range h.srv.Clients() {
		if c.Node.ID == "stuck" && (c.Types[0].State != xdsserver.Stale || c.Types[0].Responses > 16) {
			t.Errorf("the stuck client: %+v", c.Types[0])
		}
	}
	before := heap()
	for i := range 5000 {
		h.set(res(xds.ClusterType, "small", fmt.Sprint(i)))
	}
	synctest.Wait()
	if n := h.srv.Held().Waiting; n == 0 || n > 1025 {
		t.Errorf("%d changes wait for the stuck client", n)
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
}

// follow acknowledges everything and notes the version it has.
func follow(h *harness, i int, seen *sync.Map) {
	st, cancel := deltaOn(h, h.cc)
	defer cancel()
	_ = st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node(fmt.Sprint(i)), TypeUrl: xds.ClusterType})
	for {
		r, err := st.Recv()
		if err != nil {
			return // the test is over
		}
		for _, x := range r.GetResources() {
			if x.GetName() == "big" {
				seen.Store(i, x.GetVersion())
			}
		}
		_ = st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.ClusterType, ResponseNonce: r.GetNonce()})
	}
}

// Streams come and go while resources, groups and the group function change;
// in the end every client that stayed holds what its group holds.
func TestEverythingAtOnce(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithGroups(byParity(0))}, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		h.conn()
		var stay []*mirror
		for i := range 20 {
			m := &mirror{id: fmt.Sprint("n", i), held: map[string]string{}}
			stay = append(stay, m)
			go m.follow(h, i%2 == 0)
		}
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for k := range 20 {
					visitBriefly(h, i*100+k)
				}
			})
		}
		all.Go(func() { churn(h, 300) })
		all.Go(func() { look(h, 50) })
		all.Wait()
		final := snapshot.Batch{Full: true, GroupOf: byParity(1), Groups: map[string]snapshot.Changes{}}
		for g := range 2 {
			final.Groups[fmt.Sprint("g", g)] = snapshot.Changes{Set: []*xds.Resource{cluster("c1", fmt.Sprint("final", g)), cluster(fmt.Sprint("only", g), "f")}}
		}
		h.apply(final)
		time.Sleep(time.Minute) // gates
		synctest.Wait()
		for i, m := range stay {
			g := (len(m.id) + int(m.id[len(m.id)-1]) + 1) % 2
			want := map[string]string{"c1": fmt.Sprint("final", g), fmt.Sprint("only", g): "f"}
			if got := m.snapshot(); !maps.Equal(got, want) {
				t.Errorf("client %d holds %v, want %v", i, got, want)
			}
		}
		if held := h.srv.Held(); held.Streams != len(stay) || held.Groups != 2 || held.Interests != len(stay) || held.Waiting != 0 {
			t.Errorf("the server holds %+v", held)
		}
	})
}

// byParity puts nodes into two groups; turn exchanges them.
func byParity(turn int) xds.GroupFunc {
	return func(n *xds.Node) string {
		return fmt.Sprint("g", (len(n.ID)+int(n.ID[len(n.ID)-1])+turn)%2)
	}
}

// mirror is a client that keeps what it is sent.
type mirror struct {
	id   string
	mu   sync.Mutex
	held map[string]string
}

func (m *mirror) snapshot() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.held)
}

func (m *mirror) follow(h *harness, delta bool) {
	if delta {
		m.followDelta(h)
	} else {
		m.followSotw(h)
	}
}

func (m *mirror) followDelta(h *harness) {
	st, cancel := deltaOn(h, h.cc)
	defer cancel()
	_ = st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node(m.id), TypeUrl: xds.ClusterType})
	for {
		r, err := st.Recv()
		if err != nil {
			return
		}
		m.mu.Lock()
		for _, x := range r.GetResources() {
			m.held[x.GetName()] = x.GetVersion()
		}
		for _, name := range r.GetRemovedResources() {
			delete(m.held, name)
		}
		m.mu.Unlock()
		_ = st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.ClusterType, ResponseNonce: r.GetNonce()})
	}
}

// followSotw learns of content only: the body says name and version.
func (m *mirror) followSotw(h *harness) {
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(h.cc).StreamAggregatedResources(h.ctx)
	if err != nil {
		h.t.Error(err)
		return
	}
	_ = st.Send(&discoveryv3.DiscoveryRequest{Node: node(m.id), TypeUrl: xds.ClusterType})
	for {
		r, err := st.Recv()
		if err != nil {
			return
		}
		m.mu.Lock()
		clear(m.held)
		for _, a := range r.GetResources() {
			name, version, _ := strings.Cut(string(a.GetValue()), "=")
			m.held[name] = version
		}
		m.mu.Unlock()
		_ = st.Send(&discoveryv3.DiscoveryRequest{TypeUrl: xds.ClusterType, VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce()})
	}
}

// cluster is one whose content says its name and version.
func cluster(name, version string) *xds.Resource {
	return xds.NewResource(xds.ClusterType, name, []byte(name+"="+version), xds.WithVersion(version))
}

// visitBriefly opens a stream, takes a few responses and breaks off.
func visitBriefly(h *harness, i int) {
	st, cancel := deltaOn(h, h.cc)
	defer cancel()
	_ = st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node(fmt.Sprint("v", i)), TypeUrl: xds.ClusterType, ResourceNamesSubscribe: []string{"*", "c1", "nope"}})
	for range i % 3 { // so many are sure to come
		r, err := st.Recv()
		if err != nil {
			return
		}
		_ = st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.ClusterType, ResponseNonce: r.GetNonce(), ResourceNamesUnsubscribe: []string{"c1"}})
	}
}

// churn applies random batches.
func churn(h *harness, n int) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		b := snapshot.Batch{Full: r.IntN(10) == 0, Groups: map[string]snapshot.Changes{}}
		for g := range 2 {
			c := snapshot.Changes{Replace: r.IntN(5) == 0}
			for range r.IntN(4) {
				c.Remove = append(c.Remove, xds.Key{Type: xds.ClusterType, Name: fmt.Sprint("c", r.IntN(10))})
			}
			c.Set = append(c.Set, cluster(fmt.Sprint("c", i%10), fmt.Sprint(i)))
			b.Groups[fmt.Sprint("g", g)] = c
		}
		if r.IntN(4) == 0 {
			b.GroupOf = byParity(r.IntN(2))
		}
		h.apply(b)
	}
}

// look reads everything that can be read.
func look(h *harness, n int) {
	for range n {
		if _, err := statusv3.NewClientStatusDiscoveryServiceClient(h.cc).FetchClientStatus(h.ctx, &statusv3.ClientStatusRequest{}); err != nil {
			h.t.Error(err)
		}
		_, _, _ = h.srv.Stats(), h.srv.Groups(), h.srv.Clients()
	}
}

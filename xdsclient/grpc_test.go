package xdsclient_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// quick makes attempts follow one another fast in real time.
func quick() xdsclient.Backoff {
	return xdsclient.Backoff{Base: 10 * time.Millisecond, Max: 100 * time.Millisecond, Factor: 2, Jitter: 0.2}
}

// Proves GC-40, GC-51, XC-29 over real connections: a server that is restarted
// again and again, also under the watches' feet, is followed, and nothing that is
// cached is lost meanwhile.
func TestRestarts(t *testing.T) {
	variants(t, func(t *testing.T, c xdsclient.Config, dial dialer) {
		m := serve(t)
		m.set(cluster(t, "a", "0"), assignment(t, "a", 0))
		c.Servers, c.Backoff = []xdsclient.Server{to("main", dial.to(m.addr))}, quick()
		s := source(t, c)
		cds, eds := newRecord(), newRecord()
		xdsclient.Watch(s, xdsclient.Clusters(), xdsclient.Wildcard, clusters(cds))
		xdsclient.Watch(s, xdsclient.Endpoints(), "a", assignments(eds))
		cds.until(t, "a=0")
		eds.until(t, "a=0")
		for i := 1; i <= 5; i++ {
			addr := m.addr
			m.stop()
			m.set(cluster(t, "a", fmt.Sprint(i)), assignment(t, "a", uint32(i)))
			m.start(addr)
			cds.until(t, fmt.Sprintf("a=%d", i))
			eds.until(t, fmt.Sprintf("a=%d", i))
		}
		for _, r := range s.Resources() {
			if !r.Held || r.Err != nil {
				t.Errorf("after the restarts %s %s is %+v", xds.Kind(r.TypeURL), r.Name, r)
			}
		}
	})
}

// Proves XC-32 over real connections: two servers that come and go in turn.
func TestFallbackOverGRPC(t *testing.T) { transports(t, fallbackOverGRPC) }

func fallbackOverGRPC(t *testing.T, dial dialer) {
	first, second := serve(t), serve(t)
	first.set(cluster(t, "a", "first"))
	second.set(cluster(t, "a", "second"))
	addr := first.addr
	first.stop()
	s := source(t, xdsclient.Config{
		Servers: []xdsclient.Server{to("first", dial.to(addr)), to("second", dial.to(second.addr))}, Backoff: quick(),
	})
	r := newRecord()
	xdsclient.Watch(s, xdsclient.Clusters(), "a", clusters(r))
	r.until(t, "a=second")
	first.start(addr)
	r.until(t, "a=first")
	for deadline := time.Now().Add(20 * time.Second); s.Servers()[1].Connected; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second server is still connected")
		}
	}
}

// rude is a server that does what a test says with each stream.
type rude struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams atomic.Int64
	play    func(n int64, st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error
}

func (r *rude) StreamAggregatedResources(st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return r.play(r.streams.Add(1), st)
}

func serveRude(t *testing.T, play func(n int64, st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error) string {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gs := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(gs, &rude{play: play})
	done := make(chan error, 1)
	go func() { done <- gs.Serve(lis) }()
	t.Cleanup(func() {
		gs.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

// A server that sends garbage, too much, nothing, or hangs up: the client comes
// back, and in the end has the resource.
func TestRudeServer(t *testing.T) { transports(t, rudeServer) }

func rudeServer(t *testing.T, dial dialer) {
	body := cluster(t, "a", "1").Body()
	good := &discoveryv3.DiscoveryResponse{
		VersionInfo: "1", Nonce: "A", TypeUrl: xds.ClusterType, Resources: []*anypb.Any{{TypeUrl: xds.ClusterType, Value: body}},
	}
	addr := serveRude(t, func(n int64, st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
		if _, err := st.Recv(); err != nil {
			return err
		}
		switch n {
		case 1: // a message that is none
			return st.SendMsg(&anypb.Any{TypeUrl: "1", Value: []byte("\xff\xff\xff")})
		case 2: // too large
			return st.Send(&discoveryv3.DiscoveryResponse{TypeUrl: string(make([]byte, 1<<20))})
		case 3: // hangs up at once
			return nil
		case 4: // of a type nobody asked for, and a wrong Any
			if err := st.Send(&discoveryv3.DiscoveryResponse{TypeUrl: xds.SecretType, Nonce: "S"}); err != nil {
				return err
			}
			if err := st.Send(&discoveryv3.DiscoveryResponse{
				VersionInfo: "1", Nonce: "W", TypeUrl: xds.ClusterType, Resources: []*anypb.Any{{TypeUrl: xds.SecretType, Value: body}},
			}); err != nil {
				return err
			}
			r, err := st.Recv()
			if err == nil && (r.GetErrorDetail().GetCode() != 3 || r.GetResponseNonce() != "W") {
				t.Errorf("a wrong Any was answered with %v", r)
			}
			return err
		}
		if err := st.Send(good); err != nil {
			return err
		}
		<-st.Context().Done()
		return nil
	})
	tr := dial(addr, 1<<19)
	s := source(t, xdsclient.Config{Servers: []xdsclient.Server{to("rude", tr)}, Backoff: quick()})
	r := newRecord()
	xdsclient.Watch(s, xdsclient.Clusters(), "a", clusters(r))
	r.until(t, "a=1")
}

// 2000 watches at once over a real connection.
func TestManyWatches(t *testing.T) { transports(t, manyWatches) }

func manyWatches(t *testing.T, dial dialer) {
	const n = 2000
	m := serve(t)
	var all []*xds.Resource
	for i := range n {
		all = append(all, assignment(t, fmt.Sprint("c", i), 1))
	}
	m.set(all...)
	c := newCounts()
	s := source(t, xdsclient.Config{Servers: []xdsclient.Server{to("main", dial.to(m.addr))}, Metrics: c})
	r := newRecord()
	left := n
	for i := range n {
		xdsclient.Watch(s, xdsclient.Endpoints(), fmt.Sprint("c", i), xdsclient.Funcs[*endpointv3.ClusterLoadAssignment]{
			Change: func(xdsclient.Update[*endpointv3.ClusterLoadAssignment]) {
				if left--; left == 0 {
					r.add("all")
				}
			},
		})
	}
	r.until(t, "all")
	c.mu.Lock()
	defer c.mu.Unlock()
	// At most three requests on an idle machine (TestWatchesAreGathered); here the
	// loop may take longer than requests are held back.
	if got := c.n["main.EDS.update_attempt"]; got > 40 {
		t.Errorf("%d requests and responses for %d watches started together", got, n)
	}
}

// A connection of the caller's is not closed, one that was dialled is.
func TestConn(t *testing.T) {
	m := serve(t)
	m.set(cluster(t, "a", "1"))
	conn, err := grpc.NewClient(m.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		s, err := xdsclient.NewSource(t.Context(), xdsclient.Config{Servers: []xdsclient.Server{to("main", xdsclient.Conn(conn))}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		found, err := xdsclient.Fetch(ctx, s, xdsclient.Clusters(), "a")
		cancel()
		if err != nil || found["a"].GetAltStatName() != "1" {
			t.Errorf("fetched %v, %v", found, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = (&xdsclient.GRPC{}).Open(t.Context(), xdsclient.Opening{})
	if err == nil {
		t.Error("a transport without a connection opens streams")
	}
	if _, err = xdsclient.Conn(conn).Open(t.Context(), xdsclient.Opening{TypeURL: "type.googleapis.com/own.Type"}); err == nil {
		t.Error("there is no service for a type of one's own")
	}
}

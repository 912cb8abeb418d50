package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

const testClusters = 1500 // enough names for a request beyond the initial window

// reference is a server built with another project's library.
type reference struct {
	address string
	grpc    *grpc.Server
	caches  [resources.Kinds]*cache.LinearCache
}

// startReference serves resources 0 to clusters-1 of each kind at an address,
// or any if it is empty.
func startReference(t *testing.T, address string, clusters int) *reference {
	t.Helper()
	r := &reference{grpc: grpc.NewServer()}
	m := &cache.MuxCache{
		Classify:      func(q *cache.Request) string { return q.GetTypeUrl() },
		ClassifyDelta: func(q *cache.DeltaRequest) string { return q.GetTypeUrl() },
		Caches:        map[string]cache.Cache{},
	}
	for k := range resources.Kinds {
		all := map[string]types.Resource{}
		for i := range clusters {
			all[resources.Name(i)] = resources.New(k, i, 0)
		}
		r.caches[k] = cache.NewLinearCache(k.TypeURL(), cache.WithInitialResources(all))
		m.Caches[k.TypeURL()] = r.caches[k]
	}
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(r.grpc, server.NewServer(t.Context(), m, nil))
	r.address = serve(t, r.grpc, address)
	return r
}

func serve(t *testing.T, s *grpc.Server, address string) string {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends when the server is stopped
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

func (r *reference) change(t *testing.T, k resources.Kind, i, gen int) {
	t.Helper()
	if err := r.caches[k].UpdateResource(resources.Name(i), resources.New(k, i, gen)); err != nil {
		t.Fatal(err)
	}
}

func plan(address string, streams int) Plan {
	return Plan{Address: address, Streams: streams, Clusters: testClusters, EDS: true, Window: 1 << 20, Dials: 4, PerSource: 7}
}

func start(t *testing.T, p Plan) *Fleet {
	t.Helper()
	f, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func await(t *testing.T, w *Wave) {
	t.Helper()
	if err := w.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestEveryStreamGetsTheFirstStateAndEachChange(t *testing.T) {
	for _, delta := range []bool{false, true} {
		t.Run(fmt.Sprintf("delta=%t", delta), func(t *testing.T) {
			r := startReference(t, "", testClusters)
			p := plan(r.address, 20)
			p.Delta = delta
			f := start(t, p)
			await(t, f.Connect())
			if c := f.Counts(); c.Resources != [...]int64{20 * testClusters, 20 * testClusters} {
				t.Errorf("received %+v", c)
			}
			for gen := 1; gen < 4; gen++ {
				for k, each := range map[resources.Kind]int{resources.CDS: testClusters, resources.EDS: 1} {
					if delta {
						each = 1
					}
					w := f.Expect(k, 5*gen, gen)
					r.change(t, k, 5*gen, gen)
					await(t, w)
					if len(w.Arrivals) != 20 || w.Resources != 20*each {
						t.Errorf("%v: %d arrivals with %d resources, want 20 with %d each", k, len(w.Arrivals), w.Resources, each)
					}
				}
			}
		})
	}
}

func TestAnotherGenerationIsNotTheChange(t *testing.T) {
	r := startReference(t, "", testClusters)
	f := start(t, plan(r.address, 2))
	await(t, f.Connect())
	w := f.Expect(resources.EDS, 1, 7)
	r.change(t, resources.EDS, 1, 6)
	r.change(t, resources.EDS, 2, 7)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the wave ended with %v", err)
	}
	r.change(t, resources.EDS, 1, 7)
	await(t, w)
}

func TestIncompleteStateIsNoFirstState(t *testing.T) {
	r := startReference(t, "", testClusters-1)
	p := plan(r.address, 2)
	p.Delta = true
	w := start(t, p).Connect()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the wave ended with %v", err)
	}
}

func TestStuckStreamsStayOpenAndTakeNothing(t *testing.T) {
	r := startReference(t, "", testClusters)
	p := plan(r.address, 10)
	p.Delta, p.Stuck = true, 2
	f := start(t, p)
	await(t, f.Connect())
	for gen := 1; gen < 50; gen++ {
		w := f.Expect(resources.CDS, gen, gen)
		r.change(t, resources.CDS, gen, gen)
		await(t, w)
	}
	c := f.Counts()
	if c.Closed != 0 {
		t.Errorf("%d connections were closed", c.Closed)
	}
	// Of the two, one reads at most its first window.
	if most := int64(8*(testClusters+49) + testClusters); c.Resources[resources.CDS] > most {
		t.Errorf("%d clusters were received, want at most %d", c.Resources[resources.CDS], most)
	}
}

func TestReconnectedStreamsSayWhatTheyHold(t *testing.T) {
	r := startReference(t, "", testClusters)
	p := plan(r.address, 5)
	p.Delta, p.Hold, p.EDS = true, true, false
	f := start(t, p)
	await(t, f.Connect())
	f.AllowClose()
	r.grpc.Stop()
	r = startReference(t, r.address, testClusters)
	r.change(t, resources.CDS, 3, 1) // while they are away
	before := f.Counts()
	await(t, f.Reconnect())
	if got := f.Counts().Sub(before).Resources[resources.CDS]; got != 5 {
		t.Errorf("%d clusters were sent again, want the changed one to each of 5", got)
	}
}

func TestClosedConnectionIsAnError(t *testing.T) {
	r := startReference(t, "", testClusters)
	f := start(t, plan(r.address, 3))
	await(t, f.Connect())
	w := f.Expect(resources.CDS, 1, 1)
	r.grpc.Stop()
	if err := w.Wait(within(t)); err == nil || !strings.Contains(err.Error(), "stream ") || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the wave ended with %v", err)
	}
}

// liar answers every first request with the given response.
type liar struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	answer *discoveryv3.DiscoveryResponse
}

func (l liar) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	if err := s.Send(l.answer); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func TestWrongContentIsAnError(t *testing.T) {
	cluster, err := anypb.New(resources.Cluster(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := anypb.New(resources.Cluster(testClusters, 0))
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]*discoveryv3.DiscoveryResponse{
		"part of the clusters": {TypeUrl: resources.ClusterType, Nonce: "1", Resources: []*anypb.Any{cluster}},
		"unknown cluster":      {TypeUrl: resources.ClusterType, Nonce: "1", Resources: []*anypb.Any{foreign}},
		"cluster as endpoints": {TypeUrl: resources.AssignmentType, Nonce: "1", Resources: []*anypb.Any{cluster}},
		"no nonce":             {TypeUrl: resources.ClusterType},
		"another type":         {TypeUrl: "type.googleapis.com/x", Nonce: "1"},
	} {
		s := grpc.NewServer()
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, liar{answer: answer})
		f := start(t, plan(serve(t, s, ""), 1))
		if err := f.Connect().Wait(within(t)); !errors.Is(err, ErrContent) {
			t.Errorf("%s: %v, want %v", name, err, ErrContent)
		}
	}
}

func TestRefusedMethodIsAnError(t *testing.T) {
	f := start(t, plan(serve(t, grpc.NewServer(), ""), 1))
	if err := f.Connect().Wait(within(t)); err == nil || !strings.Contains(err.Error(), "grpc-status 12") {
		t.Errorf("got %v, want status 12 (unimplemented)", err)
	}
}

func TestImpossiblePlansAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"host name":    func(p *Plan) { p.Address = "localhost:1" },
		"all stuck":    func(p *Plan) { p.Stuck = p.Streams },
		"small window": func(p *Plan) { p.Window = 100 },
	} {
		p := plan("127.0.0.1:1", 3)
		change(&p)
		if f, err := New(p); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v, want %v", name, err, ErrPlan)
			if f != nil {
				f.Close()
			}
		}
	}
}

// Command stream is no client, but shows what of a client's cost is the
// stream's: it asks for clusters by name over gRPC and acknowledges each
// response. Nothing is decoded beyond the response itself, kept or compared.
package main

import (
	"context"
	"errors"
	"io"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/bench/client/client"
	"github.com/xebec-proxy/xebec/bench/client/resources"
)

func main() { client.Main("stream", run) }

func run(ctx context.Context, o client.Options, in io.Reader, out io.Writer) error {
	if o.Bare {
		return errors.New("-bare: nothing is kept anyway")
	}
	conn, err := grpc.NewClient(o.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{ctx: ctx, ads: discoveryv3.NewAggregatedDiscoveryServiceClient(conn), delta: o.Delta}
	defer s.done.Wait()
	defer conn.Close()
	defer cancel()
	return o.Run(ctx, in, out, s, &s.seen)
}

type stream struct {
	ctx   context.Context
	ads   discoveryv3.AggregatedDiscoveryServiceClient
	delta bool
	seen  client.Seen
	done  sync.WaitGroup
}

func (s *stream) Watch(from, to int, assignments bool) error {
	if from != 0 || assignments {
		return errors.New("this is one stream for clusters")
	}
	var names []string
	for i := range to {
		names = append(names, resources.Name(i))
	}
	follow := s.sotw
	if s.delta {
		follow = s.incremental
	}
	s.done.Go(func() {
		if err := follow(names); s.ctx.Err() == nil {
			s.seen.Fail(err)
		}
	})
	return nil
}

// sotw counts all resources of the first response, and then one for each, since
// the server changes one at a time.
func (s *stream) sotw(names []string) error {
	rpc, err := s.ads.StreamAggregatedResources(s.ctx)
	if err != nil {
		return err
	}
	q := &discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "bench"}, TypeUrl: resources.ClusterType, ResourceNames: names}
	for first := true; ; first = false {
		if err := rpc.Send(q); err != nil {
			return err
		}
		r, err := rpc.Recv()
		if err != nil {
			return err
		}
		values := 1
		if first {
			values = len(r.GetResources())
		}
		for range values {
			s.seen.Add()
		}
		q = &discoveryv3.DiscoveryRequest{
			TypeUrl: q.GetTypeUrl(), ResourceNames: names, VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce(),
		}
	}
}

func (s *stream) incremental(names []string) error {
	rpc, err := s.ads.DeltaAggregatedResources(s.ctx)
	if err != nil {
		return err
	}
	q := &discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "bench"}, TypeUrl: resources.ClusterType, ResourceNamesSubscribe: names}
	for {
		if err := rpc.Send(q); err != nil {
			return err
		}
		r, err := rpc.Recv()
		if err != nil {
			return err
		}
		for range r.GetResources() {
			s.seen.Add()
		}
		q = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: q.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	}
}

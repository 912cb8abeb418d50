package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// ads answers each request with the clusters that it names.
type ads struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (ads) StreamAggregatedResources(s grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]) error {
	names := -1
	for {
		q, err := s.Recv()
		if err != nil {
			return err
		}
		if len(q.ResourceNames) == names { // an acknowledgement
			continue
		}
		names = len(q.ResourceNames)
		r := &discoveryv3.DiscoveryResponse{VersionInfo: "1", Nonce: time.Now().String(), TypeUrl: q.TypeUrl}
		for _, name := range q.ResourceNames {
			c, err := anypb.New(&clusterv3.Cluster{
				Name:                 name,
				ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
				EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
					ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
				}},
			})
			if err != nil {
				return err
			}
			r.Resources = append(r.Resources, c)
		}
		if err := s.Send(r); err != nil {
			return err
		}
	}
}

func TestWatchesGetTheirValues(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gs := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(gs, ads{})
	go func() { _ = gs.Serve(l) }()
	defer gs.Stop()
	var out strings.Builder
	in := `{"do":"watch","to":3}` + "\n" + `{"do":"rest"}` + "\n" + `{"do":"change"}`
	if err := run(t.Context(), l.Addr().String(), "c-%d", strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, `"values":3`) || strings.Count(s, "error") != 1 || !strings.Contains(s, "no such request") {
		t.Error(s)
	}
}

func TestWaitEndsWithAnErrorOrTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var s seen
	if err := s.wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broken := errors.New("not a value")
	s.fail(broken)
	if err := s.wait(t.Context(), 1); !errors.Is(err, broken) {
		t.Error(err)
	}
}

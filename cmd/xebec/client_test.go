package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/xebec-proxy/xebec/xds"
)

var update = flag.Bool("update", false, "rewrite the golden parts of the scripts")

// adsClientMain is a client that subscribes to every cluster and answers: it
// rejects clusters of the name in --reject, and accepts the others.
//
//	ads-client --server ADDRESS --node ID [--reject NAME]
func adsClientMain() {
	server := flag.String("server", "", "")
	node := flag.String("node", "", "")
	reject := flag.String("reject", "", "")
	flag.Parse()
	if err := adsClient(*server, *node, *reject); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func adsClient(server, node, reject string) error {
	conn, err := grpc.NewClient("passthrough:///"+server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(context.Background())
	if err != nil {
		return err
	}
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.ClusterType, Node: &corev3.Node{Id: node, Cluster: "test"}}
	for {
		if err := stream.Send(req); err != nil {
			return err
		}
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		req = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.ClusterType, ResponseNonce: resp.GetNonce()}
		for _, r := range resp.GetResources() {
			fmt.Println("received", r.GetName())
			if reject != "" && strings.HasPrefix(r.GetName(), reject) {
				req.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: "I do not like " + r.GetName()}
			}
		}
	}
}

// watcherMain is a client that never leaves: it watches the server's health.
//
//	watcher --server ADDRESS
func watcherMain() {
	server := flag.String("server", "", "")
	flag.Parse()
	if err := watch(*server); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func watch(server string) error {
	conn, err := grpc.NewClient("passthrough:///"+server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := healthv1.NewHealthClient(conn).Watch(context.Background(), &healthv1.HealthCheckRequest{})
	for err == nil {
		var resp *healthv1.HealthCheckResponse
		if resp, err = stream.Recv(); err == nil {
			// The server counts it as a client once this file is there.
			err = os.WriteFile(resp.GetStatus().String(), nil, 0o600)
		}
	}
	return err
}

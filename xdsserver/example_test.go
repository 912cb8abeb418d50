package xdsserver_test

import (
	"context"
	"fmt"
	"net"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source/mem"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// A program serves resources that it keeps in memory. A source, here
// source/mem, delivers batches to the server; the server is registered on a
// grpc.Server that was built with its options. For other machines than this
// one, give that server transport credentials and the xDS server WithAuth.
func Example() {
	server, err := xdsserver.New(xdsserver.WithIdentifier("example"))
	if err != nil {
		fmt.Println(err)
		return
	}
	source := mem.New()
	if err := source.Set(mem.DefaultGroup, &clusterv3.Cluster{Name: "backend"}); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	delivered := make(chan error, 1)
	go func() { delivered <- source.Run(ctx, server) }()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	g := grpc.NewServer(server.GRPCOptions()...)
	server.Register(g)
	go func() { _ = g.Serve(listener) }()

	for range 2 {
		if err := printClusters(ctx, listener.Addr().String()); err != nil {
			fmt.Println(err)
		}
		// Once the source runs, a change is served when the call returns.
		if err := source.Set(mem.DefaultGroup, &clusterv3.Cluster{Name: "canary"}); err != nil {
			fmt.Println(err)
		}
	}

	// Streams end first, then connections, then the source.
	_ = server.Shutdown(ctx)
	g.Stop()
	stop()
	fmt.Println("stopped:", <-delivered)
	// Output:
	// serving backend
	// serving backend
	// serving canary
	// stopped: <nil>
}

// printClusters stands for a client: it fetches all clusters once, and waits
// for a server that is not ready.
func printClusters(ctx context.Context, address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stream, err := clusterservice.NewClusterDiscoveryServiceClient(conn).StreamClusters(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "proxy-1"}}); err != nil {
		return err
	}
	response, err := stream.Recv()
	if err != nil {
		return err
	}
	for _, a := range response.GetResources() {
		var c clusterv3.Cluster
		if err := a.UnmarshalTo(&c); err != nil {
			return err
		}
		fmt.Println("serving", c.GetName())
	}
	return nil
}

// A server puts its clients into groups by what their node says.
func ExampleWithGroups() {
	server, err := xdsserver.New(xdsserver.WithGroups(func(n *xds.Node) string { return n.Cluster }))
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{}}
	for _, group := range []string{"edge", "mesh"} {
		r, err := xds.Marshal("backend", &clusterv3.Cluster{Name: "backend", AltStatName: "of-" + group})
		if err != nil {
			fmt.Println(err)
			return
		}
		batch.Groups[group] = snapshot.Changes{Set: []*xds.Resource{r}}
	}
	if err := server.Apply(batch); err != nil {
		fmt.Println(err)
		return
	}
	for _, group := range server.Groups() {
		for _, r := range server.Snapshot(group).Set(xds.ClusterType).All() {
			fmt.Println(group, "gets", r.Name())
		}
	}
	// Output:
	// edge gets backend
	// mesh gets backend
}

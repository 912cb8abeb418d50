package loadreport_test

import (
	"context"
	"fmt"
	"net"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

// A server asks for the load of one cluster and reads what a client reports.
func Example() {
	server, err := loadreport.New(
		loadreport.WithConfig(loadreport.Config{Clusters: []string{"shop"}, Interval: 5 * time.Second}),
		loadreport.WithAllow(func(_ context.Context, n *xds.Node) error {
			if n.Cluster != "edge" {
				return fmt.Errorf("cluster %q may not report", n.Cluster)
			}
			return nil
		}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	reports := make(chan loadreport.Report, 1)
	cancel := server.Subscribe(func(r loadreport.Report) { reports <- r })
	defer cancel()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	g := grpc.NewServer()
	server.Register(g)
	go func() { _ = g.Serve(listener) }()
	defer g.Stop()

	if err := reportOnce(listener.Addr().String()); err != nil {
		fmt.Println(err)
		return
	}
	r := <-reports
	for _, c := range r.Clusters {
		fmt.Printf("%s reports %s: %.0f requests per second\n", r.Node.ID, c.Cluster, c.Rates.Successful)
	}
	for _, c := range server.Loads() {
		fmt.Printf("%s had %d requests so far\n", c.Cluster, c.Total.Successful)
	}
	// Output:
	// client was asked for [shop] every 5s
	// proxy-1 reports shop: 20 requests per second
	// shop had 100 requests so far
}

// reportOnce stands for a proxy.
func reportOnce(address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream, err := lrsv3.NewLoadReportingServiceClient(conn).StreamLoadStats(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&lrsv3.LoadStatsRequest{Node: &corev3.Node{Id: "proxy-1", Cluster: "edge"}}); err != nil {
		return err
	}
	asked, err := stream.Recv()
	if err != nil {
		return err
	}
	fmt.Println("client was asked for", asked.GetClusters(), "every", asked.GetLoadReportingInterval().AsDuration())
	err = stream.Send(&lrsv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{{
		ClusterName: "shop", LoadReportInterval: durationpb.New(5 * time.Second),
		UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{TotalSuccessfulRequests: 100}},
	}}})
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	_, _ = stream.Recv()
	return nil
}

package loadreport_test

import (
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting/reportingtest"
	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a server and a connection to it inside a synctest bubble.
type bench struct {
	*testing.T
	server *loadreport.Server
	conn   *grpc.ClientConn
	client lrsv3.LoadReportingServiceClient
}

// inBubble runs a test against a new server; everything it started has ended
// when it returns, or the bubble fails.
func inBubble(t *testing.T, test func(*bench), opts ...loadreport.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := loadreport.New(opts...)
		if err != nil {
			t.Fatal(err)
		}
		conn := reportingtest.Serve(t, s)
		test(&bench{t, s, conn, lrsv3.NewLoadReportingServiceClient(conn)})
	})
}

type clientStream struct {
	*reportingtest.Stream[lrsv3.LoadStatsRequest, lrsv3.LoadStatsResponse]
}

// open starts a stream without sending.
func (b *bench) open() *clientStream {
	b.Helper()
	ctx := metadata.AppendToOutgoingContext(b.Context(), "token", "right")
	return &clientStream{reportingtest.Open(ctx, b.T, b.client.StreamLoadStats)}
}

// join starts a stream, introduces the node and returns the first answer.
func (b *bench) join(n *corev3.Node) (*clientStream, *lrsv3.LoadStatsResponse) {
	b.Helper()
	c := b.open()
	c.Send(&lrsv3.LoadStatsRequest{Node: n})
	return c, c.Answer()
}

// report sends cluster stats and waits until the server has dealt with them.
func (c *clientStream) report(stats ...*endpointv3.ClusterStats) {
	c.Send(&lrsv3.LoadStatsRequest{ClusterStats: stats})
	synctest.Wait()
}

func envoy(id string, features ...string) *corev3.Node {
	return &corev3.Node{Id: id, Cluster: "edge", ClientFeatures: features}
}

func sendsAll(id string) *corev3.Node { return envoy(id, xds.FeatureSendAllClusters) }

// stats is a cluster's report over the given seconds.
func stats(cluster string, seconds int64, localities ...*endpointv3.UpstreamLocalityStats) *endpointv3.ClusterStats {
	return &endpointv3.ClusterStats{
		ClusterName: cluster, LoadReportInterval: &durationpb.Duration{Seconds: seconds}, UpstreamLocalityStats: localities,
	}
}

func zone(name string, ok, failed, issued, active uint64) *endpointv3.UpstreamLocalityStats {
	return &endpointv3.UpstreamLocalityStats{
		Locality:                &corev3.Locality{Region: "r", Zone: name},
		TotalSuccessfulRequests: ok, TotalErrorRequests: failed, TotalIssuedRequests: issued, TotalRequestsInProgress: active,
	}
}

func endpoint(ip string, ok, issued, active uint64, metrics ...*endpointv3.EndpointLoadMetricStats) *endpointv3.UpstreamEndpointStats {
	return &endpointv3.UpstreamEndpointStats{
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
		}}},
		TotalSuccessfulRequests: ok, TotalIssuedRequests: issued, TotalRequestsInProgress: active, LoadMetricStats: metrics,
	}
}

func metric(name string, requests uint64, sum float64) *endpointv3.EndpointLoadMetricStats {
	return &endpointv3.EndpointLoadMetricStats{
		MetricName: name, NumRequestsFinishedWithMetric: requests, TotalMetricValue: sum,
	}
}

package loadreport

import (
	"math"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// FuzzReport feeds arbitrary requests to what stands behind a stream: it must
// not panic, must count a report once, and must keep every number finite.
func FuzzReport(f *testing.F) {
	for _, r := range []*lrsv3.LoadStatsRequest{
		{},
		{ClusterStats: []*endpointv3.ClusterStats{{ClusterName: "a"}, {ClusterName: "a", LoadReportInterval: &durationpb.Duration{Nanos: 1}}}},
		{ClusterStats: []*endpointv3.ClusterStats{{
			ClusterName: "a", TotalDroppedRequests: math.MaxUint64,
			DroppedRequests:    []*endpointv3.ClusterStats_DroppedRequests{{Category: "c", DroppedCount: 1}},
			LoadReportInterval: &durationpb.Duration{Seconds: 315_576_000_000},
			UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
				Locality: &corev3.Locality{Zone: "z"}, TotalIssuedRequests: math.MaxUint64,
				LoadMetricStats: []*endpointv3.EndpointLoadMetricStats{{MetricName: "m", TotalMetricValue: math.MaxFloat64}},
				UpstreamEndpointStats: []*endpointv3.UpstreamEndpointStats{{
					Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "p"}}},
				}},
			}},
		}}},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r lrsv3.LoadStatsRequest
		if proto.Unmarshal(b, &r) != nil {
			return
		}
		report, err := decode(r.GetClusterStats())
		if err != nil {
			return
		}
		totals := tree{}
		want := size{}.with(totals, report)
		totals.accumulate(report, time.Now())
		totals.accumulate(report, time.Now())
		if got := totals.size(); got != want {
			t.Fatalf("size %+v, expected %+v", got, want)
		}
		totals.collect(report, everyCluster)
		for _, c := range totals.export() {
			if c.Reports != 2 {
				t.Fatalf("cluster %q counts %d reports", c.Cluster, c.Reports)
			}
			checkFinite(t, &c.Load)
		}
	})
}

func checkFinite(t *testing.T, l *Load) {
	t.Helper()
	for name, m := range l.Total.Metrics {
		if math.IsNaN(m.Sum) || math.IsInf(m.Sum, 0) {
			t.Fatalf("metric %q is %v", name, m.Sum)
		}
	}
	if math.IsNaN(l.Rates.Issued) || math.IsInf(l.Rates.Issued, 0) {
		t.Fatalf("rate is %v", l.Rates.Issued)
	}
}

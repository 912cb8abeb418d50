package loadreport_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

func TestMalformedReportEndsOnlyItsStream(t *testing.T) {
	with := func(change func(*endpointv3.ClusterStats, *endpointv3.UpstreamLocalityStats)) *endpointv3.ClusterStats {
		z := zone("a", 1, 0, 0, 0)
		c := stats("web", 1, z)
		change(c, z)
		return c
	}
	for want, bad := range map[string]*endpointv3.ClusterStats{
		"cluster_name is empty": stats("", 1),
		"load_report_interval is -1s": with(func(c *endpointv3.ClusterStats, _ *endpointv3.UpstreamLocalityStats) {
			c.LoadReportInterval = &durationpb.Duration{Seconds: -1}
		}),
		"load_report_interval: ": with(func(c *endpointv3.ClusterStats, _ *endpointv3.UpstreamLocalityStats) {
			c.LoadReportInterval = &durationpb.Duration{Nanos: -2_000_000_000}
		}),
		"upstream_locality_stats[0].load_metric_stats[1]": with(func(_ *endpointv3.ClusterStats, z *endpointv3.UpstreamLocalityStats) {
			z.LoadMetricStats = []*endpointv3.EndpointLoadMetricStats{metric("m", 1, 1), metric("m", 1, math.NaN())}
		}),
		"upstream_locality_stats[0].mem_utilization": with(func(_ *endpointv3.ClusterStats, z *endpointv3.UpstreamLocalityStats) {
			z.MemUtilization = &endpointv3.UnnamedEndpointLoadMetricStats{TotalMetricValue: math.Inf(1)}
		}),
		"upstream_endpoint_stats[0].address is empty": with(func(_ *endpointv3.ClusterStats, z *endpointv3.UpstreamLocalityStats) {
			z.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{{}}
		}),
		"upstream_endpoint_stats[0].load_metric_stats[0]": with(func(_ *endpointv3.ClusterStats, z *endpointv3.UpstreamLocalityStats) {
			z.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{endpoint("10.0.0.1", 0, 0, 0, metric("m", 1, math.Inf(-1)))}
		}),
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				good, _ := b.join(sendsAll("good"))
				defer good.Leave()
				c, _ := b.join(sendsAll("bad"))
				c.report(stats("fine", 1, zone("a", 5, 0, 0, 0)), bad)
				if err := c.End(codes.InvalidArgument); !strings.Contains(err.Error(), want) {
					b.Errorf("the error does not say %q: %v", want, err)
				}
				good.report(stats("web", 1, zone("a", 7, 0, 0, 0)))
				if got := b.server.Loads(); len(got) != 1 || got[0].Total.Successful != 7 {
					b.Errorf("loads: %+v; want only the good stream's", got)
				}
			})
		})
	}
}

func TestFirstRequestNeedsANode(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.open()
		c.Send(&lrsv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{stats("web", 1)}})
		_ = c.End(codes.InvalidArgument)
		d, _ := b.join(envoy("one"))
		d.Send(&lrsv3.LoadStatsRequest{Node: envoy("one"), ClusterStats: []*endpointv3.ClusterStats{full()}})
		d.Send(&lrsv3.LoadStatsRequest{Node: envoy("two"), ClusterStats: []*endpointv3.ClusterStats{full()}})
		_ = d.End(codes.InvalidArgument)
		if got := b.server.Loads(); len(got) != 1 || got[0].Reports != 1 {
			b.Errorf("loads: %+v; want one report", got)
		}
	})
}

// Partly proves XD-11.
func TestDeniedNodeGetsAndRecordsNothing(t *testing.T) {
	gate := func(ctx context.Context, n *xds.Node) error {
		md, _ := metadata.FromIncomingContext(ctx)
		switch {
		case len(md.Get("token")) != 1:
			return status.Error(codes.Unauthenticated, "no token")
		case n.ID == "bad":
			return errors.New("secret reason")
		case n.ID == "later":
			return status.Error(codes.Unavailable, "try later")
		}
		return nil
	}
	inBubble(t, func(b *bench) {
		for id, want := range map[string]codes.Code{"bad": codes.PermissionDenied, "later": codes.Unavailable} {
			c := b.open()
			c.Send(&lrsv3.LoadStatsRequest{Node: sendsAll(id), ClusterStats: []*endpointv3.ClusterStats{full()}})
			r, err := c.Recv()
			if status.Code(err) != want || strings.Contains(err.Error(), "secret") {
				b.Errorf("node %s got %v, %v; want %v without the reason", id, r, err, want)
			}
		}
		if n := b.server.Nodes(); len(n) != 0 {
			b.Errorf("denied nodes are remembered: %+v", n)
		}
		good, _ := b.join(sendsAll("good"))
		defer good.Leave()
		good.report(full())
		if n := b.server.Nodes(); len(n) != 1 {
			b.Errorf("the allowed node was not recorded: %+v", n)
		}
	}, loadreport.WithAllow(gate))
}

func TestLimitsPerNode(t *testing.T) {
	a := zone("a", 1, 0, 0, 0)
	a.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{endpoint("10.0.0.1", 1, 0, 0), endpoint("10.0.0.2", 1, 0, 0)}
	a.LoadMetricStats = []*endpointv3.EndpointLoadMetricStats{metric("x", 1, 1), metric("y", 1, 1)}
	fits := stats("web", 1, a, zone("b", 1, 0, 0, 0))
	fits.DroppedRequests = []*endpointv3.ClusterStats_DroppedRequests{{Category: "c"}}
	limits := loadreport.Limits{Clusters: 1, Localities: 2, Endpoints: 2, Names: 3}
	third := zone("b", 1, 0, 0, 0)
	third.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{endpoint("10.0.0.3", 1, 0, 0)}
	named := zone("b", 1, 0, 0, 0)
	named.LoadMetricStats = []*endpointv3.EndpointLoadMetricStats{metric("z", 1, 1)}
	for want, more := range map[string]*endpointv3.ClusterStats{
		"2 clusters":     stats("other", 1),
		"3 localities":   stats("web", 1, zone("c", 1, 0, 0, 0)),
		"3 endpoints":    stats("web", 1, third),
		"4 metric names": stats("web", 1, named),
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				c, _ := b.join(sendsAll("one"))
				c.report(fits)
				c.report(fits)
				other, _ := b.join(sendsAll("two"))
				defer other.Leave()
				other.report(fits)
				c.report(more)
				if err := c.End(codes.ResourceExhausted); !strings.Contains(err.Error(), want) {
					b.Errorf("the error does not say %q: %v", want, err)
				}
				other.report(fits)
				if got := b.server.Loads()[0]; got.Reports != 4 {
					b.Errorf("%d reports counted, want 4", got.Reports)
				}
			}, loadreport.WithLimits(limits))
		})
	}
}

func TestLimitsOfTheServer(t *testing.T) {
	inBubble(t, func(b *bench) {
		one, _ := b.join(envoy("one"))
		two := b.open()
		two.Send(&lrsv3.LoadStatsRequest{Node: envoy("two")})
		_ = two.End(codes.ResourceExhausted)
		again, _ := b.join(envoy("one"))
		third := b.open()
		third.Send(&lrsv3.LoadStatsRequest{Node: envoy("one")})
		_ = third.End(codes.ResourceExhausted)
		one.Leave()
		again.Leave()
		synctest.Wait()
		time.Sleep(loadreport.DefaultRetention)
		two, _ = b.join(envoy("two"))
		two.Leave()
	}, loadreport.WithLimits(loadreport.Limits{Streams: 2, Nodes: 1}))
}

func TestForgetting(t *testing.T) {
	inBubble(t, func(b *bench) {
		gone, _ := b.join(sendsAll("gone"))
		stays, _ := b.join(sendsAll("stays"))
		defer stays.Leave()
		gone.report(stats("web", 1, zone("a", 1, 0, 0, 0)))
		both := zone("a", 2, 0, 0, 0)
		both.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{endpoint("10.0.0.1", 1, 0, 0), endpoint("10.0.0.2", 1, 0, 0)}
		stays.report(stats("web", 1, both, zone("old", 4, 0, 0, 0)), stats("old", 1))
		gone.Leave()
		synctest.Wait()
		time.Sleep(59 * time.Second)
		if n := b.server.ByNode("gone"); len(n) != 1 || n[0].Streams != 0 {
			b.Errorf("forgotten too early: %+v", n)
		}
		time.Sleep(time.Second)
		if n := b.server.ByNode("gone"); len(n) != 0 {
			b.Errorf("not forgotten: %+v", n)
		}
		half := zone("a", 8, 0, 0, 0)
		half.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{endpoint("10.0.0.2", 1, 0, 0)}
		stays.report(stats("web", 1, half))
		time.Sleep(time.Minute)
		stays.report(stats("web", 1, half))
		got := b.server.Loads()
		if len(got) != 1 || len(got[0].Localities) != 1 || len(got[0].Localities[0].Endpoints) != 1 || got[0].Total.Successful != 18 {
			b.Errorf("what was not reported for a minute is still there: %+v", got)
		}
	}, loadreport.WithRetention(time.Minute))
}

func TestCloseEndsStreams(t *testing.T) {
	inBubble(t, func(b *bench) {
		silent := b.open()
		c, _ := b.join(envoy("one"))
		c.report(full())
		b.server.Close()
		b.server.Close()
		_ = c.End(codes.Unavailable)
		_ = silent.End(codes.Unavailable)
		late := b.open()
		_ = late.End(codes.Unavailable)
		if got := b.server.Loads(); len(got) != 1 || got[0].InProgress != 0 {
			b.Errorf("loads after closing: %+v", got)
		}
	})
}

func TestHalfCloseEndsTheStream(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, _ := b.join(&corev3.Node{Cluster: "anonymous"})
		if err := c.CloseSend(); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Recv(); err == nil || err.Error() != "EOF" {
			b.Errorf("the stream ended with %v", err)
		}
		synctest.Wait()
		if n := b.server.ByNode(""); len(n) != 1 || n[0].Streams != 0 || n[0].Node.Cluster != "anonymous" {
			b.Errorf("nodes: %+v", n)
		}
	})
}

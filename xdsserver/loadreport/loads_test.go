package loadreport_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

// full is a report that uses every field.
func full() *endpointv3.ClusterStats {
	z := zone("z", 10, 2, 14, 3)
	z.Priority = 1
	z.TotalActiveConnections, z.TotalNewConnections, z.TotalFailConnections = 5, 6, 7
	z.CpuUtilization = &endpointv3.UnnamedEndpointLoadMetricStats{NumRequestsFinishedWithMetric: 2, TotalMetricValue: 1}
	z.MemUtilization = &endpointv3.UnnamedEndpointLoadMetricStats{NumRequestsFinishedWithMetric: 4, TotalMetricValue: 3}
	z.ApplicationUtilization = &endpointv3.UnnamedEndpointLoadMetricStats{NumRequestsFinishedWithMetric: 1, TotalMetricValue: 9}
	z.LoadMetricStats = []*endpointv3.EndpointLoadMetricStats{metric("queue", 2, 8)}
	z.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{
		endpoint("10.0.0.2", 6, 8, 1, metric("queue", 1, 3)), endpoint("10.0.0.1", 4, 6, 2),
	}
	c := stats("web", 2, z)
	c.ClusterServiceName = "web.svc"
	c.TotalDroppedRequests = 9
	c.DroppedRequests = []*endpointv3.ClusterStats_DroppedRequests{{Category: "lb", DroppedCount: 4}}
	return c
}

// times is what n nodes that each sent full() r times add up to.
func times(n, r uint64, at time.Time) loadreport.ClusterLoad {
	sums := func(k uint64) loadreport.Sums {
		f := float64(k)
		return loadreport.Sums{
			Successful: 10 * k, Errors: 2 * k, Issued: 14 * k, NewConnections: 6 * k, FailedConnections: 7 * k,
			CPU: loadreport.Metric{Requests: 2 * k, Sum: f}, Memory: loadreport.Metric{Requests: 4 * k, Sum: 3 * f},
			Application: loadreport.Metric{Requests: k, Sum: 9 * f},
			Metrics:     map[string]loadreport.Metric{"queue": {Requests: 2 * k, Sum: 8 * f}},
		}
	}
	f := float64(n)
	load := loadreport.Load{
		Total: sums(n * r), Latest: sums(n), InProgress: 3 * n, ActiveConnections: 5 * n,
		Rates: loadreport.Rates{Successful: 5 * f, Errors: f, Issued: 7 * f},
	}
	queue := func(k uint64) map[string]loadreport.Metric {
		return map[string]loadreport.Metric{"queue": {Requests: k, Sum: 3 * float64(k)}}
	}
	return loadreport.ClusterLoad{
		Cluster: "web", Service: "web.svc", Load: load,
		Dropped:       loadreport.Drops{All: 9 * n * r, Categories: map[string]uint64{"lb": 4 * n * r}},
		LatestDropped: loadreport.Drops{All: 9 * n, Categories: map[string]uint64{"lb": 4 * n}},
		DropRate:      4.5 * f, Covered: time.Duration(2*n*r) * time.Second, Reports: n * r, Interval: 2 * time.Second, LastReport: at,
		Localities: []loadreport.LocalityLoad{{
			Locality: loadreport.Locality{Region: "r", Zone: "z"}, Priority: 1, Load: load,
			Endpoints: []loadreport.EndpointLoad{
				{Address: "10.0.0.1:80", Load: loadreport.Load{
					Total: loadreport.Sums{Successful: 4 * n * r, Issued: 6 * n * r}, Latest: loadreport.Sums{Successful: 4 * n, Issued: 6 * n},
					InProgress: 2 * n, Rates: loadreport.Rates{Successful: 2 * f, Issued: 3 * f},
				}},
				{Address: "10.0.0.2:80", Load: loadreport.Load{
					Total:      loadreport.Sums{Successful: 6 * n * r, Issued: 8 * n * r, Metrics: queue(n * r)},
					Latest:     loadreport.Sums{Successful: 6 * n, Issued: 8 * n, Metrics: queue(n)},
					InProgress: n, Rates: loadreport.Rates{Successful: 3 * f, Issued: 4 * f},
				}},
			},
		}},
	}
}

// Proves XL-03 and XL-04.
func TestSumOfTwoNodes(t *testing.T) {
	inBubble(t, func(b *bench) {
		one, _ := b.join(sendsAll("one"))
		two, _ := b.join(sendsAll("two"))
		defer two.Leave()
		one.report(full())
		two.report(full())
		time.Sleep(2 * time.Second)
		one.report(full())
		two.report(full())
		at := time.Now()
		want := times(2, 2, at)
		for name, got := range map[string][]loadreport.ClusterLoad{
			"Loads": b.server.Loads(), "ByCluster": b.server.ByCluster("web"),
		} {
			if d := cmp.Diff([]loadreport.ClusterLoad{want}, got); d != "" {
				b.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
		nodes := b.server.ByNode("one")
		if len(nodes) != 1 || nodes[0].Streams != 1 || nodes[0].Node.ID != "one" || !nodes[0].LastReport.Equal(at) {
			b.Fatalf("node one: %+v", nodes)
		}
		if d := cmp.Diff([]loadreport.ClusterLoad{times(1, 2, at)}, nodes[0].Clusters); d != "" {
			b.Errorf("node one (-want +got):\n%s", d)
		}
		if n := b.server.Nodes(); len(n) != 2 || n[0].Node.ID != "one" || n[1].Node.ID != "two" {
			b.Errorf("nodes: %+v", n)
		}
		if got := b.server.ByCluster("other"); len(got) != 0 {
			b.Errorf("a cluster nobody reported: %+v", got)
		}
		one.Leave()
	})
}

// Proves XL-03.
func TestClustersWithOneServiceNameAreAddedUp(t *testing.T) {
	inBubble(t, func(b *bench) {
		one, _ := b.join(sendsAll("one"))
		defer one.Leave()
		two, _ := b.join(sendsAll("two"))
		defer two.Leave()
		blue, green := stats("blue", 10, zone("z", 1, 0, 1, 0)), stats("green", 10, zone("z", 20, 0, 20, 0))
		blue.ClusterServiceName, green.ClusterServiceName = "shop", "shop"
		one.report(blue, stats("plain", 10, zone("z", 300, 0, 300, 0)))
		two.report(green, stats("shop", 10, zone("y", 4000, 0, 4000, 0)))
		shop, ok := b.server.ByService("shop")
		if !ok || shop.Total.Successful != 4021 || len(shop.Localities) != 2 || shop.Cluster != "" {
			b.Errorf("shop: %t, %+v", ok, shop)
		}
		plain, ok := b.server.ByService("plain")
		if !ok || plain.Total.Successful != 300 {
			b.Errorf("plain: %t, %+v", ok, plain)
		}
		if all := b.server.Services(); len(all) != 2 || all[0].Service != "plain" || all[1].Service != "shop" {
			b.Errorf("services: %+v", all)
		}
		if _, ok := b.server.ByService("blue"); ok {
			b.Error("a cluster with a service name also counts under its own")
		}
		if n := len(b.server.Loads()); n != 4 {
			b.Errorf("%d clusters, want 4", n)
		}
	})
}

// Proves XL-04.
func TestGaugesAreReplacedAndDeltasAddedUp(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, _ := b.join(sendsAll("one"))
		check := func(when string, total, latest, active uint64) {
			b.Helper()
			got := b.server.Loads()[0]
			if got.Total.Successful != total || got.Latest.Successful != latest || got.InProgress != active {
				b.Errorf("%s: total %d, latest %d, in progress %d; want %d, %d, %d", when,
					got.Total.Successful, got.Latest.Successful, got.InProgress, total, latest, active)
			}
		}
		c.report(stats("web", 10, zone("a", 5, 0, 5, 7), zone("b", 1, 0, 1, 1)))
		check("first report", 6, 6, 8)
		c.report(stats("web", 10, zone("a", 6, 0, 6, 2), zone("b", 1, 0, 1, 1)))
		check("second report", 13, 7, 3)
		c.report(stats("web", 10, zone("a", 1, 0, 1, 4)))
		check("a locality left out is idle", 14, 1, 4)
		c.report(stats("web", 10, zone("a", 1, 0, 1, 4), zone("a", 2, 0, 2, 5)))
		check("a locality given twice", 17, 3, 9)
		c.report()
		check("an empty report", 17, 0, 0)
		c.report(stats("web", 10, zone("a", 0, 0, 0, 4)))
		again, _ := b.join(sendsAll("one"))
		defer again.Leave()
		again.report(stats("web", 10, zone("a", 1, 0, 1, 2)))
		check("two streams of a node", 18, 1, 6)
		c.Leave()
		synctest.Wait()
		check("a stream's gauges leave with it", 18, 1, 2)
	})
}

// Proves XL-05.
func TestRatesUseTheReportedInterval(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, _ := b.join(sendsAll("one"))
		defer c.Leave()
		other, _ := b.join(sendsAll("two"))
		defer other.Leave()
		time.Sleep(time.Hour) // what the clock says must not matter
		dropping := stats("web", 4, zone("a", 40, 8, 60, 0))
		dropping.TotalDroppedRequests = 2
		c.report(dropping)
		got := b.server.Loads()[0]
		if want := (loadreport.Rates{Successful: 10, Errors: 2, Issued: 15}); got.Rates != want || got.DropRate != 0.5 {
			b.Errorf("rates %+v and %v, want %+v and 0.5", got.Rates, got.DropRate, want)
		}
		other.report(stats("web", 10, zone("a", 10, 0, 0, 0)))
		got = b.server.Loads()[0]
		if got.Rates.Successful != 11 || got.Interval != 10*time.Second || got.Covered != 14*time.Second {
			b.Errorf("over two nodes: %v/s, interval %v, covered %v", got.Rates.Successful, got.Interval, got.Covered)
		}
		c.report(&endpointv3.ClusterStats{
			ClusterName: "web", UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{zone("a", 40, 0, 0, 0)},
		})
		if got = b.server.Loads()[0]; got.Rates.Successful != 1 {
			b.Errorf("a report without its interval has a rate: %v/s", got.Rates.Successful)
		}
	})
}

// Proves XL-06.
func TestWeightsFollowLoad(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, r := b.join(sendsAll("one"))
		defer c.Leave()
		if !r.GetReportEndpointGranularity() {
			b.Error("endpoints were not asked for")
		}
		a, z := zone("a", 0, 0, 0, 0), zone("z", 0, 0, 0, 0)
		a.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{
			endpoint("10.0.0.1", 0, 100, 0, metric("util", 100, 50)),
			endpoint("10.0.0.2", 0, 100, 0, metric("util", 100, 25)),
			endpoint("10.0.0.3", 0, 100, 0),
			endpoint("10.0.0.4", 0, 0, 0, metric("util", 1, 1)),
		}
		z.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{endpoint("::1", 0, 50, 0, metric("util", 50, 25))}
		c.report(stats("web", 10, a, z))
		loads := b.server.ByCluster("web")
		want := map[string]uint32{"10.0.0.1:80": 5000, "10.0.0.2:80": 10000, "[::1]:80": 2500}
		if d := cmp.Diff(want, loads[0].Weights("util")); d != "" {
			b.Errorf("weights (-want +got):\n%s", d)
		}
		if w := loads[0].Weights("other"); len(w) != 0 {
			b.Errorf("weights of a metric nobody reports: %v", w)
		}
	}, loadreport.WithConfig(loadreport.Config{AllClusters: true, EndpointGranularity: true}))
}

func TestSubscribersGetEachReport(t *testing.T) {
	inBubble(t, func(b *bench) {
		var got []loadreport.Report
		cancel := b.server.Subscribe(func(r loadreport.Report) {
			got = append(got, r)
			_ = b.server.Loads() // no lock is held
		})
		c, _ := b.join(sendsAll("one"))
		defer c.Leave()
		c.report(full())
		c.report(full())
		cancel()
		c.report(full())
		if len(got) != 2 {
			b.Fatalf("%d reports, want 2", len(got))
		}
		for _, r := range got {
			cl := r.Clusters[0]
			if r.Node.ID != "one" || cl.Total.Successful != 0 || cl.Latest.Successful != 10 || cl.Rates.Issued != 7 || cl.InProgress != 3 {
				b.Errorf("report: %+v", r)
			}
		}
		if total := b.server.Loads()[0].Total.Successful; total != 30 {
			b.Errorf("total %d, want 30", total)
		}
	})
}

func TestCountsSaturate(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, _ := b.join(sendsAll("one"))
		defer c.Leave()
		huge := zone("a", math.MaxUint64, 0, 0, math.MaxUint64)
		huge.LoadMetricStats = []*endpointv3.EndpointLoadMetricStats{metric("m", 1, math.MaxFloat64), metric("m", 1, math.MaxFloat64)}
		c.report(stats("web", math.MaxInt32, huge, huge))
		c.report(stats("web", math.MaxInt32, huge))
		got := b.server.Loads()[0]
		if got.Total.Successful != math.MaxUint64 || got.Total.Metrics["m"].Sum != math.MaxFloat64 {
			b.Errorf("total %+v", got.Total)
		}
	})
}

func TestAddresses(t *testing.T) {
	for want, a := range map[string]*corev3.Address{
		"/run/x.sock": {Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/x.sock"}}},
		"h:http": {Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "h", PortSpecifier: &corev3.SocketAddress_NamedPort{NamedPort: "http"},
		}}},
		"envoy_internal:l/e": {Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: &corev3.EnvoyInternalAddress{
			AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: "l"}, EndpointId: "e",
		}}},
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				c, _ := b.join(sendsAll("one"))
				defer c.Leave()
				z := zone("a", 1, 0, 0, 0)
				z.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{{Address: a}}
				c.report(stats("web", 1, z))
				if got := b.server.Loads()[0].Localities[0].Endpoints[0].Address; got != want {
					b.Errorf("address %q", got)
				}
			})
		})
	}
}

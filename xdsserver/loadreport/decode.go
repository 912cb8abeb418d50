package loadreport

import (
	"errors"
	"fmt"
	"math"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

// decode turns a report into a tree with Latest, rates and gauges. Entries
// that occur twice are added up. An error names the field that is malformed.
func decode(stats []*endpointv3.ClusterStats) (tree, error) {
	t := make(tree, len(stats))
	for i, p := range stats {
		if err := t.decodeCluster(p); err != nil {
			return nil, fmt.Errorf("cluster_stats[%d] (%q): %w", i, p.GetClusterName(), err)
		}
	}
	return t, nil
}

func (t tree) decodeCluster(p *endpointv3.ClusterStats) error {
	if p.GetClusterName() == "" {
		return errors.New("cluster_name is empty; name the cluster")
	}
	covered, err := interval(p)
	if err != nil {
		return err
	}
	c := t.cluster(clusterKey{p.GetClusterName(), p.GetClusterServiceName()})
	c.Interval = max(c.Interval, covered)
	drops := Drops{All: p.GetTotalDroppedRequests()}
	for _, d := range p.GetDroppedRequests() {
		drops.add(&Drops{Categories: map[string]uint64{d.GetCategory(): d.GetDroppedCount()}})
	}
	c.LatestDropped.add(&drops)
	c.DropRate += perSecond(drops.All, covered)
	for i, l := range p.GetUpstreamLocalityStats() {
		if err := c.decodeLocality(l, covered); err != nil {
			return fmt.Errorf("upstream_locality_stats[%d].%w", i, err)
		}
	}
	return nil
}

// interval is the time that a cluster's report covers, 0 if it does not say.
func interval(p *endpointv3.ClusterStats) (time.Duration, error) {
	d := p.GetLoadReportInterval()
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, fmt.Errorf("load_report_interval: %w", err)
	}
	if d.AsDuration() < 0 {
		return 0, fmt.Errorf("load_report_interval is %v; it must not be negative", d.AsDuration())
	}
	return d.AsDuration(), nil
}

func (c *clusterEntry) decodeLocality(p *endpointv3.UpstreamLocalityStats, covered time.Duration) error {
	load := Load{
		Latest: Sums{
			Successful: p.GetTotalSuccessfulRequests(), Errors: p.GetTotalErrorRequests(), Issued: p.GetTotalIssuedRequests(),
			NewConnections: p.GetTotalNewConnections(), FailedConnections: p.GetTotalFailConnections(),
		},
		InProgress: p.GetTotalRequestsInProgress(), ActiveConnections: p.GetTotalActiveConnections(),
	}
	for _, u := range []struct {
		field string
		from  *endpointv3.UnnamedEndpointLoadMetricStats
		to    *Metric
	}{
		{"cpu_utilization", p.GetCpuUtilization(), &load.Latest.CPU},
		{"mem_utilization", p.GetMemUtilization(), &load.Latest.Memory},
		{"application_utilization", p.GetApplicationUtilization(), &load.Latest.Application},
	} {
		m, err := metric(u.from.GetNumRequestsFinishedWithMetric(), u.from.GetTotalMetricValue())
		if err != nil {
			return fmt.Errorf("%s.%w", u.field, err)
		}
		*u.to = m
	}
	if err := load.Latest.decodeMetrics(p.GetLoadMetricStats()); err != nil {
		return err
	}
	load.setRates(covered)
	at := p.GetLocality()
	l := c.locality(localityKey{Locality{at.GetRegion(), at.GetZone(), at.GetSubZone()}, p.GetPriority()})
	l.collect(&load)
	for i, e := range p.GetUpstreamEndpointStats() {
		if err := l.decodeEndpoint(e, covered); err != nil {
			return fmt.Errorf("upstream_endpoint_stats[%d].%w", i, err)
		}
	}
	return nil
}

func (l *localityEntry) decodeEndpoint(p *endpointv3.UpstreamEndpointStats, covered time.Duration) error {
	address, err := reporting.Address(p.GetAddress())
	if err != nil {
		return err
	}
	load := Load{
		Latest: Sums{
			Successful: p.GetTotalSuccessfulRequests(), Errors: p.GetTotalErrorRequests(), Issued: p.GetTotalIssuedRequests(),
		},
		InProgress: p.GetTotalRequestsInProgress(),
	}
	if err := load.Latest.decodeMetrics(p.GetLoadMetricStats()); err != nil {
		return err
	}
	load.setRates(covered)
	e := l.endpoint(address)
	e.Load.collect(&load)
	e.Metadata = p.GetMetadata()
	return nil
}

func (s *Sums) decodeMetrics(stats []*endpointv3.EndpointLoadMetricStats) error {
	for i, p := range stats {
		m, err := metric(p.GetNumRequestsFinishedWithMetric(), p.GetTotalMetricValue())
		if err != nil {
			return fmt.Errorf("load_metric_stats[%d] (%q).%w", i, p.GetMetricName(), err)
		}
		s.add(&Sums{Metrics: map[string]Metric{p.GetMetricName(): m}})
	}
	return nil
}

// metric refuses values that would spoil every later sum.
func metric(requests uint64, sum float64) (Metric, error) {
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return Metric{}, fmt.Errorf("total_metric_value is %v; it must be a finite number", sum)
	}
	return Metric{requests, sum}, nil
}

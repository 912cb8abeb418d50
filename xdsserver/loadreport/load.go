package loadreport

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/xds"
)

// Metric is a load metric: the sum of its values over the requests that
// finished with one.
type Metric struct {
	Requests uint64
	Sum      float64
}

// Mean is the metric's mean over its requests; 0 if there were none.
func (m Metric) Mean() float64 {
	if m.Requests == 0 {
		return 0
	}
	return m.Sum / float64(m.Requests)
}

func (m Metric) plus(o Metric) Metric {
	// Kept finite: an infinity would turn into NaN later and never leave.
	sum := min(max(m.Sum+o.Sum, -math.MaxFloat64), math.MaxFloat64)
	return Metric{saturate(m.Requests, o.Requests), sum}
}

// Sums are counts over some time.
type Sums struct {
	// Successful and Errors are finished requests, Issued those begun.
	Successful, Errors, Issued uint64
	// NewConnections and FailedConnections are known for localities only.
	NewConnections, FailedConnections uint64
	// CPU, Memory and Application are utilisations, for localities only.
	CPU, Memory, Application Metric
	// Metrics are the named load metrics. Read-only; nil if there are none.
	Metrics map[string]Metric
}

func (s *Sums) add(o *Sums) {
	s.Successful = saturate(s.Successful, o.Successful)
	s.Errors = saturate(s.Errors, o.Errors)
	s.Issued = saturate(s.Issued, o.Issued)
	s.NewConnections = saturate(s.NewConnections, o.NewConnections)
	s.FailedConnections = saturate(s.FailedConnections, o.FailedConnections)
	s.CPU = s.CPU.plus(o.CPU)
	s.Memory = s.Memory.plus(o.Memory)
	s.Application = s.Application.plus(o.Application)
	if len(o.Metrics) > 0 && s.Metrics == nil {
		s.Metrics = make(map[string]Metric, len(o.Metrics))
	}
	for name, m := range o.Metrics {
		s.Metrics[name] = s.Metrics[name].plus(m)
	}
}

// Rates are requests per second. They are 0 where a report did not say which
// time it covers.
type Rates struct {
	Successful, Errors, Issued float64
}

// Load is the load of a cluster, a locality or an endpoint.
type Load struct {
	// Total counts since the entry was first reported; see the package's
	// comment on forgetting.
	Total Sums
	// Latest counts over the newest report of each connected stream.
	Latest Sums
	// Rates are Latest divided by the time each of these reports covers
	// (XL-05), added up.
	Rates Rates
	// InProgress is the number of unfinished requests in the newest reports, a
	// gauge (XL-04). ActiveConnections is the same for connections, and known
	// for localities only.
	InProgress, ActiveConnections uint64
}

// collect adds up loads of different origins.
func (l *Load) collect(o *Load) {
	l.Total.add(&o.Total)
	l.Latest.add(&o.Latest)
	l.Rates.Successful += o.Rates.Successful
	l.Rates.Errors += o.Rates.Errors
	l.Rates.Issued += o.Rates.Issued
	l.InProgress = saturate(l.InProgress, o.InProgress)
	l.ActiveConnections = saturate(l.ActiveConnections, o.ActiveConnections)
}

func (l *Load) setRates(covered time.Duration) {
	l.Rates = Rates{
		Successful: perSecond(l.Latest.Successful, covered),
		Errors:     perSecond(l.Latest.Errors, covered),
		Issued:     perSecond(l.Latest.Issued, covered),
	}
}

// Drops are requests dropped on purpose.
type Drops struct {
	// All is the number over all causes; circuit breaking has no category.
	All uint64
	// Categories are the numbers per category of the drop policy. Read-only.
	Categories map[string]uint64
}

func (d *Drops) add(o *Drops) {
	d.All = saturate(d.All, o.All)
	if len(o.Categories) > 0 && d.Categories == nil {
		d.Categories = make(map[string]uint64, len(o.Categories))
	}
	for name, n := range o.Categories {
		d.Categories[name] = saturate(d.Categories[name], n)
	}
}

// Locality is a place of endpoints.
type Locality struct {
	Region, Zone, SubZone string
}

// EndpointLoad is the load of one endpoint.
type EndpointLoad struct {
	// Address is "ip:port", a pipe's path, or "envoy_internal:name/id".
	Address string
	// Metadata is the endpoint's, as last reported. Read-only; may be nil.
	Metadata *structpb.Struct
	Load
}

// LocalityLoad is the load of one locality at one priority.
type LocalityLoad struct {
	Locality
	Priority uint32
	Load
	// Endpoints is sorted by address; empty unless clients were asked for
	// endpoint granularity.
	Endpoints []EndpointLoad
}

// ClusterLoad is the load of one cluster, or of all clusters with one service
// name. The embedded Load is the sum over its localities.
type ClusterLoad struct {
	// Cluster is the cluster's name; empty in the result of Services and
	// ByService. Service is the service name it asks EDS for; empty if clients
	// report none.
	Cluster, Service string
	Load
	// Dropped and LatestDropped are to dropped requests what Total and Latest
	// are to the others; DropRate is per second.
	Dropped, LatestDropped Drops
	DropRate               float64
	// Covered is the time all reports cover, added up over nodes, and Reports
	// their number.
	Covered time.Duration
	Reports uint64
	// Interval is the longest time that one of the newest reports covers.
	Interval time.Duration
	// LastReport is when the newest report came.
	LastReport time.Time
	// Localities is sorted by region, zone, sub-zone and priority.
	Localities []LocalityLoad
}

// NodeLoad is what one node reported.
type NodeLoad struct {
	// Node is the node as its newest stream announced it. Read-only.
	Node *xds.Node
	// Streams is how many streams the node has open.
	Streams int
	// LastReport is when the newest report came; zero if none did.
	LastReport time.Time
	// Clusters is sorted by cluster and service name.
	Clusters []ClusterLoad
}

// Report is one report of one stream. Its loads have no totals: Latest, Rates
// and gauges describe the time that the report covers.
type Report struct {
	Node     *xds.Node
	Time     time.Time
	Clusters []ClusterLoad
}

func saturate(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func saturateDuration(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

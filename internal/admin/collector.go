package admin

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// collector reads the server's and the source's figures when it is scraped
// (XS-94). No label holds a node, so that clients cannot grow the metrics.
type collector struct {
	Sources
	metrics map[string]*prometheus.Desc
}

func newCollector(s Sources) *collector {
	c := &collector{Sources: s, metrics: map[string]*prometheus.Desc{}}
	for _, m := range metrics() {
		c.metrics[m.name] = prometheus.NewDesc(metricPrefix+m.name, m.help, m.labels, nil)
	}
	return c
}

const metricPrefix = "xebec_"

// metric is a row of the table of metrics, from which docs/metrics.md is
// written.
type metric struct {
	name, help string
	labels     []string
}

func metrics() []metric {
	perType := []string{"type", "variant"}
	return []metric{
		{"build_info", "Always 1; the label says which version runs.", []string{"version"}},
		{"ready", "1 once everything has been loaded, 0 before and while stopping.", nil},
		{"streams", "Discovery streams that are open; of the variant rest, subscriptions of clients that poll.", []string{"variant", "aggregated"}},
		{"streams_opened_total", "Discovery streams that were opened.", nil},
		{"streams_refused_total", "Calls that a limit or the auth gate turned away.", nil},
		{"subscriptions", "Streams and polling clients that subscribe to the type.", perType},
		{"requests_total", "Discovery requests received.", perType},
		{"responses_total", "Discovery responses sent.", perType},
		{"response_resources_total", "Resources in the responses sent.", perType},
		{"response_bytes_total", "Bytes of the responses sent.", perType},
		{"acks_total", "Responses that a client accepted.", perType},
		{"nacks_total", "Responses that a client rejected.", perType},
		{"stale_nonces_total", "Requests that answered an older response than the last one.", perType},
		{"gate_timeouts_total", "Ordered steps that went on without the client's answer.", perType},
		{"node_changes_ignored_total", "Requests whose node contradicts that of their stream.", nil},
		{"v2_left_out_total", "Contents that v2 of the API cannot say, left out for clients that ask for it.", []string{"type"}},
		{"encoding_cache_hits_total", "Large responses whose encoding was shared with another stream's.", perType},
		{"encoding_cache_misses_total", "Large responses that had to be encoded.", perType},
		{"push_seconds", "Time from a change's publication until it is sent to a client.", perType},
		{"answer_seconds", "Time from a response's sending until the client accepts or rejects it.", perType},
		{"snapshot_resources", "Resources that the group's clients are to receive.", []string{"group", "type"}},
		{"snapshot_bytes", "Encoded size of the resources.", []string{"group", "type"}},
		{"snapshot_revision", "Changes that led to the group's snapshot.", []string{"group"}},
		{"source_reloads_total", "Batches that the source delivered, by what became of them.", []string{"result"}},
		{"source_findings", "What is wrong with the files at present.", []string{"severity"}},
		{"source_last_good_age_seconds", "Time since a batch of the source was accepted last.", nil},
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.metrics {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := scrape{metrics: c.metrics, out: out}
	s.gauge("build_info", 1, c.Version)
	s.gauge("ready", truth(c.Ready()))
	c.collectStreams(s)
	c.collectStats(s, c.Server.Stats())
	c.collectSnapshots(s)
	c.collectSource(s)
}

func (c *collector) collectStreams(s scrape) {
	open := map[[2]string]int{}
	for _, variant := range []string{"sotw", "delta", "rest"} {
		open[[2]string{variant, "false"}] = 0
		if variant != "rest" {
			open[[2]string{variant, "true"}] = 0
		}
	}
	for _, cl := range c.Server.Clients() {
		aggregated := "false"
		if cl.Aggregated {
			aggregated = "true"
		}
		open[[2]string{cl.Variant, aggregated}]++
	}
	for k, n := range open {
		s.gauge("streams", float64(n), k[0], k[1])
	}
}

func (c *collector) collectStats(s scrape, st xdsserver.Stats) {
	s.count("streams_opened_total", st.StreamsOpened)
	s.count("streams_refused_total", st.StreamsRefused)
	s.count("node_changes_ignored_total", st.NodesIgnored)
	for typeURL, n := range st.LeftOut {
		s.count("v2_left_out_total", n, xds.Kind(typeURL))
	}
	for _, t := range st.Types {
		kind := "unknown"
		if t.TypeURL != "" {
			kind = xds.Kind(t.TypeURL)
		}
		s.gauge("subscriptions", float64(t.Subscriptions), kind, t.Variant)
		s.count("requests_total", t.Requests, kind, t.Variant)
		s.count("responses_total", t.Responses, kind, t.Variant)
		s.count("response_resources_total", t.Resources, kind, t.Variant)
		s.count("response_bytes_total", t.Bytes, kind, t.Variant)
		s.count("acks_total", t.Acks, kind, t.Variant)
		s.count("nacks_total", t.Nacks, kind, t.Variant)
		s.count("stale_nonces_total", t.Stale, kind, t.Variant)
		s.count("gate_timeouts_total", t.GateTimeouts, kind, t.Variant)
		s.count("encoding_cache_hits_total", t.BodyHits, kind, t.Variant)
		s.count("encoding_cache_misses_total", t.BodyMisses, kind, t.Variant)
		s.histogram("push_seconds", t.Push, kind, t.Variant)
		s.histogram("answer_seconds", t.Answer, kind, t.Variant)
	}
}

func (c *collector) collectSnapshots(s scrape) {
	for _, group := range c.Server.Groups() {
		view := c.Server.Snapshot(group)
		if view == nil {
			continue
		}
		s.gauge("snapshot_revision", float64(view.Revision()), group)
		for _, t := range view.TypeURLs() {
			set, bytes := view.Set(t), 0
			for _, r := range set.All() {
				bytes += len(r.Body())
			}
			s.gauge("snapshot_resources", float64(set.Len()), group, xds.Kind(t))
			s.gauge("snapshot_bytes", float64(bytes), group, xds.Kind(t))
		}
	}
}

func (c *collector) collectSource(s scrape) {
	applied, refused := c.Reloads.Reloads()
	s.count("source_reloads_total", applied, "applied")
	s.count("source_reloads_total", refused, "refused")
	found := map[validate.Severity]int{}
	for _, f := range c.Source.Findings() {
		found[f.Severity]++
	}
	for _, sev := range []validate.Severity{validate.Error, validate.Warning} {
		s.gauge("source_findings", float64(found[sev]), string(sev))
	}
	age := math.NaN()
	if at := c.Source.Health().LastGood; !at.IsZero() {
		age = time.Since(at).Seconds()
	}
	s.gauge("source_last_good_age_seconds", age)
}

// scrape writes the metrics of one scrape.
type scrape struct {
	metrics map[string]*prometheus.Desc
	out     chan<- prometheus.Metric
}

func (s scrape) gauge(name string, v float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(s.metrics[name], prometheus.GaugeValue, v, labels...)
}

func (s scrape) count(name string, v uint64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(s.metrics[name], prometheus.CounterValue, float64(v), labels...)
}

func (s scrape) histogram(name string, h xdsserver.Histogram, labels ...string) {
	buckets := map[float64]uint64{}
	var n uint64
	bounds := xdsserver.HistogramBounds()
	for i, count := range h.Counts {
		n += count
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = n
		}
	}
	s.out <- prometheus.MustNewConstHistogram(s.metrics[name], n, h.Sum.Seconds(), buckets, labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

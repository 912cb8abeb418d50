package stats

import (
	"errors"
	"maps"
	"net/url"
	"regexp"
)

// Format is how statistics are written.
type Format uint8

// Formats of /stats.
const (
	FormatText Format = iota
	FormatJSON
	FormatPrometheus
	FormatHTML
)

// Buckets is how histograms are written.
type Buckets uint8

// Bucket modes of /stats. The default is quantiles in text and JSON and
// cumulative buckets in Prometheus.
const (
	BucketsDefault Buckets = iota
	BucketsSummary
	BucketsCumulative
	BucketsDisjoint
	BucketsDetailed
)

// Kinds chooses statistics by kind.
type Kinds uint8

// Kinds of statistics, as the parameter type of /stats names them.
const (
	KindAll Kinds = iota
	KindCounters
	KindGauges
	KindHistograms
	KindTextReadouts
)

// RenderOptions choose what [Render] writes and how. The zero value writes
// everything as text.
type RenderOptions struct {
	Format       Format
	Buckets      Buckets
	Kinds        Kinds          // ignored by Prometheus, as in Envoy
	Filter       *regexp.Regexp // names to keep; nil keeps all
	InvertFilter bool           // Filter says which names to drop
	UsedOnly     bool           // only what was touched since start
	TextReadouts bool           // Prometheus: readouts as gauges of value 0
	HiddenOnly   bool           // Envoy's hidden statistics: there are none
}

// ContentType is the media type of what Render writes.
func (o RenderOptions) ContentType() string {
	switch o.Format {
	case FormatJSON:
		return "application/json"
	case FormatHTML:
		return "text/html; charset=UTF-8"
	default:
		return "text/plain; charset=UTF-8"
	}
}

// ParseOptions reads the parameters of /stats (AD-04). The text of an error is
// the body of the 400 answer. Unknown parameters are ignored, as in Envoy.
func ParseOptions(q url.Values) (RenderOptions, error) {
	o := RenderOptions{
		UsedOnly: q.Has("usedonly"), TextReadouts: q.Has("text_readouts"), InvertFilter: q.Has("invert_filter"),
	}
	for _, parse := range []func(*RenderOptions, url.Values) error{
		parseFilter, parseBuckets, parseKinds, parseHidden, parseFormat,
	} {
		if err := parse(&o, q); err != nil {
			return RenderOptions{}, err
		}
	}
	return o, nil
}

// ParsePrometheusOptions reads the parameters of /stats/prometheus (AD-05).
func ParsePrometheusOptions(q url.Values) (RenderOptions, error) {
	p := url.Values{}
	maps.Copy(p, q)
	p.Set("format", "prometheus")
	p.Del("type")
	return ParseOptions(p)
}

func parseFilter(o *RenderOptions, q url.Values) error {
	f := q.Get("filter")
	if f == "" {
		return nil
	}
	re, err := regexp.Compile(f)
	if err != nil {
		return errors.New("Invalid re2 regex: " + RegexError(f, err))
	}
	o.Filter = re
	return nil
}

func parseBuckets(o *RenderOptions, q url.Values) error {
	switch q.Get("histogram_buckets") {
	case "", "none":
	case "summary":
		o.Buckets = BucketsSummary
	case "cumulative":
		o.Buckets = BucketsCumulative
	case "disjoint":
		o.Buckets = BucketsDisjoint
	case "detailed":
		o.Buckets = BucketsDetailed
	case "prometheusnative":
		return errors.New("histogram_buckets=prometheusnative is not built: use cumulative or summary")
	default:
		return errors.New("usage: /stats?histogram_buckets=(cumulative|disjoint|detailed|summary)")
	}
	return nil
}

func parseKinds(o *RenderOptions, q url.Values) error {
	switch q.Get("type") {
	case "", "All":
	case "Counters":
		o.Kinds = KindCounters
	case "Gauges":
		o.Kinds = KindGauges
	case "Histograms":
		o.Kinds = KindHistograms
	case "TextReadouts":
		o.Kinds = KindTextReadouts
	default:
		return errors.New("invalid &type= param")
	}
	return nil
}

func parseHidden(o *RenderOptions, q url.Values) error {
	switch q.Get("hidden") {
	case "", "include", "exclude":
	case "only":
		o.HiddenOnly = true
	default:
		return errors.New("usage: /stats?hidden=(include|only|exclude)")
	}
	return nil
}

func parseFormat(o *RenderOptions, q url.Values) error {
	switch q.Get("format") {
	case "", "text":
	case "json":
		o.Format = FormatJSON
	case "html":
		o.Format = FormatHTML
	case "prometheus":
		o.Format = FormatPrometheus
		if o.Buckets == BucketsDisjoint || o.Buckets == BucketsDetailed {
			return errors.New("unsupported prometheus histogram bucket mode")
		}
	case "active-html":
		return errors.New("format=active-html is not built: use html")
	default:
		return errors.New("usage: /stats?format=(html|json|prometheus|text)")
	}
	return nil
}

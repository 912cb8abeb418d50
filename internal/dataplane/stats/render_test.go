package stats

import (
	"errors"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"
)

var update = flag.Bool("update", false, "rewrite testdata")

// sample is a registry with one of everything.
func sample(t testing.TB) *Registry {
	r := registry(t, `{
		"stats_tags": [{"tag_name": "fixed.one", "fixed_value": "va\"l\\x"}],
		"histogram_bucket_settings": [{"match": {"suffix": "upstream_rq_time"}, "buckets": [1, 10, 20.5, 300000]}]
	}`)
	m := r.Main()
	for _, c := range []string{"b", "a"} {
		s := r.Scope("cluster").Scope(c)
		m.Add(s.Counter("upstream_rq_200"), 7)
		m.Add(s.Counter("upstream_rq_503"), 1)
		m.Add(s.Counter("upstream_rq_2xx"), 7)
		s.Counter("upstream_cx_overflow")
		m.GaugeSet(s.Gauge("membership_total"), 2)
		s.Histogram("upstream_cx_length_ms", Milliseconds)
	}
	h := r.Scope("cluster.a").Histogram("upstream_rq_time", Milliseconds)
	for _, v := range []uint64{17, 20, 22} {
		m.Record(h, v)
	}
	r.endInterval(snapshot(t, r).totals, nil)
	for _, v := range []uint64{28, 60, 300000} {
		m.Record(h, v)
	}
	r.endInterval(snapshot(t, r).totals, nil)
	m.Record(r.Scope("cluster.b").Histogram("upstream_rq_time", Milliseconds), 0) // since the last interval
	m.Add(r.Scope("server").Counter("wip_protos"), 0)
	m.GaugeSet(r.Scope("server").Gauge("live"), 1)
	r.Scope("control_plane").Text("identifier").Set(`a "<b>\` + "\n")
	r.Scope("control_plane").Text("unset")
	return r
}

// Proves AD-04 and AD-05: the shapes were compared with Envoy 1.40 byte by
// byte; the files are what Xebec wrote then.
func TestRender(t *testing.T) {
	snap := snapshot(t, sample(t))
	for file, query := range map[string]string{
		"text":               "",
		"text-usedonly":      "usedonly",
		"text-counters":      "type=Counters",
		"text-gauges":        "type=Gauges",
		"text-readouts":      "type=TextReadouts",
		"text-histograms":    "type=Histograms&histogram_buckets=summary",
		"text-cumulative":    "type=Histograms&histogram_buckets=cumulative",
		"text-disjoint":      "type=Histograms&histogram_buckets=disjoint",
		"text-detailed":      "type=Histograms&histogram_buckets=detailed",
		"text-filter":        "filter=rq_[25]xx|^server",
		"text-invert":        "filter=cluster&invert_filter",
		"text-hidden":        "hidden=only",
		"json":               "format=json",
		"json-none":          "format=json&filter=nope",
		"json-cumulative":    "format=json&histogram_buckets=cumulative&filter=_rq_time",
		"json-disjoint":      "format=json&histogram_buckets=disjoint&filter=_rq_time",
		"json-detailed":      "format=json&histogram_buckets=detailed&type=Histograms&usedonly",
		"prometheus":         "format=prometheus",
		"prometheus-summary": "format=prometheus&histogram_buckets=summary&usedonly&text_readouts",
		"html":               "format=html&filter=control_plane|server",
	} {
		t.Run(file, func(t *testing.T) {
			golden(t, file, render(t, snap, query))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Proves ST-12: Prometheus itself can read it, and each series has one type.
func TestPrometheusParses(t *testing.T) {
	r := registry(t, `{"stats_tags": [{"tag_name": "9 lives", "fixed_value": "ü"}]}`)
	for _, c := range []string{"a", "b"} {
		r.Main().Inc(r.Scope("cluster").Scope(c).Counter("upstream_rq_200"))
		r.Main().Inc(r.Scope("cluster").Scope(c).Counter("upstream_rq_503"))
		r.Main().Record(r.Scope("cluster").Scope(c).Histogram("h", Bytes), 7)
	}
	r.Scope("control_plane").Text("identifier").Set("a\n\"b\\")
	r.Main().Inc(r.Scope("weird \"name\"").RawScope("a:b{c}\n").Counter("9x-ü"))
	r.Main().Inc(r.Scope("cluster").RawScope("x\ny\\\"z").Counter("upstream_rq_200"))
	for _, query := range []string{"format=prometheus", "format=prometheus&histogram_buckets=summary&text_readouts"} {
		out := render(t, snapshot(t, r), query)
		parser := expfmt.NewTextParser(prommodel.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(out))
		if err != nil {
			t.Fatalf("%s: %v\n%s", query, err, out)
		}
		f := families["envoy_cluster_upstream_rq"]
		if f == nil || len(f.GetMetric()) != 5 || f.GetType().String() != "COUNTER" {
			t.Fatalf("%s: envoy_cluster_upstream_rq is %v", query, f)
		}
		var names []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "envoy_cluster_name" {
					names = append(names, l.GetValue())
				}
			}
		}
		if !strings.Contains(strings.Join(names, "|"), "x\ny\\\"z") {
			t.Errorf("cluster names %q: escaped badly", names)
		}
		for name := range families {
			if strings.Count(out, "# TYPE "+name+" ") != 1 {
				t.Errorf("%s has not one type", name)
			}
		}
	}
}

// Proves ST-12: /stats/prometheus is /stats?format=prometheus.
func TestPrometheusOptions(t *testing.T) {
	q := url.Values{"filter": {"a"}, "usedonly": {""}, "type": {"nonsense"}, "format": {"json"}}
	got, err := ParsePrometheusOptions(q)
	if err != nil {
		t.Fatal(err)
	}
	want := options(t, "filter=a&usedonly&format=prometheus")
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() })); diff != "" {
		t.Error(diff)
	}
	if q.Get("format") != "json" {
		t.Error("the caller's values were changed")
	}
}

// Proves AD-04: text of 400 answers, from Envoy 1.40 but for what is not built.
func TestBadOptions(t *testing.T) {
	for query, want := range map[string]string{
		"filter=(":              "Invalid re2 regex: missing ): (",
		"filter=)":              "Invalid re2 regex: unexpected ): )",
		"filter=[z-a]":          "Invalid re2 regex: invalid character class range: z-a",
		"filter=*":              "Invalid re2 regex: no argument for repetition operator: *",
		"filter=a%5C":           `Invalid re2 regex: trailing \`,
		"filter=[a":             "Invalid re2 regex: missing ]: [a",
		"filter=x{2000}":        "Invalid re2 regex: invalid repetition size: {2000}",
		"filter=(&type=foo":     "Invalid re2 regex: missing ): (",
		"type=foo":              "invalid &type= param",
		"type=counters":         "invalid &type= param",
		"format=xml":            "usage: /stats?format=(html|json|prometheus|text)",
		"format=xml&type=foo":   "invalid &type= param",
		"format=xml&hidden=foo": "usage: /stats?hidden=(include|only|exclude)",
		"hidden=foo&type=foo":   "invalid &type= param",
		"histogram_buckets=bad": "usage: /stats?histogram_buckets=(cumulative|disjoint|detailed|summary)",
		"type=x&histogram_buckets=prometheusnative":    "histogram_buckets=prometheusnative is not built: use cumulative or summary",
		"format=active-html":                           "format=active-html is not built: use html",
		"format=prometheus&histogram_buckets=disjoint": "unsupported prometheus histogram bucket mode",
		"format=prometheus&histogram_buckets=detailed": "unsupported prometheus histogram bucket mode",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseOptions(q); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", query, err, want)
		}
	}
}

func TestContentTypes(t *testing.T) {
	for query, want := range map[string]string{
		"": "text/plain; charset=UTF-8", "format=json": "application/json",
		"format=prometheus": "text/plain; charset=UTF-8", "format=html": "text/html; charset=UTF-8",
	} {
		if got := options(t, query).ContentType(); got != want {
			t.Errorf("%q: %s", query, got)
		}
	}
}

type brokenWriter struct{}

var errBroken = errors.New("gone")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestRenderReportsTheWriter(t *testing.T) {
	if err := Render(brokenWriter{}, snapshot(t, sample(t)), RenderOptions{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

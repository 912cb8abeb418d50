package stats

import (
	"fmt"
	"strings"
	"testing"
)

// upstream is the statistics of something that there is a lot of.
type upstream struct {
	Total     Counter   `stat:"upstream_rq_total"`
	Overflow  Counter   `stat:"upstream_cx_overflow"`
	Healthy   Gauge     `stat:"membership_healthy"`
	Version   Gauge     `stat:"version"`
	Length    Histogram `stat:"upstream_cx_length_ms,ms"`
	PerCx     Histogram `stat:"upstream_rq_per_cx"`
	Handshake Counter   `stat:"ssl.handshake"`
	Resets    Gauge     `stat:"http2.tx_reset"`
	Size      Histogram `stat:"http2.header_list_size"`

	other int
}

// breaker is a part of it that there are two of.
type breaker struct {
	Open Gauge `stat:"cx_open"`
	Left Gauge `stat:"remaining_cx"`
}

// life is a registry in which much has happened, and two sinks of it.
type life struct {
	r         *Registry
	f         *Flusher
	line, dog lines
	shards    []*Shard
	leases    map[string]*Lease
	all       map[string]*upstream
	t         testing.TB
}

func newLife(t testing.TB, config string) *life {
	l := &life{r: registry(t, config), leases: map[string]*Lease{}, all: map[string]*upstream{}, t: t}
	dog := NewStatsdTCP("dog", true, &l.dog)
	dog.tags = true
	l.f = NewFlusher(l.r, FlusherOptions{Sinks: []Sink{NewStatsdTCP("", false, &l.line), dog}, Logger: discard()})
	l.shards = []*Shard{l.r.NewShard(here)}
	return l
}

// add makes an upstream as the proxy does.
func (l *life) add(name string) {
	lease := l.r.Lease("cluster." + name)
	u := &upstream{other: 7}
	Fill(lease.Scope, "", u)
	for _, p := range []string{"default", "high"} {
		var b breaker
		Fill(lease, "circuit_breakers."+p+".", &b)
		l.r.Main().GaugeSet(b.Open, int64(len(p)))
	}
	l.r.Main().Inc(lease.Counter("default.total_match_count"))
	l.r.Main().GaugeSetUint(u.Version, 1<<63+5)
	l.r.Main().Add(u.Overflow, 0)
	l.leases[name], l.all[name] = lease, u
}

// use counts some requests to it.
func (l *life) use(name string, n uint64) {
	u, scope := l.all[name], l.leases[name].Scope
	s := l.shards[len(l.shards)-1]
	s.Add(u.Total, n)
	s.GaugeAdd(u.Healthy, int64(n)) //nolint:gosec // small
	s.Record(u.Length, n*17)
	s.Record(u.Length, n*1700)
	s.Inc(scope.Counter(fmt.Sprintf("upstream_rq_%d", 200+n)))
	s.Inc(scope.Scope("external").Counter("upstream_rq_2xx"))
	s.Record(scope.Scope("external").Histogram("upstream_rq_time", Milliseconds), n)
	l.r.Main().Record(u.Size, n*3)
}

func (l *life) end(name string) {
	l.leases[name].End()
	if err := l.r.Hidden().Reclaim(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// lead lives.
func (l *life) lead() {
	for _, name := range []string{"a", "a.ssl", "b:c/d|e", "outbound|80||x", "é"} {
		l.add(name)
	}
	hidden := l.r.Hidden().Counter()
	l.shards[0].Add(hidden, 99)
	l.use("a", 1)
	l.use("a.ssl", 2)
	// The same statistics under names that are cut elsewhere.
	l.shards[0].Add(l.r.Scope("cluster.a").Counter("ssl.handshake"), 3)
	l.shards[0].Add(l.r.Scope("cluster.a.ssl").Counter("handshake"), 4)
	l.shards[0].Add(l.r.Scope("").Counter("cluster.a.ssl.upstream_rq_total"), 5)
	l.r.Scope("").Fill(&upstream{})
	l.r.Scope("cluster").Scope("a.http2").Gauge("tx_reset")
	l.flush()
	l.shards[0].Close()
	l.shards = append(l.shards, l.r.NewShard(here))
	l.use("a", 3)
	l.use("b:c/d|e", 4)
	l.add("a") // its successor
	l.end("outbound|80||x")
	l.shards[1].Inc(l.all["outbound|80||x"].Total) // in secret
	l.use("outbound|80||x", 5)
	l.add("late")
	l.use("late", 6)
	l.end("b:c/d|e")
	l.add("b:c/d|e") // at zero again
	l.r.Scope("control_plane").Text("identifier").Set("<i&d>")
	l.r.Scope("cluster.a").Text("text")
	l.r.Scope("http.x").Counter("rq")
	l.r.Scope("http.x").Gauge("rq")
	for i := range 40 {
		l.r.Scope("many").Counter(fmt.Sprint("c", i))
		l.r.Main().GaugeSet(l.r.Scope("many").Gauge(fmt.Sprint("g", i)), int64(i))
	}
}

func (l *life) flush() {
	if err := l.f.Flush(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// tell shows everything that can be seen.
func (l *life) tell() string {
	var b strings.Builder
	look := func(queries ...string) {
		snap := snapshot(l.t, l.r)
		for _, q := range queries {
			fmt.Fprintf(&b, "--- %s\n%s\n", q, render(l.t, snap, q))
		}
	}
	look("", "usedonly", "format=json&filter=a", "format=html&filter=control|b:c", "format=prometheus&text_readouts",
		"filter=^cluster.a.ssl.h&histogram_buckets=detailed", "type=Histograms&histogram_buckets=cumulative&usedonly")
	l.flush()
	if err := l.r.ResetCounters(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	l.shards[1].Inc(l.all["a"].Total)
	l.r.Scope("cluster.new").Counter("x")
	look("type=Counters&usedonly", "format=json&type=Gauges&invert_filter&filter=many", "format=prometheus&histogram_buckets=summary&usedonly")
	l.flush()
	for _, out := range []*lines{&l.line, &l.dog} {
		fmt.Fprintf(&b, "--- sink\n%s", strings.Join(out.take(), ""))
	}
	return b.String()
}

// Proves ST-01 and ST-10: names that come from many sides, at once or one by one,
// that go and come again, are shown as ever; also where a matcher keeps some of
// them out and histograms have buckets of their own.
func TestLife(t *testing.T) {
	for name, config := range map[string]string{
		"life": `{}`,
		"life-matched": `{
			"stats_matcher": {"exclusion_list": {"patterns": [{"suffix": "_total"}, {"prefix": "cluster.late"}, {"contains": "many.c"}]}},
			"histogram_bucket_settings": [{"match": {"prefix": "cluster.a."}, "buckets": [10, 100]}],
			"stats_tags": [{"tag_name": "f", "fixed_value": "v"}, {"tag_name": "re", "regex": "^cluster\\.(a\\.)"}]
		}`,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, config)
			l.lead()
			golden(t, name, l.tell())
		})
	}
}

// here runs what is posted at once.
func here(f func()) bool { f(); return true }

package cluster

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// recorder notes what is registered.
type recorder map[string]string

func (r recorder) Counter(name string) stats.Counter { r[name] = "counter"; return 1 }
func (r recorder) Gauge(name string) stats.Gauge     { r[name] = "gauge"; return 1 }
func (r recorder) Histogram(name string, _ stats.Unit) stats.Histogram {
	r[name] = "histogram"
	return 1
}

// Proves ST-05: a cluster before its first request has the statistics that
// Envoy 1.40 lists for it (testdata/stats.txt, of a cluster with
// track_remaining), of the same kinds, and no others.
func TestStatisticsAreEnvoys(t *testing.T) {
	raw, err := os.ReadFile("testdata/stats.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := recorder{}
	for line := range strings.Lines(string(raw)) {
		kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[name] = kind
	}
	got := recorder{}
	conf := configOf(t, `{"name":"c","circuit_breakers":{"thresholds":[{"track_remaining":true}]}}`)
	o := optionsOn(registry(t), conf)
	o.Registry = got
	c, err := New(conf, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	before := len(got)
	c.Stats.HTTP1()
	c.Stats.HTTP2()
	c.Stats.HTTP2()
	if n := len(got) - before; n != 4+33 || got["http2.streams_active"] != "gauge" || got["http2.header_count"] != "histogram" {
		t.Errorf("%d codec statistics", n)
	}
	conf = configOf(t, `{"name":"c","transport_socket":{"name":"x","typed_config":{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"}}}`)
	o.Registry = got
	if _, err := New(conf, o); err != nil {
		t.Fatal(err)
	}
	if got["ssl.handshake"] != "counter" || got["ssl.fail_verify_san"] != "counter" {
		t.Error("no ssl counters in a cluster with TLS")
	}
}

// Proves the counters by code of ST-05.
func TestCodes(t *testing.T) {
	c, reg := build(t, `{"name":"c"}`)
	shard := reg.NewShard(func(f func()) bool { f(); return true })
	codes := &c.Stats.Codes
	codes.All.Count(shard, 200)
	codes.All.Count(shard, 204)
	codes.External.Count(shard, 503)
	codes.Retry.Count(shard, 503)
	codes.Zone("a", "b").Count(shard, 404)
	codes.Zone("a", "b").Count(shard, 404)
	codes.All.Count(shard, 42)
	shard.Record(codes.All.Time(), 7)
	shard.Close()
	var b bytes.Buffer
	if err := stats.Render(&b, snapshot(t, reg), stats.RenderOptions{UsedOnly: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"cluster.c.upstream_rq_200: 1\n", "cluster.c.upstream_rq_204: 1\n", "cluster.c.upstream_rq_2xx: 2\n", "cluster.c.upstream_rq_completed: 3\n",
		"cluster.c.external.upstream_rq_503: 1\n", "cluster.c.external.upstream_rq_5xx: 1\n", "cluster.c.external.upstream_rq_completed: 1\n",
		"cluster.c.retry.upstream_rq_503: 1\n", "cluster.c.upstream_rq_unknown: 1\n", "cluster.c.zone.a.b.upstream_rq_404: 2\n", "cluster.c.upstream_rq_time: ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "internal.") || strings.Contains(b.String(), "canary.") {
		t.Error("subtrees appear before they are used")
	}
}

func TestZoneCodesOfAHost(t *testing.T) {
	loc := func(zone, addr string) object {
		return object{"locality": object{"zone": zone}, "lb_endpoints": []object{at(addr)}}
	}
	la := object{"cluster_name": "c", "endpoints": []object{loc("", "1.1.1.1"), loc("b", "1.1.1.2")}}
	c, _ := build(t, object{"name": "c", "load_assignment": la}.String(), func(o *Options) { o.LocalZone = "a" })
	hosts := c.Hosts().Hosts()
	if hosts[0].Attributes().ZoneCodes() != nil || hosts[1].Attributes().ZoneCodes() != c.Stats.Codes.Zone("a", "b") {
		t.Error("the counters between zones are not those of the host's zone")
	}
	c, _ = build(t, object{"name": "c", "load_assignment": la}.String())
	if c.Hosts().Hosts()[1].Attributes().ZoneCodes() != nil {
		t.Error("counters between zones without a zone of this proxy")
	}
}

func TestCountingACodeAllocatesNothing(t *testing.T) {
	c, reg := build(t, `{"name":"c"}`)
	shard := reg.NewShard(func(f func()) bool { f(); return true })
	count := func() {
		c.Stats.Codes.All.Count(shard, 200)
		c.Stats.Codes.Zone("a", "b").Count(shard, 200)
	}
	count()
	if n := testing.AllocsPerRun(100, count); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCountCode(b *testing.B) {
	c, reg := build(b, `{"name":"c"}`)
	shard := reg.NewShard(func(f func()) bool { f(); return true })
	b.ReportAllocs()
	for b.Loop() {
		c.Stats.Codes.All.Count(shard, 200)
	}
}

// sample is the configuration whose /clusters is kept in testdata, made by
// Envoy 1.40 after four requests.
func sample(t *testing.T) (one, two *Cluster, reg *stats.Registry) {
	t.Helper()
	host := func(addr string, port int, status string) object {
		return object{"endpoint": object{"address": object{"socket_address": object{"address": addr, "port_value": port}}}, "health_status": status}
	}
	first := host("127.0.0.1", 29903, "UNKNOWN").with(object{
		"metadata": object{"filter_metadata": object{"envoy.lb": object{"canary": true}}}, "load_balancing_weight": 3,
	})
	first["endpoint"].(object)["hostname"] = "foo.example"
	confs := []object{
		{"name": "one", "load_assignment": object{"cluster_name": "one", "endpoints": []object{
			{"locality": object{"region": "r1", "zone": "z1", "sub_zone": "s1"}, "lb_endpoints": []object{first}},
			{"locality": object{"region": "r1", "zone": "z2"}, "priority": 1, "load_balancing_weight": 4, "lb_endpoints": []object{
				host("::1", 29904, "UNHEALTHY"),
				{"endpoint": object{"address": object{"pipe": object{"path": "/run/backend.sock"}}}, "health_status": "DEGRADED"},
				host("127.0.0.9", 29904, "DRAINING"), host("127.0.0.10", 29904, "TIMEOUT"), host("127.0.0.11", 29904, "HEALTHY"),
			}},
		}}},
		{
			"name": "h2:x", "alt_stat_name": "alt:h2",
			"circuit_breakers": object{"thresholds": []object{{"max_connections": 5, "track_remaining": true, "retry_budget": object{}}, {"priority": "HIGH", "max_requests": 7}}},
			"load_assignment":  object{"cluster_name": "h2", "endpoints": []object{{"lb_endpoints": []object{host("127.0.0.1", 29903, "UNKNOWN")}}}},
		},
	}
	reg = registry(t)
	made := make([]*Cluster, 2)
	for i, o := range confs {
		conf := configOf(t, o.String())
		c, err := New(conf, optionsOn(reg, conf))
		if err != nil {
			t.Fatal(err)
		}
		made[i] = c
	}
	return made[0], made[1], reg
}

// Proves AD-06, CM-30 and the EDS flags of HK-12: /clusters is what Envoy
// prints, to the byte.
func TestClustersPage(t *testing.T) {
	one, two, reg := sample(t)
	shard := reg.NewShard(func(f func()) bool { f(); return true })
	a, b := one.Hosts().Priorities[0].Hosts[0], two.Hosts().Priorities[0].Hosts[0]
	for range 2 {
		a.TryCx()
		shard.Inc(a.Stats.CxTotal)
		shard.Inc(a.Stats.RqSuccess)
	}
	for range 3 {
		shard.Inc(a.Stats.RqError)
	}
	for range 5 {
		shard.Inc(a.Stats.RqTotal)
	}
	b.TryCx()
	for _, id := range []stats.Counter{b.Stats.CxTotal, b.Stats.RqSuccess, b.Stats.RqTotal} {
		shard.Inc(id)
	}
	shard.Close()
	var views []View
	for _, c := range []*Cluster{one, two} {
		v, err := c.View(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, v)
	}
	for file, render := range map[string]func(*bytes.Buffer) error{
		"testdata/clusters.txt":  func(w *bytes.Buffer) error { return RenderText(w, views) },
		"testdata/clusters.json": func(w *bytes.Buffer) error { return RenderJSON(w, views) },
	} {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := render(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

func TestRequestsUnderWayAreShown(t *testing.T) {
	c, _ := build(t, object{"name": "c", "load_assignment": load(at("1.1.1.1"))}.String())
	h := c.Hosts().Hosts()[0]
	h.AddRqActive(2)
	h.AddRqPending(1)
	v, err := c.View(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if v.Hosts[0].Active != (HostActive{Cx: 0, Rq: 2, RqPending: 1}) {
		t.Errorf("%+v", v.Hosts[0].Active)
	}
}

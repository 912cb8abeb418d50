package proxy_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Partly proves RT-30, ST-16: what virtual clusters and routes count has its names from the
// beginning, for as long as the virtual host is configured; one that has neither
// has no names.
func TestVirtualHostStatistics(t *testing.T) {
	s := newSource()
	r := begin(t, discovered, s.by)
	res := r.Resources()
	counting := forwarding("rc", "later")
	v := counting.GetVirtualHosts()[0]
	v.Routes[0].StatPrefix = "r"
	v.VirtualClusters = []*routev3.VirtualCluster{{Name: "get", Headers: []*routev3.HeaderMatcher{{
		Name: ":method", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "GET"},
		}},
	}}}}
	must(t, res.SetCluster(staticCluster("later", namedBackend(t, "late")), "1"))
	must(t, res.SetRoutes(ads(), counting, "1"))
	<-r.Ready()
	names := func() []string {
		var out []string
		for line := range strings.Lines(r.get(t, "/stats?filter=^vhost")) {
			out = append(out, strings.TrimSpace(line))
		}
		return out
	}
	var want []string
	for _, of := range []string{"route.r", "vcluster.get", "vcluster.other"} {
		for n := range strings.FieldsSeq("retry retry_limit_exceeded retry_overflow retry_success timeout total") {
			want = append(want, "vhost.all."+of+".upstream_rq_"+n+": 0")
		}
	}
	same(t, "at the start", strings.Join(names(), "\n"), strings.Join(want, "\n"))
	r.expect(t, "", "200 late")
	for _, of := range []string{"route.r", "vcluster.get"} {
		r.becomesStat(t, "vhost.all."+of+".upstream_rq_200", "1")
		r.becomesStat(t, "vhost.all."+of+".upstream_rq_total", "1")
	}
	if got := r.stat(t, "vhost.all.vcluster.other.upstream_rq_total"); got != "0" {
		t.Errorf("of the others: %s", got)
	}

	must(t, res.SetRoutes(ads(), forwarding("rc", "later"), "2"))
	r.expect(t, "", "200 late")
	for range 500 {
		runtime.GC()
		if len(names()) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("when nothing is counted any more: %v", names())
}

// Proves RT-30, ST-16, with TestVirtualHostStatistics: a request counts for the first virtual
// cluster whose headers it has, or for other, and for its route; with its tries and how they
// end.
func TestVirtualClustersCount(t *testing.T) {
	var asked atomic.Int64
	second := backend(t, func(w *wire, _ int) { // every second answer is good
		for w.head() != "" {
			w.send("%s", []string{ok, cannot503}[asked.Add(1)%2])
		}
	})
	cluster := func(name, addr string) string {
		return "- {name: " + name + ", circuit_breakers: {thresholds: [{max_retries: " + map[bool]string{true: "0", false: "3"}[name == "full"] + "}]}, load_assignment: {cluster_name: " + name + ", endpoints: [{lb_endpoints: [" + endpoints(t, []string{addr}) + "]}]}}\n  "
	}
	const policy = "retry_policy: {retry_on: 5xx, retry_back_off: {base_interval: 0.001s}}"
	v := (&site{
		hosts: []string{second}, more: cluster("bad", answering(t, cannot503)) + cluster("full", answering(t, cannot503)) + cluster("slow", silent(t)),
		vhost: `virtual_clusters: [{name: put, headers: [{name: ":method", string_match: {exact: PUT}}, {name: ":path", string_match: {safe_regex: {regex: "/a/\\d+"}}}]},
			{name: any, headers: [{name: ":method", string_match: {exact: PUT}}]}],`,
		routes: "{match: {prefix: /bad}, stat_prefix: r, route: {cluster: bad, " + policy + "}}, {match: {prefix: /full}, stat_prefix: r, route: {cluster: full, " + policy + "}}, " +
			"{match: {prefix: /slow}, stat_prefix: r, route: {cluster: slow, timeout: 0.1s}}, {match: {prefix: /}, route: {cluster: back, " + policy + "}}",
	}).serve(t)
	w := v.dial(t)
	for _, tt := range []struct{ request, want string }{
		{"PUT /a/1", "200 ok"}, {"PUT /a/b", "200 ok"}, {"GET /a/1", "200 ok"}, {"GET /bad", "503 no"}, {"GET /full", "503 no"}, {"GET /slow", "504 upstream request timeout"},
	} {
		w.send("%s HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n", tt.request)
		w.want(tt.want)
	}
	var want []string
	for of, counts := range map[string]string{
		"vcluster.put": "total 2 retry 1 retry_success 1 retry_limit_exceeded 0 retry_overflow 0 timeout 0 200 1",
		"vcluster.any": "total 2 retry 1 retry_success 1 retry_limit_exceeded 0 retry_overflow 0 timeout 0 200 1",
		// of the good one, the bad one, the full one and the slow one
		"vcluster.other": "total 6 retry 2 retry_success 1 retry_limit_exceeded 1 retry_overflow 1 timeout 1 200 1 503 2 504 1",
		"route.r":        "total 4 retry 1 retry_success 0 retry_limit_exceeded 1 retry_overflow 1 timeout 1 503 2 504 1",
	} {
		f := strings.Fields(counts)
		for i := 0; i < len(f); i += 2 {
			want = append(want, "vhost.all."+of+".upstream_rq_"+f[i]+" "+f[i+1])
		}
	}
	v.counts(t, want...)
	if page := v.get(t, "/stats?filter=^vhost.*upstream_rq_time"); strings.Count(page, "P0(") != 4 {
		t.Errorf("of the times:\n%s", page)
	}
}

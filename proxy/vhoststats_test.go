package proxy_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Proves RT-30, ST-16: what virtual clusters and routes count has its names from the
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

package proxy_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/proxy"
)

// subscriptionNames are what every subscription counts, in the order of /stats.
var subscriptionNames = []string{
	"version_text", "init_fetch_timeout", "update_attempt", "update_failure", "update_rejected", "update_success", "update_time", "version", "update_duration",
}

// numbersOf are the numbers of a subscription that tests can know:
// init_fetch_timeout, update_attempt, update_failure, update_rejected and update_success.
func numbersOf(t *testing.T, r *running, scope string) string {
	t.Helper()
	var names, values []string
	leaf := regexp.MustCompile(`^` + regexp.QuoteMeta(scope) + `\.(\w+): (.*)$`)
	for line := range strings.Lines(r.get(t, "/stats?filter=^"+regexp.QuoteMeta(scope)+`\.(init_fetch_timeout|update_(attempt|failure|rejected|success|time|duration)|version|version_text)$`)) {
		m := leaf.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Fatalf("%q", line)
		}
		names = append(names, m[1])
		if m[1] == "init_fetch_timeout" || m[1] == "version_text" || strings.HasPrefix(m[1], "update_") && m[1] != "update_time" && m[1] != "update_duration" {
			values = append(values, m[2])
		}
	}
	if got, want := strings.Join(names, " "), strings.Join(subscriptionNames, " "); got != want {
		t.Errorf("below %s there is %s, want %s", scope, got, want)
	}
	return strings.Join(values, " ")
}

// Partly proves ST-07: each kind of subscription has all statistics; a bad
// resource moves update_rejected and the attempts only, and a source that cannot be
// reached update_failure.
func TestSubscriptionStatistics(t *testing.T) {
	a, err := testcert.NewAuthority("test")
	must(t, err)
	s := newSource()
	r := begin(t, discovered, s.by)
	res := r.Resources()
	s.waits(t, "RouteConfiguration rc")
	must(t, res.SetCluster(edsCluster("late", "service"), "c1"))
	c := chainOf(manager(with(saying("r", "secret"))))
	c.TransportSocket = socketOf(downstream("cert"))
	must(t, res.SetListener(listenerAt("l", freeAddress(t), c), "1"))
	s.waits(t, "Secret cert")

	badRoutes := saying("rc", "two")
	badRoutes.VirtualHosts[0].Domains = nil
	badSecret := certificate(t, a, "cert")
	badSecret.GetTlsCertificate().PrivateKey = inline("no key")
	for _, k := range []struct {
		scope, typeURL, name string
		good, bad            func() error
	}{
		{
			"http.in.rds.rc", proxy.RouteType, "rc",
			func() error { return res.SetRoutes(nil, saying("rc", "one"), "v1") },
			func() error { return res.SetRoutes(nil, badRoutes, "v2") },
		},
		{
			"cluster.late", proxy.EndpointType, "service",
			func() error { return res.SetEndpoints(nil, assignment("service", "127.0.0.1:1"), "v1") },
			func() error { return res.SetEndpoints(nil, assignment("service", "127.0.0.1:77777"), "v2") },
		},
		{
			"sds.cert", proxy.SecretType, "cert",
			func() error { return res.SetSecret(nil, certificate(t, a, "cert"), "v1") },
			func() error { return res.SetSecret(nil, badSecret, "v2") },
		},
	} {
		is := func(when, want string) {
			t.Helper()
			if got := numbersOf(t, r, k.scope); got != want {
				t.Errorf("%s %s: %s, want %s", k.scope, when, got, want)
			}
		}
		is("at first", `"" 0 1 0 0 0`)
		must(t, k.good())
		is("after a good one", `"v1" 0 2 0 0 1`)
		before := r.stat(t, k.scope+".version") + r.stat(t, k.scope+".update_time")
		if err := k.bad(); err == nil {
			t.Errorf("%s: it was taken", k.scope)
		}
		is("after a bad one", `"v1" 0 3 0 1 1`)
		if after := r.stat(t, k.scope+".version") + r.stat(t, k.scope+".update_time"); after != before {
			t.Errorf("%s: a bad one changes the version or its time", k.scope)
		}
		res.Failed(nil, k.typeURL, k.name)
		is("without the source", `"v1" 0 4 1 1 1`)
		if got := r.stat(t, k.scope+".update_duration"); !strings.HasPrefix(got, "P0(") {
			t.Errorf("%s.update_duration: %s", k.scope, got)
		}
	}
	if got := r.stat(t, "http.in.rds.rc.config_reload"); got != "1" {
		t.Errorf("config_reload: %s", got)
	}
	if got := r.stat(t, "http.in.rds.rc.config_reload_time_ms"); len(got) < 13 {
		t.Errorf("config_reload_time_ms: %s", got)
	}
	res.RemoveCluster("late")
	for range 2000 {
		if r.get(t, "/stats?filter=^cluster.late") == "" {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("a removed cluster's statistics stay")
}

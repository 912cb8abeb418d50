package proxy_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// The gauges of versions are hashes of what was accepted last.
func TestVersionGauges(t *testing.T) {
	s := newSource()
	r := begin(t, discovered, s.by)
	res := r.Resources()
	s.waits(t, "RouteConfiguration rc")
	is := func(name, version string) {
		t.Helper()
		r.becomesStat(t, name, fmt.Sprint(xxhash.Sum64String(version)))
	}
	const routes, cluster = "http.in.rds.rc.version", "cluster.late.version"
	must(t, res.SetRoutes(nil, saying("rc", "one"), "r1"))
	is(routes, "r1")
	must(t, res.SetRoutes(nil, saying("rc", "one"), "r2"))
	is(routes, "r2")
	bad := saying("rc", "two")
	bad.VirtualHosts[0].Domains = nil
	if err := res.SetRoutes(nil, bad, "r3"); err == nil {
		t.Error("a virtual host without domains is taken")
	}
	is(routes, "r2")
	const hosts = "http.in.rds.vhds.rc.version"
	must(t, res.SetRoutes(nil, growing(), "r4"))
	s.waits(t, "VirtualHost rc/")
	res.Answered(ads(), "rc", "v1", nil)
	is(hosts, "v1")
	res.Answered(ads(), "rc", "v1", errors.New("refused"))
	is(hosts, "v1")
	must(t, res.SetCluster(edsCluster("late", "service"), "c1"))
	must(t, res.SetEndpoints(nil, assignment("service", "127.0.0.1:1"), "e1"))
	is(cluster, "e1")
	must(t, res.SetEndpoints(nil, assignment("service", "127.0.0.1:2"), "e2"))
	is(cluster, "e2")
	must(t, res.SetEndpoints(nil, assignment("service", "127.0.0.1:2"), "e3"))
	is(cluster, "e3")
}

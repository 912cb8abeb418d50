package proxy_test

import (
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/proxy"
)

// What cannot be read, or is of another name, is refused before the proxy sees it. It is
// counted, nobody waits for it, and what there was before stays.
// Partly proves CM-04, LM-01.
func TestRefusedUnseen(t *testing.T) {
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	must(t, res.SetCluster(edsCluster("x", "svc"), "1"))
	r.expect(t, "x", "503 ")
	res.Refused(ads(), proxy.EndpointType, "svc")
	r.expect(t, "x", "503 no healthy upstream")
	r.becomesStat(t, "cluster.x.update_rejected", "1")

	at := freeAddress(t)
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(byRDS("one")))), "1"))
	res.Refused(ads(), proxy.RouteType, "one")
	becomes(t, at, "")
	must(t, res.SetRoutes(ads(), saying("one", "one"), "2"))
	becomes(t, at, "one")
	res.Refused(ads(), proxy.RouteType, "one")
	becomes(t, at, "one")

	secured := freeAddress(t)
	c := chainOf(manager(with(saying("r", "never"))))
	c.TransportSocket = socketOf(downstream("cert"))
	must(t, res.SetListener(listenerAt("s", secured, c), "1"))
	res.Refused(ads(), proxy.SecretType, "cert")
	waitOpen(t, secured)
	r.becomesStat(t, "sds.cert.update_rejected", "1")
}

// readySoon waits for the proxy, but not for as long as its initial_fetch_timeout.
func readySoon(t *testing.T, r *running) {
	t.Helper()
	select {
	case <-r.Ready():
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
}

// A layer of the runtime, and a filter's configuration, that are refused unseen do not keep
// the proxy waiting.
func TestRefusedUnseenAtTheStart(t *testing.T) {
	s := newSource()
	r := begin(t, layeredBy("name: rtl, rtds_config: {ads: {}}"), s.by)
	s.wants(t, "map[Runtime rtl:true]")
	r.Resources().Refused(ads(), proxy.RuntimeType, "rtl")
	readySoon(t, r)

	s = newSource()
	r = begin(t, filtered(fromADS), s.by)
	s.wants(t, "map[TypedExtensionConfig flt:true]")
	r.Resources().Refused(ads(), proxy.ExtensionType, "flt")
	readySoon(t, r)
}

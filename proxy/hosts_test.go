package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// names is a resolver whose answer a test changes.
type names struct{ now atomic.Pointer[[]netip.Addr] }

func (n *names) set(list ...string) {
	var all []netip.Addr
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	n.now.Store(&all)
}

// LookupNetIP implements cluster.Resolver.
func (n *names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return *n.now.Load(), nil
}

func (n *names) use(_ *proxyrun.Flags, o *proxy.Options) { o.Resolver = n }

// named is a site whose cluster is what a name resolves to.
func named(t *testing.T, addr, fields string) *site {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return &site{routes: "{match: {prefix: /}, route: {cluster: named}}", more: fmt.Sprintf(`- {name: named, type: STRICT_DNS, dns_refresh_rate: 0.05s, %s
    load_assignment: {cluster_name: named, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: name.test, port_value: %s}}}}]}]}}`, fields, port)}
}

// Partly proves CM-25: the connections of a host that is gone end, at once or with
// the request that they carry.
func TestRemovedHostsAreDrained(t *testing.T) {
	g := newGate(t)
	n := &names{}
	n.set("127.0.0.1")
	v := named(t, g.addr, "").serve(t, n.use)
	idle, busy := v.dial(t), v.dial(t)
	idle.get("/")
	busy.get("/")
	take(t, g.asked)
	take(t, g.asked)
	g.open <- ok
	v.counts(t, "cluster.named.upstream_cx_active 2", "cluster.named.upstream_rq_active 1")
	n.set("127.0.0.3")
	v.counts(t, "cluster.named.upstream_cx_active 1", "cluster.named.upstream_rq_active 1", "cluster.named.upstream_cx_destroy_local 1")
	g.open <- ok
	idle.want("200 ok")
	busy.want("200 ok")
	v.counts(t, "cluster.named.upstream_cx_active 0", "cluster.named.upstream_cx_destroy_local 2", "cluster.named.membership_total 1")
}

// Partly proves CM-25: a cluster may want all its connections to be new when
// its hosts change. Partly proves CM-16: close_connections_on_host_set_change.
func TestHostSetChangeDrains(t *testing.T) {
	for fields, left := range map[string]string{"": "1", "common_lb_config: {close_connections_on_host_set_change: true},": "0"} {
		t.Run(fields, func(t *testing.T) {
			n := &names{}
			n.set("127.0.0.1")
			v := named(t, answering(t, ok), fields).serve(t, n.use)
			w := v.dial(t)
			w.get("/")
			w.want("200 ok")
			v.counts(t, "cluster.named.upstream_cx_active 1")
			n.set("127.0.0.1", "127.0.0.3")
			v.counts(t, "cluster.named.membership_total 2", "cluster.named.upstream_cx_active "+left)
		})
	}
}

package xdsserver_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

const vhdsDelta = "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts"

func virtualHost(t *testing.T, name string, domains ...string) *xds.Resource {
	t.Helper()
	return hostResource(t, name, &routev3.VirtualHost{Name: name, Domains: domains})
}

func routesOnDemand(t *testing.T, name string, ignorePort bool) *xds.Resource {
	t.Helper()
	return hostResource(t, name, &routev3.RouteConfiguration{Name: name, Vhds: &routev3.Vhds{}, IgnorePortInHostMatching: ignorePort})
}

func hostResource(t *testing.T, name string, m proto.Message) *xds.Resource {
	t.Helper()
	r, err := xds.Marshal(name, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hostsIn writes a response as "name=alias,alias name? -name": what has a
// question mark has no body.
func hostsIn(t *testing.T, r *discoveryv3.DeltaDiscoveryResponse) string {
	t.Helper()
	var words []string
	for _, x := range r.GetResources() {
		w := x.GetName()
		if len(x.GetAliases()) > 0 {
			w += "=" + strings.Join(x.GetAliases(), ",")
		}
		if x.GetResource() == nil {
			w += "?"
		} else {
			m := &routev3.VirtualHost{}
			if err := x.GetResource().UnmarshalTo(m); err != nil || m.GetName() != x.GetName() || x.GetVersion() == "" {
				t.Errorf("%s is %v, version %q: %v", x.GetName(), m, x.GetVersion(), err)
			}
		}
		words = append(words, w)
	}
	for _, n := range r.GetRemovedResources() {
		words = append(words, "-"+n)
	}
	return strings.Join(words, " ")
}

// TestVirtualHostsOnDemand follows hosts over both kinds of streams that have
// them: asked for, changed, found in vain and then made, and given up.
// Proves XN-21, XN-23, XN-24.
func TestVirtualHostsOnDemand(t *testing.T) {
	for _, path := range []string{adsDelta, vhdsDelta} {
		t.Run(path, func(t *testing.T) {
			bubble(t, nil, func(h *harness) {
				h.set(routesOnDemand(t, "a/b", false), virtualHost(t, "a/b/web", "www.x", "*.y"), virtualHost(t, "a/b/api", "api.x"))
				c, other := h.deltaOn(path), h.deltaOn(path)
				other.subscribe(node("other"), xds.VirtualHostType, "a/b/api.x")
				other.ack(other.must())
				c.subscribe(node("n"), xds.VirtualHostType, "a/b/www.x", "a/b/1.y:80", "a/b/none")
				next := func(step, want string) {
					t.Helper()
					r := c.must()
					if got := hostsIn(t, r); got != want {
						t.Errorf("%s: %q, want %q", step, got, want)
					}
					c.ack(r)
				}
				next("asked", "a/b/web=a/b/www.x a/b/1.y:80=a/b/1.y:80? a/b/none=a/b/none?")
				h.set(virtualHost(t, "a/b/web", "www.x", "1.y:80"))
				next("a domain that matches", "a/b/web=a/b/1.y:80,a/b/www.x")
				h.set(virtualHost(t, "a/b/api", "api.x", "api2.x"))
				c.silent("a virtual host of which nothing was asked for changed")
				if got := hostsIn(t, other.must()); got != "a/b/api=a/b/api.x" {
					t.Errorf("the other client: %q", got)
				}
				h.set(virtualHost(t, "a/b/late", "none", "x"))
				next("made later", "a/b/late=a/b/none")
				h.set(routesOnDemand(t, "a/b", true))
				c.ack(c.must()) // the table may have been cleared, or the port not matter
				for c.got() != nil {
					continue
				}
				h.apply(snapshot.Batch{Groups: map[string]snapshot.Changes{
					"default": {Remove: []xds.Key{{Type: xds.VirtualHostType, Name: "a/b/late"}}},
				}})
				next("removed", "-a/b/late")
				c.send(&discoveryv3.DeltaDiscoveryRequest{
					TypeUrl: xds.VirtualHostType, ResourceNamesUnsubscribe: []string{"a/b/www.x", "a/b/1.y:80", "a/b/none"},
				})
				synctest.Wait()
				h.set(virtualHost(t, "a/b/web", "*"))
				c.silent("everything was given up")
			})
		})
	}
}

// TestVirtualHostsOfThousands changes hosts of a route configuration that many
// ask for: only who asked for one hears of it, and a first request without names
// brings none.
// Proves XN-22. Partly proves XS-90.
func TestVirtualHostsOfThousands(t *testing.T) {
	const n = 10_000
	bubble(t, nil, func(h *harness) {
		set := []*xds.Resource{routesOnDemand(t, "r", false)}
		for i := range n {
			set = append(set, virtualHost(t, fmt.Sprint("r/", i), fmt.Sprintf("%d.x", i)))
		}
		h.set(set...)
		c := h.delta()
		c.subscribe(node("n"), xds.VirtualHostType)
		if r := c.must(); len(r.GetResources()) > 0 {
			t.Errorf("%d virtual hosts without a name", len(r.GetResources()))
		} else {
			c.ack(r)
		}
		var all []deltaClient
		for i := range 20 {
			x := h.delta()
			x.subscribe(node(fmt.Sprint(i)), xds.VirtualHostType, fmt.Sprintf("r/%d.x", i))
			x.ack(x.must())
			all = append(all, x)
		}
		before := responses(h.srv)
		h.set(virtualHost(t, "r/7", "7.x", "seven.x"))
		if got := hostsIn(t, all[7].must()); got != "r/7=r/7.x" {
			t.Errorf("the client that asked got %q", got)
		}
		synctest.Wait()
		if got := responses(h.srv) - before; got != 1 {
			t.Errorf("%d responses to one change", got)
		}
	})
}

func responses(s *xdsserver.Server) (n uint64) {
	for _, t := range s.Stats().Types {
		n += t.Responses
	}
	return n
}

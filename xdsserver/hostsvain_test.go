package xdsserver_test

import (
	"fmt"
	"testing"

	"github.com/xebec-proxy/xebec/xds"
)

// Names that lead to nothing and that a client never gives up, as Envoy, do not
// pile up in the server.
func TestVirtualHostsInVain(t *testing.T) {
	for _, path := range []string{adsDelta, vhdsDelta} {
		t.Run(path, func(t *testing.T) {
			bubble(t, nil, func(h *harness) {
				h.set(routesOnDemand(t, "rc", false), virtualHost(t, "rc/a", "a.x"))
				c := h.deltaOn(path)
				c.subscribe(node("n"), xds.VirtualHostType, "rc/a.x")
				c.ack(c.must())
				ask := func(from, to int) {
					const atOnce = 500
					for i := from; i < to; i += atOnce {
						names := make([]string, atOnce)
						for j := range names {
							names[j] = fmt.Sprintf("rc/h%d.made.up", i+j)
						}
						c.subscribe(nil, xds.VirtualHostType, names...)
						r := c.must()
						if n := len(r.GetResources()); n != atOnce {
							t.Fatalf("%d names were answered", n)
						}
						c.ack(r)
					}
				}
				ask(0, 20_000) // twice what is kept
				before := heap()
				ask(20_000, 60_000)
				if grown := int64(heap()) - int64(before); grown > 1<<20 {
					t.Errorf("the heap has grown by %d bytes", grown)
				}
				h.set(virtualHost(t, "rc/a", "a.x", "h0.made.up", "h59999.made.up"))
				if got, want := hostsIn(t, c.must()), "rc/a=rc/a.x,rc/h59999.made.up"; got != want {
					t.Errorf("%q, want %q", got, want)
				}
			})
		})
	}
}

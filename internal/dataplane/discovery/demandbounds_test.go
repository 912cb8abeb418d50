package discovery

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient/clientstatus"
)

// One name keeps a virtual host. Others that lead to it are given up, and are
// asked for anew when it has gone.
func TestOneNameKeepsAHost(t *testing.T) {
	m := manage(t)
	one := snapshot.Changes{Set: []*xds.Resource{virtualHost(t, "rc/one", "*.example")}}
	m.apply(t, one)
	g := &target{}
	begin, source, _ := deltaBootstrap(t)
	d := begin(g, m.addr)
	d.Want(xds.VirtualHostType, "rc/", source)
	d.Want(xds.VirtualHostType, "rc/a.example", source)
	g.until(t, "resolved VirtualHost rc/a.example")
	d.Want(xds.VirtualHostType, "rc/b.example", source)
	g.until(t, "missing VirtualHost rc/b.example")
	d.Unwant(xds.VirtualHostType, "rc/b.example", source)
	m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.VirtualHostType, Name: "rc/one"}}})
	g.until(t, "hosts of rc: -rc/one")
	g.until(t, "missing VirtualHost rc/a.example")
	d.Unwant(xds.VirtualHostType, "rc/a.example", source)
	m.apply(t, one)
	d.Want(xds.VirtualHostType, "rc/b.example", source)
	g.until(t, "resolved VirtualHost rc/b.example")
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{virtualHost(t, "rc/one", "b.example")}})
	g.until(t, "hosts of rc: +rc/one")
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := d.hosts; len(h) != 1 {
		t.Errorf("%d sources", len(h))
	}
	for _, h := range d.hosts {
		h.mu.Lock()
		if len(h.asked) != 1 {
			t.Errorf("%d names keep the virtual host", len(h.asked))
		}
		h.mu.Unlock()
	}
}

// Names that were asked for in vain leave nothing behind, neither at the source
// nor at its server, which is part of this process.
func TestNamesInVain(t *testing.T) {
	many := 20_000
	if testing.Short() {
		many = 2000
	}
	for _, c := range []struct{ name, typ, domain string }{
		{"hosts", xds.VirtualHostType, "one.example"}, {"aliases", xds.VirtualHostType, "*.example"}, {"clusters", xds.ClusterType, "one.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			typ := c.typ
			m := manage(t)
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{virtualHost(t, "rc/one", c.domain)}})
			g := &target{missing: make(chan string)}
			begin, source, _ := deltaBootstrap(t)
			d := begin(g, m.addr)
			if typ == xds.VirtualHostType {
				d.Want(typ, "rc/", source)
				d.Want(typ, "rc/one.example", source)
				for !d.keepsOne() {
					runtime.Gosched()
				}
			}
			ask := func(from, to int) {
				const atOnce = 100
				for i := from; i < to; i += atOnce {
					for j := range atOnce {
						d.Want(typ, fmt.Sprintf("rc/h%d.example", i+j), source)
					}
					for range atOnce {
						d.Unwant(typ, <-g.missing, source)
					}
				}
			}
			ask(0, 2000)
			before := heap()
			ask(2000, 2000+many)
			if grown := heap() - before; grown > 1<<20 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			last := "other/last"
			d.Want(typ, last, source)
			for <-g.missing != last {
				continue
			}
			n := 0
			for _, c := range d.Describe(clientstatus.Options{}) {
				n += len(c.GetGenericXdsConfigs())
			}
			if n > 110 {
				t.Errorf("the sources know %d names", n)
			}
			d.Unwant(typ, last, source)
		})
	}
}

// keepsOne reports whether a name keeps a virtual host.
func (d *Discovery) keepsOne() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.hosts {
		h.mu.Lock()
		n := len(h.asked)
		h.mu.Unlock()
		if n == 1 {
			return true
		}
	}
	return false
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // less than the address space
}

package xdsclient_test

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Proves GC-69: after a reconnect a delta source tells what it holds, and is
// sent the difference.
func TestDeltaReconnect(t *testing.T) {
	bubble(t, 1, xdsclient.Config{Delta: true}, func(sc *scene) {
		sc.watch(cdsType(), xdsclient.Wildcard)
		sc.watch(cdsType(), "z")
		st := sc.f[0].stream(1)
		st.expect("CDS +[* z] node")
		st.answer(named(cds("", "A", "x=1", "y=1")))
		st.expect("CDS n=A")
		sc.r.expect(t, "x=1", "y=1")
		st.end(io.EOF)
		time.Sleep(time.Second)
		st = sc.f[0].stream(2)
		st.expect("CDS +[* z] held=map[x:1 y:1] node")
		r := named(cds("", "A", "x=2"))
		r.Removed = []string{"y", "z"}
		st.answer(r)
		sc.r.expect(t, "x=2", "y: missing", "z: missing")
		st.answer(named(cds("", "B", "z=1")))
		sc.r.expect(t, "z=1", "z=1") // the wildcard's and its own
	})
}

// Proves GC-74, XN-23, XN-24 of the client: a watch of an alias is told of the
// resource that has it, and that there is none.
func TestAlias(t *testing.T) {
	bubble(t, 1, xdsclient.Config{Delta: true}, func(sc *scene) {
		vhds := plain(xds.VirtualHostType)
		sc.watch(vhds, "routes/www.example.com")
		sc.watch(vhds, "routes/unknown")
		st := sc.f[0].stream(1)
		st.expect("VHDS +[routes/unknown routes/www.example.com] node")
		r := named(cds("", "A", "routes/example=1"))
		r.TypeURL = xds.VirtualHostType
		r.Resources[0].TypeURL, r.Resources[0].Aliases = xds.VirtualHostType, []string{"routes/www.example.com"}
		r.Resources = append(r.Resources, client.Raw{Name: "routes/unknown", Aliases: []string{"routes/unknown"}})
		st.answer(r)
		sc.r.expect(t, "routes/example=1", "routes/unknown: missing")
	})
}

// Proves GC-74, XN-05, XN-06: members of a glob collection come and go; an empty
// one says so.
func TestGlob(t *testing.T) {
	c := xdsclient.Config{Delta: true, Authorities: map[string]xdsclient.Authority{"auth": {}}}
	bubble(t, 1, c, func(sc *scene) {
		const prefix = "xdstp://auth/envoy.config.endpoint.v3.ClusterLoadAssignment/"
		sc.watch(edsType(), prefix+"shop/*")
		st := sc.f[0].stream(1)
		st.expect("EDS +[" + prefix + "shop/*] node")
		empty := eds("", "A")
		empty.Removed = []string{prefix + "shop/*"}
		st.answer(empty)
		sc.r.expect(t, prefix+"shop/*: missing")
		st.answer(named(eds("", "B", prefix+"shop/a=1", prefix+"shop/b=1", prefix+"other/c=1")))
		sc.r.expect(t, prefix+"shop/a=1", prefix+"shop/b=1")
		gone := eds("", "C")
		gone.Removed = []string{prefix + "shop/a"}
		st.answer(gone)
		sc.r.expect(t, prefix+"shop/a: missing")
		late := newRecord()
		cancel := xdsclient.Watch(sc.s, edsType(), prefix+"shop/*", plainly(late))
		late.expect(t, prefix+"shop/b=1")
		cancel()
		told := []string{}
		cancel = xdsclient.Watch(sc.s, edsType(), prefix+"shop/*", xdsclient.Funcs[string]{
			Change:  func(u xdsclient.Update[string]) { told = append(told, u.Name) },
			Settled: func() { told = append(told, "settled") },
		})
		synctest.Wait()
		if want := []string{prefix + "shop/b", "settled"}; !slices.Equal(told, want) {
			t.Errorf("of what was held, a watcher was told %q, want %q", told, want)
		}
		cancel()
		synctest.Wait()
	})
}

// Proves GC-76: a resource whose time to live is over is an error; a heartbeat
// keeps it without a word.
func TestTTL(t *testing.T) {
	bubble(t, 1, xdsclient.Config{Delta: true}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		st := sc.f[0].stream(1)
		r := named(cds("", "A", "x=1"))
		r.Resources[0].TTL = 10 * time.Second
		st.answer(r)
		sc.r.expect(t, "x=1")
		for range 5 {
			time.Sleep(8 * time.Second)
			beat := cds("", "B")
			beat.Resources = []client.Raw{{Name: "x", Version: "1", TTL: 10 * time.Second}}
			st.answer(beat)
		}
		sc.r.expect(t)
		time.Sleep(11 * time.Second)
		sc.r.expect(t, "x: expired")
	})
}

package xdsclient_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// Proves XN-11: the alternative is asked only while the authority's source cannot be
// reached and nothing of the resource is held, and given up when that answers, whatever it
// says.
func TestAlternative(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.f[0].fail(errDown)
		sc.watch(cdsType(), clusterA+"x#alt="+clusterB+"y")
		b := sc.f[1].stream(1)
		b.expect("CDS +[" + clusterB + "y] node")
		sc.r.expect(t)
		b.answer(holds(t, clusterB+"y=1"))
		sc.r.expect(t, clusterA+"x=1")
		b.answer(holds(t, clusterB+"y=2"))
		sc.r.expect(t, clusterA+"x=2")
		late := newRecord()
		xdsclient.Watch(sc.s, cdsType(), clusterA+"x#alt="+clusterB+"y", plainly(late))
		late.expect(t, clusterA+"x=2")
		// It is the alternative of a watch, not of the resource.
		plain := newRecord()
		xdsclient.Watch(sc.s, cdsType(), clusterA+"x", plainly(plain))
		plain.expect(t, clusterA+"x: unreachable")

		sc.f[0].fail(nil)
		a := sc.f[0].again(1)
		a.expect("CDS +[" + clusterA + "x] node")
		a.answer(holds(t, clusterA+"x=3"))
		sc.r.expect(t, clusterA+"x=3")
		late.expect(t, clusterA+"x=3")
		time.Sleep(5 * time.Second)
		if b.open() {
			t.Error("the alternative is still asked")
		}
		// What is held stays when the source goes away.
		sc.f[0].fail(errDown)
		a.end(errDown)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := sc.f[1].count(); n != 1 {
			t.Errorf("%d streams to the alternative", n)
		}
		sc.r.expect(t, clusterA+"x#alt="+clusterB+"y ~ unreachable")
	})
}

// The source comes back and says that there is no such resource: that counts.
func TestAlternativeEnds(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.f[0].fail(errDown)
		cancel := sc.watch(cdsType(), clusterA+"x#alt="+clusterB+"y")
		b := sc.f[1].stream(1)
		b.answer(holds(t, clusterB+"y=1"))
		sc.r.expect(t, clusterA+"x=1")
		sc.f[0].fail(nil)
		a := sc.f[0].again(1)
		a.answer(holds(t, "-"+clusterA+"x"))
		sc.r.expect(t, clusterA+"x#alt="+clusterB+"y: missing")
		time.Sleep(5 * time.Second)
		if b.open() {
			t.Error("the alternative is still asked")
		}
		cancel()
		time.Sleep(5 * time.Second)
		if a.open() {
			t.Error("a stream is open that nobody needs")
		}
	})
}

// An alternative may be of an authority that nobody is configured for, have one itself, be
// that of a redirect or of a list collection, and be out of reach too.
func TestAlternatives(t *testing.T) {
	const unknown = "xdstp://nobody/envoy.config.cluster.v3.Cluster/x"
	located(t, xdsclient.Config{}, func(sc *scene) {
		cancel := sc.watch(cdsType(), unknown+"#alt="+clusterB+"y")
		b := sc.f[1].stream(1)
		b.answer(holds(t, clusterB+"y=1"))
		sc.r.expect(t, unknown+"=1")
		cancel()
		time.Sleep(5 * time.Second)
		if b.open() {
			t.Error("a stream is open that nobody needs")
		}
	})
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.f[0].fail(errDown)
		sc.watch(cdsType(), clusterA+"x#alt="+unknown+"%23alt="+clusterB+"y")
		sc.f[1].stream(1).answer(holds(t, clusterB+"y=1"))
		sc.r.expect(t, clusterA+"x=1")
	})
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.f[1].fail(errDown)
		sc.watch(cdsType(), clusterA+"x")
		a := sc.f[0].stream(1)
		a.answer(holds(t, clusterA+"x>"+clusterB+"y#alt="+clusterA+"z"))
		time.Sleep(time.Second)
		a.answer(holds(t, clusterA+"z=1"))
		sc.r.expect(t, clusterA+"x=1")
	})
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.f[0].fail(errDown)
		sc.f[1].fail(errDown)
		sc.watch(cdsType(), clusterA+"x#alt="+clusterB+"y")
		time.Sleep(time.Second)
		sc.r.expect(t, clusterA+"x#alt="+clusterB+"y: unreachable")
		sc.f[1].fail(nil)
		sc.f[1].again(1).answer(holds(t, clusterB+"y=1"))
		sc.r.expect(t, clusterA+"x=1")
	})
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.f[0].fail(errDown)
		sc.watch(cdsType(), listA+"l#alt="+listB+"m")
		b := sc.f[1].stream(1)
		b.answer(holds(t, listB+"m[in=1 "+clusterB+"y]"))
		b.answer(holds(t, clusterB+"y=2"))
		sc.r.expect(t, listB+"m#entry=in=1", clusterB+"y=2")
		sc.f[0].fail(nil)
		sc.f[0].again(1).answer(holds(t, listA+"l[in=3 "+clusterB+"y]"))
		sc.r.expect(t, listA+"l#entry=in=3", listB+"m#entry=in: missing")
	})
}

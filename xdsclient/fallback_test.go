package xdsclient_test

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Proves XC-32: with the first server down at the start the second is used, the
// watchers hear of no error, and once the first sends something the second is
// left.
func TestFallbackAtStart(t *testing.T) {
	bubble(t, 2, xdsclient.Config{}, func(sc *scene) {
		a, b := sc.f[0], sc.f[1]
		a.fail(errDown)
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		st := b.stream(1)
		st.expect("CDS [x y] node")
		st.answer(cds("b1", "A", "x=of b", "y=of b"))
		sc.r.expect(t, "x=of b", "y=of b")
		a.fail(nil)
		first := a.again(1)
		first.expect("CDS [x y] node")
		if !st.open() {
			t.Error("the second server was left before the first had sent anything")
		}
		first.answer(cds("a1", "A", "x=of a", "y=of b"))
		sc.r.expect(t, "x=of a")
		time.Sleep(2 * time.Second)
		if st.open() {
			t.Error("the second server is still in use")
		}
		first.answer(cds("a2", "B", "x=of a", "y=of a"))
		sc.r.expect(t, "y=of a")
	})
}

// Proves XC-32: in the middle of the start, when some resources are cached and
// others are not, everything is asked of the next server.
func TestFallbackInTheMiddle(t *testing.T) {
	bubble(t, 2, xdsclient.Config{}, func(sc *scene) {
		a, b := sc.f[0], sc.f[1]
		sc.watch(cdsType(), "x")
		sc.watch(edsType(), "x")
		a.stream(1).answer(cds("a1", "A", "x=of a"))
		sc.r.expect(t, "x=of a")
		a.fail(errDown)
		a.stream(1).end(io.EOF)
		time.Sleep(2 * time.Second)
		st := b.stream(1)
		st.expect("CDS [x] node", "EDS [x]")
		st.answer(cds("b1", "A", "x=of b"))
		st.answer(eds("b1", "B", "x=of b"))
		sc.r.expect(t, "x=of b", "x=of b")
		// The first server comes back with what it had. It is asked for all of it,
		// and wins again.
		a.fail(nil)
		back := a.again(2)
		back.expect("CDS [x] node", "EDS [x]")
		back.answer(cds("a1", "A", "x=of a"))
		sc.r.expect(t, "x=of a")
	})
}

// Proves XC-32, GC-51: if everything is cached the next server is not asked; the
// watchers keep what they have. A new watch then is what is missing.
func TestFallbackIsNotNeeded(t *testing.T) {
	bubble(t, 2, xdsclient.Config{}, func(sc *scene) {
		a, b := sc.f[0], sc.f[1]
		sc.watch(cdsType(), "x")
		a.stream(1).answer(cds("a1", "A", "x=1"))
		a.fail(errDown)
		a.stream(1).end(io.EOF)
		time.Sleep(time.Minute)
		sc.r.expect(t, "x=1", "x ~ unreachable")
		if n := len(b.attempts()); n > 0 {
			t.Errorf("%d attempts at the second server, which is not needed", n)
		}
		sc.watch(cdsType(), "new")
		st := b.stream(1)
		st.expect("CDS [new x] node")
		st.answer(cds("b1", "A", "x=1", "new=1"))
		sc.r.expect(t, "x ~ <nil>", "new=1")
	})
}

// Proves GC-28: an authority that falls back at once does so with everything
// cached.
func TestFallbackAtOnce(t *testing.T) {
	c := xdsclient.Config{Authorities: map[string]xdsclient.Authority{"": {FallBackAtOnce: true}}}
	bubble(t, 2, c, func(sc *scene) {
		a, b := sc.f[0], sc.f[1]
		sc.watch(cdsType(), "x")
		a.stream(1).answer(cds("a1", "A", "x=1"))
		a.fail(errDown)
		a.stream(1).end(io.EOF)
		time.Sleep(time.Minute)
		b.stream(1).expect("CDS [x] node")
	})
}

// Proves XC-32, GC-183: the watchers hear of an error when all servers have
// failed, once, and a server anywhere in the list helps them.
func TestAllServersFail(t *testing.T) {
	bubble(t, 3, xdsclient.Config{}, func(sc *scene) {
		for _, f := range sc.f {
			f.fail(errDown)
		}
		sc.watch(cdsType(), "x")
		sc.r.expect(t, "x: unreachable")
		time.Sleep(10 * time.Minute)
		sc.r.expect(t)
		sc.f[1].fail(nil)
		sc.f[1].again(1).answer(cds("b1", "A", "x=of b"))
		sc.r.expect(t, "x=of b")
		sc.f[2].fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := sc.f[2].count(); n > 0 {
			t.Errorf("the last server has %d streams though the one before it answers", n)
		}
	})
}

// What a preferred server says of other names before it sends a first resource
// counts once it has.
func TestReturnWithMissing(t *testing.T) {
	bubble(t, 2, xdsclient.Config{Delta: true}, func(sc *scene) {
		a, b := sc.f[0], sc.f[1]
		a.fail(errDown)
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		b.stream(1).answer(named(cds("", "A", "x=of b", "y=of b")))
		sc.r.expect(t, "x=of b", "y=of b")
		a.fail(nil)
		gone := cds("", "A")
		gone.Removed = []string{"y"}
		a.again(1).answer(gone)
		sc.r.expect(t)
		a.stream(1).answer(named(cds("", "B", "x=of a")))
		sc.r.expect(t, "y: missing", "x=of a")
	})
}

// Proves GC-60, GC-31, XN-12: a structured name goes to the servers of its
// authority, however its parameters are ordered; a server that is named twice
// has one stream.
func TestAuthorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &fake{t: t}, &fake{t: t}
		s := source(t, xdsclient.Config{
			Servers: []xdsclient.Server{to("one", one)},
			Authorities: map[string]xdsclient.Authority{
				"shared": {}, "other": {Servers: []xdsclient.Server{to("two", two)}},
				"both": {Servers: []xdsclient.Server{to("one", one), to("two", two)}},
			},
		})
		r := newRecord()
		name := func(authority, rest string) string {
			return fmt.Sprintf("xdstp://%s/envoy.config.endpoint.v3.ClusterLoadAssignment/%s", authority, rest)
		}
		for _, n := range []string{"plain", name("shared", "s?b=1&a=2"), name("shared", "s?a=2&b=1"), name("other", "o"), name("both", "b")} {
			xdsclient.Watch(s, edsType(), n, plainly(r))
		}
		st := one.stream(1)
		st.expect("EDS [plain " + name("both", "b") + " " + name("shared", "s?a=2&b=1") + "] node")
		two.stream(1).expect("EDS [" + name("other", "o") + "] node")
		st.answer(eds("1", "A", name("shared", "s?b=1&a=2")+"=1", "plain=1"))
		synctest.Wait()
		got := r.take()
		slices.Sort(got)
		want := []string{"plain=1", name("shared", "s?a=2&b=1") + "=1", name("shared", "s?a=2&b=1") + "=1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Proves GC-31: streams of one type fall back by themselves.
func TestFallbackPerType(t *testing.T) {
	bubble(t, 2, xdsclient.Config{PerType: true}, func(sc *scene) {
		a, b := sc.f[0], sc.f[1]
		sc.watch(cdsType(), "x")
		a.stream(1).answer(cds("a1", "A", "x=of a"))
		a.fail(errDown)
		sc.watch(edsType(), "x")
		st := b.stream(1)
		if st.opening.TypeURL != xds.EndpointType {
			t.Errorf("the second server was asked for %s", st.opening.TypeURL)
		}
		st.answer(eds("b1", "A", "x=of b"))
		a.streams[0].answer(cds("a2", "B", "x=new of a"))
		sc.r.expect(t, "x=of a", "x=of b", "x=new of a")
	})
}

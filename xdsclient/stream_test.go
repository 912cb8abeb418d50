package xdsclient_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Proves XC-03, GC-32: the node goes with the first request of each stream only,
// or with all of them if the source is told so.
func TestNodeOnFirstRequest(t *testing.T) {
	for _, repeat := range []bool{false, true} {
		suffix := ""
		if repeat {
			suffix = " node"
		}
		bubble(t, 1, xdsclient.Config{RepeatNode: repeat}, func(sc *scene) {
			sc.watch(cdsType(), "x")
			sc.watch(edsType(), "x")
			st := sc.f[0].stream(1)
			st.expect("CDS [x] node", "EDS [x]"+suffix)
			st.answer(cds("1", "A", "x=1"))
			st.expect("CDS v=1 n=A [x]" + suffix)
			st.end(io.EOF)
			time.Sleep(time.Second)
			sc.f[0].stream(2).expect("CDS v=1 [x] node", "EDS [x]"+suffix)
		})
	}
}

// Proves XC-37, GC-19, GC-20, GC-21: what the library knows of itself replaces
// what the configuration says.
func TestNode(t *testing.T) {
	given := &corev3.Node{Id: "n", UserAgentName: "mine", ClientFeatures: []string{"theirs"}}
	c := xdsclient.Config{Node: given, UserAgent: "program", UserAgentVersion: "1.2", Features: []string{xds.FeatureNoOverprovisioning}}
	bubble(t, 1, c, func(sc *scene) {
		sc.watch(cdsType(), "x")
		n := sc.f[0].stream(1).opening.Node
		if n.GetId() != "n" || n.GetUserAgentName() != "program" || n.GetUserAgentVersion() != "1.2" {
			t.Errorf("the node is %v", n)
		}
		want := []string{xds.FeatureNoOverprovisioning, xds.FeatureResourceInSotw, xds.FeatureResourceTTL}
		if diff := cmp.Diff(want, n.GetClientFeatures()); diff != "" {
			t.Error(diff)
		}
		if given.GetUserAgentName() != "mine" {
			t.Error("the caller's node was changed")
		}
	})
}

// Proves XC-02: one stream for everything, or one for each type, whatever the
// number of watches.
func TestStreams(t *testing.T) {
	for perType, want := range map[bool]int{false: 1, true: 2} {
		bubble(t, 1, xdsclient.Config{PerType: perType}, func(sc *scene) {
			for _, name := range []string{"x", "y", "z"} {
				sc.watch(cdsType(), name)
				sc.watch(edsType(), name)
			}
			time.Sleep(2 * connecting)
			if got := sc.f[0].count(); got != want {
				t.Errorf("per type %v: %d streams, want %d", perType, got, want)
			}
		})
	}
}

// Proves XC-06, GC-40, XC-29, GC-51: after a reconnect the version and all names
// are repeated, the nonce is not, and watchers notice nothing.
func TestReconnect(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1", "y=1"))
		st.expect("CDS [x y] node", "CDS v=1 n=A [x y]")
		sc.r.expect(t, "x=1", "y=1")
		st.end(io.EOF)
		time.Sleep(time.Second)
		st = sc.f[0].stream(2)
		st.expect("CDS v=1 [x y] node")
		st.answer(cds("1", "B", "x=1", "y=1"))
		sc.r.expect(t)
		st.answer(cds("2", "C", "x=2", "y=1"))
		sc.r.expect(t, "x=2")
	})
}

// Proves XC-28, GC-50: delays grow from the base to the maximum with jitter, and
// start again after a response.
func TestBackoff(t *testing.T) {
	for name, b := range map[string]xdsclient.Backoff{"default": xdsclient.DefaultBackoff(), "grpc": xdsclient.GRPCBackoff()} {
		bubble(t, 1, xdsclient.Config{Backoff: b}, func(sc *scene) {
			sc.f[0].fail(errDown)
			sc.watch(cdsType(), "x")
			time.Sleep(15 * time.Minute)
			at := sc.f[0].attempts()
			if len(at) < 8 {
				t.Fatalf("%s: %d attempts in 15 minutes", name, len(at))
			}
			want, jittered := float64(b.Base), false
			for i := 1; i < len(at); i++ {
				got := at[i].Sub(at[i-1])
				low, high := time.Duration(want*(1-b.Jitter)), min(time.Duration(want*(1+b.Jitter)), b.Max)
				if got < low || got > high+time.Millisecond {
					t.Errorf("%s: wait %d is %v, want %v to %v", name, i, got, low, high)
				}
				jittered = jittered || got != time.Duration(want)
				want = min(want*b.Factor, float64(b.Max))
			}
			if !jittered {
				t.Errorf("%s: no jitter", name)
			}
			sc.f[0].fail(nil)
			time.Sleep(b.Max + time.Second)
			st := sc.f[0].stream(1)
			st.answer(cds("1", "A", "x=1"))
			time.Sleep(b.Base)
			n := len(sc.f[0].attempts())
			sc.f[0].fail(errDown)
			st.end(io.EOF)
			time.Sleep(b.Base + time.Duration(float64(b.Base)*(1+b.Jitter)))
			if got := len(sc.f[0].attempts()) - n; got < 2 {
				t.Errorf("%s: %d attempts right after a stream with a response, want at least 2", name, got)
			}
		})
	}
}

// A server that ends each stream after a response is not asked more often than
// once in Backoff.Base.
func TestNoHotLoop(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		for i := range 5 {
			st := sc.f[0].stream(i + 1)
			st.answer(cds("1", "A", "x=1"))
			st.end(io.EOF)
			time.Sleep(600 * time.Millisecond)
		}
		at := sc.f[0].attempts()
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < 500*time.Millisecond {
				t.Errorf("attempt %d came %v after the one before", i, d)
			}
		}
	})
}

// Proves GC-49: a stream that ends without a response is a connectivity error,
// one that had one is not.
func TestConnectivityError(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1"))
		sc.r.expect(t, "x=1")
		sc.f[0].fail(errDown)
		st.end(io.EOF)
		sc.r.expect(t)
		time.Sleep(time.Minute)
		sc.r.take()
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		sc.watch(cdsType(), "z")
		sc.r.expect(t, "x=1", "x ~ unreachable", "y: unreachable", "z: unreachable")
		sc.f[0].fail(nil)
		time.Sleep(time.Minute)
		st = sc.f[0].stream(2)
		sc.r.take()
		st.answer(cds("1", "B", "x=1", "y=2", "z=3"))
		sc.r.expect(t, "x ~ <nil>", "x ~ <nil>", "y=2", "y=2", "z=3")
	})
}

// A wildcard whose server could not be reached at first is as good as any other
// after an answer, though that is empty.
func TestWildcardUnreachable(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.f[0].fail(errDown)
		sc.watch(cdsType(), xdsclient.Wildcard)
		sc.r.expect(t, "*: unreachable")
		sc.f[0].fail(nil)
		sc.f[0].again(1).answer(cds("1", "A"))
		sc.watch(cdsType(), xdsclient.Wildcard)
		sc.r.expect(t)
		sc.f[0].fail(errDown)
		sc.f[0].stream(1).end(io.EOF)
		time.Sleep(600 * time.Millisecond)
		sc.r.expect(t, "* ~ unreachable", "* ~ unreachable")
	})
}

// Proves XC-31: the ways to a server are tried in turn, and its watchers hear of
// an error when all have failed.
func TestAlternates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &fake{t: t, down: errDown}, &fake{t: t}
		s := source(t, xdsclient.Config{Servers: []xdsclient.Server{{Name: "a", Transport: one, Alternates: []xdsclient.Transport{two}}}})
		r := newRecord()
		xdsclient.Watch(s, cdsType(), "x", plainly(r))
		st := two.stream(1)
		st.answer(cds("1", "A", "x=1"))
		st.end(io.EOF)
		time.Sleep(time.Second)
		st = two.stream(2)
		if n := len(one.attempts()); n != 1 {
			t.Errorf("the first way was tried %d times", n)
		}
		r.expect(t, "x=1")
		two.fail(errDown)
		st.end(io.EOF)
		synctest.Wait()
		xdsclient.Watch(s, cdsType(), "y", plainly(r))
		time.Sleep(200 * time.Millisecond)
		r.expect(t, "x ~ unreachable", "y: unreachable")
		if n := len(one.attempts()); n != 2 {
			t.Errorf("the first way was tried %d times", n)
		}
	})
}

// Proves GC-31, XC-40, GC-36: watches of a name share the subscription; when the
// last one of all has left, the stream is closed, and opened again for the next.
func TestLastWatchLeaves(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		cancels := []func(){sc.watch(cdsType(), "x"), sc.watch(cdsType(), "x"), sc.watch(cdsType(), "y")}
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1", "y=1"))
		st.expect("CDS [x y] node", "CDS v=1 n=A [x y]")
		cancels[0]()
		st.expect()
		cancels[2]()
		time.Sleep(20 * time.Millisecond)
		st.expect("CDS v=1 n=A [x]")
		cancels[1]()
		cancels[1]()
		time.Sleep(20 * time.Millisecond)
		st.expect("CDS v=1 n=A")
		if !st.open() {
			t.Error("the stream was closed at once")
		}
		time.Sleep(2 * time.Second)
		if st.open() {
			t.Error("the stream stays although nothing is watched")
		}
		sc.watch(cdsType(), "x")
		sc.f[0].stream(2).expect("CDS [x] node")
	})
}

// Proves GC-35: many watches in a row become few requests, also on a stream that
// is open.
func TestWatchesAreGathered(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), "first")
		st := sc.f[0].stream(1)
		st.got()
		for i := range 2000 {
			sc.watch(cdsType(), "c"+string(rune('0'+i%10))+string(rune('a'+i/10%26))+string(rune('a'+i/260)))
		}
		time.Sleep(time.Second)
		if got := st.got(); len(got) > 3 {
			t.Errorf("%d requests for 2000 watches", len(got))
		}
	})
}

// Proves GC-37: a name that is given up and taken up again is never lost, though
// the server does not send again what did not change.
func TestResubscribe(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		keep := newRecord()
		xdsclient.Watch(sc.s, cdsType(), "other", plainly(keep))
		cancel := sc.watch(cdsType(), "x")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1", "other=1"))
		st.got()
		sc.r.expect(t, "x=1")
		named := true
		serve := func() {
			for _, r := range st.got() {
				has := strings.Contains(r, "x]")
				if has && !named { // only who has not just named it is sent x
					st.answer(cds("1", "B", "x=1", "other=1"))
				}
				named = has
			}
		}
		for i := range 10_000 {
			cancel()
			if i%3 == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel = sc.watch(cdsType(), "x")
			serve()
		}
		time.Sleep(time.Second)
		serve()
		time.Sleep(time.Minute)
		for _, line := range sc.r.take() {
			if line != "x=1" {
				t.Fatalf("the watcher was told %q", line)
			}
		}
	})
}

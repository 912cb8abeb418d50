package xdsclient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// counts is a Metrics that keeps everything by name.
type counts struct {
	mu sync.Mutex
	m  map[string]string
	n  map[string]uint64
}

func newCounts() *counts { return &counts{m: map[string]string{}, n: map[string]uint64{}} }

func (c *counts) key(s xdsclient.Stat, l xdsclient.Labels) string {
	api := ""
	if t, ok := xds.LookupType(l.TypeURL); ok {
		api = t.API + "."
	}
	return l.Server + "." + api + string(s)
}

func (c *counts) Add(s xdsclient.Stat, l xdsclient.Labels, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[c.key(s, l)] += n
}

func (c *counts) Set(s xdsclient.Stat, l xdsclient.Labels, v uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[c.key(s, l)] = v
}

func (c *counts) SetText(s xdsclient.Stat, l xdsclient.Labels, v string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[c.key(s, l)] = v
}

func (c *counts) Observe(s xdsclient.Stat, l xdsclient.Labels, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[c.key(s, l)] = fmt.Sprint(d >= 0)
}

func (c *counts) of(key string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[key]
}

// Proves XC-39, XC-29, GC-67: names and values of the statistics after a
// scripted stream.
func TestMetrics(t *testing.T) {
	c := newCounts()
	bubble(t, 1, xdsclient.Config{Metrics: c}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		st := sc.f[0].stream(1)
		if got := c.of("a.control_plane.connected_state"); got != 1 {
			t.Errorf("connected_state is %d on an open stream", got)
		}
		st.answer(cds("1", "A", "x=1"))
		st.answer(cds("2", "B", "x=bad"))
		st.answer(cds("3", "C", "x=1"))
		time.Sleep(16 * time.Second)
		sc.f[0].fail(errDown)
		st.end(errors.New("over"))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
	})
	want := map[string]uint64{
		"a.control_plane.connected_state": 0, "a.server_failure": 1,
		"a.CDS.update_attempt": 4, "a.CDS.update_success": 2, "a.CDS.update_rejected": 1, "a.CDS.update_failure": 1,
		"a.CDS.config_reload": 2, "a.CDS.init_fetch_timeout": 1,
		"a.CDS.resource_updates_valid": 2, "a.CDS.resource_updates_invalid": 1,
	}
	for _, known := range []string{"a.CDS.version", "a.CDS.update_time"} {
		if c.n[known] == 0 {
			t.Errorf("%s is not set", known)
		}
		delete(c.n, known)
	}
	if diff := cmp.Diff(want, c.n); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"a.CDS.version_text": "3", "a.CDS.update_duration": "true"}, c.m); diff != "" {
		t.Error(diff)
	}
}

// Proves XC-30: how often the rate limit held requests back is counted, and how
// many wait.
func TestRateLimitMetrics(t *testing.T) {
	c := newCounts()
	limit := &xdsclient.RateLimit{Burst: 1, PerSecond: 1}
	bubble(t, 1, xdsclient.Config{Metrics: c, RateLimit: limit}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		sc.watch(edsType(), "x")
		sc.f[0].stream(1)
		if limited, pending := c.of("a.control_plane.rate_limit_enforced"), c.of("a.control_plane.pending_requests"); limited != 1 || pending != 1 {
			t.Errorf("%d times limited, %d pending", limited, pending)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if pending := c.of("a.control_plane.pending_requests"); pending != 0 {
			t.Errorf("%d pending", pending)
		}
	})
}

// Proves GC-33: any number of users of one key share one stream, and the last to
// let go ends everything.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t}
		var p xdsclient.Pool
		made := 0
		get := func() (*xdsclient.Source, func() error) {
			s, release, err := p.Get("key", func() (*xdsclient.Source, error) {
				made++
				return xdsclient.NewSource(t.Context(), xdsclient.Config{Servers: []xdsclient.Server{to("a", f)}})
			})
			if err != nil {
				t.Fatal(err)
			}
			return s, release
		}
		var releases []func() error
		for i := range 100 {
			s, release := get()
			xdsclient.Watch(s, cdsType(), fmt.Sprint(i), plainly(newRecord()))
			releases = append(releases, release)
		}
		st := f.stream(1)
		for i, release := range releases {
			if !st.open() {
				t.Fatalf("the stream ended with %d users left", len(releases)-i)
			}
			if err := errors.Join(release(), release()); err != nil {
				t.Fatal(err)
			}
		}
		if st.open() || f.closed != 1 || made != 1 {
			t.Errorf("open %v, transport closed %d times, %d sources made", st.open(), f.closed, made)
		}
		_, release := get()
		if err := release(); err != nil || made != 2 {
			t.Errorf("%v, %d sources made", err, made)
		}
		if _, _, err := p.Get("bad", func() (*xdsclient.Source, error) { return nil, errDown }); !errors.Is(err, errDown) {
			t.Errorf("got %v", err)
		}
	})
}

// Proves GC-56: a conflated watcher does not hold up the stream, and catches up
// with the newest state.
func TestConflate(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		gate := make(chan struct{})
		slow := plainly(sc.r)
		inner := slow.Change
		slow.Change = func(u xdsclient.Update[string]) { <-gate; inner(u) }
		xdsclient.Watch(sc.s, cdsType(), "x", xdsclient.Conflate[string](slow))
		st := sc.f[0].stream(1)
		for i := range 100 {
			st.answer(cds(fmt.Sprint(i), fmt.Sprint(i), fmt.Sprintf("x=%d", i)))
		}
		st.answer(cds("bad", "bad", "x=bad"))
		close(gate)
		sc.r.expect(t, "x=0", "x=99", "x ~ rejected")
		st.answer(cds("gone", "gone"))
		sc.r.expect(t, "x: missing")
	})
}

// Proves GC-75: resources are read once; what does not exist is an error that
// names it, beside what was found; the end of the context ends the wait.
func TestFetch(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		type result struct {
			found map[string]string
			err   error
		}
		fetch := func(ctx context.Context, names ...string) <-chan result {
			done := make(chan result, 1)
			go func() {
				found, err := xdsclient.Fetch(ctx, sc.s, cdsType(), names...)
				done <- result{found, err}
			}()
			return done
		}
		ctx, cancel := context.WithCancel(sc.t.Context())
		cancelled, some := fetch(ctx, "slow"), fetch(sc.t.Context(), "x", "y", "x")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1"))
		cancel()
		if r := <-cancelled; !errors.Is(r.err, context.Canceled) {
			t.Errorf("got %+v", r)
		}
		r := <-some
		if diff := cmp.Diff(map[string]string{"x": "1"}, r.found); diff != "" {
			t.Error(diff)
		}
		if !errors.Is(r.err, xdsclient.ErrMissing) || !strings.Contains(r.err.Error(), `"y"`) {
			t.Errorf("got %v", r.err)
		}
		time.Sleep(2 * time.Second)
		if st.open() {
			t.Error("the stream is kept")
		}
		all := fetch(sc.t.Context(), xdsclient.Wildcard)
		sc.f[0].stream(2).answer(cds("2", "A", "x=1", "z=3"))
		r = <-all
		if diff := cmp.Diff(map[string]string{"x": "1", "z": "3"}, r.found); diff != "" || r.err != nil {
			t.Error(diff, r.err)
		}
		if r = <-fetch(sc.t.Context()); len(r.found) > 0 || r.err != nil {
			t.Errorf("fetching nothing: %+v", r)
		}
	})
}

// What a source knows can be read at any time, also by a watcher.
func TestStatus(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		xdsclient.Watch(sc.s, cdsType(), "x", xdsclient.Funcs[string]{Change: func(xdsclient.Update[string]) {
			sc.r.add("%d resources, %d servers", len(sc.s.Resources()), len(sc.s.Servers()))
		}})
		sc.watch(cdsType(), "y")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1", "!y"))
		sc.r.expect(t, "2 resources, 1 servers", "y: rejected")
		rs := sc.s.Resources()
		if !rs[0].Held || rs[0].Name != "x" || rs[0].Version != "1" || rs[0].Server != "a" || rs[0].Err != nil || rs[0].Body.GetTypeUrl() != xds.ClusterType {
			t.Errorf("x is %+v", rs[0])
		}
		if rs[1].Held || !errors.Is(rs[1].Err, xdsclient.ErrRejected) {
			t.Errorf("y is %+v", rs[1])
		}
		want := []xdsclient.ServerStatus{{Name: "a", Wanted: 2, Connected: true, Answered: true}}
		if diff := cmp.Diff(want, sc.s.Servers()); diff != "" {
			t.Error(diff)
		}
	})
}

// A closed source tells nobody, opens nothing and can be closed again; its end
// is also that of its context.
func TestClose(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		cancel := sc.watch(cdsType(), "x")
		st := sc.f[0].stream(1)
		if err := errors.Join(sc.s.Close(), sc.s.Close()); err != nil {
			t.Error(err)
		}
		if st.open() {
			t.Error("the stream is open")
		}
		sc.watch(cdsType(), "y")
		cancel()
		if _, err := xdsclient.Fetch(sc.t.Context(), sc.s, cdsType(), "z"); err == nil {
			t.Error("a closed source fetches")
		}
		time.Sleep(time.Hour)
		sc.r.expect(t)
		if sc.f[0].count() != 1 || sc.f[0].closed != 1 {
			t.Errorf("%d streams, closed %d times", sc.f[0].count(), sc.f[0].closed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t}
		ctx, cancel := context.WithCancel(t.Context())
		s, err := xdsclient.NewSource(ctx, xdsclient.Config{Servers: []xdsclient.Server{to("a", f)}})
		if err != nil {
			t.Fatal(err)
		}
		xdsclient.Watch(s, cdsType(), "x", plainly(newRecord()))
		st := f.stream(1)
		cancel()
		if st.open() {
			t.Error("the stream outlives the context")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Partly proves XC-43: what a parent waits for is asked for once more when it is
// told to, in both variants.
func TestAskAgain(t *testing.T) {
	for _, delta := range []bool{false, true} {
		bubble(t, 1, xdsclient.Config{Delta: delta}, func(sc *scene) {
			sc.watch(edsType(), "x")
			sc.watch(edsType(), "y")
			st := sc.f[0].stream(1)
			there := eds("1", "A", "x=1")
			there.Resources[0].Name, there.Resources[0].Version = "x", "1"
			st.answer(there)
			st.got()
			sc.r.take()
			sc.s.Await(xds.EndpointType, "x")
			sc.s.AskAgain(xds.EndpointType, "x")
			sc.s.AskAgain(xds.EndpointType, "nobody")
			time.Sleep(time.Second)
			st.expect(map[bool]string{false: "EDS v=1 n=A [x y]", true: "EDS +[x]"}[delta])
			st.answer(there)
			sc.r.expect(t, "x=1")
		})
	}
}

// Proves XC-41: what did not change is answered and not delivered, except to who
// waits for it.
func TestAwait(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.watch(edsType(), "x")
		st := sc.f[0].stream(1)
		st.answer(eds("1", "A", "x=1"))
		st.answer(eds("2", "B", "x=1"))
		st.expect("EDS [x] node", "EDS v=1 n=A [x]", "EDS v=2 n=B [x]")
		sc.r.expect(t, "x=1")
		sc.s.Await(xds.EndpointType, "x")
		sc.s.Await(xds.EndpointType, "nobody")
		st.answer(eds("3", "C", "x=1"))
		st.answer(eds("4", "D", "x=1"))
		sc.r.expect(t, "x=1")
	})
}

package xdsserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// lazy makes clusters when they are asked for, after a second: those whose names
// begin with "made". It fails for "broken" and never ends for "slow".
type lazy struct {
	t     *testing.T
	srv   *xdsserver.Server
	mu    sync.Mutex
	calls map[string]int
	ended map[string]error
}

func (l *lazy) called(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[name]
}

func (l *lazy) resolve(ctx context.Context, w xdsserver.Wanted) error {
	l.mu.Lock()
	l.calls[w.Name]++
	l.mu.Unlock()
	if w.Node.ID == "" || w.Group != xdsserver.DefaultGroup {
		l.t.Errorf("asked for %+v", w)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	switch {
	case strings.HasPrefix(w.Name, "made"):
		return l.srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{
			w.Group: {Set: []*xds.Resource{res(w.TypeURL, w.Name, "1")}},
		}})
	case strings.HasPrefix(w.Name, "r/"):
		return l.srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{
			w.Group: {Set: []*xds.Resource{virtualHost(l.t, "r/wild", "*.x")}},
		}})
	case w.Name == "broken":
		return errors.New("no luck")
	case w.Name == "slow":
		<-ctx.Done()
		l.mu.Lock()
		l.ended[w.Name] = ctx.Err()
		l.mu.Unlock()
	}
	return nil
}

func withLazy(t *testing.T, timeout time.Duration, test func(h *harness, l *lazy)) {
	t.Helper()
	l := &lazy{t: t, calls: map[string]int{}, ended: map[string]error{}}
	bubble(t, []xdsserver.Option{xdsserver.WithResolver(l.resolve, timeout)}, func(h *harness) {
		l.srv = h.srv
		h.apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{
			xdsserver.DefaultGroup: {Set: []*xds.Resource{res(xds.ClusterType, "there", "1")}},
		}})
		test(h, l)
	})
}

// TestResourcesAreMadeWhenAskedFor has a resolver bring clusters into being.
// Until it has decided, a name is neither found nor missing, and others are
// answered; clients that ask for one name share one call; what it takes too long
// for is missing, and sent when it comes after all.
// Proves XN-28.
func TestResourcesAreMadeWhenAskedFor(t *testing.T) {
	withLazy(t, 0, func(h *harness, l *lazy) {
		c, other := h.delta(), h.delta()
		c.subscribe(node("n"), xds.ClusterType, "made", "there", "broken", "slow", "nothing")
		r := c.must()
		if namesOf(r) != "[there]" || len(r.GetRemovedResources()) > 0 {
			t.Errorf("at once: %v, removed %v", namesOf(r), r.GetRemovedResources())
		}
		c.ack(r)
		other.subscribe(node("o"), xds.ClusterType, "made")
		other.silent("the name is being looked for")
		time.Sleep(time.Second)
		got, gone := map[string]bool{}, map[string]bool{}
		for r := c.got(); r != nil; r = c.got() {
			for _, x := range r.GetResources() {
				got[x.GetName()] = true
			}
			for _, n := range r.GetRemovedResources() {
				gone[n] = true
			}
			c.ack(r)
		}
		if fmt.Sprint(got, gone) != "map[made:true] map[broken:true nothing:true]" {
			t.Errorf("after a second: %v, removed %v", got, gone)
		}
		if r := other.must(); namesOf(r) != "[made]" {
			t.Errorf("the other client got %v", r)
		}
		if made, there := l.called("made"), l.called("there"); made != 1 || there != 0 {
			t.Errorf("%d calls for what is made, %d for what is there", made, there)
		}
		time.Sleep(xdsserver.DefaultResolveTimeout - time.Second)
		if r := c.must(); fmt.Sprint(r.GetRemovedResources()) != "[slow]" {
			t.Errorf("after the timeout: %v", r)
		} else {
			c.ack(r)
		}
		h.set(res(xds.ClusterType, "slow", "1"))
		if r := c.must(); namesOf(r) != "[slow]" {
			t.Errorf("later: %v", r)
		}
		c.subscribe(nil, xds.ClusterType, "nothing")
		c.silent("it is looked for again")
		time.Sleep(time.Second)
		if r := c.must(); fmt.Sprint(r.GetRemovedResources()) != "[nothing]" || l.called("nothing") != 2 {
			t.Errorf("again: %v, %d calls", r, l.called("nothing"))
		}
	})
}

// Partly proves XN-28: in state of the world, with the last client gone, and for
// virtual hosts.
func TestResolverOnOtherStreams(t *testing.T) {
	withLazy(t, time.Minute, func(h *harness, l *lazy) {
		s := h.sotw()
		s.subscribe(node("s"), xds.ClusterType, "made")
		s.silent("the name is being looked for")
		time.Sleep(time.Second)
		if r := s.must(); len(r.GetResources()) != 1 {
			t.Errorf("SotW got %v", r)
		} else {
			s.ack(r, "made")
		}

		v := h.deltaOn(vhdsDelta)
		v.subscribe(node("v"), xds.VirtualHostType, "r/a.x", "r/b.x")
		v.silent("the hosts are being looked for")
		time.Sleep(time.Second)
		if got := hostsIn(t, v.must()); got != "r/wild=r/a.x,r/b.x" {
			t.Errorf("VHDS got %q", got)
		}

		c := h.delta()
		c.subscribe(node("c"), xds.ClusterType, "slow")
		c.silent("it takes long")
		c.cancel()
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if !errors.Is(l.ended["slow"], context.Canceled) {
			t.Errorf("with the last client gone the call ended with %v", l.ended["slow"])
		}
	})
}

func TestResolverOptions(t *testing.T) {
	if _, err := xdsserver.New(xdsserver.WithResolver(nil, 0)); err == nil {
		t.Error("no function is accepted")
	}
	f := func(context.Context, xdsserver.Wanted) error { return nil }
	if _, err := xdsserver.New(xdsserver.WithResolver(f, -1)); err == nil {
		t.Error("a negative timeout is accepted")
	}
}

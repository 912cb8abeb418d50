package stats

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// pair is a family whose names another scope can have, too.
type pair struct {
	Rq   Counter `stat:"rq"`
	Open Gauge   `stat:"open"`
	Sub  Gauge   `stat:"b.open"`
}

// owned is the model of leases: who has which names. A generation is a prefix
// from its first lease to the sweep after the last.
type owned struct {
	r       *Registry
	leases  map[string][]*Lease // that have not ended
	ended   map[string][]*Lease // whose generation is over
	leaving map[string][]*Lease // that have ended, of a generation that is not over
	names   map[string]map[string]bool
	forever map[string]bool
}

// use registers something in one of several ways, and returns its names.
func (o *owned) use(s *Scope, way int) []string {
	at := func(names ...string) []string {
		for i := range names {
			names[i] = s.Prefix() + names[i]
		}
		return names
	}
	switch way {
	case 0:
		var p pair
		s.Fill(&p)
		return at("rq", "open", "b.open")
	case 1:
		o.r.Main().GaugeSet(s.Gauge("b.open"), 1)
		return at("b.open")
	case 2:
		o.r.Main().Inc(s.Scope("b").Counter("rq"))
		return at("b.rq")
	case 3:
		var p pair
		Fill(s, "b.", &p)
		return at("b.rq", "b.open", "b.b.open")
	default:
		o.r.Main().Inc(s.Counter("rq"))
		return at("rq")
	}
}

// step is one event.
func (o *owned) step(rt *rapid.T) {
	prefix := rapid.SampledFrom([]string{"a", "a.b", "a.b.b"}).Draw(rt, "prefix")
	live := o.leases[prefix]
	switch rapid.IntRange(0, 5).Draw(rt, "event") {
	case 0:
		o.leases[prefix] = append(live, o.r.Lease(prefix))
		if o.names[prefix] == nil {
			o.names[prefix] = map[string]bool{}
		}
	case 1:
		if len(live) > 0 {
			live[0].End()
			o.leases[prefix], o.leaving[prefix] = live[1:], append(o.leaving[prefix], live[0])
		}
	case 2:
		if rapid.IntRange(0, 9).Draw(rt, "keeps") == 0 {
			for _, n := range o.use(o.r.Scope(prefix), rapid.IntRange(1, 4).Draw(rt, "way")) {
				o.forever[n] = true
			}
		}
	case 3:
		o.check(rt)
	default:
		all := slices.Concat(live, o.leaving[prefix], o.ended[prefix])
		if len(all) == 0 {
			return
		}
		l := rapid.SampledFrom(all).Draw(rt, "lease")
		names := o.use(l.Scope, rapid.IntRange(0, 4).Draw(rt, "way"))
		if !slices.Contains(o.ended[prefix], l) {
			for _, n := range names {
				o.names[prefix][n] = true
			}
		}
	}
}

// check sweeps, and compares what is shown with what somebody has.
func (o *owned) check(rt *rapid.T) {
	o.r.sweep()
	want := maps.Clone(o.forever)
	for prefix, names := range o.names {
		if len(o.leases[prefix]) == 0 {
			o.ended[prefix] = append(o.ended[prefix], o.leaving[prefix]...)
			delete(o.leaving, prefix)
			delete(o.names, prefix)
			continue
		}
		maps.Copy(want, names)
	}
	s, err := o.r.Snapshot(rt.Context())
	if err != nil {
		rt.Fatal(err)
	}
	got := strings.Fields(listed(s))
	slices.Sort(got)
	if list := slices.Sorted(maps.Keys(want)); !slices.Equal(got, list) {
		rt.Fatalf("shown: %v\nhad by somebody: %v", got, list)
	}
	counted := 0
	for k := range kinds {
		counted += s.sizes.names[k]
	}
	if counted != len(got) {
		rt.Fatalf("%d names are counted, %d are listed", counted, len(got))
	}
}

// Names that several scopes have stay until the last of these has gone, and not
// longer: however leases come, go and overlap, what is shown is what somebody has.
func TestNamesThatAreShared(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, err := New(nil)
		if err != nil {
			rt.Fatal(err)
		}
		o := &owned{
			r: r, leases: map[string][]*Lease{}, ended: map[string][]*Lease{}, leaving: map[string][]*Lease{},
			names: map[string]map[string]bool{}, forever: map[string]bool{},
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			o.step(rt)
		}
		o.check(rt)
		for prefix, list := range o.leases {
			for _, l := range list {
				l.End()
			}
			o.leaving[prefix] = append(o.leaving[prefix], list...)
		}
		o.leases = map[string][]*Lease{}
		o.check(rt)
	})
}

// Whoever has a lease sees its names, with the values that it has set, whatever
// others do with the same scope and however often names are swept meanwhile.
func TestLeasesOfOneScopeAtOnce(t *testing.T) {
	r, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	const people, turns = 4, 60
	done := make(chan struct{})
	var sweeper, all sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				r.sweep()
			}
		}
	})
	for n := range people {
		all.Go(func() {
			for i := range turns {
				own := fmt.Sprintf("own%d", n)
				l := r.Lease("cluster.x")
				var p pair
				l.Fill(&p)
				r.Main().GaugeSet(l.Gauge(own), int64(i))
				s, err := r.Snapshot(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, name := range []string{"rq", "open", "b.open", own} {
					if !strings.Contains(listed(s)+" ", "cluster.x."+name+" ") {
						t.Errorf("with a lease %s is not shown: %s", name, listed(s))
					}
				}
				if got := s.Gauge(l.Gauge(own)); got != uint64(i) {
					t.Errorf("%s is %d, not %d", own, got, i)
				}
				l.End()
			}
		})
	}
	all.Wait()
	close(done)
	sweeper.Wait()
	r.sweep()
	if s, err := r.Snapshot(t.Context()); err != nil || listed(s) != "" {
		t.Errorf("without a lease: %s, %v", listed(s), err)
	}
}

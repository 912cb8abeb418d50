package stats

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// listed are the names of all statistics that are shown.
func listed(s *Snapshot) string {
	var names []string
	for _, refs := range [][]ref{s.byName().scalars, s.byName().histograms} {
		for _, x := range refs {
			names = append(names, s.metric(x).name())
		}
	}
	return strings.Join(names, " ")
}

// Names disappear with the last lease, come back at zero, and what still counts
// by the old ones is not seen.
func TestLeases(t *testing.T) {
	r, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	look := func() (string, *Snapshot) {
		if err := r.Hidden().Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := r.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return listed(s), s
	}
	r.Scope("other").Counter("stays")
	a, b := r.Lease("cluster.x"), r.Lease("cluster.x")
	old := a.Counter("c")
	if b.Counter("c") != old {
		t.Error("two leases of one scope differ")
	}
	g, h := a.Scope.Scope("sub").Gauge("g"), a.Histogram("h", Milliseconds)
	r.Main().Add(old, 5)
	a.End()
	a.End()
	if got, _ := look(); got != "cluster.x.c other.stays cluster.x.sub.g cluster.x.h" && got != "cluster.x.c cluster.x.sub.g other.stays cluster.x.h" {
		t.Errorf("with a lease: %s", got)
	}
	b.End()
	r.Main().Add(old, 1)
	r.Main().GaugeSet(g, 1)
	r.Main().Record(h, 1)
	late := a.Counter("late")
	if got, _ := look(); got != "other.stays" {
		t.Errorf("without: %s", got)
	}
	r.Main().Inc(late)
	r.Main().Inc(a.Counter("later"))
	got, _ := look()
	if got != "other.stays" {
		t.Errorf("what was registered too late: %s", got)
	}
	again := r.Lease("cluster.x")
	c := again.Counter("c")
	r.Main().Inc(c)
	got, s := look()
	if got != "cluster.x.c other.stays" || s.Counter(c) != 1 {
		t.Errorf("again: %s, %d", got, s.Counter(c))
	}
}

// However leases come and go, what is shown is what has one.
func TestLeasesAreWhatIsShown(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, err := New(nil)
		if err != nil {
			rt.Fatal(err)
		}
		held := map[string][]*Lease{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
			switch list := held[name]; {
			case rapid.Bool().Draw(rt, "look"):
				if err := r.Hidden().Reclaim(t.Context()); err != nil {
					rt.Fatal(err)
				}
				s, err := r.Snapshot(t.Context())
				if err != nil {
					rt.Fatal(err)
				}
				got := listed(s)
				for _, n := range []string{"a", "b", "c"} {
					if has := strings.Contains(got, n+".x"); has != (len(held[n]) > 0) {
						rt.Fatalf("%s is shown: %v, leases: %d", n, has, len(held[n]))
					}
				}
			case len(list) > 0 && rapid.Bool().Draw(rt, "end"):
				list[0].End()
				held[name] = list[1:]
			default:
				l := r.Lease(name)
				r.Main().Inc(l.Counter("x"))
				held[name] = append(list, l)
			}
		}
	})
}

package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Proves ST-01: however names are registered, one by one or by the struct, below
// whichever prefix, each is one statistic, listed once, in the order of the
// whole names.
func TestNamesAreListedInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, err := New(nil)
		if err != nil {
			rt.Fatal(err)
		}
		part := rapid.SampledFrom([]string{"a", "b", "ab", "a-", "ssl", "http2", "tx_reset", "handshake", "version", "A", "\u00e9"})
		path := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 0, 4).Draw(t, "path"), ".") })
		have := [kinds]map[string]uint32{{}, {}, {}}
		note := func(k kind, name string, id uint32) {
			if was, ok := have[k][name]; ok && was != id {
				rt.Fatalf("%s is %d and %d", name, was, id)
			}
			have[k][name] = id
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			prefix := path.Draw(rt, "prefix")
			s := r.Scope(prefix)
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				var u upstream
				Fill(s, "", &u)
				note(kindCounter, s.prefix+"upstream_rq_total", uint32(u.Total))
				note(kindCounter, s.prefix+"upstream_cx_overflow", uint32(u.Overflow))
				note(kindCounter, s.prefix+"ssl.handshake", uint32(u.Handshake))
				note(kindGauge, s.prefix+"membership_healthy", uint32(u.Healthy))
				note(kindGauge, s.prefix+"version", uint32(u.Version))
				note(kindGauge, s.prefix+"http2.tx_reset", uint32(u.Resets))
				note(kindHistogram, s.prefix+"upstream_cx_length_ms", uint32(u.Length))
				note(kindHistogram, s.prefix+"upstream_rq_per_cx", uint32(u.PerCx))
				note(kindHistogram, s.prefix+"http2.header_list_size", uint32(u.Size))
			case 1:
				name := cmp.Or(path.Draw(rt, "name"), "x")
				note(kindCounter, s.prefix+name, uint32(s.Counter(name)))
			case 2:
				name := cmp.Or(path.Draw(rt, "name"), "x")
				note(kindGauge, s.prefix+name, uint32(s.Gauge(name)))
			default:
				for i := range rapid.IntRange(1, 40).Draw(rt, "many") {
					name := fmt.Sprint("h", i)
					note(kindHistogram, s.prefix+name, uint32(s.Histogram(name, Bytes)))
				}
			}
		}
		checkListed(rt, r, have)
	})
}

func checkListed(t *rapid.T, r *Registry, have [kinds]map[string]uint32) {
	for i := range 4000 { // of no name, between the others
		r.main.Add(r.Hidden().Counter(), uint64(i)) //nolint:gosec // not negative
	}
	s, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := s.byName()
	for k, refs := range [][]ref{l.counters, l.gauges, l.histograms} {
		var got, want []string
		for _, x := range refs {
			got = append(got, fmt.Sprint(s.metric(x).name(), " ", x.id))
		}
		names := make([]string, 0, len(have[k]))
		for name := range have[k] {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			want = append(want, fmt.Sprint(name, " ", have[k][name]))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("kind %d lists\n%q, want\n%q", k, got, want)
		}
	}
	if !slices.IsSortedFunc(l.scalars, func(a, b ref) int { return strings.Compare(s.metric(a).name(), s.metric(b).name()) }) {
		t.Fatal("counters and gauges are not in one order")
	}
}

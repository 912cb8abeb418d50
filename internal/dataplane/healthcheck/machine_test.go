package healthcheck

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// verdicts are written as letters in the tables below.
func verdictOf(letter byte) Result {
	return map[byte]Result{
		'p': {Verdict: Passed}, 'd': {Verdict: Degraded}, 'f': {Verdict: Failed}, 'r': {Verdict: Retriable},
		'n': {Verdict: NetworkFailed}, 't': {Verdict: TimedOut}, 's': {Verdict: Passive, Excluded: true},
		'x': {Verdict: Failed, Excluded: true},
	}[letter]
}

// state is what a machine knows, as text.
func (m *Machine) state(s Step) string {
	var b strings.Builder
	for _, x := range []struct {
		set  bool
		text string
	}{
		{m.failed, "failed"},
		{!m.failed, "healthy"},
		{m.timedOut, "timeout"},
		{m.degraded, "degraded"},
		{m.excluded, "excluded"},
		{m.pending, "pending"},
		{s.Change == Pending, "(edge)"},
		{s.Change == Changed, "(changed)"},
		{s.First, "first"},
		{s.Added, "added"},
		{s.Ejected, "ejected"},
		{s.Demoted, "demoted"},
		{s.Promoted, "promoted"},
	} {
		if x.set {
			b.WriteString(" " + x.text)
		}
	}
	return b.String()[1:]
}

// Proves HK-02: a host has failed until its first check, whose success is enough and
// whose failure changes nothing; afterwards it takes three failures in a row to take
// it out and two successes to bring it back. An answer that says no is enough alone.
func TestTransitions(t *testing.T) {
	for _, tt := range []struct {
		name, results string
		pending       bool
		want          []string
	}{
		{"the first success", "p", false, []string{"healthy (changed) first added"}},
		{"a first failure, then a success", "npp", false, []string{"failed first", "failed (edge)", "healthy (changed) added"}},
		{"a failure between successes", "npnpp", false, []string{"failed first", "failed (edge)", "failed", "failed (edge)", "healthy (changed) added"}},
		{"failures count in a row", "pnnpnnn", false, []string{
			"healthy (changed) first added", "healthy (edge)", "healthy (edge)", "healthy",
			"healthy (edge)", "healthy (edge)", "failed (changed) ejected",
		}},
		{"an answer that says no", "pf", false, []string{"healthy (changed) first added", "failed (changed) ejected"}},
		{"a retriable answer counts", "prrr", false, []string{"healthy (changed) first added", "healthy (edge)", "healthy (edge)", "failed (changed) ejected"}},
		{"timeouts are flagged while it has failed", "ptttntpp", false, []string{
			"healthy (changed) first added", "healthy (edge)", "healthy (edge)", "failed timeout (changed) ejected",
			"failed", "failed timeout", "failed timeout (edge)", "healthy (changed) added",
		}},
		{"a first timeout", "t", false, []string{"failed timeout first"}},
		{"degraded", "pddp", false, []string{
			"healthy (changed) first added", "healthy degraded (changed) demoted", "healthy degraded", "healthy (changed) promoted",
		}},
		{"degraded while it is coming back", "nddd", false, []string{
			"failed first", "failed degraded (edge) demoted", "healthy degraded (changed) added", "healthy degraded",
		}},
		{"what it says of itself", "pspp", false, []string{
			"healthy (changed) first added", "failed excluded (changed) ejected", "failed excluded (edge)", "healthy (changed) added",
		}},
		{"exclusion of one that has failed", "px", false, []string{"healthy (changed) first added", "failed excluded (changed) ejected"}},
		{"pending until the first failure", "nn", true, []string{"failed (changed) first", "failed"}},
		{"pending until the first success", "p", true, []string{"healthy (changed) first added"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMachine(3, 2, tt.pending)
			for i := range len(tt.results) {
				if got := m.state(m.Take(verdictOf(tt.results[i]))); got != tt.want[i] {
					t.Errorf("%s: after %q %q, want %q", tt.results, tt.results[:i+1], got, tt.want[i])
				}
			}
		})
	}
}

// Proves HK-02 for thresholds of any size: a host changes only by the first result,
// by enough results of one kind in a row, or by an answer that says no.
func TestChangesNeedEnoughResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		up, down := rapid.Uint32Range(0, 5).Draw(t, "healthy"), rapid.Uint32Range(0, 5).Draw(t, "unhealthy")
		m := NewMachine(down, up, false)
		healthy, run, last := false, uint32(0), byte(0)
		for i := range rapid.IntRange(1, 60).Draw(t, "results") {
			r := rapid.SampledFrom([]byte("pdfrnts")).Draw(t, "result")
			passes := r == 'p' || r == 'd'
			if i == 0 || passes != (last == 'p') {
				run = 0
			}
			run++
			last = 'n'
			if passes {
				last = 'p'
			}
			switch {
			case passes && !healthy:
				healthy = i == 0 || run >= max(up, 1)
			case !passes && healthy:
				healthy = r != 'f' && r != 's' && run < max(down, 1)
			}
			s := m.Take(verdictOf(r))
			if m.failed == healthy {
				t.Fatalf("result %d (%c): failed %v, want healthy %v", i, r, m.failed, healthy)
			}
			if s.Ejected && s.Change != Changed || s.Added && s.Change != Changed || s.First != (i == 0) {
				t.Fatalf("step %+v", s)
			}
		}
	})
}

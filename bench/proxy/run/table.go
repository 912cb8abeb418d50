package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// Values that the load program reports and that are not a row of the table.
const (
	other           = "other"
	cpuMicroseconds = "cpu_us"
)

// results are measurements to look things up in.
type results []raw.Line

// median is that of a value over the rounds of a proxy in a suite; NaN if
// there is none.
func (r results) median(suite, proxy, value string) float64 {
	var v []float64
	for _, l := range r {
		if x, ok := l.Values[value]; ok && l.Suite == suite && l.Proxy == proxy {
			v = append(v, x)
		}
	}
	return median(v)
}

// ratio is the median over the rounds of one proxy's value divided by that of
// another in the same round, so that what changes from round to round cancels.
func (r results) ratio(suite, proxy, peer, value string) float64 {
	return median(r.ratios(suite, proxy, peer, value))
}

// ratios are those of each round, in no order.
func (r results) ratios(suite, proxy, peer, value string) []float64 {
	of := func(who string, round int) float64 {
		for _, l := range r {
			if x, ok := l.Values[value]; ok && l.Suite == suite && l.Proxy == who && l.Round == round {
				return x
			}
		}
		return math.NaN()
	}
	var v []float64
	for _, l := range r {
		if l.Suite != suite || l.Proxy != proxy {
			continue
		}
		if q := of(proxy, l.Round) / of(peer, l.Round); !math.IsNaN(q) && !math.IsInf(q, 0) {
			v = append(v, q)
		}
	}
	return v
}

// rounds is how many rounds a suite has had.
func (r results) rounds(suite string) int {
	n := 0
	for _, l := range r {
		if l.Suite == suite {
			n = max(n, l.Round)
		}
	}
	return n
}

// worstOther is the most that others used of the cores in any measurement.
func (r results) worstOther() float64 {
	most := 0.
	for _, l := range r {
		most = max(most, l.Values[other])
	}
	return most
}

// title names a proxy in a table's head.
func title(proxy string) string {
	return map[string]string{nginx: "nginx", haproxy: "HAProxy", envoy: "Envoy", xebec: "Xebec"}[proxy]
}

// writeTable writes the comparison of the proxies as a Markdown table.
func writeTable(out io.Writer, chosen []suite, lines []raw.Line) {
	r := results(lines)
	if !slices.ContainsFunc(chosen, func(s suite) bool { return r.rounds(s.name) > 0 }) {
		return
	}
	fmt.Fprint(out, "| | |")
	for _, p := range programs() {
		fmt.Fprintf(out, " %s |", title(p.name))
	}
	fmt.Fprint(out, " Xebec ÷ nginx | ÷ HAProxy | ÷ Envoy | goal | |\n|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|\n")
	for _, s := range chosen {
		if r.rounds(s.name) == 0 {
			continue
		}
		for _, w := range s.rows {
			w.write(out, s.name, r)
		}
	}
	fmt.Fprintf(out, "\nRounds: %d. Others used at most %.2f of a core meanwhile.\n", r.rounds(lines[0].Suite), r.worstOther())
}

func (w row) write(out io.Writer, suite string, r results) {
	fmt.Fprintf(out, "| %s | %s |", w.title, w.unit)
	for _, p := range programs() {
		fmt.Fprintf(out, " %s |", number(r.median(suite, p.name, w.value)))
	}
	for _, peer := range []string{nginx, haproxy, envoy} {
		fmt.Fprintf(out, " %s |", number(r.ratio(suite, xebec, peer, w.value)))
	}
	var goals, verdicts []string
	for _, g := range w.goals {
		goals = append(goals, g.String(w.unit))
		verdicts = append(verdicts, g.verdict(g.measured(r, suite, w.value)))
	}
	fmt.Fprintf(out, " %s | %s |\n", strings.Join(goals, ", "), joint(verdicts))
}

// joint is one word for several verdicts if they agree.
func joint(verdicts []string) string {
	if len(slices.Compact(slices.Clone(verdicts))) == 1 {
		return verdicts[0]
	}
	return strings.Join(verdicts, ", ")
}

// String is the goal as the table says it.
func (g goal) String(unit string) string {
	s := fmt.Sprintf("≥ %g", g.least)
	if g.most > 0 {
		s = fmt.Sprintf("≤ %g", g.most)
	}
	if g.peer == "" {
		return s + " " + unit
	}
	return s + " × " + title(g.peer)
}

func (g goal) measured(r results, suite, value string) float64 {
	if g.peer == "" {
		return r.median(suite, xebec, value)
	}
	return r.ratio(suite, xebec, g.peer, value)
}

// verdict says whether a value keeps to the goal, or that there is none.
func (g goal) verdict(v float64) string {
	switch {
	case math.IsNaN(v):
		return "not measured"
	case v >= g.least && (g.most == 0 || v <= g.most):
		return "met"
	}
	return "**missed**"
}

// writeComparisons writes what features cost Xebec as a Markdown table.
func writeComparisons(out io.Writer, compared []comparison, lines []raw.Line) {
	r := results(lines)
	if !slices.ContainsFunc(compared, func(c comparison) bool { return r.rounds(c.name) > 0 }) {
		return
	}
	fmt.Fprint(out, "\n| Xebec with | CPU µs per request | without | ratio | goal | |\n|---|--:|--:|--:|---|---|\n")
	for _, c := range compared {
		if r.rounds(c.name) == 0 {
			continue
		}
		ratio := r.ratio(c.name, c.with.name, c.plain.name, cpuMicroseconds)
		limit, verdict := "", ""
		if c.most > 0 {
			limit, verdict = fmt.Sprintf("≤ %g", c.most), goal{most: c.most}.verdict(ratio)
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", c.title,
			number(r.median(c.name, c.with.name, cpuMicroseconds)), number(r.median(c.name, c.plain.name, cpuMicroseconds)),
			number(ratio), limit, verdict)
	}
}

// number formats three significant digits, thousands as k, and what there is
// not as a dash.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 100_000:
		return fmt.Sprintf("%.0fk", v/1000)
	case a >= 10_000:
		return fmt.Sprintf("%.1fk", v/1000)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// median of no values is NaN.
func median(v []float64) float64 {
	n := len(v)
	if n == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(n-1)/2] + v[n/2]) / 2
}

package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/xebec-proxy/xebec/bench/controlplane/report"
)

// row is a line of a scenario's table: a number that each run yields, or
// several.
type row struct {
	title string
	// values are one run's; nil if the run has none.
	values func(report.Load) []float64
	pick   func([]float64) float64
}

func rows() []row {
	out := []row{
		{"first state on all streams, ms", one(func(r report.Load) float64 { return r.First.Milliseconds }), median},
		{"— server CPU, ms", one(func(r report.Load) float64 { return r.First.ServerCPU }), median},
		{"— allocated, MB", one(func(r report.Load) float64 { return r.First.AllocMB }), median},
		{"— received by all streams, MB", one(func(r report.Load) float64 { return r.First.Megabytes }), median},
	}
	for _, k := range []struct{ key, title string }{{"cds", "cluster"}, {"eds", "assignment"}} {
		out = append(out, changeRows(k.title, func(r report.Load) (report.Change, bool) {
			c, ok := r.Changes[k.key]
			return c, ok
		})...)
	}
	out = append(out,
		row{"restart: all streams answered, ms", restarted(func(r report.Restart) float64 { return r.Milliseconds }), median},
		row{"— server CPU, ms", restarted(func(r report.Restart) float64 { return r.ServerCPU }), median},
		row{"— allocated, MB", restarted(func(r report.Restart) float64 { return r.AllocMB }), median},
		row{"— resources sent again, per stream", restarted(func(r report.Restart) float64 { return r.Resent }), median},
	)
	out = append(out, changeRows("cluster, after the restart,", func(r report.Load) (report.Change, bool) {
		if r.Restart == nil {
			return report.Change{}, false
		}
		return r.Restart.Change, true
	})...)
	return append(out,
		row{"memory, peak, MB", one(func(r report.Load) float64 { return r.PeakMB }), median},
		row{"memory at rest, MB", one(func(r report.Load) float64 { return r.IdleMB }), median},
		row{"load program's CPU for the first state, ms", one(func(r report.Load) float64 { return r.First.LoadCPU }), median},
		row{"cores used by others, at most", one(disturbance), slices.Max[[]float64]},
	)
}

func changeRows(what string, of func(report.Load) (report.Change, bool)) []row {
	from := func(get func(report.Change) []float64) func(report.Load) []float64 {
		return func(r report.Load) []float64 {
			if c, ok := of(r); ok {
				return get(c)
			}
			return nil
		}
	}
	scalar := func(get func(report.Change) float64) func(report.Load) []float64 {
		return from(func(c report.Change) []float64 { return []float64{get(c)} })
	}
	last := from(func(c report.Change) []float64 { return c.Last })
	return []row{
		{"one " + what + " changes: last stream has it, ms, median", last, median},
		{"— worst", last, slices.Max[[]float64]},
		{"— middle stream, ms, median", from(func(c report.Change) []float64 { return c.Median }), median},
		{"— server CPU, ms", scalar(func(c report.Change) float64 { return c.ServerCPU }), median},
		{"— allocated, MB", scalar(func(c report.Change) float64 { return c.AllocMB }), median},
		{"— resources that brought it, per stream", scalar(func(c report.Change) float64 { return c.Resources }), median},
		{"— bytes, per stream", scalar(func(c report.Change) float64 { return c.Bytes }), median},
	}
}

func one(get func(report.Load) float64) func(report.Load) []float64 {
	return func(r report.Load) []float64 { return []float64{get(r)} }
}

func restarted(get func(report.Restart) float64) func(report.Load) []float64 {
	return func(r report.Load) []float64 {
		if r.Restart == nil {
			return nil
		}
		return []float64{get(*r.Restart)}
	}
}

// value is a row's number for a server in a scenario, over all repetitions;
// NaN if there is none.
func (w row) value(all []measurement, scenario, server string) float64 {
	var v []float64
	for _, m := range all {
		if m.Scenario == scenario && m.Server == server {
			v = append(v, w.values(m.Load)...)
		}
	}
	if len(v) == 0 {
		return math.NaN()
	}
	return w.pick(v)
}

// writeTables writes a Markdown table for each scenario: the servers, and how
// many times the first one's value the others' are.
func writeTables(out io.Writer, chosen []scenario, all []measurement) {
	for _, s := range chosen {
		if !slices.ContainsFunc(all, func(m measurement) bool { return m.Scenario == s.name }) {
			continue
		}
		fmt.Fprintf(out, "### %s: %s\n\n|", s.name, s.title)
		for _, v := range servers() {
			fmt.Fprintf(out, " | %s", v.name)
		}
		for _, v := range servers()[1:] {
			fmt.Fprintf(out, " | %s ÷ %s", v.name, servers()[0].name)
		}
		fmt.Fprintf(out, " |\n|---|")
		for range 2*len(servers()) - 1 {
			fmt.Fprint(out, "--:|")
		}
		fmt.Fprintln(out)
		for _, w := range rows() {
			w.write(out, s.name, all)
		}
		fmt.Fprintln(out)
	}
}

func (w row) write(out io.Writer, scenario string, all []measurement) {
	var cells []float64
	for _, v := range servers() {
		cells = append(cells, w.value(all, scenario, v.name))
	}
	if !slices.ContainsFunc(cells, func(v float64) bool { return !math.IsNaN(v) }) {
		return
	}
	fmt.Fprintf(out, "| %s |", w.title)
	for _, c := range cells {
		fmt.Fprintf(out, " %s |", number(c))
	}
	for _, c := range cells[1:] {
		fmt.Fprintf(out, " %s |", number(c/cells[0]))
	}
	fmt.Fprintln(out)
}

// number formats three significant digits, and what there is not as a dash.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1 || a == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

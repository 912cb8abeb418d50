package main

import (
	"fmt"
	"io"
	"math"

	"github.com/xebec-proxy/xebec/bench/controlplane/report"
)

// goal is something Xebec sets itself: a value that must not exceed a limit.
type goal struct {
	text  string
	value func(of) float64
	limit float64
}

// of finds the median of a value over the runs of a server in a scenario; NaN
// if there are none.
type of func(scenario, server string, values func(report.Load) []float64) float64

func goals() []goal {
	cds := func(get func(report.Change) []float64) func(report.Load) []float64 { return changed("cds", get) }
	eds := func(get func(report.Change) []float64) func(report.Load) []float64 { return changed("eds", get) }
	last := func(c report.Change) []float64 { return c.Last }
	cpu := func(c report.Change) []float64 { return []float64{c.ServerCPU} }
	alloc := func(c report.Change) []float64 { return []float64{c.AllocMB} }
	held := func(c report.Change) []float64 { return []float64{c.Resources} }
	firstMS := one(func(r report.Load) float64 { return r.First.Milliseconds })
	firstCPU := one(func(r report.Load) float64 { return r.First.ServerCPU })
	peak := one(func(r report.Load) float64 { return r.PeakMB })
	ratio := func(scenario, peer string, v func(report.Load) []float64) func(of) float64 {
		return func(m of) float64 { return m(scenario, "xebec", v) / m(scenario, peer, v) }
	}
	own := func(scenario string, v func(report.Load) []float64) func(of) float64 {
		return func(m of) float64 { return m(scenario, "xebec", v) }
	}
	return []goal{
		{"cds-5000: the last of 500 streams has the change after so many ms", own("cds-5000", cds(last)), 10},
		{"cds-5000: MB allocated for a change", own("cds-5000", cds(alloc)), 5},
		{"cds-50000: the last of 500 streams has the change after so many ms", own("cds-50000", cds(last)), 10},
		{"cds-50000: MB allocated for a change", own("cds-50000", cds(alloc)), 5},
		{"eds-delta: server CPU for an assignment's change ÷ gcp-snapshot", ratio("eds-delta", "gcp-snapshot", eds(cpu)), 1. / 20},
		{"eds-sotw: resources in the response to an assignment's change", own("eds-sotw", eds(held)), 1},
		{"eds-delta: time to first state ÷ gcp-linear", ratio("eds-delta", "gcp-linear", firstMS), .5},
		{"eds-delta: server CPU for first state ÷ gcp-linear", ratio("eds-delta", "gcp-linear", firstCPU), .5},
		{"eds-sotw: time to first state ÷ gcp-linear", ratio("eds-sotw", "gcp-linear", firstMS), .5},
		{"eds-sotw: server CPU for first state ÷ gcp-linear", ratio("eds-sotw", "gcp-linear", firstCPU), .5},
		{"eds-delta: peak memory ÷ gcp-linear", ratio("eds-delta", "gcp-linear", peak), .5},
		{"eds-sotw: peak memory ÷ gcp-linear", ratio("eds-sotw", "gcp-linear", peak), .5},
		{"streams-10000: streams without the first state or a change (not measured if any failed)", func(m of) float64 {
			return m("streams-10000", "xebec", one(func(r report.Load) float64 { return 10000 - float64(r.Streams) }))
		}, 0},
		{"stuck-2: last of the healthy streams ÷ the same without stuck ones", func(m of) float64 {
			return m("stuck-2", "xebec", cds(last)) / m("stuck-0", "xebec", cds(last))
		}, 1.5},
		{"restart: resources sent again, per stream", own("restart", restarted(func(r report.Restart) float64 { return r.Resent })), 0},
	}
}

func changed(kind string, get func(report.Change) []float64) func(report.Load) []float64 {
	return func(r report.Load) []float64 {
		if c, ok := r.Changes[kind]; ok {
			return get(c)
		}
		return nil
	}
}

// verdict says whether a value keeps to the limit, or that it was not measured.
func (g goal) verdict(v float64) string {
	switch {
	case math.IsNaN(v):
		return "not measured"
	case v <= g.limit:
		return "met"
	}
	return "MISSED"
}

func writeGoals(out io.Writer, all []measurement) {
	find := func(scenario, server string, values func(report.Load) []float64) float64 {
		return row{values: values, pick: median}.value(all, scenario, server)
	}
	fmt.Fprint(out, "### Goals\n\n| goal | measured | at most | |\n|---|--:|--:|---|\n")
	for _, g := range goals() {
		v := g.value(find)
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", g.text, number(v), number(g.limit), g.verdict(v))
	}
}

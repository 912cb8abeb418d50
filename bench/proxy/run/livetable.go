package main

import (
	"fmt"
	"io"
	"math"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// mostUnmoved is by how much changes may move the 99th percentile.
const mostUnmoved = 1.1

// writeChanges writes what changes of the configuration do to requests, as a
// Markdown table.
func writeChanges(out io.Writer, lines []raw.Line) {
	r := results(lines)
	if r.rounds(changing) == 0 {
		return
	}
	fmt.Fprintf(out, "\n| %d requests/s | | Envoy | with %d changes/s | ratio | Xebec | with %d changes/s | ratio | goal | |\n", liveRate, changesPerSecond, changesPerSecond)
	fmt.Fprint(out, "|---|---|--:|--:|--:|--:|--:|--:|---|---|\n")
	for _, w := range []row{
		{title: "p50", value: p50, unit: "µs"},
		{title: "p99", value: p99, unit: "µs"},
		{title: "CPU per request", value: cpuMicroseconds, unit: "µs"},
		{title: "CPU", value: "busy", unit: "cores"},
		{title: "changes made", value: changing, unit: "1/s"},
	} {
		fmt.Fprintf(out, "| %s | %s |", w.title, w.unit)
		for _, p := range []string{envoy, xebec} {
			fmt.Fprintf(out, " %s | %s | %s |", number(r.median(changing, p+still, w.value)), number(r.median(changing, p, w.value)), number(r.ratio(changing, p, p+still, w.value)))
		}
		if w.value == p99 {
			g := goal{most: mostUnmoved}
			fmt.Fprintf(out, " %s × without | %s |\n", g.String(""), g.verdict(r.ratio(changing, xebec, xebec+still, p99)))
			continue
		}
		fmt.Fprintln(out, "  |  |")
	}
	fmt.Fprint(out, "| failed, in all | |")
	for _, p := range []string{envoy, xebec} {
		fmt.Fprintf(out, " %s | %s | |", number(r.total(changing, p+still, "wrong")), number(r.total(changing, p, "wrong")))
	}
	lost := r.total(changing, xebec, "wrong")
	verdict := "met"
	switch {
	case math.IsNaN(lost):
		verdict = "not measured"
	case lost > 0:
		verdict = "**missed**"
	}
	fmt.Fprintf(out, " 0 | %s |\n", verdict)
	if p := xebec + elsewhere; r.ratio(changing, p, xebec+still, p99) > 0 {
		fmt.Fprintf(out, "\nWhile the configuration of another proxy changes as often, Xebec's p50 is %s µs (%s × without) and its p99 %s µs (%s × without).\n",
			number(r.median(changing, p, p50)), number(r.ratio(changing, p, xebec+still, p50)),
			number(r.median(changing, p, p99)), number(r.ratio(changing, p, xebec+still, p99)))
	}
}

// total is the sum of a value over the rounds; NaN if there is none.
func (r results) total(suite, proxy, value string) float64 {
	sum := math.NaN()
	for _, l := range r {
		if x, ok := l.Values[value]; ok && l.Suite == suite && l.Proxy == proxy {
			if math.IsNaN(sum) {
				sum = 0
			}
			sum += x
		}
	}
	return sum
}

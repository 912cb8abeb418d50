package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// writeBefore writes how Xebec compares with another build of it, if there was
// one, as a Markdown table: the ratios' quartiles say how much is chance.
func writeBefore(out io.Writer, chosen []suite, lines []raw.Line) {
	r := results(lines)
	if !slices.ContainsFunc(lines, func(l raw.Line) bool { return l.Proxy == before }) {
		return
	}
	fmt.Fprint(out, "\n| | | before | Xebec | Xebec ÷ before | a quarter of the rounds below | above | rounds |\n|---|---|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range chosen {
		for _, w := range s.rows {
			v := r.ratios(s.name, xebec, before, w.value)
			if len(v) == 0 {
				continue
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s | %.3f | %.3f | %.3f | %d |\n", w.title, w.unit,
				number(r.median(s.name, before, w.value)), number(r.median(s.name, xebec, w.value)),
				median(v), quantile(v, 0.25), quantile(v, 0.75), len(v))
		}
	}
}

// quantile is the value below which a share of the values lie; NaN of none.
func quantile(v []float64, share float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	at := share * float64(len(v)-1)
	low := int(at)
	high := min(low+1, len(v)-1)
	return v[low] + (at-float64(low))*(v[high]-v[low])
}

package main

import (
	"fmt"
	"io"
	"slices"
)

// row is a line of the table.
type row struct {
	what  string
	value func(s sample) float64
	form  string
	goal  float64 // of Envoy's; 0 for none
	most  float64 // the goal, if it is not of Envoy's
}

func rows() []row {
	const mb = 1 << 20
	return []row{
		{"until ready, s", func(s sample) float64 { return s.load.Seconds() }, "%.2f", 0.5, 0},
		{"— CPU, s", func(s sample) float64 { return s.loadCPU.Seconds() }, "%.2f", 0.5, 0},
		{"CPU until at rest, s", func(s sample) float64 { return s.settledCPU.Seconds() }, "%.2f", 0.5, 0},
		{"resident memory at rest, MB", func(s sample) float64 { return float64(s.resident) / mb }, "%.0f", 0.5, 0},
		{"— at most, MB", func(s sample) float64 { return float64(s.peak) / mb }, "%.0f", 0.5, 0},
		{"CPU of a second at rest, ms", func(s sample) float64 { return ms(s.idle) }, "%.2f", 0, 0},
		{"one endpoint changes: CPU, ms", func(s sample) float64 { return ms(s.change) }, "%.3f", 0, changeGoal},
		{"— with collections and all that comes seldom, ms", func(s sample) float64 { return ms(s.together) }, "%.3f", 0, 0},
	}
}

// changeGoal is what a change may cost Xebec, ms.
const changeGoal = 0.3

// write prints medians, their ratio and whether the goals were met.
func write(w io.Writer, o *options, samples map[string][]sample) {
	fmt.Fprintf(w, "%d clusters and assignments of %d endpoints over delta ADS, %d workers, %d rounds\n\n", o.clusters, o.endpoints, o.workers, o.rounds)
	fmt.Fprintln(w, "| | Envoy | Xebec | Xebec ÷ Envoy | goal | |\n|---|--:|--:|--:|---|---|")
	for _, r := range rows() {
		x, have := median(samples["Xebec"], r.value)
		e, beside := median(samples["Envoy"], r.value)
		envoy, xebec, ratio, goal, met := "–", "–", "–", "", ""
		if have {
			xebec = fmt.Sprintf(r.form, x)
		}
		if beside {
			envoy = fmt.Sprintf(r.form, e)
		}
		if have && beside && e > 0 {
			ratio = fmt.Sprintf("%.2f", x/e)
		}
		switch {
		case r.goal > 0:
			goal = fmt.Sprintf("≤ %g × Envoy", r.goal)
			if have && beside {
				met = verdict(x <= r.goal*e)
			}
		case r.most > 0:
			goal = fmt.Sprintf("≤ %g", r.most)
			if have {
				met = verdict(x <= r.most)
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", r.what, envoy, xebec, ratio, goal, met)
	}
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}

func median(list []sample, value func(sample) float64) (float64, bool) {
	if len(list) == 0 {
		return 0, false
	}
	var all []float64
	for _, s := range list {
		all = append(all, value(s))
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2, true
}

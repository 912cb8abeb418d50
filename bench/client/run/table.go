package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// measure is one figure of a client.
type measure int

const (
	watchRequests measure = iota + 1
	watchSent
	watchReceived
	watchTime
	watchCPU
	changeCPU
	changeSent
	changeReceived
	heapCluster
	heapChanged
	heapPair
	heapBare
	goroutines
)

// row is a line of the table.
type row struct {
	measure
	text string
	// goals are what Xebec's clients must not exceed, by their names.
	goals map[string]float64
	// notes are the footnotes of a client's figure, or of its not having one.
	notes map[string]string
}

func both(limit float64) map[string]float64 {
	return map[string]float64{xebecSotW: limit, xebecDelta: limit}
}

// rows are the lines, for so many clusters.
func rows(clusters int) []row {
	const gcp, grpcGo = "go-control-plane", "grpc-go"
	one := map[string]string{gcp: "1"}
	own := map[string]string{gcp: "2"}
	n := fmt.Sprintf("%d watches", clusters)
	all := []row{
		{measure: watchRequests, text: n + ": requests", goals: both(5), notes: one},
		{measure: watchSent, text: "— sent, MB", goals: both(.5), notes: one},
		{measure: watchReceived, text: "— received, MB", notes: one},
		{measure: watchTime, text: "— time until each has a value, ms", notes: one},
		{measure: watchCPU, text: "— client CPU, ms", notes: one},
		{measure: changeCPU, text: "one cluster changes: client CPU, ms", goals: map[string]float64{xebecSotW: 1, xebecDelta: .1}, notes: own},
		{measure: changeSent, text: "— sent, KB"},
		{measure: changeReceived, text: "— received, KB"},
		{measure: heapCluster, text: "at rest: heap for a cluster, KB", notes: own},
		{measure: heapChanged, text: "— after the changes, KB", notes: own},
		{measure: heapPair, text: "at rest: heap for a cluster with five endpoints, KB", goals: both(4), notes: one},
		{measure: heapBare, text: "— without what was decoded, KB", notes: map[string]string{gcp: "1", grpcGo: "3"}},
		{measure: goroutines, text: "— goroutines more than with one cluster", goals: both(0), notes: one},
	}
	for i, w := range all {
		all[i].notes = maps.Clone(w.notes)
		if w.measure != changeCPU && w.measure != changeSent && w.measure != changeReceived {
			all[i].notes[streamSotW], all[i].notes[streamDelta] = "4", "4"
		}
	}
	return all
}

const footnotes = `
¹ go-control-plane's client has no watches: it asks for everything of one type, by wildcard, which assignments do not have.
² It hands over responses as they came. To find the change and decode it is its user's; counted here is the least that does so.
³ What it keeps of a resource is its own choice: an excerpt and the encoded resource. Xebec's type can have any decoder; else it is
the message as Envoy's API has it, which is what is kept in the line above.
⁴ No client: a gRPC stream with the generated messages that acknowledges each response, and does nothing with it.
`

// write prints the table.
func write(out io.Writer, o *options, chosen []contender, r *results) {
	fmt.Fprint(out, "| |")
	for _, c := range chosen {
		fmt.Fprintf(out, " %s |", c.name)
	}
	fmt.Fprintf(out, " goal | |\n|---|%s---|---|\n", strings.Repeat("--:|", len(chosen)))
	for _, w := range rows(o.clusters) {
		fmt.Fprintf(out, "| %s |", w.text)
		for _, c := range chosen {
			fmt.Fprintf(out, " %s%s |", number(r.median(c.name, w.measure)), superscript(w.notes[c.name]))
		}
		goal, verdict := w.judge(chosen, r)
		fmt.Fprintf(out, " %s | %s |\n", goal, verdict)
	}
	if slices.ContainsFunc(chosen, func(c contender) bool { return c.wildcard || c.stream }) {
		fmt.Fprint(out, footnotes)
	}
	fmt.Fprintf(out, "\nMedians of %d rounds, %d changes each; other processes used at most %.2g cores during a measurement.\n",
		r.rounds, o.changes, r.others)
}

// judge says what the goals of a row are and whether they were met.
func (w row) judge(chosen []contender, r *results) (goal, verdict string) {
	var goals, verdicts []string
	for _, c := range chosen {
		limit, ok := w.goals[c.name]
		if !ok {
			continue
		}
		goals = append(goals, "≤ "+number(limit))
		switch v := r.median(c.name, w.measure); {
		case math.IsNaN(v):
			verdicts = append(verdicts, "not measured")
		case v <= limit:
			verdicts = append(verdicts, "met")
		default:
			verdicts = append(verdicts, "**missed**")
		}
	}
	return strings.Join(slices.Compact(goals), ", "), strings.Join(verdicts, ", ")
}

// median of a client's figure over the rounds; NaN if it has none.
func (r *results) median(name string, m measure) float64 {
	var all []float64
	for _, s := range r.samples[name] {
		if v, ok := s.values[m]; ok {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}

// number shows three digits, and a dash for what was not measured.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.Abs(v) >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	case math.Abs(v) >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func superscript(note string) string {
	return strings.NewReplacer("1", "¹", "2", "²", "3", "³", "4", "⁴").Replace(note)
}

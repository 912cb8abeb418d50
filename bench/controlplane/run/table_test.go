package main

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/bench/controlplane/report"
)

func runOf(scenario, server string, first float64, last ...float64) measurement {
	return measurement{Scenario: scenario, Server: server, Load: report.Load{
		First:   report.First{Milliseconds: first},
		Changes: map[string]report.Change{"cds": {Last: last}},
	}}
}

func TestTablePoolsRepetitionsAndDividesByTheFirstServer(t *testing.T) {
	all := []measurement{
		runOf("s", "xebec", 10, 1, 2), runOf("s", "xebec", 30, 3, 100), runOf("s", "xebec", 20, 2, 2),
		runOf("s", "gcp-linear", 50, 8), runOf("other", "xebec", 7777, 7777),
	}
	var out bytes.Buffer
	writeTables(&out, []scenario{{name: "s", title: "a title"}}, all)
	for _, want := range []string{
		"### s: a title\n",
		"| first state on all streams, ms | 20.0 | 50.0 | – | 2.50 | – |\n",
		"last stream has it, ms, median | 2.00 | 8.00 | – | 4.00 | – |\n",
		"| — worst | 100 | 8.00 | – | 0.080 | – |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, unwanted := range []string{"7777", "assignment changes", "restart"} {
		if strings.Contains(out.String(), unwanted) {
			t.Errorf("%q in\n%s", unwanted, out.String())
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{[]float64{5}, 5}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		in := append([]float64(nil), c.in...)
		if got := median(in); got != c.want || in[0] != c.in[0] {
			t.Errorf("median(%v) = %v, want %v, argument then %v", c.in, got, c.want, in)
		}
	}
}

func TestGoalsHaveThreeVerdicts(t *testing.T) {
	var out bytes.Buffer
	writeGoals(&out, []measurement{runOf("cds-5000", "xebec", 1, 9), runOf("cds-50000", "xebec", 1, 11)})
	for _, want := range []string{
		"| cds-5000: the last of 500 streams has the change after so many ms | 9.00 | 10.0 | met |",
		"| cds-50000: the last of 500 streams has the change after so many ms | 11.0 | 10.0 | MISSED |",
		"| restart: resources sent again, per stream | – | 0.00 | not measured |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestEveryGoalNamesAScenarioThatIsRun(t *testing.T) {
	known := map[string]bool{}
	for _, s := range scenarios() {
		known[s.name] = true
		if s.reps["xebec"] == 0 {
			t.Errorf("%s is never run with xebec", s.name)
		}
	}
	for _, g := range goals() {
		asked := 0
		g.value(func(scenario, _ string, _ func(report.Load) []float64) float64 {
			asked++
			if !known[scenario] {
				t.Errorf("goal %q asks for scenario %q", g.text, scenario)
			}
			return math.NaN()
		})
		if asked == 0 {
			t.Errorf("goal %q measures nothing", g.text)
		}
	}
}

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

func TestTableOfChanges(t *testing.T) {
	lines := []raw.Line{
		{Suite: changing, Round: 1, Proxy: xebec + still, Values: raw.Values{p50: 50, p99: 100, "wrong": 0}},
		{Suite: changing, Round: 1, Proxy: xebec, Values: raw.Values{p50: 50, p99: 105, "wrong": 0}},
		{Suite: changing, Round: 2, Proxy: xebec + still, Values: raw.Values{p50: 50, p99: 100, "wrong": 0}},
		{Suite: changing, Round: 2, Proxy: xebec, Values: raw.Values{p50: 50, p99: 107, "wrong": 2}},
	}
	table := func(lines []raw.Line) string {
		var b bytes.Buffer
		writeChanges(&b, lines)
		return b.String()
	}
	got := table(lines)
	for _, want := range []string{"| p99 | µs | – | – | – | 100 | 106 | 1.06 | ≤ 1.1", "| met |", "| failed, in all | | – | – | | 0.00 | 2.00 | | 0 | **missed** |"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := table(lines[:2]); strings.Count(got, "| met |") != 2 {
		t.Errorf("not both are met:\n%s", got)
	}
	if strings.Contains(got, "another proxy") {
		t.Errorf("what was not measured is told:\n%s", got)
	}
	lines = append(lines, raw.Line{Suite: changing, Round: 1, Proxy: xebec + elsewhere, Values: raw.Values{p50: 51, p99: 103}})
	if got, want := table(lines), "p50 is 51.0 µs (1.02 × without) and its p99 103 µs (1.03 × without)"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	if got := table(nil); got != "" {
		t.Errorf("a table of nothing: %s", got)
	}
}

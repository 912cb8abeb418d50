package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Everything there is, with so few clusters that the figures mean nothing: each
// client gets all values and sees all changes.
func TestRunMeasuresEveryClient(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts every program")
	}
	bin, err := filepath.Abs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("..")
	o := options{rounds: 1, clusters: 20, changes: 3, bin: bin, limit: time.Minute, settle: 50 * time.Millisecond}
	var out strings.Builder
	if err := o.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for l := range strings.SplitSeq(out.String(), "\n") {
		if strings.Contains(l, "not measured") {
			t.Error("not measured:", l)
		}
	}
	for _, c := range contenders() {
		if !strings.Contains(out.String(), " "+c.name+" |") {
			t.Errorf("%s is not in the table", c.name)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestTableShowsMediansAndJudgesGoals(t *testing.T) {
	o := &options{clusters: 10, changes: 5}
	chosen := contenders()
	sampleOf := func(requests, cpu float64) sample {
		return sample{values: map[measure]float64{watchRequests: requests, changeCPU: cpu}}
	}
	r := &results{rounds: 3, samples: map[string][]sample{
		xebecSotW:          {sampleOf(2, 3), sampleOf(9, .5), sampleOf(3, .8)},
		xebecDelta:         {sampleOf(7, .1), sampleOf(6, .3)},
		"go-control-plane": {{values: map[measure]float64{changeCPU: 12.34}}},
	}}
	var out strings.Builder
	write(&out, o, chosen, r)
	for _, want := range []string{
		"| | xebec-sotw | xebec-delta | dial-sotw | dial-delta | grpc-go | go-control-plane | stream-sotw | stream-delta | goal | |\n",
		"| 10 watches: requests | 3 | 6.50 | – | – | – | –¹ | –⁴ | –⁴ | ≤ 5 | met, **missed** |\n",
		"| one cluster changes: client CPU, ms | 0.800 | 0.200 | – | – | – | 12.3² | – | – | ≤ 1, ≤ 0.100 | met, **missed** |\n",
		"| — sent, MB | – | – | – | – | – | –¹ | –⁴ | –⁴ | ≤ 0.500 | not measured, not measured |\n",
		"\n¹ ", "\n² ", "Medians of 3 rounds, 5 changes each",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestFewerClientsHaveNoFootnotes(t *testing.T) {
	o := &options{only: xebecDelta, clusters: 10}
	chosen, err := o.chosen()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	write(&out, o, chosen, &results{samples: map[string][]sample{}})
	if s := out.String(); strings.Contains(s, "¹") || !strings.Contains(s, "| ≤ 0.100 | not measured |") {
		t.Error(s)
	}
	o.only = "nobody"
	if _, err := o.chosen(); err == nil {
		t.Error("a client that does not exist was chosen")
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{math.NaN(): "–", 1234.5: "1234", 3: "3", 12.34: "12.3", 1.236: "1.24", .0456: "0.046", -.0123: "-0.012"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestProcessThatEndsIsAnErrorWithItsOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho reason >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := start(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{}
	err = p.stop(p.hear(&answer))
	if err == nil || !strings.Contains(err.Error(), "reason") || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
}

func TestClocks(t *testing.T) {
	before, err := busy()
	if err != nil || before <= 0 {
		t.Fatal(before, err)
	}
	own, err := cpuOf(os.Getpid())
	if err != nil || own <= 0 {
		t.Fatal(own, err)
	}
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
	}
	if after, _ := cpuOf(os.Getpid()); after <= own {
		t.Errorf("CPU %v, then %v", own, after)
	}
	if after, _ := busy(); after < before {
		t.Errorf("busy %v, then %v", before, after)
	}
}

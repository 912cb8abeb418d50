package main

import (
	"bytes"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

func line(suite string, round int, proxy, value string, x float64) raw.Line {
	return raw.Line{Suite: suite, Round: round, Proxy: proxy, Values: raw.Values{value: x}}
}

// The ratio is that of values of one round: here it is 3 in each, though the
// quotient of the medians is not.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	r := results{
		line("s", 1, envoy, perCore, 10), line("s", 1, xebec, perCore, 30),
		line("s", 2, envoy, perCore, 20), line("s", 2, xebec, perCore, 60),
		line("s", 3, xebec, perCore, 1000),
	}
	if got := r.ratio("s", xebec, envoy, perCore); got != 3 {
		t.Errorf("ratio %g", got)
	}
	if got := r.median("s", xebec, perCore); got != 60 {
		t.Errorf("median %g", got)
	}
	if got := r.ratio("s", xebec, nginx, perCore); !math.IsNaN(got) {
		t.Errorf("ratio to what was not measured: %g", got)
	}
}

func TestTable(t *testing.T) {
	chosen := []suite{
		{name: "a", rows: []row{{"first", perCore, "1/s", []goal{least(2, envoy), least(1.5, nginx)}}}},
		{name: "b", rows: []row{
			{title: "second", value: p50, unit: "µs"},
			{"third", p99, "µs", []goal{{peer: haproxy, most: 1}}},
		}},
		{name: "c", rows: []row{{"fourth", idleKB, "KB", []goal{{most: 1}}}}},
		{name: "d", rows: []row{{title: "not measured"}}},
	}
	lines := []raw.Line{
		line("a", 1, nginx, perCore, 20_000), line("a", 1, envoy, perCore, 10_000), line("a", 1, xebec, perCore, 25_000),
		line("b", 1, haproxy, p99, 200), line("b", 1, xebec, p99, 190), line("b", 1, xebec, p50, 50),
		line("c", 1, xebec, idleKB, 1.25),
	}
	var out bytes.Buffer
	writeTable(&out, chosen, lines)
	for _, want := range []string{
		"| first | 1/s | 20.0k | – | 10.0k | 25.0k | 1.25 | – | 2.50 | ≥ 2 × Envoy, ≥ 1.5 × nginx | met, **missed** |\n",
		"| second | µs | – | – | – | 50.0 | – | – | – |  |  |\n",
		"| third | µs | – | 200 | – | 190 | – | 0.95 | – | ≤ 1 × HAProxy | met |\n",
		"| fourth | KB | – | – | – | 1.25 | – | – | – | ≤ 1 KB | **missed** |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "not measured") {
		t.Errorf("a suite that was not run is in\n%s", out.String())
	}
}

func TestComparisons(t *testing.T) {
	compared := []comparison{
		{name: "log", title: "a log", plain: setup{name: "plain"}, with: setup{name: "log"}},
		{name: "workers", title: "two workers", plain: setup{name: "one"}, with: setup{name: "two"}, most: 1.15},
	}
	lines := []raw.Line{
		line("log", 1, "plain", cpuMicroseconds, 10), line("log", 1, "log", cpuMicroseconds, 15),
		line("workers", 1, "one", cpuMicroseconds, 10), line("workers", 1, "two", cpuMicroseconds, 12),
	}
	var out bytes.Buffer
	writeComparisons(&out, compared, lines)
	for _, want := range []string{
		"| a log | 15.0 | 10.0 | 1.50 |  |  |\n", "| two workers | 12.0 | 10.0 | 1.20 | ≤ 1.15 | **missed** |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		goal goal
		v    float64
		want string
	}{
		{goal{least: 2}, 2, "met"},
		{goal{least: 2}, 1.99, "**missed**"},
		{goal{least: 2}, math.NaN(), "not measured"},
		{goal{most: 1}, 1, "met"},
		{goal{most: 1}, 1.01, "**missed**"},
		{goal{most: 1}, 0.2, "met"},
	} {
		if got := c.goal.verdict(c.v); got != c.want {
			t.Errorf("%+v of %g: %s, want %s", c.goal, c.v, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.954: "0.95", 12.34: "12.3", 123.4: "123", 9999: "9999", 12_345: "12.3k", 123_456: "123k",
		math.Inf(1): "–", math.NaN(): "–",
	} {
		if got := number(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

func TestBuildsAreComparedRoundByRound(t *testing.T) {
	chosen := []suite{{name: "s", rows: []row{{title: "row", value: perCore, unit: "1/s"}}}}
	var lines []raw.Line
	for i, ratio := range []float64{1, 1.1, 1.2, 1.3, 1.4} {
		v := float64(1000 * (i + 1))
		lines = append(lines, line("s", i, before, perCore, v), line("s", i, xebec, perCore, v*ratio))
	}
	var out bytes.Buffer
	writeBefore(&out, chosen, lines)
	if want := "| row | 1/s | 3000 | 3600 | 1.200 | 1.100 | 1.300 | 5 |\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
	out.Reset()
	writeBefore(&out, chosen, lines[1:2])
	if out.Len() > 0 {
		t.Errorf("without another build: %s", out.String())
	}
}

func TestFreePortsAreNobodysClients(t *testing.T) {
	free, err := freeAddresses(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[netip.AddrPort]bool{}
	for _, a := range free {
		if a.Port() < firstPort || a.Port() > lastPort || seen[a] {
			t.Errorf("%v of %v", a, free)
		}
		seen[a] = true
	}
}

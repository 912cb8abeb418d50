package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestResources(t *testing.T) {
	dir := t.TempDir()
	if err := writeResources(dir, 3, 2); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if s := read("clusters.yaml"); strings.Count(s, "name: svc-") != 3 {
		t.Errorf("clusters:\n%s", s)
	}
	if s := read("endpoints.yaml"); strings.Count(s, "ClusterLoadAssignment") != 2 || strings.Count(s, "socket_address") != 4 {
		t.Errorf("endpoints:\n%s", s)
	}
	before := read("one.yaml")
	if err := change(dir, 2, 1); err != nil {
		t.Fatal(err)
	}
	if after := read("one.yaml"); after != strings.Replace(before, "10.0.0.1, port_value: 80", "10.0.0.1, port_value: 81", 1) || after == before {
		t.Errorf("a change makes\n%s of\n%s", after, before)
	}
}

func TestTable(t *testing.T) {
	envoy := sample{load: 4 * time.Second, loadCPU: 4 * time.Second, settledCPU: 4 * time.Second, resident: 700 << 20, peak: 700 << 20, change: time.Millisecond}
	xebec := sample{load: time.Second, loadCPU: 3 * time.Second, settledCPU: time.Second, resident: 350 << 20, peak: 400 << 20, change: 200 * time.Microsecond, together: 400 * time.Microsecond}
	var b strings.Builder
	write(&b, &options{clusters: 10, endpoints: 5, rounds: 1}, map[string][]sample{"Envoy": {envoy}, "Xebec": {xebec}})
	for _, want := range []string{
		"| until ready, s | 4.00 | 1.00 | 0.25 | ≤ 0.5 × Envoy | met |",
		"| — CPU, s | 4.00 | 3.00 | 0.75 | ≤ 0.5 × Envoy | **missed** |",
		"| resident memory at rest, MB | 700 | 350 | 0.50 | ≤ 0.5 × Envoy | met |",
		"| one endpoint changes: CPU, ms | 1.000 | 0.200 | 0.20 | ≤ 0.3 | met |",
		"| — with collections and all that comes seldom, ms | 0.000 | 0.400 | – |  |  |",
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("the table lacks %q:\n%s", want, &b)
		}
	}
	b.Reset()
	write(&b, &options{}, map[string][]sample{"Xebec": {xebec}})
	if !strings.Contains(b.String(), "| until ready, s | – | 1.00 | – | ≤ 0.5 × Envoy |  |\n") {
		t.Errorf("without Envoy:\n%s", &b)
	}
}

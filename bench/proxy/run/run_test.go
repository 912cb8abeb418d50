package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/bench/proxy/meter"
)

func TestTurnsGoRoundBeforeTheyRepeat(t *testing.T) {
	r := &runner{machine: &machine{pace: pace{rounds: 2}}, found: []program{{name: nginx}, {name: xebec}}}
	chosen := []suite{{name: "a"}, {name: "w", tool: byWrk}, {name: "b"}}
	compared := []comparison{{name: "c", plain: setup{name: "plain"}, with: setup{name: "with"}}}
	order := func() string {
		var s []string
		for _, t := range r.turns(chosen, compared) {
			s = append(s, t.suite+"/"+t.proxy)
		}
		return strings.Join(s, " ")
	}
	once := "a/nginx a/xebec b/nginx b/xebec c/plain c/with"
	twice := "a/xebec a/nginx b/xebec b/nginx c/plain c/with" // nobody is always first
	if got, want := order(), once+" "+twice; got != want {
		t.Errorf("without wrk: %s, want %s", got, want)
	}
	r.wrk, r.found = "/usr/bin/wrk", r.found[:1]
	if got, want := order(), "a/nginx w/nginx b/nginx a/nginx w/nginx b/nginx"; got != want {
		t.Errorf("without Xebec: %s, want %s", got, want)
	}
}

func TestIdleSuitesHaveFewerRounds(t *testing.T) {
	r := &runner{machine: &machine{pace: pace{rounds: idleRounds + 2}}, found: []program{{name: nginx}}}
	if n := len(r.turns([]suite{{name: "i", tool: byIdle}}, nil)); n != idleRounds {
		t.Errorf("%d rounds", n)
	}
}

func TestLogsAreCheckedAndEmptied(t *testing.T) {
	in := &instance{dir: t.TempDir()}
	if err := in.checkLog(1); err == nil {
		t.Error("there is no log, and no error")
	}
	file := filepath.Join(in.dir, "access-h1.log")
	if err := os.WriteFile(file, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := in.checkLog(1e6); err == nil {
		t.Error("a million requests have a thousand bytes of log, and no error")
	}
	if err := in.checkLog(5); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 0 {
		t.Errorf("%d bytes are left, %v", info.Size(), err)
	}
}

func TestNamesAreDistinct(t *testing.T) {
	var names []string
	for _, s := range suites() {
		names = append(names, s.name)
	}
	for _, c := range comparisons() {
		names = append(names, c.name)
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a name is there twice: %v", names)
	}
}

func TestWrkValues(t *testing.T) {
	const out = `Running 2s test @ http://127.0.0.1:1/
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.23ms    1.00ms  20.00ms   90.00%
  40000 requests in 2.00s, 46.00MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 5
Requests/sec:  20000.00
`
	v, err := wrkValues(out, meter.Used{Time: 2 * time.Second, Proxy: time.Second, Other: .25})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"n": 40000, "wrong": 15, "percore": 40000, "cpu_us": 25, "rps": 20000, "busy": .5, "other": .25} {
		if v[name] != want {
			t.Errorf("%s is %g, want %g", name, v[name], want)
		}
	}
	if _, err := wrkValues("unable to connect", meter.Used{Proxy: 1}); err == nil {
		t.Error("no request was counted, and no error")
	}
}

func fill(t *testing.T, v variant) settings {
	t.Helper()
	a := netip.MustParseAddrPort
	return settings{
		Dir: t.TempDir(), User: "somebody", Variant: v,
		Listen:   addresses{a("127.0.0.1:1"), a("127.0.0.1:2"), a("127.0.0.1:3"), a("127.0.0.1:4"), a("127.0.0.1:5")},
		Upstream: upstreams{a("127.0.0.1:6"), a("127.0.0.1:7"), a("127.0.0.1:8"), a("127.0.0.1:9")},
	}
}

func rendered(t *testing.T, s settings, name string) string {
	t.Helper()
	path, err := s.render(name, "x")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestConfigurationsNameEveryAddress(t *testing.T) {
	s := fill(t, variant{})
	for _, name := range []string{"nginx.conf", "haproxy.cfg"} {
		text := rendered(t, s, name)
		for _, port := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
			if strings.Count(text, "127.0.0.1:"+port) != 1 {
				t.Errorf("%s does not name port %s once", name, port)
			}
		}
		if strings.Contains(text, "no value") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	text := rendered(t, s, "envoy.yaml")
	for _, port := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		if strings.Count(text, "port_value: "+port+" ") != 1 {
			t.Errorf("envoy.yaml does not name port %s once", port)
		}
	}
}

func TestVariants(t *testing.T) {
	if n := strings.Count(rendered(t, fill(t, variant{Hosts: 30}), "envoy.yaml"), "host-"); n != 60 {
		t.Errorf("30 virtual hosts are named %d times, not twice each", n)
	}
	if n := strings.Count(rendered(t, fill(t, variant{Routes: 30}), "envoy.yaml"), "/service-"); n != 30 {
		t.Errorf("%d routes", n)
	}
	if text := rendered(t, fill(t, variant{Bytes: true}), "envoy.yaml"); strings.Contains(text, "http_connection_manager") || !strings.Contains(text, "tcp_proxy") {
		t.Errorf("HTTP is spoken where bytes are to be forwarded:\n%s", text)
	}
	text := rendered(t, fill(t, variant{Log: true}), "envoy.yaml")
	if n := strings.Count(text, `: "%`); n != 21 {
		t.Errorf("%d fields of the log, and 21 are spoken of", n)
	}
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	if err := writeCertificates(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ecdsa.pem", "rsa.pem"} {
		file := filepath.Join(dir, name)
		c, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := c.Leaf.VerifyHostname("bench.example"); err != nil {
			t.Error(err)
		}
	}
}

func TestProcessesEndAndSayWhy(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no sleep")
	}
	core := firstCore(t)
	p, err := start("sleeper", []int{core}, sleep, "600")
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := p.pids(); err != nil || !slices.Contains(pids, p.cmd.Process.Pid) {
		t.Errorf("%v, %v", pids, err)
	}
	p.stop()
	if _, err := p.pids(); err == nil {
		t.Error("it still has processes")
	}
	if p, err = start("sleeper", []int{core}, sleep, "never"); err != nil {
		t.Fatal(err)
	}
	err = p.ready(t.Context(), netip.MustParseAddrPort("127.0.0.1:1"))
	if err == nil || !strings.Contains(err.Error(), "sleeper ended") || !strings.Contains(err.Error(), "never") {
		t.Errorf("%v", err)
	}
}

func TestTablesFromAFile(t *testing.T) {
	o := &options{rounds: 1, seconds: 1, from: filepath.Join(t.TempDir(), "raw")}
	text := "h1 1 envoy percore=10000\n# failed: nothing\nh1 1 xebec percore=30000\nworkers 1 one-worker cpu_us=10\nworkers 1 two-workers cpu_us=11\n"
	if err := os.WriteFile(o.from, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := o.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 3.00 | ≥ 2.8 × Envoy", "| 11.0 | 10.0 | 1.10 | ≤ 1.15 | met |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestNoSuchSuite(t *testing.T) {
	o := &options{rounds: 1, seconds: 1, only: "nonsense"}
	if err := o.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
}

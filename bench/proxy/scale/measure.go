package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/bench/proxy/meter"
)

// contender is a proxy under test.
type contender struct {
	name, path string
	args       []string
}

// sample is one measurement.
type sample struct {
	load, loadCPU  time.Duration // until the proxy is ready
	settledCPU     time.Duration // with what it did to come to rest
	resident, peak int64         // bytes, at rest and at most
	idle           time.Duration // CPU of a second at rest
	change         time.Duration // CPU of a change, the median of the spans
	together       time.Duration // CPU of a change, of all spans together
	applied        int
}

func (s sample) String() string {
	return fmt.Sprintf("ready after %.2f s, CPU %.2f s (%.2f s at rest), %d MB (peak %d MB), a change %.3f ms of CPU (%.3f ms with what fell into any span), at rest %.2f ms of CPU per second",
		s.load.Seconds(), s.loadCPU.Seconds(), s.settledCPU.Seconds(), s.resident>>20, s.peak>>20, ms(s.change), ms(s.together), ms(s.idle))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const (
	startLimit   = time.Minute
	stopLimit    = 20 * time.Second
	pollInterval = 10 * time.Millisecond
)

// measure takes one proxy through everything, with a management server of its own.
func (o *options) measure(ctx context.Context, dir, xebec string, p contender) (s sample, err error) {
	resources := filepath.Join(dir, "xds")
	if err := writeResources(resources, o.clusters, o.endpoints); err != nil {
		return s, err
	}
	at, err := freeAddresses(3)
	if err != nil {
		return s, err
	}
	server, err := start(xebec, "serve", "--dir", resources, "--xds-address", at[0], "--admin-address", at[1])
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := server.ready(ctx, "http://"+at[1]+"/readyz"); err != nil {
		return s, err
	}
	text, err := bootstrap(at[0], at[2])
	if err != nil {
		return s, err
	}
	config := filepath.Join(dir, "bootstrap.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return s, err
	}
	began := time.Now()
	args := append(append([]string{}, p.args...), "-c", config, "--concurrency", strconv.Itoa(o.workers), "--disable-hot-restart", "-l", "error")
	proxy, err := start(p.path, args...)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, proxy.stop()) }()
	if err := proxy.ready(ctx, "http://"+at[2]+"/ready"); err != nil {
		return s, err
	}
	s.load = time.Since(began)
	return s, o.observe(ctx, &s, proxy, resources, at[2])
}

// observe measures a proxy that is ready.
func (o *options) observe(ctx context.Context, s *sample, p *process, resources, admin string) (err error) {
	if s.loadCPU, err = p.cpu(); err != nil {
		return err
	}
	if err := sleep(ctx, o.settle); err != nil {
		return err
	}
	if s.settledCPU, err = p.cpu(); err != nil {
		return err
	}
	if s.resident, s.peak, err = p.memory(); err != nil {
		return err
	}
	return o.changing(ctx, s, p, resources, admin)
}

// changing measures what changes cost beside rest, in spans of both by turns. A
// collection of garbage, or whatever comes seldom, falls into few of them: it moves
// their median little, and counts in what they cost together.
func (o *options) changing(ctx context.Context, s *sample, p *process, resources, admin string) error {
	var each []time.Duration
	var rests, changes time.Duration // CPU of them all
	n := 0
	for range o.spans {
		rest, err := p.during(func() error { return sleep(ctx, time.Duration(o.changes)*o.every) })
		if err != nil {
			return err
		}
		busy, err := p.during(func() error {
			for range o.changes {
				n++
				if err := change(resources, o.endpoints, n); err != nil {
					return err
				}
				if err := sleep(ctx, o.every); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		rests, changes = rests+rest, changes+busy
		each = append(each, (busy-rest)/time.Duration(o.changes))
	}
	applied, err := updates(ctx, admin)
	if err != nil {
		return err
	}
	// The first assignment was an update, too.
	if s.applied = applied - 1; s.applied < n*3/4 {
		return fmt.Errorf("%w: %d of %d (a longer -every?)", errChanges, s.applied, n)
	}
	s.idle = time.Duration(float64(rests) / (time.Duration(n) * o.every).Seconds())
	s.together = max(0, changes-rests) / time.Duration(s.applied)
	slices.Sort(each)
	middle := (each[(len(each)-1)/2] + each[len(each)/2]) / 2
	s.change = max(0, middle) * time.Duration(n) / time.Duration(s.applied)
	return nil
}

// during is the CPU that the process uses while something is done.
func (p *process) during(do func() error) (time.Duration, error) {
	before, err := p.cpu()
	if err == nil {
		err = do()
	}
	if err != nil {
		return 0, err
	}
	after, err := p.cpu()
	return after - before, err
}

// updates is how many assignments the first cluster has had.
func updates(ctx context.Context, admin string) (int, error) {
	name := "cluster." + clusterName(0) + ".update_success"
	body, err := get(ctx, "http://"+admin+"/stats?filter=^"+strings.ReplaceAll(name, ".", "%5C.")+"$")
	if err != nil {
		return 0, err
	}
	_, value, _ := strings.Cut(strings.TrimSpace(body), ": ")
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("%s: the admin endpoint says %q", name, body)
	}
	return n, nil
}

func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(b), err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// process is a program that runs.
type process struct {
	cmd    *exec.Cmd
	out    bytes.Buffer
	exited chan struct{}
}

func start(path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	return p, nil
}

// ready waits until the program says that it is, at a page that it has for that.
func (p *process) ready(ctx context.Context, page string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		if _, err := get(ctx, page); err == nil {
			return nil
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return fmt.Errorf("%s is not ready: %w", filepath.Base(p.cmd.Path), err)
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %s", filepath.Base(p.cmd.Path), p.out.String())
		default:
		}
	}
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-p.exited:
	case <-limit.C:
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	return nil
}

func (p *process) cpu() (time.Duration, error) { return meter.CPU([]int{p.cmd.Process.Pid}) }

// memory is the resident memory of the process, now and at most.
func (p *process) memory() (now, peak int64, err error) {
	if now, err = meter.Resident([]int{p.cmd.Process.Pid}); err != nil {
		return 0, 0, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "VmHWM:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			return now, kb << 10, err
		}
	}
	return 0, 0, errors.New("memory: /proc has no VmHWM")
}

// freeAddresses finds loopback addresses that nobody listens on.
func freeAddresses(n int) (out []string, err error) {
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer func() { err = errors.Join(err, l.Close()) }() // all are held until all are found
		out = append(out, l.Addr().String())
	}
	return out, nil
}

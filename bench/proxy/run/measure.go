package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/bench/proxy/meter"
	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// maxWrong is the share of requests that may go wrong: one that is answered
// after its connection was closed counts too.
const maxWrong = 0.001

// machine is where and with what is measured.
type machine struct {
	proxyCore, loadCore int
	dir, user           string
	load, wrk, source   string // programs
	upstream            upstreams
	pace                pace
	profile             string // file for a profile of Xebec, or ""
}

// instance is a proxy that runs.
type instance struct {
	*process
	listen addresses
	cores  []int
	dir    string // of its own
}

// launch starts a proxy on its core, or on both, and waits until it listens.
func (m *machine) launch(ctx context.Context, p program, s setup) (*instance, error) {
	free, err := freeAddresses(6)
	if err != nil {
		return nil, err
	}
	in := &instance{listen: addresses{free[0], free[1], free[2], free[3], free[4]}, cores: []int{m.proxyCore}}
	if s.both {
		in.cores = append(in.cores, m.loadCore)
	}
	dir, err := os.MkdirTemp(m.dir, p.name+"-")
	if err != nil {
		return nil, err
	}
	in.dir = dir
	for _, pem := range []string{"ecdsa.pem", "rsa.pem"} {
		if err := os.Link(filepath.Join(m.dir, pem), filepath.Join(dir, pem)); err != nil {
			return nil, err
		}
	}
	fill := settings{Dir: dir, User: m.user, Listen: in.listen, Upstream: m.upstream, Variant: s.variant}
	if p.name == xebec && s == plainSetup() {
		fill.Admin, fill.Profile = free[5], m.profile
	}
	config, err := fill.render(p.template, p.name)
	if err != nil {
		return nil, err
	}
	if in.process, err = start(p.name, in.cores, p.path, p.args(config, s.workers)...); err != nil {
		return nil, err
	}
	listeners := free[:5]
	if s.variant != (variant{}) {
		listeners = free[:1]
	}
	if err := in.ready(ctx, listeners...); err != nil {
		in.stop()
		return nil, err
	}
	if fill.Profile != "" {
		if err := beginProfile(ctx, fill.Admin); err != nil {
			in.stop()
			return nil, err
		}
	}
	return in, nil
}

// measure drives a suite's load through a proxy once.
func (m *machine) measure(ctx context.Context, s suite, in *instance) (raw.Values, error) {
	pids, err := in.pids()
	if err != nil {
		return nil, err
	}
	var v raw.Values
	switch s.tool {
	case byEngine:
		v, err = m.byEngine(ctx, s, in, pids)
	case byWrk:
		v, err = m.byWrk(ctx, s, in, pids)
	case byHandshakes:
		v, err = m.withUpstream(ctx, func(*process) (raw.Values, error) {
			return m.byLoad(ctx, "handshakes", s, in, pids, "-warm", m.pace.warm.String(), "-time", m.pace.time.String())
		})
	case byIdle:
		v, err = m.withUpstream(ctx, func(*process) (raw.Values, error) {
			return m.byLoad(ctx, "idle", s, in, pids,
				"-connections", strconv.Itoa(m.pace.connections), "-time", m.pace.settle.String())
		})
	}
	if err != nil {
		if _, gone := in.pids(); gone != nil {
			err = gone
		}
		return nil, err
	}
	if v["wrong"] > v["n"]*maxWrong {
		return nil, fmt.Errorf("%.0f of %.0f requests went wrong", v["wrong"], v["n"])
	}
	return v, nil
}

func (m *machine) byEngine(ctx context.Context, s suite, in *instance, pids []int) (raw.Values, error) {
	u := m.upstream
	return m.byLoad(ctx, "drive", s, in, pids, "-warm", m.pace.warm.String(), "-time", m.pace.time.String(),
		"-upstream-h1", commas(u.A1, u.B1), "-upstream-h2", commas(u.A2, u.B2))
}

// byLoad runs a command of the load program.
func (m *machine) byLoad(ctx context.Context, command string, s suite, in *instance, pids []int, more ...string) (raw.Values, error) {
	args := append([]string{
		command, "-target", s.listen(in.listen), "-pids", commas(pids...), "-cores", commas(m.proxyCore, m.loadCore),
	}, more...)
	out, _, err := output(ctx, []int{m.loadCore}, nil, m.load, append(args, s.args...)...)
	if err != nil {
		return nil, err
	}
	return raw.ParseValues(out)
}

// withUpstream has the load program answer as the upstream meanwhile.
func (m *machine) withUpstream(ctx context.Context, f func(up *process) (raw.Values, error)) (raw.Values, error) {
	u := m.upstream
	up, err := start("upstream", []int{m.loadCore}, m.load, "upstream",
		"-upstream-h1", commas(u.A1, u.B1), "-upstream-h2", commas(u.A2, u.B2))
	if err != nil {
		return nil, err
	}
	defer up.stop()
	if err := up.ready(ctx, u.A1, u.B1, u.A2, u.B2); err != nil {
		return nil, err
	}
	return f(up)
}

func (m *machine) byWrk(ctx context.Context, s suite, in *instance, pids []int) (raw.Values, error) {
	scheme := "http://"
	if s.listen(in.listen) == in.listen.ECDSA.String() {
		scheme = "https://"
	}
	return m.withUpstream(ctx, func(up *process) (raw.Values, error) {
		seconds := max(1, int(m.pace.time.Round(time.Second)/time.Second))
		args := append(wrkArgs(seconds), s.args...)
		span, err := meter.Begin(pids, []int{up.cmd.Process.Pid}, []int{m.proxyCore, m.loadCore})
		if err != nil {
			return nil, err
		}
		env := []string{"OPENSSL_CONF=" + filepath.Join(m.dir, opensslFile)}
		out, cpu, err := output(ctx, []int{m.loadCore}, env, m.wrk, append(args, scheme+s.listen(in.listen)+wrkPath)...)
		if err != nil {
			return nil, err
		}
		used, err := span.End(cpu)
		if err != nil {
			return nil, err
		}
		return wrkValues(out, used)
	})
}

func commas[T any](list ...T) string {
	var s []string
	for _, v := range list {
		s = append(s, fmt.Sprint(v))
	}
	return strings.Join(s, ",")
}

// newMachine prepares the directory, the certificates and the upstreams'
// addresses.
func newMachine(o *options, load, wrk string, p pace) (*machine, error) {
	cores, err := usableCores()
	if err != nil {
		return nil, err
	}
	for _, c := range []int{o.proxyCore, o.loadCore} {
		if !cores.IsSet(c) {
			return nil, fmt.Errorf("core %d cannot be used here: choose with -proxy-core and -load-core", c)
		}
	}
	if o.proxyCore == o.loadCore {
		return nil, errors.New("-proxy-core and -load-core must differ")
	}
	free, err := freeAddresses(4)
	if err != nil {
		return nil, err
	}
	m := &machine{
		proxyCore: o.proxyCore, loadCore: o.loadCore, load: load, wrk: wrk, pace: p,
		upstream: upstreams{free[0], free[1], free[2], free[3]},
	}
	if o.profile != "" {
		if m.profile, err = filepath.Abs(o.profile); err != nil {
			return nil, err
		}
	}
	if m.user, err = userName(); err != nil {
		return nil, err
	}
	if m.dir, err = os.MkdirTemp("", "bench-proxy-"); err != nil {
		return nil, err
	}
	openssl := os.WriteFile(filepath.Join(m.dir, opensslFile), []byte(opensslConfig), 0o600)
	if err := errors.Join(openssl, writeCertificates(m.dir)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(m.dir))
	}
	return m, nil
}
